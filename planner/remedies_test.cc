#include "planner/remedies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/set_field.h"
#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

Plan PlanOf(int64_t pipe, int64_t data, const std::string& schedule) {
  Plan plan;
  for (const auto& [name, size] : {std::pair("data", data), std::pair("pipe", pipe)}) {
    MeshAxis& axis = *plan.mutable_mesh()->add_axes();
    axis.set_name(name);
    axis.set_size(size);
  }
  plan.mutable_schedule()->set_name(schedule);
  return plan;
}

Recipe RecipeOf(int64_t microbatch) {
  Recipe recipe;
  recipe.set_microbatch_sequences(microbatch);
  return recipe;
}

Cluster ClusterOf(int64_t devices) {
  Cluster cluster;
  cluster.set_nodes(1);
  cluster.set_devices_per_node(devices);
  return cluster;
}

// A stand-in for the compiler: a plan needs 600 bytes of states, and 400 bytes of activations for 4 sequences. Both are
// divided by the ranks of a replica.
TriedBytes Bytes(const Recipe& recipe, const Plan& plan) {
  const int64_t ranks = AxisSize(plan.mesh(), "pipe") * AxisSize(plan.mesh(), "x");
  const int64_t kept = plan.schedule().name() == "gpipe" ? 2 : 1;
  const int64_t activations = plan.recompute().mode() == Recompute::NONE ? 400 : 100;
  if (plan.zero().stage() > 0) return TryOutcome::kRefused;
  return (600 + kept * activations * std::max<int64_t>(1, recipe.microbatch_sequences()) / 4) / ranks;
}

// Checks that the flags of every remedy give the bytes that it states, and that it fits.
void ExpectTrue(const Remedies& remedies, const Recipe& recipe, const Plan& plan, int64_t capacity,
                const TryPlan& bytes = Bytes) {
  for (const Remedy& remedy : remedies.found) {
    Recipe changed = recipe;
    Plan changed_plan = plan;
    for (absl::string_view setting : absl::StrSplit(absl::StripPrefix(remedy.change, "--set "), " --set ")) {
      ASSERT_TRUE(ApplySetting(setting, &changed, &changed_plan).ok()) << remedy.change;
    }
    EXPECT_EQ(bytes(changed, changed_plan), TriedBytes(remedy.planned_bytes)) << remedy.change;
    EXPECT_LE(remedy.planned_bytes, capacity);
  }
}

TEST(FindRemedies, GivesWhatFits) {
  const Recipe recipe = RecipeOf(4);
  const Plan plan = PlanOf(1, 2, "gpipe");
  // The plan needs 1400 bytes without changes.
  const auto remedies = FindRemedies(recipe, plan, ClusterOf(2), 8, 1000, {false, 1000}, 3, Bytes);
  ASSERT_EQ(remedies.found.size(), 3u);
  EXPECT_EQ(remedies.found[0].change, "--set recompute.mode=FIT");
  EXPECT_EQ(remedies.found[1].change, "--set schedule=1f1b");
  EXPECT_EQ(remedies.found[2].change, "--set mbs=2");
  ExpectTrue(remedies, recipe, plan, 1000);
  EXPECT_EQ(DescribeRemedies(remedies),
            "it fits with --set recompute.mode=FIT (800 B), or with --set schedule=1f1b (1000 B), or with --set mbs=2 "
            "(1000 B)");
}

TEST(FindRemedies, GivesUpWhatZeroKeeps) {
  Plan plan = PlanOf(1, 2, "1f1b");
  plan.mutable_zero()->set_stage(3);
  plan.mutable_zero()->set_reshard(Zero::NEVER);
  const auto bytes = [](const Recipe&, const Plan& tried) -> TriedBytes {
    return tried.zero().reshard() == Zero::BY_BENEFIT ? 400 : 900;
  };
  auto remedies = FindRemedies(RecipeOf(4), plan, ClusterOf(2), 8, 1000, {false, 500}, 1, bytes);
  ASSERT_EQ(remedies.found.size(), 1u);
  EXPECT_EQ(remedies.found[0].change, "--set zero.reshard=BY_BENEFIT");
  // With mode LAYERS, the flag would change the mode but leave the list of layers in the plan, so weft does not propose
  // it.
  plan.mutable_zero()->set_reshard(Zero::LAYERS);
  EXPECT_TRUE(FindRemedies(RecipeOf(4), plan, ClusterOf(2), 8, 1000, {false, 500}, 1, bytes).found.empty());
}

