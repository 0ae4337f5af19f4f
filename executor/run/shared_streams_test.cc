// Program streams that share a device's streams give the same results as on the host, whatever legal order the device
// picks.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/testing/deferred_device.h"
#include "executor/testing/device_ranks.h"
#include "executor/testing/test_pipeline.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/random_program.h"

namespace weft::exec {
namespace {

TEST(SharedStreamsTest, RandomProgramsEndAsOnTheHost) {
  RandomProgramOptions options = RunnablePrograms();
  options.collectives = true;
  RanksOptions run;
  run.interpreter.timeout = std::chrono::seconds(30);
  run.interpreter.check_finite = false;
  run.bodies = {3};
  for (uint64_t seed = 500; seed < 540; ++seed) {
    const Program program = RandomProgram(seed, options);
    const int ranks = static_cast<int>(MeshRanks(program.mesh()));
    run.on = RanksOn::kHost;
    run.device = nullptr;
    const std::vector<std::string> expected = OutcomeOn(program, run);
    run.on = RanksOn::kSharedDevice;
    for (const int streams : {1, 2, 4}) {
      run.device = [&](int) { return std::make_unique<DeferredDevice>(seed, streams * ranks); };
      EXPECT_TRUE(OutcomeOn(program, run) == expected)
          << "seed " << seed << ", " << streams << " streams for each rank";
      if (HasFailure()) return;
    }
  }
}

// Four streams of each rank are in use, and the trace names them.
TEST(SharedStreamsTest, TheTraceSaysWhichAreShared) {
  const TestPipeline pipeline = {.ranks = 4, .microbatches = 6};
  const Program program = TestPipelineProgram(pipeline);
  RanksOptions run;
  run.on = RanksOn::kSharedDevice;
  run.device = [](int) { return std::make_unique<DeferredDevice>(7, 16); };
  run.backend = [](int) { return std::make_unique<AddingBackend>(); };
  run.interpreter.trace_repetitions = 1;
  const auto results = RunRanksOn(program, run);
  std::set<std::string> shared;
  for (const auto& rank : results) {
    ASSERT_TRUE(rank.ok()) << rank.status();
    for (const std::string& name : rank->trace.streams()) {
      const size_t at = name.find(" (device stream ");
      EXPECT_EQ(at == std::string::npos, name == "compute") << name;
      if (at != std::string::npos) shared.insert(name.substr(at));
    }
  }
  EXPECT_EQ(results[0]->steps.back().loss, TestPipelineLoss(pipeline, 0, results[0]->steps.back().step));
  // The sends and the receives of each rank.
  EXPECT_EQ(shared.size(), 8u);
}

}  // namespace
}  // namespace weft::exec
