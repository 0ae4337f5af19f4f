#include "planner/search/space.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "schedules/pipeline/schedule.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Cluster SmallCluster(int nodes = 1) {
  return Parse<Cluster>(absl::StrCat("name: 'small' nodes: ", nodes, " devices_per_node: 4"));
}

SpaceOptions Options(const std::string& plan = "", int64_t batch = 8) {
  SpaceOptions options;
  options.plan = Parse<Plan>(plan);
  options.recipe.set_global_batch_sequences(batch);
  options.schedules = {"1f1b"};
  return options;
}

std::vector<std::string> AllSettings(const SpaceOptions& options, const Cluster& cluster) {
  const absl::StatusOr<Space> space = Space::Make(options, cluster);
  EXPECT_TRUE(space.ok()) << space.status();
  std::vector<std::string> all;
  space->ForEach([&](const ChoiceIndices& candidate, const Recipe& recipe, const Plan& plan) {
    all.push_back(space->SettingsOf(candidate));
    Recipe own_recipe;
    Plan own;
    space->Apply(candidate, &own_recipe, &own);
    EXPECT_EQ(own.SerializeAsString(), plan.SerializeAsString());
    EXPECT_EQ(own_recipe.SerializeAsString(), recipe.SerializeAsString());
  });
  return all;
}

TEST(Space, HoldsEveryPlanOnce) {
  const std::vector<std::string> all = AllSettings(Options(), SmallCluster());
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_GT(all.size(), 100);
}

TEST(Space, MeshesFillTheDevicesAndBatchesDivide) {
  const absl::StatusOr<Space> space = Space::Make(Options(), SmallCluster(4));
  ASSERT_TRUE(space.ok());
  int plans = 0;
  space->ForEach([&](const ChoiceIndices&, const Recipe& recipe, const Plan& plan) {
    EXPECT_EQ(MeshRanks(plan.mesh()), 16);
    EXPECT_EQ(8 % (AxisSize(plan.mesh(), "data") * recipe.microbatch_sequences()), 0);
    const int64_t tensor = AxisSize(plan.mesh(), "x") * AxisSize(plan.mesh(), "y") * AxisSize(plan.mesh(), "z");
    EXPECT_TRUE(4 % tensor == 0 || tensor == 8) << tensor;
    ++plans;
  });
  EXPECT_GT(plans, 100);
}

TEST(Space, FixedFieldsAreInEveryPlan) {
  EXPECT_THAT(AllSettings(Options("mesh { axes { name: 'x' size: 2 } axes { name: 'data' size: 1 } axes { name: 'pipe' "
                                  "size: 2 } } zero { stage: 1 } recompute { mode: FULL } sequence_parallel: true",
                                  2),
                          SmallCluster()),
              ElementsAre("x=2 pp=2 mbs=1 schedule=1f1b", "x=2 pp=2 mbs=2 schedule=1f1b"));
}

TEST(Space, AFixedOrderOfAxesStays) {
  for (const auto& plan :
       AllSettings(Options("mesh { axes { name: 'pipe' size: 2 } axes { name: 'data' size: 2 } }"), SmallCluster())) {
    EXPECT_EQ(plan.find("pp=2 dp=2"), 0) << plan;
  }
}

TEST(Space, DimensionsThatChangeNothingHaveOneChoice) {
  // One device: neither replicas nor stages nor tensor ranks.
  EXPECT_THAT(
      AllSettings(Options("", 1), Parse<Cluster>("name: 'one' nodes: 1 devices_per_node: 1")),
      ElementsAre("dp=1 mbs=1 recompute.mode=FIT", "dp=1 mbs=1 recompute.mode=SELECTIVE attention=MATERIALIZED"));
}

TEST(Space, ExcludedDimensionsKeepTheirDefaults) {
  SpaceOptions options = Options("", 1);
  options.excluded = {"recompute"};
  EXPECT_THAT(AllSettings(options, Parse<Cluster>("name: 'one' nodes: 1 devices_per_node: 1")),
              ElementsAre("dp=1 mbs=1"));
}

TEST(Space, UnderARuntimeThereAreNoOtherTensorAxes) {
  SpaceOptions options = Options();
  options.under_runtime = true;
  options.schedules.clear();
  for (const std::string& plan : AllSettings(options, SmallCluster())) {
    EXPECT_EQ(plan.find("y="), std::string::npos) << plan;
    EXPECT_EQ(plan.find("zb"), std::string::npos) << plan;
  }
}

TEST(Space, OffloadNeedsALinkToTheHost) {
  Cluster cluster = SmallCluster();
  const size_t without = AllSettings(Options(), cluster).size();
  cluster.mutable_host()->set_bytes_per_second(1e9);
  EXPECT_EQ(AllSettings(Options(), cluster).size(), 2 * without);
}

// A schedule whose number of stages per rank is fixed has one choice.
TEST(Space, OnlySchedulesWithAnyNumberOfStagesHaveThemAsChoices) {
  std::map<std::string, size_t> choices;
  for (const ScheduleEntry& entry : Schedules()) {
    SpaceOptions options = Options();
    options.schedules = {std::string(entry.name)};
    const absl::StatusOr<Space> space = Space::Make(options, SmallCluster());
    if (!space.ok()) continue;
    for (const Dimension& dimension : space->dimensions()) {
      if (dimension.name == "schedule") choices[options.schedules[0]] = dimension.choices.size();
    }
  }
  for (const char* name : {"interleaved", "interleaved-zb", "looped-bfs"}) EXPECT_EQ(choices[name], 8) << name;
  for (const char* name : {"zb-v", "v-half", "v-min", "dualpipev", "1f1b"}) EXPECT_EQ(choices[name], 1) << name;
}

std::string ErrorOf(const SpaceOptions& options) {
  return std::string(Space::Make(options, SmallCluster()).status().message());
}

TEST(Space, RefusesWhatItCannotSearch) {
  SpaceOptions options = Options();
  options.devices = 5;
  EXPECT_THAT(ErrorOf(options), HasSubstr("the search is for 5 devices; cluster 'small' has 4"));
  options = Options("mesh { axes { name: 'x' size: 3 } }");
  EXPECT_THAT(ErrorOf(options), HasSubstr("no mesh of 4 devices has the axes that plan.mesh fixes"));
  options = Options();
  options.excluded = {"mash"};
  EXPECT_THAT(ErrorOf(options), HasSubstr("no dimension is called 'mash'; known: mesh, microbatch"));
  options = Options();
  options.schedules = {"1f2b"};
  EXPECT_THAT(ErrorOf(options), HasSubstr("1f2b"));
}

}  // namespace
}  // namespace weft::planner