TEST(FindRemedies, TradesReplicasAndJoinsChanges) {
  const Recipe recipe = RecipeOf(4);
  const Plan plan = PlanOf(1, 2, "1f1b");
  // The capacity is below the states of one rank, so a replica needs two ranks. For the second capacity it needs
  // recompute too.
  auto remedies = FindRemedies(recipe, plan, ClusterOf(2), 8, 1000, {false, 500}, 2, Bytes);
  ASSERT_EQ(remedies.found.size(), 2u);
  EXPECT_EQ(remedies.found[0].change, "--set pp=2 --set dp=1");
  EXPECT_EQ(remedies.found[1].change, "--set tp=2 --set dp=1");
  ExpectTrue(remedies, recipe, plan, 500);
  remedies = FindRemedies(recipe, plan, ClusterOf(2), 8, 1000, {false, 350}, 2, Bytes);
  ASSERT_EQ(remedies.found.size(), 2u);
  EXPECT_EQ(remedies.found[0].change, "--set recompute.mode=FULL --set pp=2 --set dp=1");
  ExpectTrue(remedies, recipe, plan, 350);
}

// The plan has 1600 bytes of states, and 800 of activations per sequence.
TEST(FindRemedies, JoinsAsManyChangesAsItTakes) {
  Cluster cluster = ClusterOf(8);
  cluster.mutable_host()->set_bytes_per_second(1e10);
  Plan plan = PlanOf(1, 8, "1f1b");
  Recipe recipe = RecipeOf(1);
  const auto bytes = [](const Recipe& r, const Plan& p) -> TriedBytes {
    if (AxisSize(p.mesh(), "pipe") * AxisSize(p.mesh(), "x") > 1) return TryOutcome::kRefused;
    const int64_t states = p.offload().optimizer() ? 400 : 1600;
    const int64_t activations = p.recompute().mode() == Recompute::FULL  ? 100
                                : p.recompute().mode() == Recompute::FIT ? 110
                                                                         : 800;
    return states / (p.zero().stage() > 0 ? 2 << p.zero().stage() : 1) + activations * r.microbatch_sequences();
  };
  const auto first = [&](int64_t capacity) {
    const Remedies remedies = FindRemedies(recipe, plan, cluster, 8, 1000, {false, capacity}, 3, bytes);
    ExpectTrue(remedies, recipe, plan, capacity, bytes);
    EXPECT_LE(remedies.tried.size(), static_cast<size_t>(kMaxTries));
    return DescribeRemedies(remedies);
  };
  // With ZeRO stage 2 the plan needs 150 bytes, or 160 with the gentler recompute.
  EXPECT_EQ(first(155),
            "it fits with --set offload.optimizer=true --set recompute.mode=FULL --set zero.stage=2 (150 B)");
  EXPECT_EQ(first(160),
            "it fits with --set offload.optimizer=true --set recompute.mode=FIT --set zero.stage=2 (160 B)");
  // All changes are needed.
  EXPECT_EQ(first(125),
            "it fits with --set offload.optimizer=true --set recompute.mode=FULL --set zero.stage=3 (125 B)");
  EXPECT_EQ(first(124),
            "no change of recompute, microbatches, ZeRO, offload or mesh that weft tried makes it fit, nor do all "
            "compatible changes together");
  // The search drops the most expensive change first.
  recipe = RecipeOf(60);
  EXPECT_EQ(first(750), "it fits with --set recompute.mode=FIT --set zero.stage=1 --set mbs=3 (730 B)");
}

