// Moving data to host memory (plan.offload) changes no bit of losses, norms and weights.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

// With kSmallBuckets, a model of a few thousand parameters has many buckets, tensors that buckets split, and several
// gradient sums.
constexpr char kSmallBuckets[] = " offload { optimizer: true bucket_elements: 1500 buckets_per_reduce: 2 }";
constexpr char kOneBucket[] = " offload { optimizer: true }";

void ExpectNoBitChanges(TinyPlan plan, const std::string& offload) {
  const auto plain = TrainTiny(plan);
  ASSERT_TRUE(plain.ok()) << plan.Name() << ": " << plain.status();
  ASSERT_FALSE(plain->weights.empty());
  absl::StrAppend(&plan.plan_fields, offload);
  const auto program = CompileTiny(plan);
  ASSERT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
  for (const Template& t : program->templates()) {
    EXPECT_GT(t.host_arena_bytes(), 0) << t.name();
    for (const Buffer& buffer : t.buffers()) {
      const bool state = buffer.role() == MASTER || buffer.role() == MOMENT1 || buffer.role() == MOMENT2;
      EXPECT_EQ(buffer.place() == HOST, state) << buffer.name();
    }
  }
  const auto offloaded = TrainTiny(plan);
  ASSERT_TRUE(offloaded.ok()) << plan.Name() << ": " << offloaded.status();
  ExpectSame(*offloaded, *plain, plan.Name());
}

struct Case {
  int pipe = 1, data = 1;
  double clip = 0.5;
  bool exact = false, bf16 = false, tied = true;
  const char* schedule = "1f1b";
  const char* schedule_fields = "";
  const char* plan_fields = "";
};

class OffloadOptimizerOf : public testing::TestWithParam<Case> {};

TEST_P(OffloadOptimizerOf, ChangesNoBit) {
  const Case& c = GetParam();
  TinyPlan plan{.pipe = c.pipe, .data = c.data, .schedule = c.schedule};
  plan.clip = c.clip;
  plan.exact = c.exact;
  plan.bf16 = c.bf16;
  plan.tied = c.tied;
  plan.schedule_fields = c.schedule_fields;
  plan.plan_fields = c.plan_fields;
  plan.steps = 6;
  ExpectNoBitChanges(plan, kSmallBuckets);
  ExpectNoBitChanges(plan, kOneBucket);
}

constexpr char kZero[] = "zero { stage: 3 }";
INSTANTIATE_TEST_SUITE_P(
    OffloadTest, OffloadOptimizerOf,
    testing::Values(
        Case{}, Case{.clip = 0}, Case{.data = 2, .clip = 0}, Case{.data = 2, .bf16 = true},
        Case{.data = 2, .clip = 0, .exact = true, .tied = false}, Case{.exact = true, .bf16 = true}, Case{.pipe = 2},
        Case{.pipe = 2, .clip = 0}, Case{.pipe = 2, .data = 2, .clip = 0, .bf16 = true},
        Case{.pipe = 2, .data = 2, .exact = true}, Case{.data = 2, .clip = 0, .plan_fields = kZero},
        Case{.pipe = 2, .data = 2, .plan_fields = kZero},
        Case{.pipe = 2, .data = 2, .clip = 0, .exact = true, .plan_fields = kZero},
        Case{.pipe = 2, .clip = 0, .schedule = "zb-v"},
        Case{.pipe = 2, .data = 2, .clip = 0, .schedule = "interleaved", .schedule_fields = "virtual_stages: 2"},
        Case{.pipe = 2, .clip = 0, .exact = true, .schedule = "axonn"},
        Case{.pipe = 2, .data = 2, .clip = 0, .schedule = "chimera", .plan_fields = "step_barrier: true"}));

// States are sharded over replicas, and weights are gathered from them after the optimizer.
TEST(OffloadTest, ZeroStagesChangeNoBit) {
  for (const int stage : {1, 2}) {
    for (const bool bf16 : {false, true}) {
      for (const double clip : {0., 0.5}) {
        TinyPlan plan{.pipe = 2, .data = 2};
        plan.bf16 = bf16;
        plan.exact = clip == 0 && stage == 1;
        plan.clip = clip;
        plan.steps = 5;
        plan.plan_fields = absl::StrCat("zero { stage: ", stage, " }");
        ExpectNoBitChanges(plan, kSmallBuckets);
      }
    }
  }
}

