// ZeRO over numbers of replicas that do not divide the elements of parameters: parts are rounded up and the last ones
// are filled with zeros (docs/program.md, P8). No element is lost or counted twice, so losses, norms and weights equal
// those of one rank, bit for bit under exact accumulation.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"
#include "tests/e2e/agreement.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

constexpr int kSteps = 4;

std::string Zero(int stage, const std::string& fields = "") {
  return absl::StrCat("zero { stage: ", stage, " ", fields, " } ");
}

// Most matrices of the model have a power of two of elements, which 3, 5 or 7 replicas do not divide. Its token table
// is 256 x 32.
TinyPlan PlanOf(const std::string& mesh, const std::string& fields, int batch, const std::string& schedule = "1f1b") {
  TinyPlan plan{.schedule = schedule, .steps = kSteps, .layers = 2, .batch = batch, .microbatch = 2, .mesh = mesh};
  plan.plan_fields = fields;
  plan.exact = true;
  return plan;
}

// True if some tensor has a buffer whose parts are rounded up.
bool HasPadding(const Program& program) {
  for (const Template& t : program.templates()) {
    for (const Buffer& buffer : t.buffers()) {
      if (buffer.role() != MASTER && buffer.role() != PARAM) continue;
      int64_t held = *ElementCount(buffer.shape());
      for (const RangeCut& cut : buffer.shard().ranges()) {
        for (const MeshAxis& axis : program.mesh().axes()) {
          if (axis.name() == cut.axis()) held *= cut.block() > 0 ? cut.block() : axis.size();
        }
      }
      for (const DimensionCut& cut : buffer.shard().dimensions()) {
        for (const MeshAxis& axis : program.mesh().axes()) held *= axis.name() == cut.axis() ? axis.size() : 1;
      }
      if (held != *ElementCount(program.tensors(buffer.tensor()).padded_shape())) return true;
    }
  }
  return false;
}

void ExpectPadding(const TinyPlan& plan) {
  const auto program = CompileTiny(plan);
  ASSERT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
  EXPECT_TRUE(HasPadding(*program)) << plan.Name();
}

void ExpectPaddedLikeOneRank(const TinyPlan& plan, Outcomes& references) {
  ExpectPadding(plan);
  ExpectLikeOneRank(plan, references);
}

struct Mesh_ {
  const char* mesh;
  int batch;
  const char* group = "";
};

class UnevenMeshes : public testing::TestWithParam<Mesh_> {};

TEST_P(UnevenMeshes, ExactPlansAgreeInAllBits) {
  Outcomes references;
  for (const int stage : {1, 2, 3}) {
    for (const bool bf16 : {false, true}) {
      TinyPlan plan = PlanOf(GetParam().mesh, Zero(stage, GetParam().group), GetParam().batch);
      plan.bf16 = bf16;
      ExpectPaddedLikeOneRank(plan, references);
    }
  }
}

TEST_P(UnevenMeshes, PlansInOrderAgreeWithinRounding) {
  Outcomes references;
  for (const int stage : {1, 2, 3}) {
    TinyPlan plan = PlanOf(GetParam().mesh, Zero(stage, GetParam().group), GetParam().batch);
    plan.exact = false;
    ExpectPaddedLikeOneRank(plan, references);
  }
}

INSTANTIATE_TEST_SUITE_P(All, UnevenMeshes,
                         testing::Values(Mesh_{"data3", 12}, Mesh_{"data5", 10}, Mesh_{"data7", 14},
                                         Mesh_{"data6", 12, "group: 3"}, Mesh_{"pipe2 data3", 12},
                                         Mesh_{"x2 data3", 12}, Mesh_{"z2 data3", 12}, Mesh_{"data12", 24}));

// `direct` sums every element in the order of members, whatever the length of the buffer. A ring cuts a padded buffer
// at slightly later elements, so a few elements of a tensor are summed in another order (docs/tensor_parallelism.md).
TEST(ZeroUnevenTest, StageOneInOrderIsBitForBitStageZero) {
  for (const bool bf16 : {false, true}) {
    TinyPlan plan = PlanOf("data3", "collective: 'direct' ", 12);
    plan.exact = false;
    plan.bf16 = bf16;
    ExpectShardedLikeWhole(plan, Zero(1), 0);
  }
  TinyPlan ring = PlanOf("data3", "collective: 'ring' ", 12);
  ring.exact = false;
  ExpectShardedLikeWhole(ring, Zero(1), 1e-5);
}