TEST(FindRemedies, TakesTheLargestMicrobatchThatFits) {
  const auto bytes = [](const Recipe& recipe, const Plan&) -> TriedBytes { return 10 * recipe.microbatch_sequences(); };
  const auto described = [&](int64_t capacity) {
    return DescribeRemedies(
        FindRemedies(RecipeOf(1000), PlanOf(1, 1, "1f1b"), ClusterOf(1), 1, 1000, {false, capacity}, 3, bytes));
  };
  EXPECT_EQ(described(500), "it fits with --set mbs=50 (500 B)");
  EXPECT_EQ(described(499), "it fits with --set mbs=40 (400 B)");
  EXPECT_EQ(described(19), "it fits with --set mbs=1 (10 B)");
  EXPECT_THAT(described(9), testing::HasSubstr("nor do all compatible changes together"));
}

// `--set tp=N` would remove the axes y and z.
TEST(FindRemedies, KeepsOtherTensorAxes) {
  Plan plan = PlanOf(1, 2, "1f1b");
  MeshAxis& z = *plan.mutable_mesh()->add_axes();
  z.set_name("z");
  z.set_size(2);
  const Recipe recipe = RecipeOf(4);
  const auto remedies = FindRemedies(recipe, plan, ClusterOf(4), 8, 1000, {false, 500}, 2, Bytes);
  ASSERT_EQ(remedies.found.size(), 2u);
  EXPECT_EQ(remedies.found[1].change, "--set x=2 --set dp=1");
  ExpectTrue(remedies, recipe, plan, 500);
}

// A stand-in for the compiler: returns bytes on the host, 600 of states and 400 of activations.
TriedBytes HostBytes(const Recipe&, const Plan& plan) {
  const Offload& offload = plan.offload();
  if (!offload.optimizer() && offload.bucket_elements() + offload.buckets_per_reduce() > 0) {
    return TryOutcome::kRefused;
  }
  return (offload.optimizer() ? 600 : 0) + (offload.activation_layers() > 0 ? 400 : 0);
}

TEST(FindRemedies, KeepsOnTheDeviceWhatTheHostLacks) {
  Cluster cluster = ClusterOf(2);
  cluster.mutable_host()->set_bytes_per_second(1e10);
  Plan plan = PlanOf(2, 1, "1f1b");
  plan.mutable_offload()->set_optimizer(true);
  plan.mutable_offload()->set_bucket_elements(1000);
  plan.mutable_offload()->set_activation_layers(2);
  const auto described = [&](int64_t capacity) {
    return DescribeRemedies(FindRemedies(RecipeOf(1), plan, cluster, 8, 1000, {true, capacity}, 3, HostBytes));
  };
  EXPECT_EQ(described(999), "it fits with --set offload.activation_layers=0 (600 B)");
  EXPECT_EQ(described(500), "it fits with --set offload.optimizer=false --set offload.bucket_elements=default (400 B)");
  EXPECT_EQ(described(300),
            "it fits with --set offload.optimizer=false --set offload.bucket_elements=default --set "
            "offload.activation_layers=0 (0 B)");
  EXPECT_THAT(described(-1), testing::HasSubstr("no change"));
}

TEST(FindRemedies, MakesBucketsSmaller) {
  Plan plan = PlanOf(2, 2, "1f1b");
  plan.mutable_offload()->set_optimizer(true);
  const auto bytes = [](const Recipe&, const Plan& p) -> TriedBytes {
    const int64_t elements = p.offload().bucket_elements();
    return elements == 0 || elements > 50000 ? 50000 : elements;
  };
  const auto described = [&](int64_t capacity) {
    return DescribeRemedies(FindRemedies(RecipeOf(1), plan, ClusterOf(4), 8, 80000, {false, capacity}, 3, bytes));
  };
  // A pipe rank has 40000 parameters.
  EXPECT_EQ(described(20000), "it fits with --set offload.bucket_elements=10000 (9.766 KiB)");
  EXPECT_EQ(described(9999), "it fits with --set offload.bucket_elements=2500 (2.441 KiB)");
}

