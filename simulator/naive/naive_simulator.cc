#include "simulator/naive/naive_simulator.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "simulator/naive/coordinates.h"
#include "simulator/naive/expansion.h"
#include "simulator/naive/run.h"

namespace weft::sim {
namespace naive {
namespace {

bool Writes(const Program& program, const Action& action, int buffer) {
  if (std::count(action.destinations().begin(), action.destinations().end(), buffer) > 0) return true;
  for (int k = 0; k < action.operands_size(); ++k) {
    if (action.operands(k) == buffer && program.segments(action.segment()).operands(k).access() != READ) return true;
  }
  return false;
}

// Returns the most bytes of device memory that are live on a rank at one time (rule P7). All steps must have their
// times. Lifetimes are half-open intervals of time.
int64_t LivePeak(const Expansion& expansion, int64_t rank) {
  const Template& t = TemplateOf(*expansion.program, rank);
  struct Life {
    int64_t from, to, bytes;
  };
  std::vector<Life> lives;
  int64_t persistent = 0;
  for (int b = 0; b < t.buffers_size(); ++b) {
    const Buffer& buffer = t.buffers(b);
    if (buffer.place() != DEVICE) continue;
    if (buffer.persistent()) {
      persistent += buffer.bytes();
      continue;
    }
    std::set<std::pair<int, int>> instances = {{kPrologue, 0}, {kEpilogue, 0}};
    for (int k = 0; k < expansion.repetitions; ++k) instances.insert({kBody, k});
    for (const auto& [list, repetition] : instances) {
      // Steps are in list order, so the loop finds the first writer first.
      int writer = -1;
      int64_t from = -1;
      int64_t to = -1;
      for (size_t i = 0; i < expansion.nodes.size(); ++i) {
        const NaiveStep& step = expansion.steps[i];
        if (step.rank != rank || step.list != list || step.repetition != repetition) continue;
        const Action& action = *expansion.nodes[i].action;
        if (writer < 0 && Writes(*expansion.program, action, b)) writer = action.id();
        if (action.id() == writer && (from < 0 || step.start < from)) from = step.start;
        if (std::count(action.releases().begin(), action.releases().end(), b) > 0 && !expansion.nodes[i].detached) {
          to = std::max(to, step.finish);
        }
      }
      if (from >= 0) lives.push_back({from, to, buffer.bytes()});
    }
  }
  int64_t peak = persistent;
  for (const Life& at : lives) {
    int64_t live = persistent;
    for (const Life& life : lives) {
      if (life.from <= at.from && at.from < life.to) live += life.bytes;
    }
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace
}  // namespace naive

NaiveResult SimulateNaively(const Program& program, const NaiveDurations& durations, const NaiveOptions& options) {
  naive::Expansion expansion = naive::Expand(program, durations, options.repetitions, options.exceeded);
  naive::ResolveWaits(expansion);
  naive::MatchPartners(expansion, durations);
  naive::RunSteps(expansion, durations.capacities, options);

  NaiveResult result;
  result.complete = true;
  for (size_t i = 0; i < expansion.nodes.size(); ++i) {
    const NaiveStep& step = expansion.steps[i];
    if (step.finish < 0) result.complete = false;
    result.makespan = std::max(result.makespan, step.finish);
    if (step.list == naive::kBody && !expansion.nodes[i].detached) {
      result.repetition_finish.resize(std::max<size_t>(result.repetition_finish.size(), step.repetition + 1));
      result.repetition_finish[step.repetition] = std::max(result.repetition_finish[step.repetition], step.finish);
    }
  }
  for (int64_t rank = 0; rank < naive::Ranks(program); ++rank) {
    result.live_peak.push_back(naive::LivePeak(expansion, rank));
  }
  result.steps = std::move(expansion.steps);
  return result;
}

}  // namespace weft::sim
