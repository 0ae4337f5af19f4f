// Tests plans with optimizer states in host memory: how much memory stays in use on the device, what runs concurrently,
// and which plans are refused.
#include "compiler/rewrite/offload_optimizer.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "simulator/simulate.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Case {
  int pipe = 1, data = 1;
  double clip = 0;
  std::string offload = "optimizer: true bucket_elements: 30000 buckets_per_reduce: 1";
  std::string schedule = "1f1b";
  std::string plan_fields = "";
  std::string cluster_fields = "host { bytes_per_second: 2e10 } host_memory_bytes: 1000000000";
  int64_t memory = 1000000000;
  int vocabulary = 384, columns = 64;
  std::string precision = "compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32";
};

Cluster ClusterOf(const Case& c) {
  return Parse<Cluster>(absl::StrCat(R"(
    name: "test" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes_per_second: 4e11 peaks { dtype: FP32 flops_per_second: 1e13 }
             peaks { dtype: BF16 flops_per_second: 1e14 } peaks { dtype: FP16 flops_per_second: 1e14 }
             memory_bytes: )",
                                     c.memory, R"( }
    intra_node { bytes_per_second: 2e10 latency_seconds: 1e-6 } )",
                                     c.cluster_fields));
}

// The head is not tied to the embedding, because the gradient of a tied embedding would be complete only at the end.
absl::StatusOr<Program> CompileCase(const Case& c) {
  const auto model = ImportHuggingFaceConfig(
      absl::StrCat(R"({"model_type": "gpt2", "n_positions": 32, "n_head": 2, "tie_word_embeddings": false,
                       "n_layer": 6, "vocab_size": )",
                   c.vocabulary, R"(, "n_embd": )", c.columns, "}"),
      "tiny");
  if (!model.ok()) return model.status();
  return planner::CompilePlan(
      *model,
      Parse<Recipe>(absl::StrCat("sequence_length: 32 steps: 4 microbatch_sequences: 1 clip_norm: ", c.clip,
                                 " global_batch_sequences: ", 4 * c.data)),
      Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", c.data, " } axes { name: 'pipe' size: ", c.pipe,
                               " } } ", c.plan_fields, " schedule { name: '", c.schedule, "' } offload { ", c.offload,
                               " } precision { ", c.precision, " }")),
      ClusterOf(c), {});
}

Program CompileOrDie(const Case& c) {
  const absl::StatusOr<Program> program = CompileCase(c);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : Program();
}

