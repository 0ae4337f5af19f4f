// Everything that a rank does for a pipeline in one list: compute, transfers, and gathering of sharded weights.
// PyTorch's schedule files can contain all of it. weft's own schedules contain only compute; programs are made from
// those.
#ifndef WEFT_SCHEDULES_PIPELINE_ACTION_LIST_H_
#define WEFT_SCHEDULES_PIPELINE_ACTION_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The stage of an action is the stage that acts: stage s sends its output to stage s + 1 and its input gradient to
// stage s - 1. It receives the output of stage s - 1 and the gradient from stage s + 1.
enum class ListActionKind : uint8_t {
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  // These act on a whole stage and have no microbatch: they gather its sharded weights, free them again, and sum its
  // gradients.
  kUnshard,
  kReshard,
  kReduceGradient,
};
inline constexpr int kListActionKinds = 11;

struct ListAction {
  ListActionKind kind = ListActionKind::kForward;
  // True if the action runs overlapped with the next action of the list. This action is then a forward, and the next is
  // a whole backward.
  bool paired = false;
  int32_t stage = 0;
  // -1 if the kind has no microbatch.
  int32_t microbatch = -1;

  friend bool operator==(const ListAction&, const ListAction&) = default;
};

constexpr bool IsCompute(ListActionKind kind) { return kind <= ListActionKind::kBackwardWeight; }
constexpr bool IsSend(ListActionKind kind) {
  return kind == ListActionKind::kSendForward || kind == ListActionKind::kSendBackward;
}
constexpr bool IsReceive(ListActionKind kind) {
  return kind == ListActionKind::kReceiveForward || kind == ListActionKind::kReceiveBackward;
}
constexpr bool IsTransfer(ListActionKind kind) { return IsSend(kind) || IsReceive(kind); }
constexpr bool HasMicrobatch(ListActionKind kind) { return kind < ListActionKind::kUnshard; }

struct ActionLists {
  int microbatches = 0;
  // The rank of each stage. Each stage is on exactly one rank.
  std::vector<int> rank_of;
  std::vector<std::vector<ListAction>> order;

  int stages() const { return static_cast<int>(rank_of.size()); }
};

// Returns "F", "B", "I", "W", "SEND_F", ...
absl::string_view ListActionWord(ListActionKind kind);
// Returns for example "2SEND_F0" or "1UNSHARD".
std::string ListActionName(const ListAction& action);

// Converts the slots to actions. Returns InvalidArgument if lists cannot express the schedule: a stage on several
// ranks, several microbatches in one slot, a message-driven or asynchronous order. `schedule` must pass CheckSchedule.
absl::StatusOr<ActionLists> ToActionLists(const PipelineSchedule& schedule, int microbatches);

// Converts the compute actions to slots, in their order.
PipelineSchedule ToSchedule(const ActionLists& lists);

// The actions that are known to be done, by (kind, stage, microbatch).
class ActionSet {
 public:
  explicit ActionSet(const ActionLists& lists)
      : stages_(lists.stages()),
        microbatches_(lists.microbatches),
        bits_(size_t{kListActionKinds} * lists.stages() * lists.microbatches) {}

  void Add(const ListAction& action) { bits_[Index(action.kind, action.stage, action.microbatch)] = true; }
  // Returns false if there is no such stage (before the first or after the last).
  bool Has(ListActionKind kind, int stage, int microbatch) const {
    return stage >= 0 && stage < stages_ && bits_[Index(kind, stage, microbatch)];
  }

 private:
  size_t Index(ListActionKind kind, int stage, int microbatch) const {
    return (static_cast<size_t>(kind) * stages_ + stage) * microbatches_ + (microbatch < 0 ? 0 : microbatch);
  }

  int stages_;
  int microbatches_;
  std::vector<bool> bits_;
};

// True if the input of a compute action is available: received, or made by the neighboring stage on the same rank. For
// a backward, the function does not check that the stage's own forward is done.
bool InputIsThere(const ListAction& action, const ActionLists& lists, const ActionSet& done);

// True if another rank needs the result of the action.
bool LeavesRank(const ListAction& action, const ActionLists& lists);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_ACTION_LIST_H_
