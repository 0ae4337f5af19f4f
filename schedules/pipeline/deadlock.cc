#include "schedules/pipeline/deadlock.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weft {
namespace {

// Explains why lists stopped. The head of each unfinished list waits for a result. The slot that makes this result is
// in some unfinished list, as its head or later. Following these links must lead to a cycle.
class Explanation {
 public:
  Explanation(const PipelineSchedule& schedule, const SlotTable& table, const SlotLists& lists,
              const std::vector<int64_t>& at)
      : schedule_(schedule), table_(table), lists_(lists), at_(at) {}

  absl::Status Make(std::optional<WrongSlot>* wrong) const {
    int64_t stuck = -1;
    for (int64_t list = lists_.size() - 1; list >= 0; --list) {
      if (Finished(list)) continue;
      stuck = list;
      if (std::string text = WrongOrder(list); !text.empty()) {
        *wrong = {*Head(list).first, lists_.rank(list)};
        return absl::InvalidArgumentError(text);
      }
    }
    const int64_t first = FirstOfCycle(stuck);
    *wrong = {lists_.list(first)[at_[first]], lists_.rank(first)};
    return absl::InvalidArgumentError(Cycle(first));
  }

 private:
  bool Finished(int64_t list) const { return at_[list] == static_cast<int64_t>(lists_.list(list).size()); }
  int64_t Next(const std::pair<const Slot*, Result>& head) const {
    return lists_.ListOf(head.second, head.first->lane);
  }
  std::pair<const Slot*, Result> Head(int64_t list) const { return lists_.Missing(lists_.list(list), at_[list]); }

  // Returns the slot that makes `result`, with the fields that SlotName prints except `width`.
  Slot Maker(const Result& result, const Slot& user) const {
    const uint8_t bits = table_.at(result.stage, result.microbatch);
    Slot slot = {.kind = SlotKind::kForward, .lane = user.lane, .stage = result.stage, .microbatch = result.microbatch};
    if (result.gradient) {
      // A forward that the limit holds back waits for the end of a microbatch's backward: for its weight gradient, if
      // the backward is in halves.
      slot.kind = (bits & SlotTable::kBackward) != 0 ? SlotKind::kBackward
                  : user.kind == SlotKind::kForward  ? SlotKind::kBackwardWeight
                                                     : SlotKind::kBackwardInput;
    }
    slot.ahead = table_.ahead(result);
    return slot;
  }

  // Describes the list's head if it waits for a result that the same list makes later. Otherwise returns "".
  std::string WrongOrder(int64_t list) const {
    const auto [user, missing] = Head(list);
    if (Next({user, missing}) != list) return "";
    const std::string where = absl::StrCat("rank ", lists_.rank(list), ": ");
    const std::string maker = SlotName(schedule_, Maker(missing, *user));
    const Slot& head = lists_.list(list)[at_[list]];
    if (head.paired && &head != user && !missing.gradient && head.stage == missing.stage &&
        head.microbatch <= missing.microbatch && missing.microbatch < head.microbatch + head.width) {
      return absl::StrCat(where, SlotName(schedule_, *user), " is paired with ", SlotName(schedule_, head),
                          ", whose result it needs");
    }
    return absl::StrCat(where, SlotName(schedule_, *user), " comes before ", maker, ", whose result it needs");
  }

  std::string HeadName(int64_t list) const {
    const absl::Span<const Slot> slots = lists_.list(list);
    std::string name = SlotName(schedule_, slots[at_[list]]);
    if (slots[at_[list]].paired) absl::StrAppend(&name, " & ", SlotName(schedule_, slots[at_[list] + 1]));
    return absl::StrCat(name, " (rank ", lists_.rank(list), ")");
  }

  bool IsInHead(int64_t list, const Slot& maker) const {
    const absl::Span<const Slot> slots = lists_.list(list);
    for (int i = 0; i < SlotLists::Count(slots, at_[list]); ++i) {
      const Slot& slot = slots[at_[list] + i];
      if (slot.kind == maker.kind && slot.stage == maker.stage && slot.microbatch <= maker.microbatch &&
          maker.microbatch < slot.microbatch + slot.width) {
        return true;
      }
    }
    return false;
  }

  // The lowest-numbered list of the cycle that `list` leads to.
  int64_t FirstOfCycle(int64_t list) const {
    std::vector<bool> seen(lists_.size());
    for (; !seen[list]; list = Next(Head(list))) seen[list] = true;
    int64_t first = list;
    for (int64_t at = Next(Head(list)); at != list; at = Next(Head(at))) first = std::min(first, at);
    return first;
  }

  // Describes the cycle from its list `first` on.
  std::string Cycle(int64_t first) const {
    std::vector<std::string> names;
    int64_t at = first;
    do {
      names.push_back(HeadName(at));
      const std::pair<const Slot*, Result> head = Head(at);
      at = Next(head);
      const Slot maker = Maker(head.second, *head.first);
      if (!IsInHead(at, maker)) {
        names.push_back(absl::StrCat(SlotName(schedule_, maker), " (rank ", lists_.rank(at), ")"));
      }
    } while (at != first);
    names.push_back(names.front());
    return absl::StrCat("deadlock: ", absl::StrJoin(names, " waits for "));
  }

  const PipelineSchedule& schedule_;
  const SlotTable& table_;
  const SlotLists& lists_;
  const std::vector<int64_t>& at_;
};

}  // namespace

absl::Status CheckDeadlock(const PipelineSchedule& schedule, SlotTable& table, std::optional<WrongSlot>* wrong) {
  SlotLists lists(schedule, schedule.order, table);
  const std::vector<int64_t> at = lists.Run([](int64_t, int64_t, int) {});
  bool finished = true;
  for (int64_t list = 0; list < lists.size(); ++list) {
    finished = finished && at[list] == static_cast<int64_t>(lists.list(list).size());
  }
  if (finished) return absl::OkStatus();
  return Explanation(schedule, table, lists, at).Make(wrong);
}

}  // namespace weft
