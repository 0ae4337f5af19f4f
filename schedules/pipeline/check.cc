#include "schedules/pipeline/check.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
  if (int64_t{2} * schedule.stages > kMaximumSlots / microbatches) {
    return Refuse("stages = ", schedule.stages, " with microbatches = ", microbatches, " make more than ",
                  kMaximumSlots, " slots");
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

// Indices, placement, and each (kind, stage, microbatch) exactly once.
absl::Status CheckComplete(const PipelineSchedule& schedule, int microbatches) {
  std::vector<int> lane_of(microbatches, -1);
  // Rank that runs it, by (kind, stage, microbatch).
  std::vector<int> seen(int64_t{2} * schedule.stages * microbatches, -1);
  auto index = [&](const Slot& s) {
    const int64_t row = (s.kind == SlotKind::kForward ? 0 : schedule.stages) + int64_t{s.stage};
    return row * microbatches + s.microbatch;
  };
  for (int rank = 0; rank < static_cast<int>(schedule.order.size()); ++rank) {
    for (const Slot& slot : schedule.order[rank]) {
      const std::string where = absl::StrCat("rank ", rank, ", slot ", SlotName(schedule, slot), ": ");
      if (slot.stage < 0 || slot.stage >= schedule.stages) {
        return Refuse(where, "stages are 0 to ", schedule.stages - 1);
      }
      if (slot.microbatch < 0 || slot.microbatch >= microbatches) {
        return Refuse(where, "microbatches are 0 to ", microbatches - 1);
      }
      if (slot.lane < 0 || slot.lane >= schedule.lanes) return Refuse(where, "lanes are 0 to ", schedule.lanes - 1);
      if (schedule.placement[slot.lane][slot.stage] != rank) {
        return Refuse(where, "stage ", slot.stage, " is placed on rank ", schedule.placement[slot.lane][slot.stage]);
      }
      int& lane = lane_of[slot.microbatch];
      if (lane < 0) lane = slot.lane;
      if (lane != slot.lane) {
        return Refuse(where, "microbatch ", slot.microbatch, " is in lane ", lane, " elsewhere");
      }
      int& holder = seen[index(slot)];
      if (holder >= 0) return Refuse(where, "runs twice, also on rank ", holder);
      holder = rank;
    }
  }
  for (SlotKind kind : {SlotKind::kForward, SlotKind::kBackward}) {
    for (int stage = 0; stage < schedule.stages; ++stage) {
      for (int m = 0; m < microbatches; ++m) {
        const Slot slot = {.kind = kind, .lane = std::max(lane_of[m], 0), .stage = stage, .microbatch = m};
        if (seen[index(slot)] < 0) {
          return Refuse("slot ", SlotName(schedule, slot), " is missing; expected on rank ",
                        schedule.placement[slot.lane][stage]);
        }
      }
    }
  }
  return absl::OkStatus();
}

// Data that stays on one rank: what produces it must come first in the list. The cycle check would find these too, but
// with a longer story.
absl::Status CheckRankOrder(const PipelineSchedule& schedule, const SlotGraph& graph) {
  for (int64_t id = 0; id < graph.size(); ++id) {
    const SlotGraph::Inputs inputs = graph.DataInputs(id);
    for (int64_t input : {inputs.forward, inputs.backward}) {
      if (input > id && graph.rank(input) == graph.rank(id)) {
        return Refuse("rank ", graph.rank(id), ": ", SlotName(schedule, graph.slot(id)), " comes before ",
                      SlotName(schedule, graph.slot(input)), ", whose result it needs");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string SlotName(const PipelineSchedule& schedule, const Slot& slot) {
  const char* kind = slot.kind == SlotKind::kForward ? "F" : "B";
  return absl::StrCat(kind, schedule.lanes > 1 ? absl::StrCat(" l", slot.lane) : "", " s", slot.stage, " m",
                      slot.microbatch);
}

absl::Status CheckSchedule(const PipelineSchedule& schedule, int microbatches) {
  if (absl::Status status = CheckForm(schedule, microbatches); !status.ok()) return status;
  if (absl::Status status = CheckComplete(schedule, microbatches); !status.ok()) return status;
  const SlotGraph graph(schedule, microbatches);
  if (absl::Status status = CheckRankOrder(schedule, graph); !status.ok()) return status;
  const SlotOrder order = OrderSlots(graph);
  if (!order.cycle.empty()) {
    std::vector<std::string> names;
    for (int64_t id : order.cycle) {
      names.push_back(absl::StrCat(SlotName(schedule, graph.slot(id)), " (rank ", graph.rank(id), ")"));
    }
    names.push_back(names.front());
    return Refuse("deadlock: ", absl::StrJoin(names, " waits for "));
  }
  return absl::OkStatus();
}

absl::Status CheckAccumulationOrder(const PipelineSchedule& schedule) {
  for (int rank = 0; rank < static_cast<int>(schedule.order.size()); ++rank) {
    // The last backward of each (lane, stage), which has one gradient buffer.
    std::vector<const Slot*> last(int64_t{schedule.lanes} * schedule.stages, nullptr);
    for (const Slot& slot : schedule.order[rank]) {
      if (slot.kind != SlotKind::kBackward) continue;
      const Slot*& previous = last[int64_t{slot.lane} * schedule.stages + slot.stage];
      if (previous != nullptr && previous->microbatch >= slot.microbatch) {
        return Refuse("rank ", rank, ": ", SlotName(schedule, slot), " comes after ", SlotName(schedule, *previous),
                      "; gradients accumulate in ascending microbatch order (rule P9), or use accumulation EXACT");
      }
      previous = &slot;
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