TEST(FindRemedies, TellsEveryTryBeforeItIsMade) {
  std::vector<std::string> told;
  size_t made = 0;
  const auto bytes = [&](const Recipe& recipe, const Plan& plan) {
    EXPECT_EQ(told.size(), ++made);
    return Bytes(recipe, plan);
  };
  const auto on_try = [&](absl::string_view change) { told.emplace_back(change); };
  const auto remedies =
      FindRemedies(RecipeOf(4), PlanOf(1, 2, "gpipe"), ClusterOf(2), 8, 1000, {false, 1000}, 3, bytes, on_try);
  ASSERT_EQ(remedies.found.size(), 3u);
  EXPECT_EQ(told.size(), made);
  ASSERT_GE(told.size(), 3u);
  EXPECT_EQ(told[0], "--set recompute.mode=FULL, 1 of at most 40");
  EXPECT_EQ(told[1], "--set schedule=1f1b, 2 of at most 40");
  EXPECT_EQ(told.back(), "--set recompute.mode=FIT, 4 of at most 40");
}

// FIT is tried only if recomputing all layers fits, because FIT takes several compilations.
TEST(FindRemedies, TriesFitOnlyIfFullRecomputeFits) {
  const auto with = [](int64_t full, int64_t fit) {
    int fits_tried = 0;
    const auto bytes = [&](const Recipe&, const Plan& plan) -> TriedBytes {
      if (plan.recompute().mode() == Recompute::FULL) return full;
      if (plan.recompute().mode() != Recompute::FIT) return 1000;
      ++fits_tried;
      return fit;
    };
    const auto remedies =
        FindRemedies(RecipeOf(1), PlanOf(1, 1, "1f1b"), ClusterOf(1), 1, 1000, {false, 500}, 1, bytes);
    return absl::StrCat(remedies.found.empty() ? "nothing" : remedies.found[0].change, ", ", fits_tried);
  };
  EXPECT_EQ(with(400, 500), "--set recompute.mode=FIT, 1");
  EXPECT_EQ(with(400, 501), "--set recompute.mode=FULL, 1");
  EXPECT_EQ(with(501, 400), "nothing, 0");
}

// The choice of FIT takes several compilations, so every change is first tried with all layers recomputed. The plan
// then needs 700 bytes.
TEST(FindRemedies, AllThatIsToldOfFitIsTriedAsItIsTold) {
  Plan plan = PlanOf(1, 2, "1f1b");
  plan.mutable_recompute()->set_mode(Recompute::FIT);
  std::vector<std::string> told;
  const auto on_try = [&](absl::string_view change) { told.emplace_back(change.substr(0, change.find(','))); };
  const auto described = [&](int64_t capacity, int64_t fit) {
    told.clear();
    const auto bytes = [&](const Recipe& recipe, const Plan& tried) -> TriedBytes {
      if (tried.recompute().mode() == Recompute::FULL) return Bytes(recipe, tried);
      if (fit < 0) return TryOutcome::kTooLong;
      return fit;
    };
    const auto remedies = FindRemedies(RecipeOf(4), plan, ClusterOf(2), 8, 1000, {false, capacity}, 1, bytes, on_try);
    EXPECT_FALSE(remedies.stopped);
    EXPECT_EQ(remedies.tried.size(), told.size() - (fit < 0 && !remedies.found.empty()));
    return DescribeRemedies(remedies);
  };
  EXPECT_EQ(described(500, 450), "it fits with --set pp=2 --set dp=1 (450 B)");
  EXPECT_EQ(told.front(), "--set recompute.mode=FULL");
  EXPECT_EQ(described(500, 501), "it fits with --set recompute.mode=FULL --set pp=2 --set dp=1 (350 B)");
  EXPECT_EQ(described(500, -1), "it fits with --set recompute.mode=FULL --set pp=2 --set dp=1 (350 B)");
  EXPECT_THAT(described(299, 300), testing::HasSubstr("no change"));
  EXPECT_THAT(told, testing::Each(testing::HasSubstr("FULL")));
  // The partition that FIT chooses may not fit, while FULL chooses another partition, which fits.
  EXPECT_EQ(described(700, 701), "it fits with --set recompute.mode=FULL (700 B)");
}