TEST(ZeroUnevenTest, SchedulesOverlapAndRecomputeDoNotMatter) {
  struct Case {
    const char* schedule;
    const char* mesh;
    std::string fields;
    const char* schedule_fields = "";
    bool tied = true;
  };
  Outcomes references;
  for (const Case& c : {Case{"chimera", "data3 pipe2", Zero(1)},
                        {"chimera", "data3 pipe2", Zero(2)},
                        {"interleaved", "pipe2 data3", Zero(1) + "gradient_bucket_bytes: 4096", "virtual_stages: 2"},
                        {"zb-h1", "data3 pipe2", Zero(1)},
                        {"zb-h1", "data3 pipe2", Zero(2), "", false},
                        {"zb-h1", "data6 pipe2", Zero(3, "group: 3"), "", false},
                        {"hanayo", "data3 pipe2", Zero(1) + "gradient_sync: LAZY", "waves: 1"},
                        {"axonn", "data3 pipe2", Zero(1)},
                        {"axonn", "data3 pipe2", Zero(3), "freeze: true", false},
                        {"1f1b", "data3 pipe2", Zero(3, "reshard: AFTER_BACKWARD")},
                        {"1f1b", "data3 pipe2", Zero(3, "reshard: NEVER")},
                        {"1f1b", "data3", Zero(3, "reshard: LAYERS kept_layers: [0, 2]")},
                        {"1f1b", "data3", Zero(3) + "overlap { all_gather: false reduce_scatter: false }"},
                        {"1f1b", "data3", Zero(2) + "overlap { gathered_cache_bytes: 100000 }"},
                        {"1f1b", "z2 data3", Zero(3) + "overlap { gathered_cache_bytes: 100000 }"}}) {
    TinyPlan plan = PlanOf(c.mesh, c.fields, 12, c.schedule);
    plan.schedule_fields = c.schedule_fields;
    plan.tied = c.tied;
    plan.layers = 4;
    plan.bf16 = c.tied;
    plan.recompute = !c.tied;
    ExpectPaddedLikeOneRank(plan, references);
  }
}

TEST(ZeroUnevenTest, OptimizersRoundingAndOffloadDoNotMatter) {
  Outcomes references;
  const std::string offload = "offload { optimizer: true bucket_elements: 1500 buckets_per_reduce: 2 } ";
  for (const char* optimizer :
       {"sgd {}", "sgd { momentum: 0.9 }", "adamw { weight_decay: 0.1 }", "adamw {} weight_rounding: STOCHASTIC"}) {
    for (const int stage : {1, 2, 3}) {
      for (const std::string& fields : {Zero(stage), Zero(stage) + offload}) {
        TinyPlan plan = PlanOf("data3", fields, 12);
        plan.optimizer = optimizer;
        plan.bf16 = true;
        ExpectPaddedLikeOneRank(plan, references);
      }
    }
  }
}

// Schedules without a flush train differently, so each is compared with itself without ZeRO. The second part tests
// optimizer steps that are undone.
TEST(ZeroUnevenTest, WithoutAFlushAndWithPostValidation) {
  Outcomes outcomes;
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    const int batch = schedule == std::string("pipedream") ? 6 : 18;
    const auto plan_of = [&](const std::string& fields) {
      TinyPlan plan = PlanOf("data3 pipe2", "collective: 'direct' " + fields, batch, schedule);
      plan.exact = plan.tied = false;
      plan.clip = 0;
      return plan;
    };
    const Outcome& whole = outcomes.Get(plan_of(""));
    for (const int stage : {1, 2, 3}) {
      const TinyPlan plan = plan_of(Zero(stage));
      ExpectPadding(plan);
      ExpectClose(outcomes.Get(plan), whole, plan.Name());
    }
  }
  for (const int stage : {1, 2, 3}) {
    TinyPlan plan = PlanOf("data3 pipe2", Zero(stage), 12);
    const Outcome& expected = outcomes.Get(plan);
    plan.plan_fields += "post_validation: true";
    ExpectPadding(plan);
    // The first norm exceeds the limit, so some steps are undone and clipped.
    EXPECT_GT(expected.norms[0], plan.clip);
    ExpectSame(outcomes.Get(plan), expected, plan.Name());
  }
}

