#include "planner/fit/fit.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "planner/fit/fewest_devices.h"
#include "proto/io/json.h"
#include "proto/io/set_field.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

// A model on a cluster of 2 nodes with 4 devices of `memory` bytes each.
struct Given {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;

  Given(const std::string& name, const std::string& settings, int64_t memory)
      : model(*LoadModel(name)), cluster(*LoadCluster("dgx-a100-80g")) {
    cluster.set_nodes(2);
    cluster.set_devices_per_node(4);
    cluster.mutable_device()->set_memory_bytes(memory);
    cluster.mutable_device()->set_reserved_bytes(0);
    Apply(settings);
  }
  void Apply(const std::string& settings) {
    for (const std::string& setting : std::vector<std::string>(absl::StrSplit(settings, ' ', absl::SkipEmpty()))) {
      if (setting == "--set") continue;
      const absl::Status applied = ApplySetting(setting, &recipe, &plan);
      EXPECT_TRUE(applied.ok()) << applied;
    }
  }
  FitOptions Options() const { return {.model = model, .recipe = recipe, .plan = plan, .cluster = cluster}; }
  absl::StatusOr<Program> Compile() const {
    CompileOptions options;
    options.remedies = false;
    return CompilePlan(model, recipe, plan, cluster, options);
  }
};

TEST(Fit, EveryRemedyFits) {
  int found = 0;
  for (const char* settings :
       {"gbs=64 mbs=8 dp=2", "gbs=32 mbs=4 pp=2", "gbs=32 mbs=8 tp=2 dp=2", "gbs=16 mbs=1 dp=4"}) {
    const Given wide("gpt2-tiny", absl::StrCat("seq=64 ", settings), int64_t{1} << 40);
    const absl::StatusOr<FitReport> all = Fit(wide.Options());
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_TRUE(all->fits());
    const int64_t needed = all->stages(0).planned_bytes();
    for (const int percent : {95, 70, 45}) {
      const Given tight("gpt2-tiny", absl::StrCat("seq=64 ", settings), needed * percent / 100);
      const absl::StatusOr<FitReport> report = Fit(tight.Options());
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_FALSE(report->fits());
      EXPECT_LT(report->headroom_bytes(), 0);
      EXPECT_EQ(report->relaxations_size(), 0);
      for (const FitChange& remedy : report->remedies()) {
        Given changed = tight;
        changed.Apply(remedy.settings());
        const absl::StatusOr<Program> program = changed.Compile();
        EXPECT_TRUE(program.ok()) << settings << " " << remedy.settings() << ": " << program.status();
        EXPECT_LE(remedy.bytes(), needed * percent / 100) << remedy.settings();
        ++found;
      }
    }
  }
  EXPECT_GT(found, 20);
}

TEST(Fit, EveryRelaxationFits) {
  const Given given("gpt2-tiny", "seq=64 gbs=64 mbs=2 dp=4 zero.stage=3 recompute.mode=FULL", 20'000'000);
  const absl::StatusOr<FitReport> report = Fit(given.Options());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->fits());
  std::vector<std::string> settings;
  for (const FitChange& change : report->relaxations()) {
    Given changed = given;
    changed.Apply(change.settings());
    EXPECT_TRUE(changed.Compile().ok()) << change.settings();
    settings.push_back(change.settings());
  }
  EXPECT_THAT(settings, testing::Contains("--set recompute.mode=NONE"));
  EXPECT_THAT(settings, testing::Contains("--set mbs=4"));
}

TEST(Fit, RanksThatAreAlikeAreOneRow) {
  const Given given("gpt2-tiny", "seq=64 gbs=32 dp=2 tp=2 pp=2", int64_t{1} << 40);
  const absl::StatusOr<FitReport> report = Fit(given.Options());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->stages_size(), 2);
  EXPECT_EQ(report->stages(0).ranks(), "0-3");
  EXPECT_EQ(report->stages(1).ranks(), "4-7");
  EXPECT_EQ(report->stages(1).rank_count(), 4);
  EXPECT_THAT(FitReportText(*report), HasSubstr("ranks 4-7  stage 1"));
}