// Update kernels read the factor that undoes the loss scale, so all buckets wait for the norm. The scale is updated
// after all buckets.
TEST(OffloadTest, LossScalesChangeNoBit) {
  for (const char* half : {"fp16", "fp16 grads"}) {
    for (const char* scale : {"", "loss_scale { fixed: 256 }"}) {
      for (const double clip : {0., 0.5}) {
        TinyPlan plan{.pipe = 2, .data = 2};
        plan.half = half;
        plan.clip = clip;
        plan.steps = 5;
        plan.plan_fields = scale;
        ExpectNoBitChanges(plan, kSmallBuckets);
      }
    }
  }
}

struct Activations {
  int pipe = 1, data = 1, layers = 2;
  const char* schedule = "1f1b";
  bool recompute = false, exact = false, bf16 = false;
  const char* plan_fields = "";
  const char* schedule_fields = "";
  int batch = 8;
  // If set, replaces `pipe` and `data`.
  const char* mesh = "";
  // True if activations are copied; false if every backward follows its forward too soon for a copy.
  bool moves = true;
};

void ExpectActivationsChangeNoBit(const Activations& c) {
  TinyPlan plan{.pipe = c.pipe, .data = c.data, .schedule = c.schedule};
  plan.steps = 4;
  plan.recompute = c.recompute;
  plan.exact = c.exact;
  plan.bf16 = c.bf16;
  plan.plan_fields = c.plan_fields;
  plan.schedule_fields = c.schedule_fields;
  plan.batch = c.batch;
  plan.mesh = c.mesh;
  if (absl::StrContains(c.schedule_fields, "HALVING")) plan.microbatch = 2;
  plan.tied = absl::string_view(c.schedule).substr(0, 8) != "dualpipe";
  plan.layers = std::max(c.mesh[0] == '\0' ? 4 : 8, 2 * c.pipe);
  const auto plain = TrainTiny(plan);
  ASSERT_TRUE(plain.ok()) << plan.Name() << ": " << plain.status();
  for (const char* optimizer : {"", " optimizer: true bucket_elements: 2000"}) {
    TinyPlan offloaded = plan;
    absl::StrAppend(&offloaded.plan_fields, " offload { activation_layers: ", c.layers, optimizer, " }");
    const auto program = CompileTiny(offloaded);
    ASSERT_TRUE(program.ok()) << offloaded.Name() << ": " << program.status();
    int copies = 0;
    for (const Template& t : program->templates()) {
      for (const Action& action : t.body())
        copies += action.kind() == FETCH && action.name().find(" m") != std::string::npos;
    }
    EXPECT_EQ(copies > 0, c.moves) << offloaded.Name();
    const auto outcome = TrainTiny(offloaded);
    ASSERT_TRUE(outcome.ok()) << offloaded.Name() << ": " << outcome.status();
    ExpectSame(*outcome, *plain, offloaded.Name());
  }
}

// Saved activations of the first layers are copied to the host and back unchanged. The activations of some forwards are
// not copied, because their backwards follow too soon.
TEST(OffloadTest, ActivationsChangeNoBit) {
  for (const Activations& c :
       {Activations{.moves = false}, Activations{.pipe = 2, .moves = false},
        Activations{.pipe = 2, .schedule = "gpipe"}, Activations{.pipe = 2, .layers = 1, .schedule = "gpipe"},
        Activations{.pipe = 4, .layers = 100, .bf16 = true}, Activations{.pipe = 4, .schedule = "zb-h1"},
        Activations{.pipe = 2, .schedule = "zb-v", .exact = true},
        Activations{.pipe = 2, .schedule = "gpipe", .recompute = true},
        Activations{.pipe = 2, .data = 2, .schedule = "gpipe", .plan_fields = "zero { stage: 3 }"},
        Activations{.pipe = 4, .schedule = "1f1b"}, Activations{.pipe = 2, .schedule = "dualpipev", .exact = true},
        Activations{.pipe = 4, .schedule = "dualpipe", .exact = true, .batch = 16},
        Activations{.pipe = 4,
                    .layers = 100,
                    .schedule = "chimera",
                    .exact = true,
                    .schedule_fields = "scaling: FORWARD_DOUBLING",
                    .batch = 16},
        Activations{.pipe = 4,
                    .layers = 1,
                    .schedule = "chimera",
                    .recompute = true,
                    .exact = true,
                    .schedule_fields = "scaling: BACKWARD_HALVING",
                    .batch = 16},
        Activations{.pipe = 4, .schedule = "axonn", .exact = true, .schedule_fields = "freeze: true"}}) {
    ExpectActivationsChangeNoBit(c);
  }
}

