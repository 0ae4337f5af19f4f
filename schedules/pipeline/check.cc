#include "schedules/pipeline/check.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/pipeline/deadlock.h"
#include "schedules/pipeline/dependencies.h"
#include "schedules/pipeline/params.h"

namespace weft {
namespace {

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckForm(const PipelineSchedule& schedule, int microbatches) {
  const int64_t ranks = static_cast<int64_t>(schedule.order.size());
  if (ranks < 1 || schedule.stages < 1 || schedule.lanes < 1 || microbatches < 1) {
    return Refuse("ranks = ", ranks, ", stages = ", schedule.stages, ", lanes = ", schedule.lanes,
                  ", microbatches = ", microbatches, "; each must be at least 1");
  }
  if (int64_t{2} * schedule.stages > kMaxSlots / microbatches) {
    return Refuse("stages = ", schedule.stages, " with microbatches = ", microbatches, " make more than ", kMaxSlots,
                  " slots");
  }
  if (schedule.lanes > std::numeric_limits<int16_t>::max()) {
    return Refuse("lanes = ", schedule.lanes, "; allowed: 1 to ", std::numeric_limits<int16_t>::max());
  }
  if (static_cast<int64_t>(schedule.placement.size()) != schedule.lanes) {
    return Refuse("placement has ", schedule.placement.size(), " lanes; expected ", schedule.lanes);
  }
  for (int lane = 0; lane < schedule.lanes; ++lane) {
    if (static_cast<int64_t>(schedule.placement[lane].size()) != schedule.stages) {
      return Refuse("placement of lane ", lane, " has ", schedule.placement[lane].size(), " stages; expected ",
                    schedule.stages);
    }
    for (int stage = 0; stage < schedule.stages; ++stage) {
      const int rank = schedule.placement[lane][stage];
      if (rank < 0 || rank >= ranks) {
        return Refuse("placement puts stage ", stage, " of lane ", lane, " on rank ", rank, "; ranks are 0 to ",
                      ranks - 1);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSettings(const PipelineSchedule& schedule, int microbatches) {
  if (schedule.message_driven) {
    if (schedule.asynchrony) return Refuse("a schedule must not be both message-driven and asynchronous");
    if (schedule.lanes != 1) return Refuse("lanes = ", schedule.lanes, "; a message-driven schedule must have 1");
    if (schedule.message_driven->limit < 1) {
      return Refuse("message-driven limit = ", schedule.message_driven->limit, "; allowed: at least 1");
    }
  }
  if (schedule.asynchrony) {
    const Asynchrony& asynchrony = *schedule.asynchrony;
    const int per_update = asynchrony.microbatches_per_update;
    if (per_update < 1 || microbatches % per_update != 0) {
      return Refuse("microbatches per update = ", per_update, "; must divide microbatches = ", microbatches);
    }
    if (asynchrony.versions.size() != schedule.order.size()) {
      return Refuse("weight versions of ", asynchrony.versions.size(), " ranks; expected ", schedule.order.size());
    }
    for (size_t rank = 0; rank < asynchrony.versions.size(); ++rank) {
      if (asynchrony.versions[rank] < 1) {
        return Refuse("rank ", rank, " keeps ", asynchrony.versions[rank], " weight versions; allowed: at least 1");
      }
    }
  }
  return absl::OkStatus();
}

// Checks indices and placement, and that each (kind, stage, microbatch) appears exactly once.
class Completeness {
 public:
  Completeness(const PipelineSchedule& schedule, int microbatches)
      : schedule_(schedule),
        microbatches_(microbatches),
        table_(schedule.stages, microbatches),
        lane_of_(microbatches, -1),
        group_of_(microbatches, -1) {}

  absl::Status Check(std::optional<WrongSlot>* wrong_slot) {
    for (size_t rank = 0; rank < schedule_.order.size(); ++rank) {
      const std::vector<Slot>& order = schedule_.order[rank];
      for (size_t i = 0; i < order.size(); ++i) {
        const Slot& slot = order[i];
        std::string wrong = WrongField(slot, static_cast<int>(rank));
        if (wrong.empty() && slot.paired) wrong = WrongPair(slot, i + 1 < order.size() ? &order[i + 1] : nullptr);
        if (wrong.empty()) wrong = WrongTogether(slot);
        if (wrong.empty()) continue;
        *wrong_slot = {slot, static_cast<int>(rank)};
        return Refuse("rank ", rank, ", slot ", SlotName(schedule_, slot), ": ", wrong);
      }
    }
    if (absl::Status status = CheckNothingMissing(wrong_slot); !status.ok()) return status;
    return CheckPairsOfOne(wrong_slot);
  }

 private:
  std::string WrongField(const Slot& slot, int rank) const {
    if (slot.kind > SlotKind::kBackwardWeight) return "no such kind";
    if (slot.stage < 0 || slot.stage >= schedule_.stages) return absl::StrCat("stages are 0 to ", schedule_.stages - 1);
    const bool forward = slot.kind == SlotKind::kForward;
    if (slot.width != 1 && (slot.width != 2 || !forward || schedule_.message_driven)) {
      return absl::StrCat("width ", static_cast<int>(slot.width),
                          "; allowed: 1, and 2 for forwards of static schedules");
    }
    if (slot.microbatch < 0 || slot.microbatch > microbatches_ - slot.width) {
      return absl::StrCat("microbatches are 0 to ", microbatches_ - 1);
    }
    if (slot.lane < 0 || slot.lane >= schedule_.lanes) return absl::StrCat("lanes are 0 to ", schedule_.lanes - 1);
    if (schedule_.placement[slot.lane][slot.stage] != rank) {
      return absl::StrCat("stage ", slot.stage, " is placed on rank ", schedule_.placement[slot.lane][slot.stage]);
    }
    if (slot.ahead > (schedule_.asynchrony ? 1 : 0)) {
      return absl::StrCat("ahead by ", static_cast<int>(slot.ahead), "; allowed: 0, and 1 in asynchronous schedules");
    }
    return "";
  }

  std::string WrongPair(const Slot& slot, const Slot* next) const {
    if (schedule_.message_driven) return "only static schedules may have pairs";
    if (slot.kind != SlotKind::kForward || slot.width != 1) {
      return "the first of a pair must be a forward of one microbatch";
    }
    if (next == nullptr) return "paired with nothing, as it is the last of its rank";
    if (next->kind != SlotKind::kBackward || next->paired || next->ahead != slot.ahead) {
      return absl::StrCat("paired with ", SlotName(schedule_, *next), "; the second of a pair must be a whole backward",
                          next->paired ? " that is not paired with the slot after it" : " of the same repetition");
    }
    return "";
  }

  std::string WrongTogether(const Slot& slot) {
    for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
      int& lane = lane_of_[m];
      if (lane < 0) lane = slot.lane;
      if (lane != slot.lane) return absl::StrCat("microbatch ", m, " is in lane ", lane, " elsewhere");
      if (slot.kind == SlotKind::kForward) {
        // Encodes the first microbatch and the width of the forward that contains microbatch m.
        const int64_t group = int64_t{2} * slot.microbatch + slot.width - 1;
        if (group_of_[m] < 0) group_of_[m] = group;
        if (group_of_[m] != group) {
          const Slot other = {.microbatch = static_cast<int>(group_of_[m] / 2),
                              .width = static_cast<uint8_t>(group_of_[m] % 2 + 1)};
          return absl::StrCat("elsewhere the forward of microbatch ", m, " computes ",
                              other.width == 1 ? "only this microbatch"
                                               : absl::StrCat("two microbatches, from ", other.microbatch, " on"));
        }
      }
      uint8_t& bits = table_.at(slot.stage, m);
      const uint8_t bit = SlotTable::KindBit(slot.kind);
      if ((bits & bit) != 0) return "runs twice";
      constexpr uint8_t kHalves = SlotTable::kBackwardInput | SlotTable::kBackwardWeight;
      const uint8_t others = slot.kind == SlotKind::kBackward  ? kHalves
                             : slot.kind == SlotKind::kForward ? 0
                                                               : static_cast<uint8_t>(SlotTable::kBackward);
      if ((bits & others) != 0) return "the stage runs this backward both whole and in halves";
      bits |= bit;
    }
    return "";
  }

  absl::Status CheckNothingMissing(std::optional<WrongSlot>* wrong_slot) const {
    auto missing = [&](SlotKind kind, int stage, int m) {
      const Slot slot = {.kind = kind,
                         .lane = static_cast<int16_t>(lane_of_[m] < 0 ? 0 : lane_of_[m]),
                         .stage = stage,
                         .microbatch = m};
      const int rank = schedule_.placement[slot.lane][stage];
      *wrong_slot = {slot, rank};
      return Refuse("slot ", SlotName(schedule_, slot), " is missing; expected on rank ", rank);
    };
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      for (int m = 0; m < microbatches_; ++m) {
        const uint8_t bits = table_.at(stage, m);
        if ((bits & SlotTable::kForward) == 0) return missing(SlotKind::kForward, stage, m);
        if ((bits & SlotTable::kBackward) != 0) continue;
        const bool input = (bits & SlotTable::kBackwardInput) != 0, weight = (bits & SlotTable::kBackwardWeight) != 0;
        if (input && weight) continue;
        return missing(input    ? SlotKind::kBackwardWeight
                       : weight ? SlotKind::kBackwardInput
                                : SlotKind::kBackward,
                       stage, m);
      }
    }
    return absl::OkStatus();
  }

  // In a program, a pair is one segment, which must read everything that one forward saved, not a part of it (rule P5).
  absl::Status CheckPairsOfOne(std::optional<WrongSlot>* wrong_slot) const {
    for (size_t rank = 0; rank < schedule_.order.size(); ++rank) {
      const std::vector<Slot>& order = schedule_.order[rank];
      for (size_t i = 0; i < order.size(); ++i) {
        if (!order[i].paired) continue;
        const Slot& backward = order[i + 1];
        const int64_t group = group_of_[backward.microbatch];
        if (group % 2 == 0) continue;
        *wrong_slot = {order[i], static_cast<int>(rank)};
        return Refuse("rank ", rank, ", slot ", SlotName(schedule_, order[i]), ": paired with ",
                      SlotName(schedule_, backward), ", whose forward is of microbatches ", group / 2, " and ",
                      group / 2 + 1, "; both slots of a pair must belong to forwards of one microbatch");
      }
    }
    return absl::OkStatus();
  }

  const PipelineSchedule& schedule_;
  const int microbatches_;
  SlotTable table_;
  std::vector<int> lane_of_;
  std::vector<int64_t> group_of_;
};

// Checks that no slot of the next repetition waits for this repetition.
absl::Status CheckAhead(const PipelineSchedule& schedule, const SlotTable& table, std::optional<WrongSlot>* wrong) {
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    for (const Slot& slot : schedule.order[rank]) {
      if (slot.ahead == 0) continue;
      for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
        for (const Result& input : SlotInputs(slot, m, schedule.stages)) {
          if (input.stage < 0 || table.ahead(input)) continue;
          *wrong = {slot, static_cast<int>(rank)};
          return Refuse("rank ", rank, ", slot ", SlotName(schedule, slot),
                        ": it belongs to the next repetition, but the ", input.gradient ? "gradient" : "forward",
                        " of stage ", input.stage, " that it needs is not computed ahead");
        }
      }
    }
  }
  return absl::OkStatus();
}

// A message-driven rank chooses only between its next forward and its next backward (rule P6), and a stage admits a new
// microbatch for each microbatch that is finished there. So every stage must take the microbatches in the same order,
// forwards and backwards alike.
absl::Status CheckOneOrder(const PipelineSchedule& schedule, int microbatches, std::optional<WrongSlot>* wrong) {
  std::vector<int> first;
  first.reserve(microbatches);
  for (const Slot& slot : schedule.order[schedule.placement[0][0]]) {
    if (slot.stage == 0 && slot.kind == SlotKind::kForward) first.push_back(slot.microbatch);
  }
  // Slots seen so far for each (stage, kind).
  std::vector<int> count(size_t{4} * schedule.stages);
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    for (const Slot& slot : schedule.order[rank]) {
      const int expected = first[count[size_t{4} * slot.stage + static_cast<int>(slot.kind)]++];
      if (slot.microbatch == expected) continue;
      *wrong = {slot, static_cast<int>(rank)};
      return Refuse("rank ", rank, ": ", SlotName(schedule, slot), " comes where stage 0 has microbatch ", expected,
                    "; in a message-driven schedule all stages take the microbatches in the same order, forwards and "
                    "backwards alike");
    }
  }
  return absl::OkStatus();
}

// Messages from one rank to another, in one direction, travel in the order in which the sender computes them. If they
// crossed two stage boundaries, they could block each other: a message of one boundary waits until its stage's limit
// admits it, and a message of the other boundary is queued after it.
absl::Status CheckOneBoundaryPerEdge(const PipelineSchedule& schedule) {
  const std::vector<int>& rank_of = schedule.placement[0];
  // For each (from rank, to rank), the lower stage of the boundary between them.
  std::map<std::pair<int, int>, int> below;
  for (int stage = 0; stage + 1 < schedule.stages; ++stage) {
    const std::pair<int, int> edge = {rank_of[stage], rank_of[stage + 1]};
    if (edge.first == edge.second) continue;
    const auto [found, added] = below.try_emplace(edge, stage);
    if (added) continue;
    return Refuse("stages ", found->second, " and ", stage, " both pass results on from rank ", edge.first, " to rank ",
                  edge.second,
                  "; in a message-driven schedule at most one stage of a rank does so to each other rank "
                  "(one stage per rank, or stages that run back and forth over the ranks)");
  }
  return absl::OkStatus();
}

}  // namespace

