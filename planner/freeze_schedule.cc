#include "planner/freeze_schedule.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/action_slots.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "schedules/pipeline/check.h"

namespace weft::planner {
namespace {

// Maps Action.id to the slot of the action, for one template. A message-driven program has no pairs (rule P6), so an
// action has at most one slot.
std::unordered_map<int32_t, Slot> SlotsById(const Template& t) {
  std::unordered_map<int32_t, Slot> slots;
  for (const Action& action : t.body()) {
    for (const Slot& slot : SlotsOf(action)) slots.emplace(action.id(), slot);
  }
  return slots;
}

}  // namespace

absl::StatusOr<FrozenSchedule> FreezeRun(const PipelineSchedule& schedule, const Evaluation& run) {
  WEFT_RETURN_IF_ERROR(run.trace.status());
  const Program& program = run.program;
  FrozenSchedule frozen;
  frozen.message_driven_seconds = run.report.makespan_seconds();
  frozen.schedule = {.stages = schedule.stages,
                     .lanes = schedule.lanes,
                     .placement = schedule.placement,
                     .order = std::vector<std::vector<Slot>>(schedule.order.size())};
  // Indexed by template.
  std::vector<std::unordered_map<int32_t, Slot>> slots;
  for (const Template& t : program.templates()) slots.push_back(SlotsById(t));
  // Ranks ascend, so the first rank at each pipeline position belongs to the first replica.
  for (const RankTrace& rank : run.trace->ranks()) {
    const auto& known = slots[TemplateOfRank(program, rank.rank())];
    std::vector<Slot> order;
    // An action has several events, in order of their start. Only the first one decides the action's place in the
    // order.
    std::vector<bool> started;
    for (const TraceEvent& event : rank.events()) {
      auto slot = known.find(event.action());
      if (slot == known.end()) continue;
      if (static_cast<size_t>(event.action()) >= started.size()) started.resize(event.action() + 1);
      if (started[event.action()]) continue;
      started[event.action()] = true;
      order.push_back(slot->second);
    }
    std::vector<Slot>& first = frozen.schedule.order[AxisCoordinate(program.mesh(), rank.rank(), "pipe")];
    if (first.empty()) {
      first = std::move(order);
    } else {
      frozen.replicas_differ |= first != order;
    }
  }
  WEFT_RETURN_IF_ERROR(CheckSchedule(frozen.schedule, program.microbatches()));
  return frozen;
}

}  // namespace weft::planner
