#include "planner/plan_figures_testing.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "simulator/simulate.h"

namespace weft::planner {

double SecondsOf(const Program& program, const Cluster& cluster) {
  const auto simulation = sim::Simulate(program, cluster, {});
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation.ok() ? simulation->report.iteration_seconds() : 0;
}

int64_t HighestArena(const Program& program) {
  int64_t highest = 0;
  for (const Program* part : {&program, &program.evaluation()}) {
    for (const Template& t : part->templates()) highest = std::max(highest, t.device_arena_bytes());
  }
  return highest;
}

}  // namespace weft::planner
