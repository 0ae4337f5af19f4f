// Collectives as lists of messages: which member sends which part of its buffer to which member, round by round. The
// executor runs these lists, and the simulator computes their cost.
//
// The plan of an algorithm depends only on the kind of collective and the number of members. Members are numbered
// 0..n-1 in member order (rule P8). The bounds of chunks depend only on the number of elements of the buffer. So the
// summation order of an element depends only on the algorithm, the group size, the member order and the element's
// position in its buffer (rule P10).
#ifndef WEFT_SCHEDULES_COLLECTIVE_PLAN_H_
#define WEFT_SCHEDULES_COLLECTIVE_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

enum class CollectiveKind {
  // Every member starts with its contribution in its buffer and ends with the sum in it.
  kAllReduce,
  // A buffer is cut into one chunk for each member. Member i starts with chunk i, at the chunk's place in its buffer,
  // and ends with all chunks.
  kAllGather,
  // A buffer is cut into one chunk for each member. Every member starts with its contribution; member i ends with the
  // sum of chunk i, added in the same order as in the all-reduce of the same algorithm (unless the algorithm only makes
  // all-reduces; CollectiveEntry). At the end, its other chunks have no meaning.
  kReduceScatter,
};

inline constexpr CollectiveKind kCollectiveKinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                                      CollectiveKind::kReduceScatter};

// Returns "all-reduce", "all-gather" or "reduce-scatter".
absl::string_view CollectiveKindName(CollectiveKind kind);

enum class CollectiveOp {
  // The destination's chunk is replaced by the source's.
  kCopy,
  // The source's chunk is added to the destination's.
  kReduce,
};

// One message: `chunk` of member `source` goes to member `destination`.
struct CollectiveStep {
  int source = 0;
  int destination = 0;
  int chunk = 0;
  CollectiveOp op = CollectiveOp::kCopy;

  friend bool operator==(const CollectiveStep&, const CollectiveStep&) = default;
};

// A collective of `kind` over `members`.
//
// Each member runs the rounds one after the other. All messages of a round carry what their source held before the
// round. If a member receives a chunk by kReduce from several members in one round, it adds them in ascending member
// order, with its own chunk at its own place: with members 0 and 2 sending to 1, (chunk of 0 + chunk of 1) + chunk of
// 2. In one round a chunk of a member receives either one kCopy or any number of kReduce, not both. Steps of a round
// are sorted by (destination, chunk, source).
struct CollectivePlan {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int members = 1;
  // Number of parts that each buffer is cut into; equals `members` for an all-gather or a reduce-scatter.
  int chunks = 1;
  // The messages of each round; empty for one member.
  std::vector<std::vector<CollectiveStep>> rounds;
};

// Index of the first element of `chunk` in a buffer of `elements` >= 0 elements that is cut into `chunks` parts.
// ChunkBegin(e, c, c) = e. The first (elements mod chunks) parts are one element longer than the others; parts may be
// empty.
inline int64_t ChunkBegin(int64_t elements, int chunks, int chunk) {
  return elements / chunks * chunk + std::min<int64_t>(elements % chunks, chunk);
}

// Messages of one chunk each that go from one member to another in one round.
struct CollectiveExchange {
  int32_t source = 0;
  int32_t destination = 0;
  int32_t messages = 1;

  friend bool operator==(const CollectiveExchange&, const CollectiveExchange&) = default;
};

// Several rounds with the same messages, one after the other.
struct CollectiveStage {
  enum Pattern {
    // Every member sends one message to the next; the last member sends to the first.
    kNext,
    // Every member sends one message to every other.
    kEveryOther,
    // The messages are listed in `exchanges`.
    kListed,
    // Every member sends `sent` messages to the switch above all members, and receives `received` messages from it.
    kSwitch,
  };
  int64_t rounds = 0;
  Pattern pattern = kListed;
  // For kListed only: sorted by (source, destination), each pair at most once.
  std::vector<CollectiveExchange> exchanges;
  // For kSwitch only: messages that each member sends to the switch and receives from it.
  int32_t sent = 0;
  int32_t received = 0;

  friend bool operator==(const CollectiveStage&, const CollectiveStage&) = default;
};

// Lists the messages between members in one round of `stage`, as its pattern defines them for `members` members.
// kEveryOther gives members * (members - 1) entries, kSwitch none.
std::vector<CollectiveExchange> StageExchanges(const CollectiveStage& stage, int64_t members);

// Number of messages that all members together send in one round of `stage`.
int64_t StageMessages(const CollectiveStage& stage, int64_t members);

// How much each member sends to each other member. It is known without building the plan. A message is one chunk, i.e.
// at most ceil(elements / chunks) elements. `elements` counts the whole buffer: the input of a reduce-scatter, the
// result of an all-gather. With one member there are no stages, and `chunks` is 1.
struct CollectiveTraffic {
  int64_t chunks = 1;
  std::vector<CollectiveStage> stages;
};

// Build() refuses more members, because a plan holds up to 2 * members^2 steps. CollectiveTraffic has no such limit.
inline constexpr int kMaxPlanMembers = 1024;

// Builds the plan of an algorithm. 2 <= members <= kMaxPlanMembers.
using CollectiveBuildFn = CollectivePlan(CollectiveKind kind, int members);
// Computes the traffic of an algorithm. members >= 2.
using CollectiveTrafficFn = CollectiveTraffic(CollectiveKind kind, int64_t members);

struct CollectiveEntry {
  absl::string_view name;
  // Null if switches of the network perform the collective, so that there are no messages between members.
  CollectiveBuildFn* build;
  CollectiveTrafficFn* traffic;
  // True if the algorithm only makes all-reduces. An all-gather or reduce-scatter of this name uses `ring`.
  bool all_reduce_only;
  absl::string_view source;

  bool in_switch() const { return build == nullptr; }

  // Returns InvalidArgument unless 1 <= members <= kMaxPlanMembers, or if in_switch() and members > 1.
  absl::StatusOr<CollectivePlan> Build(int64_t members, CollectiveKind kind = CollectiveKind::kAllReduce) const;
  // Returns no messages if members < 2.
  CollectiveTraffic Traffic(int64_t members, CollectiveKind kind = CollectiveKind::kAllReduce) const;
};

// All known algorithms, sorted by name.
absl::Span<const CollectiveEntry> Collectives();

// The names of all algorithms, e.g. for VerifyOptions.algorithms.
std::vector<std::string> KnownCollectives();

// Finds an algorithm by name. The NotFound error lists the known names and the nearest one.
absl::StatusOr<const CollectiveEntry*> FindCollective(absl::string_view name);

}  // namespace weft

#endif  // WEFT_SCHEDULES_COLLECTIVE_PLAN_H_