TEST(FindRemedies, SkipsTriesThatTakeTooLongAndContinues) {
  const auto bytes = [](const Recipe& recipe, const Plan& tried) -> TriedBytes {
    if (tried.recompute().mode() == Recompute::FIT) return TryOutcome::kTooLong;
    return Bytes(recipe, tried);
  };
  const Remedies remedies =
      FindRemedies(RecipeOf(4), PlanOf(1, 2, "gpipe"), ClusterOf(2), 8, 1000, {false, 1000}, 2, bytes);
  EXPECT_EQ(DescribeRemedies(remedies),
            "it fits with --set recompute.mode=FULL (800 B), or with --set schedule=1f1b (1000 B)");
  EXPECT_THAT(remedies.tried, testing::ElementsAre("--set recompute.mode=FULL", "--set schedule=1f1b"));
}

// FIT counts only device memory, so it may leave activations on the host that recomputing more layers would avoid.
TEST(FindRemedies, TheHostMayNeedMoreRecomputedThanFitDoes) {
  Plan plan = PlanOf(1, 2, "1f1b");
  plan.mutable_recompute()->set_mode(Recompute::FIT);
  const auto bytes = [](const Recipe&, const Plan& tried) -> TriedBytes {
    return tried.recompute().mode() == Recompute::FULL ? 100 : 1000;
  };
  const Remedies remedies = FindRemedies(RecipeOf(1), plan, ClusterOf(2), 8, 1000, {true, 500}, 1, bytes);
  EXPECT_EQ(DescribeRemedies(remedies), "it fits with --set recompute.mode=FULL (100 B)");
}

// If a change does not help with all layers recomputed, it is not tried alone.
TEST(FindRemedies, IfFullRecomputeIsNotEnoughTriesItWithEveryChange) {
  std::vector<std::string> told;
  const auto on_try = [&](absl::string_view change) { told.emplace_back(change.substr(0, change.find(','))); };
  // The plan needs 1400 bytes without changes, and 800 with all layers recomputed.
  const Remedies remedies =
      FindRemedies(RecipeOf(4), PlanOf(1, 2, "gpipe"), ClusterOf(2), 8, 1000, {false, 700}, 2, Bytes, on_try);
  EXPECT_EQ(DescribeRemedies(remedies),
            "it fits with --set recompute.mode=FULL --set schedule=1f1b (700 B), or with --set recompute.mode=FULL "
            "--set mbs=2 (700 B)");
  EXPECT_THAT(told,
              testing::ElementsAre("--set recompute.mode=FULL", "--set recompute.mode=FULL --set schedule=1f1b",
                                   "--set recompute.mode=FULL --set mbs=2", "--set schedule=1f1b", "--set mbs=2"));
  told.clear();
  FindRemedies(RecipeOf(1), PlanOf(1, 1, "gpipe"), ClusterOf(1), 8, 1000, {false, 600}, 2, Bytes, on_try);
  EXPECT_THAT(told, testing::ElementsAre("--set recompute.mode=FULL", "--set recompute.mode=FULL --set schedule=1f1b"));
}

TEST(FindRemedies, StopsWhereNoMoreIsWanted) {
  const auto described = [](int most, int64_t capacity) {
    int tries = 0;
    const auto bytes = [&](const Recipe& recipe, const Plan& plan) -> TriedBytes {
      if (++tries > most) return TryOutcome::kStopped;
      return Bytes(recipe, plan);
    };
    const Remedies remedies =
        FindRemedies(RecipeOf(4), PlanOf(1, 2, "gpipe"), ClusterOf(2), 8, 1000, {false, capacity}, 3, bytes);
    EXPECT_EQ(remedies.tried.size(), static_cast<size_t>(most));
    EXPECT_TRUE(remedies.stopped);
    EXPECT_EQ(tries, most + 1);
    return DescribeRemedies(remedies);
  };
  EXPECT_EQ(described(0, 1000),
            "weft found no change that makes it fit: each compilation takes long, so weft tried no changes");
  EXPECT_EQ(described(2, 500),
            "weft found no change that makes it fit: each compilation takes long, so weft tried no changes beyond "
            "--set recompute.mode=FULL, --set recompute.mode=FULL --set schedule=1f1b");
  EXPECT_EQ(described(2, 1000),
            "it fits with --set recompute.mode=FULL (800 B), or with --set schedule=1f1b (1000 B); each compilation "
            "takes long, so weft tried no changes beyond --set recompute.mode=FULL, --set schedule=1f1b");
}

