#include "compiler/export/asynchronous_sums.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "compiler/segments/state_shards.h"
#include "proto/edit/program_edit.h"
#include "proto/util/mesh.h"

namespace weft {
namespace {

using ir::Role;

void AddAxis(const std::string& axis, int64_t block, int64_t stride, Group* group) {
  AxisSubset& subset = *group->add_axes();
  subset.set_axis(axis);
  subset.set_block(block);
  subset.set_stride(stride);
}

// The group over `axes`. If replicas share parts, the group contains along the data axis only the replicas that hold
// the same part.
Group GroupOfAxes(const std::vector<std::string>& axes, bool parts, const Plan& plan) {
  Group group;
  const int64_t data = AxisSize(plan.mesh(), "data"), sharing = StateShardsOf(plan).members;
  for (const std::string& axis : axes) {
    if (axis == kOverGroups || (axis == "data" && parts)) {
      if (sharing < data) AddAxis("data", 0, sharing, &group);
    } else if (AxisSize(plan.mesh(), axis) > 1) {
      AddAxis(axis, 0, 0, &group);
    }
  }
  return group;
}

bool HasStepsBeside(const Segment& segment) {
  return std::any_of(segment.steps().begin(), segment.steps().end(),
                     [](const Step& step) { return step.stream() != COMPUTE; });
}

bool HasDetachedSteps(const Segment& segment) {
  return std::any_of(segment.steps().begin(), segment.steps().end(), [](const Step& step) { return step.detached(); });
}

bool IsCompute(const Action& action) {
  return action.kind() == FORWARD || action.kind() == BACKWARD || action.kind() == OPTIMIZER_STEP;
}

}  // namespace

const SegmentOperand* FindOperand(const StageSegment& segment, Role role, int tensor) {
  for (const SegmentOperand& operand : segment.operands) {
    if (operand.role == role && operand.tensor == tensor) return &operand;
  }
  return nullptr;
}

Group GroupOfSharers(const Plan& plan) {
  Group group;
  const int64_t members = StateShardsOf(plan).members;
  AddAxis("data", members < AxisSize(plan.mesh(), "data") ? members : 0, 0, &group);
  return group;
}

std::vector<GradientSum> GradientSumsBefore(const StageSegment& optimizer, const SegmentSet& segments,
                                            const Plan& plan) {
  struct SumGroup {
    std::vector<std::string> axes;
    bool parts = false;
    std::vector<const SegmentOperand*> gradients;
  };
  std::vector<SumGroup> all;
  for (const SegmentOperand& operand : optimizer.operands) {
    if (operand.role != Role::Grad) continue;
    const std::vector<std::string>& axes = segments.shards[operand.tensor].sync_axes;
    const bool parts = FindOperand(optimizer, Role::GradPart, operand.tensor) != nullptr;
    auto found = std::find_if(all.begin(), all.end(),
                              [&](const SumGroup& other) { return other.axes == axes && other.parts == parts; });
    if (found == all.end()) found = all.insert(all.end(), {axes, parts, {}});
    found->gradients.push_back(&operand);
  }
  std::vector<GradientSum> sums;
  for (const SumGroup& together : all) {
    std::vector<const SegmentOperand*> held = together.gradients;
    if (together.parts) {
      for (const SegmentOperand*& operand : held) operand = FindOperand(optimizer, Role::GradPart, operand->tensor);
      sums.push_back({REDUCE_SCATTER, "gradient scatter", GroupOfSharers(plan), together.gradients, held, false});
    }
    Group group = GroupOfAxes(together.axes, together.parts, plan);
    if (group.axes().empty()) continue;
    sums.push_back({ALL_REDUCE, "gradient sync", std::move(group), held, held, together.parts});
  }
  return sums;
}

std::vector<std::pair<const SegmentOperand*, const SegmentOperand*>> GatheredWeights(const StageSegment& optimizer,
                                                                                     const StageSegment& forward,
                                                                                     const StageSegment& backward) {
  std::vector<std::pair<const SegmentOperand*, const SegmentOperand*>> gathered;
  for (const SegmentOperand& operand : optimizer.operands) {
    if (operand.role != Role::Master || FindOperand(optimizer, Role::Param, operand.tensor) != nullptr) continue;
    const SegmentOperand* part = FindOperand(optimizer, Role::ParamPart, operand.tensor);
    const SegmentOperand* param = FindOperand(forward, Role::Param, operand.tensor);
    if (param == nullptr) param = FindOperand(backward, Role::Param, operand.tensor);
    if (param != nullptr) gathered.push_back({part != nullptr ? part : &operand, param});
  }
  return gathered;
}

void ChainCompute(const Program& program, Template* t) {
  const auto is = [&](const Action& action, bool (*holds)(const Segment&)) {
    return IsCompute(action) && holds(program.segments(action.segment()));
  };
  const bool any =
      std::any_of(t->body().begin(), t->body().end(), [&](const Action& action) { return is(action, HasStepsBeside); });
  if (!any) return;
  const auto last = [](const auto& list, auto holds) {
    const auto found = std::find_if(list.rbegin(), list.rend(), holds);
    return found == list.rend() ? -1 : found->id();
  };
  const auto backward = [&](const Action& action) { return action.kind() == BACKWARD; };
  // The loop starts with the last backward of the previous repetition, because the prologue has no backward.
  int previous = -1, previous_backward = last(t->body(), backward);
  const int last_of_body = last(t->body(), IsCompute), last_of_prologue = last(t->prologue(), IsCompute);
  const bool detached = std::any_of(t->body().begin(), t->body().end(),
                                    [&](const Action& action) { return is(action, HasDetachedSteps); });
  for (Action& action : *t->mutable_prologue()) {
    if (!IsCompute(action)) continue;
    if (previous >= 0) AddDependency(previous, 0, false, &action);
    previous = action.id();
  }
  previous = -1;
  bool around = true;
  for (Action& action : *t->mutable_body()) {
    const bool sums = action.purpose() == GRADIENT_SYNC;
    if (!IsCompute(action) && !sums) continue;
    if (detached && action.kind() != FORWARD && previous_backward >= 0) {
      AddDependency(previous_backward, around ? 1 : 0, true, &action);
    }
    if (sums) continue;
    if (previous >= 0) {
      AddDependency(previous, 0, false, &action);
    } else {
      AddDependency(last_of_body, 1, false, &action);
      if (last_of_prologue >= 0) AddDependency(last_of_prologue, 0, false, &action);
    }
    previous = action.id();
    if (action.kind() != BACKWARD) continue;
    previous_backward = action.id();
    around = false;
  }
}

}  // namespace weft
