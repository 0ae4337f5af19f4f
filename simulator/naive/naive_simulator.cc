#include "simulator/naive/naive_simulator.h"

#include <algorithm>
#include <utility>

#include "simulator/naive/coordinates.h"
#include "simulator/naive/expansion.h"
#include "simulator/naive/live_peak.h"
#include "simulator/naive/run.h"

namespace weft::sim {

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
