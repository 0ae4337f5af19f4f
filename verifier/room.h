// Room behind a tensor, into which parts that are rounded up fit one after the other: how much there may be, and that
// only collective actions touch it (rule P8.room). Internal to the verifier.
#ifndef WEFT_VERIFIER_ROOM_H_
#define WEFT_VERIFIER_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "proto/program.pb.h"
#include "verifier/cuts.h"
#include "verifier/index.h"

namespace weft::verify {

// Elements of what the first `held` of these cuts leave of a block, with the room behind it into which the ranges of
// the next cut fit one after the other.
int64_t ElementsWithRoom(const Program& program, int64_t block, const Cuts& ranges, size_t held);

// Whether ranks have parts of such a buffer, which has a dtype, and its bytes are whole elements. How much room there
// must be, CheckRoom says.
bool MayHaveRoom(const Buffer& buffer);

// Bytes of a buffer without the room behind its tensor.
int64_t BytesWithoutRoom(const Buffer& buffer);

// Room is as much as the parts of the next cut need; a program that only evaluates has it where its training program
// has parts (CheckEvaluation compares them), below one more element for each rank. Expects valid shards.
void CheckRoom(const Program& program, Findings* findings);

// Whether steps of a template's actions stay out of the room behind its tensors.
class RoomOfSteps {
 public:
  explicit RoomOfSteps(const Template& t);

  // What is wrong with an action that runs this segment, "" if nothing.
  std::string Fault(const Action& action, const Segment& segment);

 private:
  const Template& t_;
  // By buffer, where the room behind its tensor begins; none if no buffer has any.
  std::vector<int64_t> begins_;
  // Segments whose steps were found to stay before these bytes of their operands.
  absl::flat_hash_set<std::pair<int, std::vector<int64_t>>> clean_;
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_ROOM_H_
