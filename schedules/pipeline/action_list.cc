#include "schedules/pipeline/action_list.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace weft {
namespace {

constexpr absl::string_view kWords[kListActionKinds] = {
    "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

ListActionKind KindOf(SlotKind kind) {
  switch (kind) {
    case SlotKind::kForward:
      return ListActionKind::kForward;
    case SlotKind::kBackward:
      return ListActionKind::kBackward;
    case SlotKind::kBackwardInput:
      return ListActionKind::kBackwardInput;
    case SlotKind::kBackwardWeight:
      break;
  }
  return ListActionKind::kBackwardWeight;
}

SlotKind KindOf(ListActionKind kind) {
  switch (kind) {
    case ListActionKind::kForward:
      return SlotKind::kForward;
    case ListActionKind::kBackward:
      return SlotKind::kBackward;
    case ListActionKind::kBackwardInput:
      return SlotKind::kBackwardInput;
    default:
      return SlotKind::kBackwardWeight;
  }
}

}  // namespace

absl::string_view ListActionWord(ListActionKind kind) { return kWords[static_cast<int>(kind)]; }

std::string ListActionName(const ListAction& action) {
  const std::string name = absl::StrCat(action.stage, ListActionWord(action.kind));
  return HasMicrobatch(action.kind) ? absl::StrCat(name, action.microbatch) : name;
}

absl::StatusOr<ActionLists> ToActionLists(const PipelineSchedule& schedule, int microbatches) {
  auto refuse = [](const auto&... why) { return absl::InvalidArgumentError(absl::StrCat(why...)); };
  if (schedule.message_driven)
    return refuse("the order is message-driven: there is no list to write (--freeze makes one)");
  if (schedule.asynchrony) return refuse("the schedule is asynchronous: a list of one step has no place for updates");
  for (int lane = 1; lane < schedule.lanes; ++lane) {
    for (int stage = 0; stage < schedule.stages; ++stage) {
      const int first = schedule.placement[0][stage], other = schedule.placement[lane][stage];
      if (first != other) {
        return refuse("stage ", stage, " is on ranks ", first, " and ", other, " (lanes 0 and ", lane,
                      "); allowed: one rank per stage");
      }
    }
  }
  ActionLists lists = {.microbatches = microbatches, .rank_of = schedule.placement[0], .order = {}};
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    std::vector<ListAction>& list = lists.order.emplace_back();
    list.reserve(schedule.order[rank].size());
    for (const Slot& slot : schedule.order[rank]) {
      if (slot.width != 1) {
        return refuse("rank ", rank, " computes the forwards of stage ", slot.stage, " for microbatches ",
                      slot.microbatch, " and ", slot.microbatch + 1, " at once; allowed: one at a time");
      }
      list.push_back(
          {.kind = KindOf(slot.kind), .paired = slot.paired, .stage = slot.stage, .microbatch = slot.microbatch});
    }
  }
  return lists;
}

PipelineSchedule ToSchedule(const ActionLists& lists) {
  PipelineSchedule schedule = {.stages = lists.stages(), .lanes = 1, .placement = {lists.rank_of}, .order = {}};
  for (const std::vector<ListAction>& list : lists.order) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    for (const ListAction& action : list) {
      if (!IsCompute(action.kind)) continue;
      Slot slot = {.kind = KindOf(action.kind), .lane = 0, .stage = action.stage, .microbatch = action.microbatch};
      slot.paired = action.paired;
      order.push_back(slot);
    }
  }
  return schedule;
}

bool InputIsThere(const ListAction& action, const ActionLists& lists, const ActionSet& done) {
  const int s = action.stage, m = action.microbatch;
  switch (action.kind) {
    case ListActionKind::kForward:
      return s == 0 || done.Has(ListActionKind::kReceiveForward, s, m) ||
             (lists.rank_of[s - 1] == lists.rank_of[s] && done.Has(ListActionKind::kForward, s - 1, m));
    case ListActionKind::kBackward:
    case ListActionKind::kBackwardInput:
      return s == lists.stages() - 1 || done.Has(ListActionKind::kReceiveBackward, s, m) ||
             (lists.rank_of[s + 1] == lists.rank_of[s] &&
              (done.Has(ListActionKind::kBackward, s + 1, m) || done.Has(ListActionKind::kBackwardInput, s + 1, m)));
    default:
      return true;
  }
}

bool LeavesRank(const ListAction& action, const ActionLists& lists) {
  const int s = action.stage;
  switch (action.kind) {
    case ListActionKind::kForward:
      return s + 1 < lists.stages() && lists.rank_of[s + 1] != lists.rank_of[s];
    case ListActionKind::kBackward:
    case ListActionKind::kBackwardInput:
      return s > 0 && lists.rank_of[s - 1] != lists.rank_of[s];
    default:
      return false;
  }
}

}  // namespace weft
