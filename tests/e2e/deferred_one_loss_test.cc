// Whole training runs on deferred devices, which run enqueued work late and in random legal orders. Losses, norms and
// weights equal those of the CPU backend bit for bit, whatever the plan.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "executor/testing/deferred_device.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

// Seed of the device that is opened next.
std::atomic<uint64_t> next_seed{1};

absl::StatusOr<std::unique_ptr<exec::ComputeDevice>> OpenDeferred(const exec::DeviceOptions&) {
  return std::make_unique<exec::DeferredDevice>(next_seed++);
}

absl::StatusOr<std::unique_ptr<exec::Backend>> MakeDeferred(exec::ComputeDevice* device,
                                                            const exec::BackendOptions& options) {
  return exec::MakeDeferredBackend(static_cast<exec::DeferredDevice*>(device), exec::MakeCpuBackend(options.threads));
}

// Opens a device with as few queues as a GPU has, so that the streams of eight ranks have to share them.
absl::StatusOr<std::unique_ptr<exec::ComputeDevice>> OpenCrowded(const exec::DeviceOptions&) {
  return std::make_unique<exec::DeferredDevice>(next_seed++, 32);
}
constexpr exec::BackendEntry kCrowded = {"deferred", &OpenCrowded, &MakeDeferred, "kernels of the CPU, late"};

constexpr exec::BackendEntry kDeferred = {"deferred", &OpenDeferred, &MakeDeferred, "kernels of the CPU, late"};

// Trains over `transport`: loopback, or inproc through pinned memory.
absl::StatusOr<exec::RunResult> TrainDeferred(const Program& program, const std::string& transport,
                                              exec::RunOptions options = {},
                                              const exec::BackendEntry& backend = kDeferred) {
  const auto data = OpenTinyText(TinyTextPath(), program);
  if (!data.ok()) return data.status();
  options.backend = &backend;
  options.collect_weights = true;
  options.timeout = std::chrono::seconds(120);
  return exec::RunProgram(program, **data, transport, options);
}

struct Case {
  std::string name;
  TinyPlan plan;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

TinyPlan Plan(const std::string& schedule, int pipe, int data = 1, const std::string& schedule_fields = "",
              const std::string& plan_fields = "") {
  TinyPlan plan{.pipe = pipe, .data = data, .schedule = schedule};
  plan.steps = 4;
  plan.schedule_fields = schedule_fields;
  plan.plan_fields = plan_fields;
  return plan;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"one_rank", Plan("1f1b", 1)},
      {"one_f_one_b", Plan("1f1b", 4)},
      {"replicas", Plan("1f1b", 2, 2)},
      {"interleaved", Plan("interleaved", 2, 1, "virtual_stages: 2")},
      {"chimera", Plan("chimera", 4)},
      {"hanayo", Plan("hanayo", 2, 1, "waves: 1")},
      {"zb_v", Plan("zb-v", 2)},
      {"dualpipe", Plan("dualpipe", 2)},
      {"message_driven", Plan("axonn", 3)},
      {"zero_1", Plan("1f1b", 2, 2, "", "zero { stage: 1 }")},
      {"zero_2", Plan("gpipe", 1, 2, "", "zero { stage: 2 }")},
      {"zero_3", Plan("1f1b", 2, 2, "", "zero { stage: 3 }")},
      {"offloaded_optimizer", Plan("1f1b", 2, 2, "", "offload { optimizer: true bucket_elements: 1500 }")},
      {"offloaded_activations", Plan("gpipe", 2, 1, "", "offload { activation_layers: 1 }")},
      {"barrier", Plan("zb-h1", 2, 1, "", "step_barrier: true")},
  };
  TinyPlan validated = Plan("zb-h2", 2, 1, "", "post_validation: true");
  validated.layers = 8;
  // The norms of all, some or no steps are above the limit, so updates are undone or kept.
  for (const double clip : {0.5, 2.0, 1e6}) {
    validated.clip = clip;
    cases.push_back({absl::StrCat("post_validation_", cases.size()), validated});
  }
  validated.data = 2;
  validated.batch = 16;
  validated.clip = 1.7;
  validated.plan_fields = "post_validation: true zero { stage: 1 }";
  cases.push_back({"post_validation_zero_1", validated});
  validated.half = "fp16 grads";
  validated.plan_fields = "post_validation: true zero { stage: 1 } loss_scale { initial: 1e9 growth_interval: 1 }";
  cases.push_back({"post_validation_half_precision", validated});
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    TinyPlan plan = Plan(schedule, 2);
    plan.clip = 0;
    plan.tied = false;
    // PipeDream updates weights after every microbatch, so its batch is one microbatch.
    if (std::string(schedule) == "pipedream") plan.batch = 1;
    cases.push_back({absl::StrCat("asynchronous_", cases.size()), plan});
    // With ZeRO 1, replicas gather the weights after an update.
    plan.data = 2;
    plan.batch *= 2;
    plan.plan_fields = "zero { stage: 1 } loss_scale { fixed: 1000 }";
    cases.push_back({absl::StrCat("asynchronous_zero_", cases.size()), plan});
    plan.mesh = "x2 pipe2 z2";
    plan.microbatch = 2;
    plan.plan_fields = "";
    cases.push_back({absl::StrCat("asynchronous_x2_z2_", cases.size()), plan});
  }
  TinyPlan deep = Plan("1f1b", 1);
  deep.mesh = "z2 pipe2";
  deep.microbatch = 2;
  cases.push_back({"z2", deep});
  deep.mesh = "x2 y2";
  cases.push_back({"x2_y2", deep});
  TinyPlan half = Plan("1f1b", 2);
  half.half = "fp16";
  half.steps = 8;
  // The scale is too large at first, so some steps are skipped.
  half.plan_fields = "loss_scale { initial: 67108864 growth_interval: 2 }";
  cases.push_back({"half_precision", half});
  TinyPlan exact = Plan("axonn", 2, 2);
  exact.exact = true;
  exact.bf16 = true;
  cases.push_back({"exact", exact});
  return cases;
}

