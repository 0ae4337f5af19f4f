#include "simulator/runtime/program_edit.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "proto/util/units.h"

namespace weft::sim {

void Join(const std::vector<JoiningStep>& joining, Segment* segment) {
  std::vector<int> order(joining.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return joining[a].behind < joining[b].behind; });
  std::vector<int> moved(segment->steps_size()), placed(joining.size());
  Segment made;
  size_t next = 0;
  const auto place = [&](int behind) {
    for (; next < order.size() && joining[order[next]].behind <= behind; ++next) {
      const JoiningStep& joined = joining[order[next]];
      placed[order[next]] = made.steps_size();
      Step& step = *made.add_steps();
      step = joined.step;
      for (int& dep : *step.mutable_deps()) dep = moved[dep];
      for (const int other : joined.after) step.add_deps(placed[other]);
    }
  };
  place(-1);
  for (int i = 0; i < segment->steps_size(); ++i) {
    moved[i] = made.steps_size();
    Step& step = *made.add_steps();
    step = segment->steps(i);
    for (int& dep : *step.mutable_deps()) dep = moved[dep];
    for (size_t j = 0; j < joining.size(); ++j) {
      const std::vector<int>& by = joining[j].awaited_by;
      if (joining[j].behind < i && std::find(by.begin(), by.end(), i) != by.end()) step.add_deps(placed[j]);
    }
    place(i);
  }
  segment->mutable_steps()->Swap(made.mutable_steps());
}

int32_t ValueOf(const Template& t, int32_t buffer, Access access, Action* action, Segment* segment) {
  const Buffer& of = t.buffers(buffer);
  int32_t operand = -1;
  for (int i = 0; i < action->operands_size() && operand < 0; ++i) {
    if (action->operands(i) == buffer) operand = i;
  }
  if (operand < 0) {
    operand = action->operands_size();
    action->add_operands(buffer);
    Operand& added = *segment->add_operands();
    added.set_name(of.name());
    added.set_bytes(of.bytes());
    added.set_access(access);
  }
  Value& value = *segment->add_values();
  value.set_name(of.name());
  value.set_operand(operand);
  value.set_dtype(of.dtype());
  value.add_shape(of.bytes() / std::max<int64_t>(DTypeBytes(of.dtype()), 1));
  return segment->values_size() - 1;
}

Step StepOf(const Template& t, const Action& collective, Action* action, Segment* segment) {
  Step step;
  step.set_name(collective.name());
  step.set_kernel(collective.kind() == ALL_GATHER       ? GROUP_ALL_GATHER
                  : collective.kind() == REDUCE_SCATTER ? GROUP_REDUCE_SCATTER
                                                        : GROUP_ALL_REDUCE);
  step.set_stream(COLLECTIVE);
  *step.mutable_collective()->mutable_group() = collective.group();
  step.mutable_collective()->set_purpose(collective.purpose());
  step.mutable_collective()->set_algorithm(collective.algorithm());
  for (int i = 0; i < collective.sources_size(); ++i) {
    step.add_inputs(ValueOf(t, collective.sources(i), READ, action, segment));
    step.add_outputs(ValueOf(t, collective.destinations(i), WRITE, action, segment));
  }
  return step;
}

void AddDependency(int32_t id, int32_t distance, bool detached, Action* action) {
  for (Dependency& dep : *action->mutable_deps()) {
    if (dep.action() != id || dep.distance() != distance) continue;
    dep.set_detached(dep.detached() || detached);
    return;
  }
  Dependency& dep = *action->add_deps();
  dep.set_action(id);
  dep.set_distance(distance);
  dep.set_detached(detached);
}

}  // namespace weft::sim