// Bytes of the device arena that weights, gradients and the optimizer use, and the number of elements of the weights.
std::pair<int64_t, int64_t> StatesOf(const Template& t) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  int64_t elements = 0;
  for (const Buffer& buffer : t.buffers()) {
    if (buffer.place() != DEVICE) continue;
    if (buffer.role() == PARAM) elements += buffer.bytes() / 2;
    if (buffer.class_() == PARAMETER || buffer.class_() == GRADIENT || buffer.class_() == OPTIMIZER) {
      ranges.emplace_back(buffer.offset(), buffer.offset() + buffer.bytes());
    }
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t bytes = 0, end = 0;
  for (const auto& [from, to] : ranges) {
    bytes += std::max<int64_t>(0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return {bytes, elements};
}

// Singh and Bhatele 2022: offloading reduces 20 phi bytes to 4 phi + 16 bsize, for phi parameters and buckets of bsize
// elements, with parameters and gradients of two bytes.
TEST(OffloadOptimizer, MemoryIsThatOfTheFormula) {
  for (const int64_t bucket : {3000, 30000, 100000}) {
    for (const double clip : {0., 1.}) {
      for (const int pipe : {1, 2}) {
        Case c{.pipe = pipe, .data = 2, .clip = clip};
        c.precision = "compute: FP16 params: FP16 grads: FP16 reduce: FP16 master: FP32 moments: FP32";
        c.offload = absl::StrCat("optimizer: true bucket_elements: ", bucket);
        const Program program = CompileOrDie(c);
        for (const Template& t : program.templates()) {
          const auto [bytes, elements] = StatesOf(t);
          ASSERT_GT(elements, bucket);
          EXPECT_LE(bytes, 4 * elements + 16 * bucket) << "bucket " << bucket << " pipe " << pipe;
          EXPECT_GE(bytes, 4 * elements);
          EXPECT_GE(t.host_arena_bytes(), 12 * elements);
        }
        c.offload = "";
        const Program plain = CompileOrDie(c);
        for (const Template& t : plain.templates()) {
          const auto [bytes, elements] = StatesOf(t);
          EXPECT_GE(bytes, 16 * elements);
        }
      }
    }
  }
}

struct Busy {
  int64_t start = 0, end = 0;
};

// Times of the actions whose names begin with one of `beginnings`, in a simulated iteration of rank 0.
std::map<std::string, std::vector<Busy>> TimesOf(const Program& program, const Case& c,
                                                 const std::vector<std::string>& beginnings) {
  sim::SimulateOptions options;
  options.trace = true;
  const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(program, ClusterOf(c), options);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  std::map<std::string, std::vector<Busy>> times;
  std::map<int, std::string> names;
  for (const Action& action : program.templates(0).body()) names[action.id()] = action.name();
  for (const TraceEvent& event : simulation->trace->ranks(0).events()) {
    for (const std::string& beginning : beginnings) {
      if (names.at(event.action()).rfind(beginning, 0) != 0 || event.end_ps() == event.start_ps()) continue;
      times[beginning].push_back({event.start_ps(), event.end_ps()});
    }
  }
  return times;
}

// Total time, in picoseconds, during which at least one interval of every list runs.
int64_t OverlapTime(const std::vector<std::vector<Busy>>& lists) {
  std::map<int64_t, std::vector<int>> changes;
  for (size_t i = 0; i < lists.size(); ++i) {
    for (const Busy& busy : lists[i]) {
      for (const int64_t at : {busy.start, busy.end}) changes[at].resize(lists.size());
      ++changes[busy.start][i];
      --changes[busy.end][i];
    }
  }
  std::vector<int> running(lists.size(), 0);
  int64_t together = 0, last = 0;
  for (const auto& [at, change] : changes) {
    if (std::all_of(running.begin(), running.end(), [](int n) { return n > 0; })) together += at - last;
    for (size_t i = 0; i < lists.size(); ++i) running[i] += change[i];
    last = at;
  }
  return together;
}

int64_t First(const std::vector<Busy>& list) {
  int64_t first = list.at(0).start;
  for (const Busy& busy : list) first = std::min(first, busy.start);
  return first;
}
int64_t Last(const std::vector<Busy>& list) {
  int64_t last = 0;
  for (const Busy& busy : list) last = std::max(last, busy.end);
  return last;
}

TEST(OffloadOptimizer, FetchStepAndOffloadRunSideBySide) {
  for (const double clip : {0., 1.}) {
    const Case c{.data = 2, .clip = clip};
    const Program program = CompileOrDie(c);
    auto times = TimesOf(program, c, {"fetch", "optimizer s0 bucket", "offload"});
    EXPECT_GT(OverlapTime({times["fetch"], times["optimizer s0 bucket"], times["offload"]}), 0) << "clip " << clip;
    // The link is busy in both directions most of the time from the first step on.
    const int64_t span = Last(times["offload"]) - First(times["optimizer s0 bucket"]);
    EXPECT_GT(OverlapTime({times["fetch"], times["offload"]}), span / 2) << "clip " << clip;
  }
}

TEST(OffloadOptimizer, GradientsAreSummedWhileEarlierOnesAreStepped) {
  const Case c{.data = 2};
  const Program program = CompileOrDie(c);
  int syncs = 0;
  for (const Action& action : program.templates(0).body()) syncs += action.purpose() == GRADIENT_SYNC;
  EXPECT_GT(syncs, 5);
  auto times = TimesOf(program, c, {"gradient sync", "optimizer s0 bucket", "fetch", "offload", "norm sync"});
  const int64_t last_sync = Last(times["gradient sync"]);
  EXPECT_LT(First(times["optimizer s0 bucket"]), last_sync);
  EXPECT_LT(First(times["offload"]), last_sync);
  EXPECT_GT(OverlapTime({times["gradient sync"], times["offload"]}), 0);
  // With clipping, no bucket is updated before the norm is known.
  const Case clipped{.data = 2, .clip = 1};
  times = TimesOf(CompileOrDie(clipped), clipped, {"gradient sync", "optimizer s0 bucket", "clip"});
  EXPECT_GE(First(times["optimizer s0 bucket"]), Last(times["gradient sync"]));
  EXPECT_GE(First(times["optimizer s0 bucket"]), Last(times["clip"]));
}

// ZeRO 1: gradients are reduce-scattered, and the optimizer reads the rank's part of each gradient.
TEST(OffloadOptimizer, PartsAreSteppedWhileLaterOnesAreSummed) {
  for (const char* zero : {"zero { stage: 1 }", "zero { stage: 1 group: 2 }"}) {
    for (const bool bf16 : {false, true}) {
      Case c{.data = 4, .plan_fields = zero};
      c.offload = "optimizer: true bucket_elements: 9000 buckets_per_reduce: 3";
      if (!bf16) c.precision = "compute: FP32";
      const Program program = CompileOrDie(c);
      auto times = TimesOf(program, c, {"gradient sync", "optimizer s0 bucket", "offload"});
      ASSERT_GT(times["gradient sync"].size(), 5u) << zero;
      const int64_t last_sync = Last(times["gradient sync"]);
      EXPECT_LT(First(times["optimizer s0 bucket"]), last_sync) << zero;
      EXPECT_LT(First(times["offload"]), last_sync) << zero;
      EXPECT_GT(OverlapTime({times["gradient sync"], times["optimizer s0 bucket"]}), 0) << zero;
      c.clip = 1;
      times = TimesOf(CompileOrDie(c), c, {"gradient sync", "optimizer s0 bucket"});
      EXPECT_GE(First(times["optimizer s0 bucket"]), Last(times["gradient sync"])) << zero;
    }
  }
}

// More buckets per sum mean fewer sums.
TEST(OffloadOptimizer, BucketsPerReduceCountsSums) {
  std::vector<int> syncs;
  for (const char* k : {"1", "2", "4", "1000000"}) {
    const Program program = CompileOrDie(
        {.data = 2, .offload = absl::StrCat("optimizer: true bucket_elements: 20000 buckets_per_reduce: ", k)});
    syncs.push_back(0);
    for (const Action& action : program.templates(0).body()) syncs.back() += action.purpose() == GRADIENT_SYNC;
  }
  EXPECT_GT(syncs[0], syncs[1]);
  EXPECT_GT(syncs[1], syncs[2]);
  EXPECT_EQ(syncs[3], 1);
}

TEST(OffloadOptimizer, Refusals) {
  const auto error = [](const Case& c) { return std::string(CompileCase(c).status().message()); };
  EXPECT_THAT(
      error({.cluster_fields = ""}),
      AllOf(HasSubstr("plan.offload.optimizer = true needs cluster.host.bytes_per_second"), HasSubstr("'test'")));
  EXPECT_THAT(error({.offload = "optimizer: true bucket_elements: 191"}),
              HasSubstr("plan.offload.bucket_elements = 191 must be at least 192; the default is 16 Mi"));
  EXPECT_EQ(error({.offload = "optimizer: true bucket_elements: 192"}), "");
  // The states have more than 5 Mi elements. Each of the three buckets on the device holds 64 of the 192 elements, so
  // one rank has more than 65536 buckets.
  EXPECT_THAT(error({.offload = "optimizer: true bucket_elements: 192", .vocabulary = 40000}),
              AllOf(HasSubstr("plan.offload.bucket_elements = 192 makes too many buckets: a rank has states of up to "),
                    HasSubstr("at most 65536 buckets per rank and 262144 in all; nearest valid: 384")));
  EXPECT_EQ(error({.offload = "optimizer: true bucket_elements: 384", .vocabulary = 40000}), "");
  EXPECT_THAT(error({.plan_fields = "post_validation: true"}), HasSubstr("does not go with plan.post_validation"));
  EXPECT_THAT(error({.pipe = 2, .schedule = "pipedream-2bw"}),
              HasSubstr("schedule 'pipedream-2bw', which updates the weights without a flush"));
  EXPECT_THAT(error({.plan_fields = "gradient_bucket_bytes: 1000"}),
              AllOf(HasSubstr("plan.offload.buckets_per_reduce = 1"), HasSubstr("plan.gradient_bucket_bytes = 1000")));
  EXPECT_THAT(error({.data = 2, .cluster_fields = "host { bytes_per_second: 1e10 } host_memory_bytes: 1000000"}),
              AllOf(HasSubstr("does not fit the host memory of cluster 'test'"), HasSubstr("2 ranks of node 0"),
                    HasSubstr("cluster.host_memory_bytes is 1000000 (976.6 KiB)"), HasSubstr("plan.zero"),
                    HasSubstr("--set offload.optimizer=false --set offload.bucket_elements=default --set "
                              "offload.buckets_per_reduce=default (0 B)")));
}

// If the plan is too large for the device, the error proposes offload.
TEST(OffloadOptimizer, IsARemedy) {
  // The states take several buckets of the default size.
  Case c{.offload = "", .plan_fields = "recompute { mode: FULL }", .memory = 4000000000};
  c.vocabulary = 60000;
  c.columns = 512;
  int64_t needed = 0;
  const Program fits = CompileOrDie(c);
  for (const Template& t : fits.templates()) needed = std::max(needed, t.device_arena_bytes());
  c.memory = needed * 3 / 4;
  c.plan_fields = "recompute { mode: FULL } partition { layers_per_stage: 8 }";
  EXPECT_THAT(std::string(CompileCase(c).status().message()), HasSubstr("--set offload.optimizer=true"));
  c.cluster_fields = "";
  EXPECT_THAT(std::string(CompileCase(c).status().message()), testing::Not(HasSubstr("offload.optimizer=true")));
}

}  // namespace
}  // namespace weft