TEST(Fit, DevicesWithLessMemoryHaveRowsOfTheirOwn) {
  Given given("gpt2-tiny", "seq=64 gbs=32 dp=2 pp=2", int64_t{1} << 40);
  OtherDevices* other = given.cluster.add_other_devices();
  other->add_devices(1);
  *other->mutable_device() = given.cluster.device();
  other->mutable_device()->set_memory_bytes(1'000'000);
  const absl::StatusOr<FitReport> report = Fit(given.Options());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->stages_size(), 3);
  EXPECT_EQ(report->stages(1).ranks(), "1");
  EXPECT_FALSE(report->stages(1).fits());
  EXPECT_TRUE(report->stages(2).fits());
  EXPECT_FALSE(report->fits());
}

TEST(Fit, JsonHasEveryField) {
  const Given given("gpt2-tiny", "seq=64 gbs=32 dp=2", int64_t{1} << 40);
  const absl::StatusOr<FitReport> report = Fit(given.Options());
  ASSERT_TRUE(report.ok()) << report.status();
  const std::string json = *MessageToJson(*report);
  for (const char* field : {"schema_version", "runtime", "model", "cluster", "devices", "fits", "basis", "stages",
                            "ranks", "classes", "parameters_bytes", "gaps_bytes", "planned_bytes", "reserve_bytes",
                            "capacity_bytes", "headroom_bytes", "remedies", "relaxations", "fewest"}) {
    EXPECT_THAT(json, HasSubstr(absl::StrCat("\"", field, "\":"))) << field;
  }
}

TEST(FewestDevices, TheirPlanCompilesAndOneNodeLessDoesNotFit) {
  const Given given("gpt2-tiny", "seq=64 gbs=64", 3'000'000);
  const absl::StatusOr<FewestDevices> fewest = FewestThatFit(given.Options());
  ASSERT_TRUE(fewest.ok()) << fewest.status();
  EXPECT_GT(fewest->devices(), 1);
  Given found = given;
  found.plan = fewest->plan();
  found.recipe.set_microbatch_sequences(fewest->microbatch_sequences());
  const absl::StatusOr<Program> program = found.Compile();
  EXPECT_TRUE(program.ok()) << program.status();
  Given again = given;
  again.Apply(fewest->settings());
  EXPECT_EQ(again.plan.SerializeAsString(), found.plan.SerializeAsString());
}

TEST(FewestDevices, KeepWhatThePlanStates) {
  const Given given("gpt2-tiny", "seq=64 gbs=64 tp=2 zero.stage=0 recompute.mode=NONE", int64_t{1} << 40);
  const absl::StatusOr<FewestDevices> fewest = FewestThatFit(given.Options());
  ASSERT_TRUE(fewest.ok()) << fewest.status();
  EXPECT_EQ(fewest->devices(), 2);
  EXPECT_FALSE(absl::StrContains(fewest->settings(), "tp="));
}

TEST(FewestDevices, NothingFits) {
  const Given given("gpt2-tiny", "seq=64 gbs=64", 100'000);
  const absl::Status status = FewestThatFit(given.Options()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the nearest plan is on"));
}

TEST(FewestDevices, PartsOfAClusterAreOfOneNodeOrWholeNodes) {
  const Cluster cluster = *LoadCluster("dgx-h100");
  EXPECT_EQ(PartOfCluster(cluster, 4)->nodes(), 1);
  EXPECT_EQ(PartOfCluster(cluster, 24)->nodes(), 3);
  EXPECT_THAT(std::string(PartOfCluster(cluster, 12).status().message()), HasSubstr("nearest: 8, 16"));
  EXPECT_THAT(std::string(PartOfCluster(cluster, 1 << 20).status().message()), HasSubstr("nearest: "));
}

}  // namespace
}  // namespace weft::planner
