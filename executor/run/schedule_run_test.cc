// Every way to run a schedule trains the same model: replicas, several stages per rank, halved, wide and paired slots,
// orders chosen at run time, shared streams, groups and skip edges. The programs are hand-made, in verifier/testing.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interpreter/interpreter.h"
#include "executor/run/run.h"
#include "executor/state/state.h"
#include "executor/testing/test_data.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "verifier/testing/schedule_program.h"

namespace weft::exec {
namespace {

// Results that must have the same bits.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::byte>> weights;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Program Trainable(const ScheduleSpec& spec) {
  Program program = ScheduleProgram(spec);
  program.mutable_recipe()->set_seed(7);
  program.mutable_recipe()->mutable_lr()->set_peak(0.5);
  for (LogicalTensor& tensor : *program.mutable_tensors()) tensor.set_init_normal(0.7);
  return program;
}

Outcome Train(const ScheduleSpec& spec) {
  const Program program = Trainable(spec);
  RunOptions options;
  options.steps = 3;
  options.collect_weights = true;
  options.timeout = std::chrono::seconds(20);
  const absl::StatusOr<RunResult> result = RunInProcess(program, TestData(program.vocabulary()), options);
  Outcome outcome;
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return outcome;
  for (const RunStep& step : result->report.steps()) {
    outcome.losses.push_back(step.loss());
    outcome.norms.push_back(step.grad_norm());
  }
  for (const TensorData& tensor : result->weights) outcome.weights.push_back(tensor.bytes);
  return outcome;
}

// How microbatches run: with whole backwards, with backwards in two halves, or with forwards of two microbatches at a
// time and whole backwards.
enum class Style { kWhole, kHalves, kWide };

// Runs all microbatches in turn: `flight` forwards at a time, then their backwards.
ScheduleSpec Spec(std::vector<std::vector<int>> placement, std::vector<int> lane, int flight, Style style) {
  ScheduleSpec spec{{}, std::move(placement), std::move(lane)};
  const int stages = static_cast<int>(spec.placement[0].size());
  const int microbatches = static_cast<int>(spec.lane.size());
  int ranks = 0;
  for (const std::vector<int>& ranks_of_lane : spec.placement) {
    for (const int rank : ranks_of_lane) ranks = std::max(ranks, rank + 1);
  }
  spec.order.resize(ranks);
  const auto add = [&](const std::string& kind, int s, int m, const std::string& suffix) {
    std::string& order = spec.order[spec.placement[spec.lane[m]][s]];
    absl::StrAppend(&order, order.empty() ? "" : " ", kind, s, ".", m, suffix);
  };
  const int width = style == Style::kWide ? 2 : 1;
  for (int first = 0; first < microbatches; first += flight) {
    for (int m = first; m < first + flight; m += width) {
      for (int s = 0; s < stages; ++s) add("F", s, m, width > 1 ? "x2" : "");
    }
    for (int m = first; m < first + flight; ++m) {
      for (int s = stages - 1; s >= 0; --s) add(style == Style::kHalves ? "I" : "B", s, m, "");
    }
    for (int m = first; m < first + flight && style == Style::kHalves; ++m) {
      for (int s = stages - 1; s >= 0; --s) add("W", s, m, "");
    }
  }
  return spec;
}

const std::vector<int> kOneLane = {0, 0, 0, 0};
const std::vector<std::vector<int>> kOneRank = {{0, 0, 0, 0}}, kChain = {{0, 1, 2, 3}}, kLoop = {{0, 1, 0, 1}},
                                    kSnake = {{0, 1, 1, 0}}, kBothWays = {{0, 1, 2, 3}, {3, 2, 1, 0}};

std::vector<std::pair<std::string, ScheduleSpec>> OneReplica() {
  std::vector<std::pair<std::string, ScheduleSpec>> specs = {
      {"chain", Spec(kChain, kOneLane, 4, Style::kWhole)},
      {"chain, two in flight", Spec(kChain, kOneLane, 2, Style::kWhole)},
      {"chain, halves", Spec(kChain, kOneLane, 4, Style::kHalves)},
      {"chain, wide", Spec(kChain, kOneLane, 4, Style::kWide)},
      {"loop", Spec(kLoop, kOneLane, 2, Style::kWhole)},
      {"snake", Spec(kSnake, kOneLane, 4, Style::kWhole)},
      {"snake, halves", Spec(kSnake, kOneLane, 2, Style::kHalves)},
      {"snake, wide", Spec(kSnake, kOneLane, 2, Style::kWide)},
  };
  for (const ComputeOrder order : {ARRIVAL, BACKWARD_FIRST}) {
    ScheduleSpec spec = Spec(kChain, kOneLane, 4, Style::kWhole);
    spec.compute_order = order;
    specs.push_back({absl::StrCat("message-driven ", order), spec});
    // The last stage runs its backwards in halves.
    spec.order[3] = "F3.0 F3.1 F3.2 F3.3 I3.0 I3.1 W3.0 I3.2 W3.1 W3.2 I3.3 W3.3";
    specs.push_back({absl::StrCat("message-driven ", order, ", halves"), spec});
  }
  for (const TransferStreams streams : {PER_DIRECTION, SHARED}) {
    ScheduleSpec spec = Spec(kChain, kOneLane, 4, Style::kWhole);
    spec.transfer_streams = streams;
    specs.push_back({absl::StrCat("streams ", streams), spec});
  }
  return specs;
}

TEST(ScheduleRun, OneReplicaInOrderIsTheSameBits) {
  for (const AccumulationMode accumulation : {IN_ORDER, EXACT}) {
    ScheduleSpec reference = Spec(kOneRank, kOneLane, 1, Style::kWhole);
    reference.accumulation = accumulation;
    const Outcome expected = Train(reference);
    ASSERT_EQ(expected.losses.size(), 3u);
    EXPECT_LT(expected.losses[2], expected.losses[0]);
    EXPECT_GT(expected.norms[0], 0);
    for (auto& [name, spec] : OneReplica()) {
      SCOPED_TRACE(testing::Message() << name << ", accumulation " << accumulation);
      spec.accumulation = accumulation;
      EXPECT_TRUE(Train(spec) == expected);
    }
  }
}

TEST(ScheduleRun, ReplicasAreTheSameBitsIfExact) {
  ScheduleSpec reference = Spec(kOneRank, kOneLane, 1, Style::kWhole);
  for (const bool tied : {true, false}) {
    reference.accumulation = EXACT;
    reference.tied = tied;
    const Outcome expected = Train(reference);
    std::vector<ScheduleSpec> specs;
    for (const Style style : {Style::kWhole, Style::kHalves, Style::kWide}) {
      specs.push_back(Spec(kBothWays, {0, 0, 1, 1}, 4, style));
      // The same global batch, split between two data replicas.
      specs.push_back(Spec(kChain, {0, 0}, 2, style));
      specs.back().data = 2;
    }
    specs.push_back(Spec(kBothWays, {0, 1, 0, 1}, 4, Style::kWhole));
    specs.push_back(Spec(kBothWays, {0, 1}, 2, Style::kWhole));
    specs.back().data = 2;
    for (size_t i = 0; i < specs.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "spec " << i << ", tied " << tied);
      specs[i].accumulation = EXACT;
      specs[i].tied = tied;
      EXPECT_TRUE(Train(specs[i]) == expected);
      // With IN_ORDER accumulation in each replica, the results differ slightly, by rounding.
      specs[i].accumulation = IN_ORDER;
      const Outcome near = Train(specs[i]);
      ASSERT_EQ(near.losses.size(), 3u);
      for (int k = 0; k < 3; ++k) EXPECT_NEAR(near.losses[k], expected.losses[k], 1e-5 * expected.losses[k]);
    }
  }
}

