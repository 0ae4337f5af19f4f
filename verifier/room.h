// Checks the spare bytes after a tensor ("room"): their number, and that only collective actions touch them (rule
// P8.room). They make space for the parts of a tensor, which are rounded up and lie one after the other. Internal to
// the verifier.
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

// Number of elements that the first `held` cuts leave of a block, plus the spare elements after them. All ranges of the
// next cut, each rounded up, fit into this number one after the other.
int64_t ElementsWithRoom(const Program& program, int64_t block, const Cuts& ranges, size_t held);

// True if a buffer with this role may have spare elements (PARAM, GRAD, GRAD_ACCUMULATOR), and the buffer's bytes are
// whole elements. The buffer must have a dtype. CheckRoom checks the number of spare elements.
bool MayHaveRoom(const Buffer& buffer);

// Returns the bytes of a buffer without the spare bytes after its tensor.
int64_t BytesWithoutRoom(const Buffer& buffer);

// Checks that each buffer with spare elements has exactly as many as the parts of the next cut need. A program that
// only evaluates may have any number below Limits::kRanks; CheckEvaluation compares it with the training program.
// Expects valid shards.
void CheckRoom(const Program& program, Findings* findings);

// Checks that the steps of a template's actions do not touch the spare bytes behind its tensors.
class RoomOfSteps {
 public:
  explicit RoomOfSteps(const Template& t);

  // Returns what is wrong with an action that runs this segment, "" if nothing.
  std::string Fault(const Action& action, const Segment& segment);

 private:
  const Template& t_;
  // For each buffer, the byte at which its spare bytes begin. Empty if no buffer has spare bytes.
  std::vector<int64_t> begins_;
  // (segment, limits of its operands) for which all steps are known to stay within the limits.
  absl::flat_hash_set<std::pair<int, std::vector<int64_t>>> clean_;
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_ROOM_H_