// Each plan resumes a checkpoint of a plan with another number of replicas.
TEST(ZeroUnevenTest, CheckpointsLoadOverOtherNumbersOfReplicas) {
  std::vector<TinyPlan> plans;
  for (const auto& [mesh, fields] :
       std::vector<std::pair<const char*, std::string>>{{"data3", Zero(1)},
                                                        {"data2", Zero(2)},
                                                        {"data3", Zero(3)},
                                                        {"pipe2", ""},
                                                        {"data6", Zero(2, "group: 3")},
                                                        {"data2 pipe2", Zero(1)},
                                                        {"data6", Zero(3) + "offload { optimizer: true }"}}) {
    plans.push_back(PlanOf(mesh, fields, 12));
    plans.back().bf16 = true;
    plans.back().optimizer = "adamw {} weight_rounding: STOCHASTIC";
  }
  ExpectCheckpointsGoRound("zero_uneven_", plans);
}

// `elements` rounded up to a multiple of `parts`: the elements of all parts together.
int64_t RoundedUp(int64_t elements, int64_t parts) { return (elements + parts - 1) / parts * parts; }

// Messages and buffers have the sizes of whole parts: docs/program.md, P8.
TEST(ZeroUnevenTest, BuffersAndMessagesAreThoseOfWholeParts) {
  for (const int64_t d : {3, 5, 12}) {
    for (const int stage : {1, 2, 3}) {
      TinyPlan plan = PlanOf(absl::StrCat("data", d), Zero(stage), static_cast<int>(2 * d));
      plan.exact = false;
      const auto program = CompileTiny(plan);
      ASSERT_TRUE(program.ok()) << program.status();
      const Template& t = program->templates(0);
      int64_t scattered = 0, gathered = 0, expected = 0;
      for (const Buffer& buffer : t.buffers()) {
        const bool moment = buffer.role() == MOMENT1;
        if (!moment && buffer.role() != PARAM && buffer.role() != GRAD) continue;
        const int64_t elements = *ElementCount(program->tensors(buffer.tensor()).padded_shape());
        const bool cut = moment || stage == 3 || (stage == 2 && buffer.role() == GRAD);
        const int64_t all = RoundedUp(elements, d);
        EXPECT_EQ(buffer.bytes(), DTypeBytes(buffer.dtype()) * (cut ? all / d : all)) << buffer.name();
        if (moment) expected += all;
      }
      const auto add = [&](Kernel kernel, int64_t elements) {
        (kernel == GROUP_ALL_GATHER ? gathered : scattered) += elements;
      };
      for (const Action& action : t.body()) {
        for (const int b : action.destinations()) {
          if (action.kind() == ALL_GATHER) add(GROUP_ALL_GATHER, t.buffers(b).bytes() / 4);
        }
        for (const int b : action.sources()) {
          if (action.kind() == REDUCE_SCATTER) add(GROUP_REDUCE_SCATTER, t.buffers(b).bytes() / 4);
        }
        if (action.operands_size() == 0) continue;
        const Segment& segment = program->segments(action.segment());
        for (const Step& step : segment.steps()) {
          if (step.kernel() != GROUP_ALL_GATHER && step.kernel() != GROUP_REDUCE_SCATTER) continue;
          const bool gather = step.kernel() == GROUP_ALL_GATHER;
          // Count the gathers of forwards only: they gather everything, while backwards gather only what they read.
          if (gather && action.kind() != FORWARD) continue;
          for (const int v : gather ? step.outputs() : step.inputs()) {
            add(step.kernel(), *ElementCount(segment.values(v).shape()));
          }
        }
      }
      // With one microbatch per replica, the gradient of the tied table is scattered once for each of its two uses.
      // Stage 3 also gathers the table once for each use.
      const int64_t table = RoundedUp(*ElementCount(program->tensors(0).padded_shape()), d);
      EXPECT_EQ(gathered, expected + (stage == 3 ? table : 0)) << plan.Name();
      EXPECT_EQ(scattered, expected + table) << plan.Name();
    }
  }
}

}  // namespace
}  // namespace weft