std::string SlotName(const PipelineSchedule& schedule, const Slot& slot) {
  const char kinds[] = "FBIW";
  const int kind = static_cast<int>(slot.kind);
  std::string name(1, kind < 4 ? kinds[kind] : '?');
  if (schedule.lanes > 1) absl::StrAppend(&name, " l", slot.lane);
  absl::StrAppend(&name, " s", slot.stage, " m", slot.microbatch);
  if (slot.width > 1) absl::StrAppend(&name, "-", int64_t{slot.microbatch} + slot.width - 1);
  if (slot.ahead != 0) name += " (next)";
  return name;
}

int64_t IndexOf(const WrongSlot& wrong, const PipelineSchedule& schedule) {
  const std::vector<Slot>& order = schedule.order[wrong.rank];
  const auto same = [&](const Slot& slot) {
    return slot.kind == wrong.slot.kind && slot.stage == wrong.slot.stage && slot.lane == wrong.slot.lane &&
           slot.microbatch == wrong.slot.microbatch;
  };
  const auto first = std::find_if(order.begin(), order.end(), same);
  if (first == order.end()) return -1;
  const auto second = std::find_if(first + 1, order.end(), same);
  return (second == order.end() ? first : second) - order.begin();
}

absl::Status CheckSchedule(const PipelineSchedule& schedule, int microbatches, std::optional<WrongSlot>* wrong) {
  std::optional<WrongSlot> ignored;
  if (wrong == nullptr) wrong = &ignored;
  if (absl::Status status = CheckForm(schedule, microbatches); !status.ok()) return status;
  if (absl::Status status = CheckSettings(schedule, microbatches); !status.ok()) return status;
  if (absl::Status status = Completeness(schedule, microbatches).Check(wrong); !status.ok()) return status;
  SlotTable table = MakeSlotTable(schedule, microbatches);
  if (schedule.message_driven) {
    if (absl::Status status = CheckOneBoundaryPerEdge(schedule); !status.ok()) return status;
    if (absl::Status status = CheckOneOrder(schedule, microbatches, wrong); !status.ok()) return status;
  }
  if (schedule.asynchrony) {
    if (absl::Status status = CheckAhead(schedule, table, wrong); !status.ok()) return status;
  }
  return CheckDeadlock(schedule, table, wrong);
}

absl::Status CheckAccumulationOrder(const PipelineSchedule& schedule) {
  std::vector<const Slot*> last(schedule.stages);
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    last.assign(schedule.stages, nullptr);
    for (const Slot& slot : schedule.order[rank]) {
      if (slot.kind != SlotKind::kBackward && slot.kind != SlotKind::kBackwardWeight) continue;
      const Slot*& previous = last[slot.stage];
      if (previous != nullptr &&
          std::pair(previous->ahead, previous->microbatch) >= std::pair(slot.ahead, slot.microbatch)) {
        return Refuse(
            "rank ", rank, ": ", SlotName(schedule, slot), " comes after ", SlotName(schedule, *previous),
            "; gradients must accumulate in ascending microbatch order (rule P9), unless accumulation is EXACT");
      }
      previous = &slot;
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