// The contents of all PARAM buffers after three steps, as (tensor, bytes), for every rank that holds the tensor.
std::vector<std::pair<int, std::string>> WeightsOfAllRanks(const Program& program) {
  const int count = static_cast<int>(MeshRanks(program.mesh()));
  auto endpoints = *(*FindTransport("inproc"))->open(count);
  const TestData data(program.vocabulary());
  InterpreterOptions options;
  options.data = &data;
  options.timeout = std::chrono::seconds(20);
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<absl::Status> statuses(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes()));
    EXPECT_TRUE(RankState(program, rank, arenas[rank].get()).Initialize().ok());
  }
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      const auto backend = MakeCpuBackend(1);
      auto interpreter =
          Interpreter::Create(program, endpoints[rank].get(), backend.get(), arenas[rank].get(), options);
      statuses[rank] = interpreter.ok() ? (*interpreter)->RunBody(0, 3).status() : interpreter.status();
      if (!statuses[rank].ok()) endpoints[rank]->Abort(statuses[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::pair<int, std::string>> weights;
  for (int rank = 0; rank < count; ++rank) {
    EXPECT_TRUE(statuses[rank].ok()) << statuses[rank];
    for (const Buffer& buffer : program.templates(TemplateOfRank(program, rank)).buffers()) {
      if (buffer.role() != PARAM) continue;
      weights.push_back({buffer.tensor(), std::string(reinterpret_cast<const char*>(arenas[rank]->Data(buffer)),
                                                      static_cast<size_t>(buffer.bytes()))});
    }
  }
  return weights;
}

TEST(ScheduleRun, CopiesOfAWeightStayEqual) {
  for (const AccumulationMode accumulation : {IN_ORDER, EXACT}) {
    for (const int data : {1, 2}) {
      for (const bool tied : {true, false}) {
        ScheduleSpec spec = Spec(kBothWays, {0, 1, 0, 1}, 4, Style::kWhole);
        spec.accumulation = accumulation;
        spec.data = data;
        spec.tied = tied;
        const auto weights = WeightsOfAllRanks(Trainable(spec));
        std::map<int, std::string> first;
        for (const auto& [tensor, bytes] : weights) EXPECT_TRUE(first.emplace(tensor, bytes).first->second == bytes);
        EXPECT_GE(weights.size(), 2 * data * first.size());
      }
    }
  }
}

TEST(ScheduleRun, PairsAreTheSameBits) {
  const Outcome expected = Train(Spec({{0, 0}}, {0, 0, 0}, 1, Style::kWhole));
  const ScheduleSpec pairs{{"F0.0 F0.1 P0.2+0.0 B0.1 B0.2", "F1.0 B1.0 F1.1 P1.2+1.1 B1.2"}, {{0, 1}}, {0, 0, 0}};
  EXPECT_TRUE(Train(pairs) == expected);
}

TEST(ScheduleRun, OneStreamOfGroupsIsTheSameBits) {
  const Outcome expected = Train(Spec({{0, 0}}, {0, 0}, 1, Style::kWhole));
  ScheduleSpec spec{{"F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1 B1.1"}, {{0, 1}}, {0, 0}};
  spec.transfer_streams = SHARED;
  spec.group = true;
  EXPECT_TRUE(Train(spec) == expected);
}

TEST(ScheduleRun, SkipEdgesAreTheSameBits) {
  const std::vector<std::pair<int, int>> skips = {{0, 2}, {0, 3}, {1, 3}};
  ScheduleSpec reference = Spec(kOneRank, kOneLane, 1, Style::kWhole);
  reference.skips = skips;
  const Outcome expected = Train(reference);
  const Outcome without = Train(Spec(kOneRank, kOneLane, 1, Style::kWhole));
  EXPECT_FALSE(expected == without);
  for (auto& [name, spec] : OneReplica()) {
    // With skip edges, these lists would block on shared streams.
    if (spec.transfer_streams != PER_EDGE) continue;
    SCOPED_TRACE(name);
    spec.skips = skips;
    EXPECT_TRUE(Train(spec) == expected);
  }
}

}  // namespace
}  // namespace weft::exec
