// `weft simulate` and the oracle agree to the picosecond: random programs on machines that are symmetric, nearly
// symmetric or degraded; on every network; with and without load, folding and compute slots.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "simulator/naive/naive_simulator.h"
#include "simulator/network/network_model.h"
#include "simulator/simulate.h"
#include "simulator/testing/cluster_oracle.h"
#include "simulator/testing/random_cluster.h"
#include "tests/random_program.h"

// The exhaustive test variant uses more seeds.
#ifndef WEFT_SEEDS
#define WEFT_SEEDS 120
#endif

namespace weft::sim {
namespace {

constexpr uint64_t kSeeds = WEFT_SEEDS;

// (rank, repetition, action id, step) -> (ready, start, end, finish). An action id appears in one list of a template
// only.
using Times = std::map<std::tuple<int64_t, int, int, int>, std::tuple<int64_t, int64_t, int64_t, int64_t>>;

Times TracedTimes(const Trace& trace) {
  Times times;
  for (const RankTrace& rank : trace.ranks()) {
    for (const TraceEvent& event : rank.events()) {
      const bool inserted = times
                                .insert({{rank.rank(), event.repetition(), event.action(), event.step()},
                                         {event.ready_ps(), event.start_ps(), event.end_ps(), event.finish_ps()}})
                                .second;
      EXPECT_TRUE(inserted) << "a step was run twice";
    }
  }
  return times;
}

Times NaiveTimes(const NaiveResult& result) {
  Times times;
  for (const NaiveStep& step : result.steps) {
    times[{step.rank, step.repetition, step.action_id, step.step}] = {step.ready, step.start, step.end, step.finish};
  }
  return times;
}

std::string Named(Wear wear) {
  return wear == Wear::kSymmetric ? "symmetric" : wear == Wear::kNearly ? "nearly symmetric" : "degraded";
}

Program ProgramOf(uint64_t seed) {
  const RandomProgramOptions options = {.max_pipe = 3,
                                        .max_data = 3,
                                        .events = 10,
                                        .schedules = seed % 2 == 0,
                                        .collectives = seed % 4 < 2,
                                        .max_ranks = 8};
  return RandomProgram(seed, options);
}

class ClusterAgreement : public testing::TestWithParam<Wear> {};

TEST_P(ClusterAgreement, SimulateIsTheOracle) {
  // For each network, the number of programs in which folding spared the simulation of some rank.
  std::map<std::string, int> folded;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Program program = ProgramOf(seed);
    const int64_t ranks = MeshRanks(program.mesh());
    const bool load = seed % 8 < 4;
    const Cluster cluster = RandomCluster(seed, ranks, GetParam(), load);
    const int repetitions = 1 + static_cast<int>(seed % 2);
    for (const NetworkModelEntry& entry : NetworkModels()) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << Named(GetParam()) << ", network " << entry.name);
      const std::unique_ptr<NetworkModel> network = entry.make(program.mesh(), cluster);
      const NaiveResult naive = SimulateNaively(program, ClusterDurations(program, cluster, "roofline", *network),
                                                ClusterOptions(program, cluster, repetitions));
      ASSERT_TRUE(naive.complete);
      for (const bool fold : {true, false}) {
        SimulateOptions options;
        options.network = std::string(entry.name);
        options.trace = true;
        options.trace_repetitions = repetitions;
        options.fold = fold;
        const absl::StatusOr<Simulation> simulation = Simulate(program, cluster, options);
        ASSERT_TRUE(simulation.ok()) << simulation.status() << cluster.DebugString();
        EXPECT_EQ(TracedTimes(*simulation->trace), NaiveTimes(naive)) << "folding " << fold;
        if (repetitions == 1) {
          EXPECT_EQ(simulation->report.makespan_seconds(), ToSeconds(Time{naive.makespan}));
          for (int64_t rank = 0; rank < ranks; ++rank) {
            EXPECT_GE(simulation->report.per_rank(static_cast<int>(rank)).live_peak_bytes(), naive.live_peak[rank]);
          }
        }
        if (fold) folded[options.network] += simulation->report.simulated_ranks() < ranks;
        if (!fold) {
          EXPECT_EQ(simulation->report.simulated_ranks(), ranks);
        }
        if (HasFailure()) {
          ADD_FAILURE() << cluster.DebugString();
          return;
        }
      }
    }
  }
  // Folding happens often enough to be tested.
  if (GetParam() == Wear::kSymmetric) {
    EXPECT_GT(folded["analytic"], static_cast<int>(kSeeds / 8));
    EXPECT_GT(folded["flow"], static_cast<int>(kSeeds / 12));
  }
}

INSTANTIATE_TEST_SUITE_P(Wears, ClusterAgreement, testing::Values(Wear::kSymmetric, Wear::kNearly, Wear::kDegraded),
                         [](const testing::TestParamInfo<Wear>& info) {
                           return info.param == Wear::kSymmetric ? "Symmetric"
                                  : info.param == Wear::kNearly  ? "Nearly"
                                                                 : "Degraded";
                         });

}  // namespace
}  // namespace weft::sim
