#include "planner/search/try_candidate.h"

#include <string>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gtest/gtest.h"
#include "planner/search/search.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

// Each rank has several stages and holds another number of microbatches of each.
TEST(TryCandidate, RecomputesNoMoreThanTheCompiler) {
  const ModelGraph model = *LoadModel("gpt2");
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  SearchOptions options;
  options.space.recipe.set_sequence_length(1024);
  options.space.recipe.set_global_batch_sequences(4);
  options.space.recipe.set_microbatch_sequences(1);
  options.space.plan = Parse<Plan>(
      "mesh { axes { name: 'pipe' size: 2 } } schedule { name: 'interleaved' virtual_stages: 6 } "
      "recompute { mode: FIT } offload {}");
  options.space.devices = 2;
  options.cost = "roofline";
  options.threads = 1;
  int recomputed = 0;
  for (const int64_t mib : {1900, 1700, 1500, 1300}) {
    options.memory_bytes = mib << 20;
    const absl::StatusOr<SearchResult> result = Search(model, cluster, options);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->space, 1);
    Cluster limited = cluster;
    limited.mutable_device()->set_memory_bytes(options.memory_bytes + cluster.device().reserved_bytes());
    const SearchContext context = {.model = model,
                                   .cluster = limited,
                                   .cost = "roofline",
                                   .network = "analytic",
                                   .capacity = options.memory_bytes};
    FoundPlan asked;
    asked.recipe = options.space.recipe;
    asked.recipe.set_microbatch_sequences(1);
    asked.plan = options.space.plan;
    const TriedPlan chosen = TryAsItIs(context, asked);
    ASSERT_TRUE(chosen.status.ok()) << chosen.status;
    EXPECT_EQ(chosen.fits, !result->plans.empty()) << mib << " " << chosen.found.device_bytes;
    if (!chosen.fits || result->plans.empty()) continue;
    const FoundPlan& found = result->plans.front();
    EXPECT_LE(found.plan.recompute().layers_size(), chosen.found.plan.recompute().layers_size()) << mib;
    EXPECT_LE(found.report.iteration_seconds(), chosen.found.report.iteration_seconds()) << mib;
    recomputed += found.plan.recompute().layers_size() > 0 ? 1 : 0;
  }
  EXPECT_GT(recomputed, 1);
}

}  // namespace
}  // namespace weft::planner