TEST(DescribeRemedies, NamesTheFirstOfManyThatWereTried) {
  Remedies remedies = {.found = {}, .tried = {"a", "b", "c", "d"}, .stopped = true};
  EXPECT_THAT(DescribeRemedies(remedies), testing::HasSubstr("weft tried no changes beyond a, b, c, d"));
  remedies.tried.insert(remedies.tried.end(), {"e", "f"});
  EXPECT_THAT(DescribeRemedies(remedies), testing::EndsWith("weft tried no changes beyond a, b, c, d and 2 more"));
}

TEST(FindRemedies, NothingIsSaidOfMoreToTryWhereAllThatIsWantedIsFound) {
  int tries = 0;
  // The plan needs 700 bytes with all layers recomputed and 1f1b. The search is stopped before it can try 1f1b alone.
  const auto bytes = [&](const Recipe& recipe, const Plan& plan) -> TriedBytes {
    if (++tries > 2) return TryOutcome::kStopped;
    return Bytes(recipe, plan);
  };
  const Remedies remedies =
      FindRemedies(RecipeOf(4), PlanOf(1, 2, "gpipe"), ClusterOf(2), 8, 1000, {false, 700}, 1, bytes);
  EXPECT_EQ(DescribeRemedies(remedies), "it fits with --set recompute.mode=FULL --set schedule=1f1b (700 B)");
  EXPECT_EQ(tries, 3);
}

// If some tries were left out, the message must not claim that all changes together are not enough.
TEST(FindRemedies, ReportsSkippedTries) {
  int64_t least = 8;
  const auto bytes = [&](const Recipe& recipe, const Plan&) -> TriedBytes {
    if (recipe.microbatch_sequences() < least) return TryOutcome::kTooLong;
    return 1000;
  };
  const auto told = [&] {
    const Remedies remedies =
        FindRemedies(RecipeOf(64), PlanOf(1, 1, "1f1b"), ClusterOf(1), 8, 1000, {false, 999}, 3, bytes);
    EXPECT_TRUE(remedies.found.empty());
    EXPECT_FALSE(remedies.stopped);
    return DescribeRemedies(remedies);
  };
  EXPECT_THAT(told(),
              testing::EndsWith(
                  "makes it fit; weft did not try all combinations of changes, because each compilation takes long"));
  least = 1;
  EXPECT_THAT(told(), testing::EndsWith("makes it fit, nor do all compatible changes together"));
}

TEST(FindRemedies, StopsTrying) {
  int tries = 0;
  const auto never = [&](const Recipe&, const Plan&) -> TriedBytes {
    ++tries;
    return 1000;
  };
  EXPECT_TRUE(FindRemedies(RecipeOf(64), PlanOf(1, 64, "gpipe"), ClusterOf(64), 64, 1000, {false, 999}, 3, never)
                  .found.empty());
  EXPECT_GT(tries, 10);
  EXPECT_LE(tries, kMaxTries);
  EXPECT_THAT(DescribeRemedies({}), testing::HasSubstr("no change"));
  // No remedy has a stage without a layer, more ranks than devices, or a part of a sequence.
  for (const Remedy& remedy :
       FindRemedies(RecipeOf(1), PlanOf(2, 1, "1f1b"), ClusterOf(2), 3, 1000, {false, 999}, 3, Bytes).found) {
    EXPECT_THAT(remedy.change, testing::Not(testing::AnyOf(testing::HasSubstr("pp"), testing::HasSubstr("tp"),
                                                           testing::HasSubstr("mbs"))));
  }
}

}  // namespace
}  // namespace weft::planner