class DeferredOneLossTest : public testing::TestWithParam<Case> {};

TEST_P(DeferredOneLossTest, AsOnTheCpu) {
  const TinyPlan& plan = GetParam().plan;
  const auto program = CompileTiny(plan);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto expected = Train(*program, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  if (GetParam().name == "half_precision") {
    EXPECT_TRUE(expected->report.steps(0).skipped());
    EXPECT_FALSE(expected->report.steps(plan.steps - 1).skipped());
  }
  for (const std::string transport : {"loopback", "inproc"}) {
    for (int i = 0; i < 3; ++i) {
      const std::string what = absl::StrCat(transport, ", seed ", next_seed.load());
      const auto result = TrainDeferred(*program, transport);
      ASSERT_TRUE(result.ok()) << what << ": " << result.status();
      EXPECT_EQ(result->report.backend(), "deferred");
      ASSERT_EQ(result->report.steps_size(), expected->report.steps_size()) << what;
      ExpectSame(OutcomeOf(*result), OutcomeOf(*expected), what);
      for (int s = 0; s < result->report.steps_size(); ++s) {
        EXPECT_EQ(result->report.steps(s).step(), s) << what;
        EXPECT_EQ(result->report.steps(s).skipped(), expected->report.steps(s).skipped()) << what;
        EXPECT_EQ(result->report.steps(s).loss_scale(), expected->report.steps(s).loss_scale()) << what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, DeferredOneLossTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// Eight ranks share a device and its queues, as with `loopback` on a GPU.
TEST(DeferredRunTest, EightRanksOnOneDevice) {
  std::vector<Case> cases = {
      {"1f1b", Plan("1f1b", 8)},       {"interleaved", Plan("interleaved", 8, 1, "virtual_stages: 2")},
      {"chimera", Plan("chimera", 8)}, {"hanayo", Plan("hanayo", 8, 1, "waves: 1")},
      {"zb-v", Plan("zb-v", 8)},       {"axonn", Plan("axonn", 8)},
  };
  TinyPlan cut = Plan("1f1b", 1, 1, "", "offload { optimizer: true bucket_elements: 1500 activation_layers: 1 }");
  cut.mesh = "z2 pipe4";
  cut.microbatch = 2;
  cases.push_back({"z2 with offload", cut});
  for (Case& c : cases) {
    c.plan.layers = 14;
    c.plan.batch = 8 * c.plan.microbatch;
    c.plan.steps = 3;
    const auto program = CompileTiny(c.plan);
    ASSERT_TRUE(program.ok()) << c.name << ": " << program.status();
    const auto expected = Train(*program, {});
    ASSERT_TRUE(expected.ok()) << c.name << ": " << expected.status();
    const std::string what = absl::StrCat(c.name, ", seed ", next_seed.load());
    const auto result = TrainDeferred(*program, "loopback", {}, kCrowded);
    ASSERT_TRUE(result.ok()) << what << ": " << result.status();
    ExpectSame(OutcomeOf(*result), OutcomeOf(*expected), what);
  }
}

// Checkpoints are saved and loaded through copies. A resumed run equals an uninterrupted one, also with evaluation.
TEST(DeferredRunTest, CheckpointsResumeAndEvaluate) {
  for (const std::string transport : {"loopback", "inproc"}) {
    TinyPlan plan = Plan("1f1b", 2, 2, "", "zero { stage: 2 } offload { optimizer: true bucket_elements: 1500 }");
    plan.steps = 6;
    const auto program = CompileTiny(plan);
    ASSERT_TRUE(program.ok()) << program.status();
    const auto data = OpenTinyText(TinyTextPath(), *program);
    ASSERT_TRUE(data.ok()) << data.status();
    exec::RunOptions options;
    options.eval_data = data->get();
    options.eval_every = 2;
    options.eval_batches = 2;
    const auto expected = Train(*program, options);
    ASSERT_TRUE(expected.ok()) << expected.status();
    options.checkpoint.directory = absl::StrCat(testing::TempDir(), "/deferred_", transport);
    std::filesystem::remove_all(options.checkpoint.directory);
    options.steps = 4;
    const auto first = TrainDeferred(*program, transport, options);
    ASSERT_TRUE(first.ok()) << first.status();
    options.steps = 0;
    options.resume = true;
    const auto second = TrainDeferred(*program, transport, options);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->first_step, 4);
    EXPECT_EQ(OutcomeOf(*second).weights, OutcomeOf(*expected).weights);
    ASSERT_EQ(first->report.steps_size() + second->report.steps_size(), 6);
    for (int s = 0; s < 6; ++s) {
      const RunStep& step = s < 4 ? first->report.steps(s) : second->report.steps(s - 4);
      EXPECT_EQ(step.loss(), expected->report.steps(s).loss()) << s;
      EXPECT_EQ(step.has_eval_loss(), s % 2 == 1) << s;
      EXPECT_EQ(step.eval_loss(), expected->report.steps(s).eval_loss()) << s;
    }
  }
}

// Traces hold every step that the CPU backend's traces hold, and no stream of a rank runs two steps at once.
TEST(DeferredRunTest, TracesAreWhole) {
  const auto program = CompileTiny(Plan("chimera", 2));
  ASSERT_TRUE(program.ok()) << program.status();
  exec::RunOptions options;
  options.trace_repetitions = 2;
  const auto expected = Train(*program, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const std::string transport : {"loopback", "inproc"}) {
    const auto result = TrainDeferred(*program, transport, options);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->trace.has_value());
    ASSERT_EQ(result->trace->ranks_size(), expected->trace->ranks_size());
    for (int rank = 0; rank < result->trace->ranks_size(); ++rank) {
      const RankTrace& trace = result->trace->ranks(rank);
      EXPECT_EQ(trace.events_size(), expected->trace->ranks(rank).events_size()) << rank;
      std::vector<int64_t> end(trace.streams_size(), INT64_MIN);
      for (const TraceEvent& event : trace.events()) {
        EXPECT_LE(event.ready_ps(), event.start_ps());
        EXPECT_LE(event.start_ps(), event.end_ps());
        EXPECT_GE(event.start_ps(), end[event.stream()]);
        end[event.stream()] = event.end_ps();
      }
    }
  }
}

}  // namespace
}  // namespace weft