// Copied activations may use the same memory one after the other, also if segments contain collectives.
TEST(OffloadTest, ActivationsBesideCollectivesChangeNoBit) {
  const char* const zero = "zero { stage: 3 }";
  for (const Activations& c :
       {Activations{.schedule = "gpipe", .mesh = "x2 pipe2"}, Activations{.layers = 100, .mesh = "x2 pipe4"},
        Activations{.schedule = "gpipe", .plan_fields = "sequence_parallel: true", .mesh = "x2 pipe2"},
        Activations{.schedule = "gpipe", .plan_fields = "overlap { all_reduce: false }", .mesh = "x2 pipe2"},
        Activations{.layers = 1, .schedule = "interleaved", .mesh = "x2 pipe2"},
        Activations{.schedule = "zb-v", .mesh = "x2 pipe2"},
        Activations{.schedule = "gpipe", .plan_fields = zero, .mesh = "data2 pipe2"},
        Activations{.layers = 100, .bf16 = true, .plan_fields = zero, .mesh = "data2 pipe4"},
        Activations{.layers = 1, .schedule = "interleaved", .plan_fields = zero, .mesh = "data2 pipe2"},
        Activations{.schedule = "gpipe", .plan_fields = zero, .mesh = "x2 data2 pipe2"}}) {
    ExpectActivationsChangeNoBit(c);
  }
}

// GPipe holds all microbatches; with offload, the device holds the activations of only a few of them.
TEST(OffloadTest, ActivationsTakeLessMemory) {
  TinyPlan plan{.pipe = 2, .schedule = "gpipe"};
  plan.batch = 16;
  const auto plain = CompileTiny(plan);
  ASSERT_TRUE(plain.ok()) << plain.status();
  plan.plan_fields = "offload { activation_layers: 100 }";
  const auto offloaded = CompileTiny(plan);
  ASSERT_TRUE(offloaded.ok()) << offloaded.status();
  const auto saved = [](const Template& t) {
    int64_t bytes = 0;
    for (const Buffer& buffer : t.buffers()) {
      if (buffer.class_() == SAVED_ACTIVATION) bytes = std::max(bytes, buffer.bytes());
    }
    return bytes;
  };
  for (int t = 0; t < 2; ++t) {
    const Template &before = plain->templates(t), &after = offloaded->templates(t);
    // The device holds the activations of only a few of the 16 microbatches: at most 2 that are being copied to the
    // host or 2 that are being copied back, and 1 or 2 whose backward follows too soon for a copy.
    EXPECT_LT(after.device_arena_bytes(), before.device_arena_bytes() - 11 * saved(before)) << before.name();
    EXPECT_GT(after.host_arena_bytes(), 8 * saved(after)) << after.name();
  }
}

// A checkpoint is the same wherever the states are kept.
TEST(OffloadTest, ResumesWhatAnotherPlanHasSaved) {
  for (const bool first_offloads : {false, true}) {
    TinyPlan plan{.pipe = 2, .data = 2};
    plan.steps = 6;
    const auto plain = TrainTiny(plan);
    ASSERT_TRUE(plain.ok()) << plain.status();
    exec::RunOptions options;
    options.checkpoint.directory = absl::StrCat(::testing::TempDir(), "/offload", first_offloads);
    std::filesystem::remove_all(options.checkpoint.directory);
    options.checkpoint_every = 3;
    Outcome joined;
    for (const bool rest : {false, true}) {
      TinyPlan now = plan;
      if (first_offloads != rest) now.plan_fields = kSmallBuckets;
      options.steps = rest ? 0 : 3;
      options.resume = rest;
      const auto part = TrainTiny(now, options);
      ASSERT_TRUE(part.ok()) << part.status();
      joined.losses.insert(joined.losses.end(), part->losses.begin(), part->losses.end());
      joined.norms.insert(joined.norms.end(), part->norms.begin(), part->norms.end());
      joined.weights = part->weights;
    }
    ExpectSame(joined, *plain, first_offloads ? "offloaded first" : "offloaded later");
  }
}

}  // namespace
}  // namespace weft
