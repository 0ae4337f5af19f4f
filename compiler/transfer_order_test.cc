// A schedule that passes CheckSchedule can run to its end. Its program must run to its end too, in whatever way
// transfers are ordered: nothing that the compiler adds may make ranks wait for one another in a cycle.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule_text.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

// Compiles and verifies a program together with its evaluation program.
absl::Status CompileWith(const std::string& definition, int ranks, int microbatches, const std::string& fields) {
  static const ModelGraph* model = new ModelGraph(*ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 20, "n_positions": 4, "n_embd": 4, "n_head": 1, "n_layer": 6})", "tiny"));
  static const Cluster* cluster = new Cluster(Parse<Cluster>(R"(
    name: "test" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e12 reserved_bytes: 1000
             peaks { dtype: FP32 flops_per_second: 1e13 } }
    intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 }
    inter_node { bytes_per_second: 1e10 latency_seconds: 1e-5 }
    nics_per_node: 1 host { bytes_per_second: 1e10 } host_memory_bytes: 1000000000)"));
  const auto recipe = Parse<Recipe>(absl::StrCat("sequence_length: 4 global_batch_sequences: ", microbatches));
  auto plan =
      Parse<Plan>(absl::StrCat("mesh { axes { name: 'pipe' size: ", ranks, " } } accumulation: EXACT ", fields));
  plan.mutable_schedule()->set_definition(definition);
  return planner::CompilePlan(*model, recipe, plan, *cluster, {}).status();
}

// All transfer settings of a plan, except early receives on shared streams, which may block.
std::vector<std::string> Choices() {
  std::vector<std::string> choices;
  for (const char* placement : {"transfer_placement: EARLY", "transfer_placement: DEFERRED",
                                "transfer_placement: DEFERRED transfer_order: BY_DIRECTION",
                                "transfer_placement: DEFERRED transfer_order: TOGETHER"}) {
    for (const char* grouped : {"false", "true"})
      choices.push_back(absl::StrCat(placement, " group_transfers: ", grouped));
  }
  return choices;
}

void ExpectNoneBlocks(const std::string& definition, int ranks, int microbatches) {
  for (const std::string& choice : Choices()) {
    const absl::Status status = CompileWith(definition, ranks, microbatches, choice);
    EXPECT_TRUE(status.ok()) << choice << ": " << status << "\n" << definition;
  }
}

// In the evaluation program, rank 0 ends with a forward whose result rank 1 needs before it receives earlier messages.
TEST(TransferOrderTest, LastForwardWaitsForNoSendThatNeedsIt) {
  ExpectNoneBlocks(
      "weft schedule 1\nranks: 2\nmicrobatches: 4\nlane 0: 0 1\nlane 1: 0 1\n"
      "rank 0: F0.0 F0.1 F0.2 F0.3@1 B0.3@1 B0.0 B0.1 B0.2\n"
      "rank 1: F1.3@1 B1.3@1 F1.0 F1.1 F1.2 B1.0 B1.1 B1.2\n",
      2, 4);
}

// Transfer groups on streams of their own. The actions that make a group's messages wait for earlier sends, and the
// actions that read the messages run in another order.
TEST(TransferOrderTest, GroupsKeepTheOrderOfAllWaits) {
  ExpectNoneBlocks(
      "weft schedule 1\nranks: 2\nmicrobatches: 6\nlane 0: 0 1 0 1 0 1\n"
      "rank 0: F0.0 F0.1 F0.2 F0.3 F0.4 F0.5 F2.0 F4.0 I4.0 I2.0 W4.0 I0.0 F2.1 F2.2 F2.3 W2.0 F4.1 W0.0 I4.1 I2.1 "
      "I0.1 F2.4 W2.1 W4.1 F4.2 I4.2 W4.2 I2.2 I0.2 F4.3 F4.4 W2.2 I4.3 I2.3 I0.3 F2.5 W0.1 W0.2 W2.3 W0.3 W4.3 F4.5 "
      "I4.4 I2.4 I0.4 I4.5 I2.5 I0.5 W2.4 W4.4 W0.4 W0.5 W2.5 W4.5\n"
      "rank 1: F1.0 F1.1 F1.2 F1.3 F3.0 F5.0 I5.0 I3.0 I1.0 W5.0 W1.0 F3.1 F1.4 F5.1 I5.1 I3.1 I1.1 F3.2 W1.1 F1.5 "
      "W5.1 F3.3 F3.4 W3.0 W3.1 F5.2 I5.2 W5.2 I3.2 W3.2 I1.2 F5.3 I5.3 I3.3 I1.3 W1.2 W5.3 F3.5 W1.3 F5.4 I5.4 I3.4 "
      "I1.4 W3.3 W5.4 F5.5 I5.5 I3.5 I1.5 W3.4 W3.5 W5.5 W1.4 W1.5\n",
      2, 6);
}

