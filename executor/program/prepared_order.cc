#include "executor/program/prepared_order.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "executor/interface/channels.h"

namespace weft::exec {
namespace {

void AddMember(PreparedProgram& program, int group, int action) {
  program.actions[action].group = group;
  PreparedGroup& target = program.groups[group];
  const int stream = program.actions[action].steps.front().stream;
  target.actions.push_back(action);
  target.stream_of.push_back(stream);
  if (std::find(target.streams.begin(), target.streams.end(), stream) == target.streams.end()) {
    target.streams.push_back(stream);
  }
}

}  // namespace

void GroupTransfers(PreparedProgram& program) {
  for (int index = 1; index < static_cast<int>(program.actions.size()); ++index) {
    const PreparedAction &before = program.actions[index - 1], &own = program.actions[index];
    if (!IsTransfer(*before.action) || !IsTransfer(*own.action) || before.list != own.list ||
        own.action->transfer_group() == 0 || before.action->transfer_group() != own.action->transfer_group()) {
      continue;
    }
    if (before.group < 0) {
      program.groups.emplace_back().list = own.list;
      AddMember(program, static_cast<int>(program.groups.size()) - 1, index - 1);
    }
    AddMember(program, before.group, index);
  }
}

void OrderQueues(PreparedProgram& program) {
  const auto in_both = [&](const StreamStep& step) { return program.actions[step.action].action->kind() != FORWARD; };
  for (int list = 0; list < 3; ++list) {
    std::vector<StreamStep>& forwards = program.streams[0].steps[list];
    std::vector<StreamStep>& backwards = program.streams[program.backward_queue].steps[list];
    if (forwards.empty() || backwards.empty()) continue;
    size_t b = 0;
    for (StreamStep& step : forwards) {
      if (!step.first || !in_both(step)) continue;
      while (b < backwards.size() && backwards[b].action < step.action) ++b;
      step.other_position = static_cast<int>(b);
    }
    // Position after the last step in the list whose action is in both queues. The first backwards of the next
    // repetition wait for that step.
    size_t behind = forwards.size();
    while (behind > 0 && !in_both(forwards[behind - 1])) --behind;
    if (behind == 0) continue;
    size_t f = 0, after = 0;
    for (StreamStep& step : backwards) {
      if (!step.first) continue;
      for (; f < forwards.size() && forwards[f].action < step.action; ++f) {
        if (in_both(forwards[f])) after = f + 1;
      }
      step.other_position = static_cast<int>(after > 0 ? after : behind);
      step.other_repetition = after > 0 ? 0 : -1;
    }
  }
}

}  // namespace weft::exec
