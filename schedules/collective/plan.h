// Collectives as lists of messages: who sends which part of its buffer to whom, round by round. The executor runs these
// lists, the simulator costs them.
//
// A plan depends on the kind and the number of members only. Its members are numbered 0..n-1 in member order (rule P8),
// and chunk limits follow from the number of elements of a buffer by itself, so the order in which the contributions to
// one element are summed depends only on algorithm, group size, member order and the element's position in its own
// buffer (rule P10).
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
  // A buffer is cut into one chunk for each member. Member i starts with chunk i in its place and ends with all chunks.
  kAllGather,
  // A buffer is cut into one chunk for each member. Every member starts with its contribution; member i ends with the
  // sum of chunk i, added in the same order as in the all-reduce of the same algorithm. What it holds of the other
  // chunks in the end has no meaning.
  kReduceScatter,
};

inline constexpr CollectiveKind kCollectiveKinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                                      CollectiveKind::kReduceScatter};

// "all-reduce", "all-gather", "reduce-scatter".
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
// Rounds run one after the other on each member. All messages of a round carry what their source held before the round.
// The chunks that one member receives by kReduce in one round for one of its chunks are added in ascending member
// order, its own chunk taking part at its own place: with members 0 and 2 sending to 1, (chunk of 0 + chunk of 1) +
// chunk of 2. In one round a chunk of a member receives either one kCopy or any number of kReduce, not both. Steps of a
// round are sorted by (destination, chunk, source).
struct CollectivePlan {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int members = 1;
  // Into how many parts each buffer is cut: for all-gather and reduce-scatter as many as there are members.
  int chunks = 1;
  // Empty for one member.
  std::vector<std::vector<CollectiveStep>> rounds;
};

// First element of `chunk` of a buffer of `elements` >= 0 elements cut into `chunks` parts: ChunkBegin(e, c, c) = e.
// The first (elements mod chunks) parts are one element longer than the others; parts may be empty.
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

// Rounds that are alike, one after the other.
struct CollectiveStage {
  enum Pattern {
    // One message from every member to the next, from the last to the first.
    kNext,
    // One message from every member to every other.
    kEveryOther,
    // What `exchanges` say.
    kListed,
    // Every member sends `sent` messages to the switch that all are below, and receives `received` from it.
    kSwitch,
  };
  int64_t rounds = 0;
  Pattern pattern = kListed;
  // Of kListed: sorted by (source, destination), none twice.
  std::vector<CollectiveExchange> exchanges;
  // Of kSwitch.
  int32_t sent = 0;
  int32_t received = 0;

  friend bool operator==(const CollectiveStage&, const CollectiveStage&) = default;
};

// All messages of a round of `stage` from one member to another: what its pattern means for `members` members, as a
// list. Of kEveryOther these are members^2, of kSwitch none.
std::vector<CollectiveExchange> StageExchanges(const CollectiveStage& stage, int64_t members);

// How many messages all members together send in a round of `stage`.
int64_t StageMessages(const CollectiveStage& stage, int64_t members);

// Who sends how much to whom, without building the plan. `elements` being those of the whole buffer (what a
// reduce-scatter starts from, what an all-gather ends with), a message is one chunk, i.e. at most
// ceil(elements / chunks) elements. No stages and `chunks` = 1 for one member.
struct CollectiveTraffic {
  int64_t chunks = 1;
  std::vector<CollectiveStage> stages;
};

// Plans hold up to 2 * members^2 steps; more members than this are refused. CollectiveTraffic has no such limit.
inline constexpr int kMaximumPlanMembers = 1024;

// The algorithm proper: 2 <= members <= kMaximumPlanMembers.
using CollectiveBuildFn = CollectivePlan(CollectiveKind kind, int members);
// members >= 2.
using CollectiveTrafficFn = CollectiveTraffic(CollectiveKind kind, int64_t members);

struct CollectiveEntry {
  absl::string_view name;
  // Null: switches of the network do it, and there are no messages between members.
  CollectiveBuildFn* build;
  CollectiveTrafficFn* traffic;
  // The algorithm is one of all-reduces; all-gathers and reduce-scatters of this name are those of `ring`.
  bool all_reduce_only;
  absl::string_view source;

  bool in_switch() const { return build == nullptr; }

  // InvalidArgument unless 1 <= members <= kMaximumPlanMembers, or if in_switch() for more members than one.
  absl::StatusOr<CollectivePlan> Build(int64_t members, CollectiveKind kind = CollectiveKind::kAllReduce) const;
  // members < 2 gives no messages.
  CollectiveTraffic Traffic(int64_t members, CollectiveKind kind = CollectiveKind::kAllReduce) const;
};

// All known algorithms, sorted by name.
absl::Span<const CollectiveEntry> Collectives();

// Their names, e.g. for VerifyOptions.algorithms.
std::vector<std::string> KnownCollectives();

// By name; NotFound lists the known names and the nearest.
absl::StatusOr<const CollectiveEntry*> FindCollective(absl::string_view name);

}  // namespace weft

#endif  // WEFT_SCHEDULES_COLLECTIVE_PLAN_H_