// A schedule whose lists follow one random order of all slots, in which each slot comes after those that it needs.
NamedSchedule RandomSchedule(std::mt19937_64& random) {
  auto below = [&](size_t n) { return static_cast<int>(random() % n); };
  auto pick = [&](std::vector<int> values) { return values[below(values.size())]; };
  NamedSchedule named;
  PipelineSchedule& schedule = named.schedule;
  const int ranks = pick({2, 2, 3, 4});
  schedule.stages = std::max(ranks, std::min(6, ranks * pick({1, 2, 3})));
  schedule.lanes = pick({1, 1, 2});
  named.microbatches = pick({2, 4, 6});
  for (int lane = 0; lane < schedule.lanes; ++lane) {
    const int kind = below(4);
    std::vector<int>& placement = schedule.placement.emplace_back();
    for (int s = 0; s < schedule.stages; ++s) {
      const int around = s % ranks;
      const bool back = kind == 1 || (kind == 2 && s / ranks % 2 == 1);
      placement.push_back(kind == 3 && s >= ranks ? below(ranks) : back ? ranks - 1 - around : around);
    }
  }
  schedule.order.resize(ranks);
  struct Task {
    Slot slot;
    std::vector<std::tuple<SlotKind, int, int>> needs;
  };
  const bool split = below(2) == 1, gradients_first = below(2) == 1;
  const SlotKind back = split ? SlotKind::kBackwardInput : SlotKind::kBackward;
  std::vector<Task> todo;
  for (int m = 0; m < named.microbatches; ++m) {
    const int16_t lane = static_cast<int16_t>(below(schedule.lanes));
    for (int s = 0; s < schedule.stages; ++s) {
      Task forward{{SlotKind::kForward, lane, s, m}, {}}, backward{{back, lane, s, m}, {{SlotKind::kForward, s, m}}};
      if (s > 0) forward.needs.emplace_back(SlotKind::kForward, s - 1, m);
      if (s + 1 < schedule.stages) backward.needs.emplace_back(back, s + 1, m);
      todo.push_back(forward);
      todo.push_back(backward);
      if (split) todo.push_back({{SlotKind::kBackwardWeight, lane, s, m}, {{back, s, m}}});
    }
  }
  std::set<std::tuple<SlotKind, int, int>> done;
  while (!todo.empty()) {
    std::vector<size_t> ready, gradients;
    for (size_t i = 0; i < todo.size(); ++i) {
      const auto& needs = todo[i].needs;
      if (!std::all_of(needs.begin(), needs.end(), [&](const auto& need) { return done.count(need) > 0; })) continue;
      ready.push_back(i);
      if (todo[i].slot.kind == back) gradients.push_back(i);
    }
    const auto& from = gradients_first && !gradients.empty() && below(5) > 0 ? gradients : ready;
    const size_t i = from[below(from.size())];
    const Slot slot = todo[i].slot;
    done.emplace(slot.kind, slot.stage, slot.microbatch);
    schedule.order[schedule.placement[slot.lane][slot.stage]].push_back(slot);
    todo.erase(todo.begin() + i);
  }
  return named;
}

class RandomTransferOrderTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Parts, RandomTransferOrderTest, testing::Range(0, 5));

TEST_P(RandomTransferOrderTest, RunWithEveryOrderOfTransfers) {
  for (uint64_t seed = 1 + GetParam(); seed <= 40; seed += 5) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const NamedSchedule named = RandomSchedule(random);
    ASSERT_TRUE(CheckSchedule(named.schedule, named.microbatches).ok());
    ExpectNoneBlocks(FormatSchedule(named), static_cast<int>(named.schedule.order.size()), named.microbatches);
  }
}

}  // namespace
}  // namespace weft
