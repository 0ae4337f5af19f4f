#include "executor/program/step_waits.h"

#include <algorithm>
#include <map>

namespace weft::exec {
namespace {

class Waits {
 public:
  explicit Waits(PreparedProgram& program) : program_(program) {}

  void Run() {
    for (const PreparedStream& stream : program_.streams) {
      // By rule P6, the stream chooses between two queues at run time. The choice depends on when the dependencies of
      // each queue's next action finished, also on this stream. So all of these dependencies need events.
      const bool chosen = program_.backward_queue >= 0 && stream.type == StreamType::kCompute;
      for (const std::vector<StreamStep>& steps : stream.steps) {
        for (const StreamStep& step : steps) Add(step, chosen);
      }
    }
  }

 private:
  void Add(const StreamStep& at, bool chosen) {
    PreparedAction& action = program_.actions[at.action];
    PreparedStep& step = action.steps[at.step];
    // For each event to wait for: the least distance in repetitions.
    std::map<int, int64_t> waits;
    const auto wait_for = [&](PreparedStep& other, int64_t distance) {
      if (other.stream == step.stream && !chosen) return;
      if (other.event < 0) other.event = program_.step_events++;
      if (other.stream == step.stream) return;
      const auto [known, is_new] = waits.try_emplace(other.event, distance);
      if (!is_new) known->second = std::min(known->second, distance);
    };
    for (const int dep : step.deps) wait_for(action.steps[dep], 0);
    if (at.first) {
      for (const PreparedDependency& dep : action.deps) {
        PreparedAction& target = program_.actions[dep.action];
        if (target.list != action.list) continue;
        for (const int last : target.last_steps) wait_for(target.steps[last], dep.distance);
        if (!dep.detached) continue;
        for (const int last : target.last_detached) wait_for(target.steps[last], dep.distance);
      }
    }
    for (const auto& [event, distance] : waits) {
      step.waits.push_back(event);
      step.wait_distances.push_back(distance);
    }
  }

  PreparedProgram& program_;
};

}  // namespace

void PrepareWaits(PreparedProgram& program) { Waits(program).Run(); }

}  // namespace weft::exec
