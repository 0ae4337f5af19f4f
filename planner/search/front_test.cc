#include "planner/search/front.h"

#include <string>
#include <vector>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SearchOptions SmallSearch() {
  SearchOptions options;
  options.space.recipe.set_global_batch_sequences(4);
  options.space.recipe.set_sequence_length(64);
  options.space.schedules = {"1f1b"};
  options.space.excluded = {"offload", "recompute"};
  options.cost = "roofline";
  options.gap = 0;
  options.threads = 2;
  return options;
}

absl::StatusOr<Front> SearchCounts(const Cluster& cluster, const std::vector<int64_t>& counts,
                                   const std::string& objective) {
  return SearchDevices(*LoadModel("gpt2-tiny"), cluster, SmallSearch(), counts, **FindObjective(objective));
}

TEST(Front, CountsDoubleUpToTheLast) {
  EXPECT_THAT(DeviceCounts(64, 512), ElementsAre(64, 128, 256, 512));
  EXPECT_THAT(DeviceCounts(3, 10), ElementsAre(3, 6, 10));
  EXPECT_THAT(DeviceCounts(8, 8), ElementsAre(8));
}

TEST(Front, EachPointIsTheSearchForItsDevices) {
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  const absl::StatusOr<Front> front = SearchCounts(cluster, {1, 2}, "time");
  ASSERT_TRUE(front.ok()) << front.status();
  ASSERT_EQ(front->points.size(), 2);
  for (const FrontPoint& point : front->points) {
    SearchOptions alone = SmallSearch();
    alone.space.devices = point.devices;
    const absl::StatusOr<SearchResult> result = Search(*LoadModel("gpt2-tiny"), cluster, alone);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(point.result.plans[0].settings, result->plans[0].settings);
    EXPECT_EQ(point.cost, result->plans[0].report.iteration_seconds());
  }
  EXPECT_EQ(front->best, front->points[1].cost < front->points[0].cost ? 1 : 0);
}

// On one device a tiny model takes less than twice as long as on two, so one device costs less and takes less energy.
TEST(Front, DollarsAndEnergyCountDevices) {
  Cluster cluster = *LoadCluster("dgx-a100-80g");
  cluster.set_dollars_per_device_hour(3.6);
  cluster.set_watts_per_device(500);
  for (const auto& [objective, of_device_second] :
       {std::pair<std::string, double>{"dollars", 0.001}, {"energy", 500}}) {
    const absl::StatusOr<Front> front = SearchCounts(cluster, {1, 2}, objective);
    ASSERT_TRUE(front.ok()) << front.status();
    for (const FrontPoint& point : front->points) {
      const double seconds = point.result.plans[0].report.iteration_seconds();
      EXPECT_NEAR(point.cost, of_device_second * static_cast<double>(point.devices) * seconds, 1e-9 * point.cost);
    }
    EXPECT_EQ(front->best, 0) << objective;
  }
}

// Interruptions make an iteration longer, more so on more devices.
TEST(Front, GoodputCountsInterruptions) {
  Cluster cluster = *LoadCluster("dgx-h100");
  cluster.mutable_reliability()->set_failures_per_device_year(1000);
  const absl::StatusOr<Front> front = SearchCounts(cluster, {1, 8}, "goodput");
  ASSERT_TRUE(front.ok()) << front.status();
  std::vector<double> longer;
  for (const FrontPoint& point : front->points) {
    longer.push_back(point.cost / point.result.plans[0].report.iteration_seconds());
  }
  EXPECT_GT(longer[0], 1);
  EXPECT_GT(longer[1], longer[0]);
}

TEST(Front, AClusterMustStateWhatIsCompared) {
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  const auto error = [&](const std::string& objective) {
    return std::string(SearchCounts(cluster, {1}, objective).status().message());
  };
  EXPECT_THAT(error("dollars"), HasSubstr("dollars_per_device_hour"));
  EXPECT_THAT(error("energy"), HasSubstr("watts_per_device"));
  EXPECT_THAT(error("goodput"), HasSubstr("reliability"));
  EXPECT_THAT(std::string(FindObjective("speed").status().message()), HasSubstr("time, dollars, energy, goodput"));
}

TEST(Front, NumbersOfDevicesWithoutAPlanAreNamed) {
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  const absl::StatusOr<Front> front = SearchCounts(cluster, {2, 2000}, "time");
  ASSERT_TRUE(front.ok()) << front.status();
  EXPECT_EQ(front->best, 0);
  EXPECT_TRUE(front->points[1].result.plans.empty());
  EXPECT_THAT(front->points[1].result.refusal, HasSubstr("has 1024"));
  EXPECT_THAT(std::string(SearchCounts(cluster, {2000}, "time").status().message()), HasSubstr("has 1024"));
}

TEST(Front, SearchesShareABudget) {
  SearchOptions options = SmallSearch();
  options.space.recipe.set_global_batch_sequences(64);
  options.space.schedules.clear();
  options.exhaustive = true;
  options.budget_seconds = 8;
  // The first search alone would take much longer.
  const absl::StatusOr<Front> front =
      SearchDevices(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), options, {8, 1}, **FindObjective("time"));
  ASSERT_TRUE(front.ok()) << front.status();
  EXPECT_TRUE(front->points[0].result.stopped);
  EXPECT_FALSE(front->points[1].result.plans.empty());
}

TEST(Front, LessMemoryIsNeverFaster) {
  SearchOptions options = SmallSearch();
  options.space.devices = 2;
  const absl::StatusOr<Front> front =
      SearchMemoryLimits(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), options, **FindObjective("time"));
  ASSERT_TRUE(front.ok()) << front.status();
  ASSERT_GT(front->points.size(), 1);
  EXPECT_EQ(front->best, 0);
  for (size_t i = 0; i < front->points.size(); ++i) {
    const FrontPoint& point = front->points[i];
    ASSERT_FALSE(point.result.plans.empty());
    EXPECT_LE(point.result.plans[0].device_bytes, point.memory_bytes);
    if (i == 0) continue;
    EXPECT_LT(point.memory_bytes, front->points[i - 1].result.plans[0].device_bytes);
    EXPECT_GE(point.cost, front->points[i - 1].cost);
  }
}

}  // namespace
}  // namespace weft::planner
