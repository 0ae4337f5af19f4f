#include "planner/choices.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "compiler/lower_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/evaluate.h"
#include "planner/plan_figures_testing.h"
#include "simulator/runtime/runtime_memory.h"
#include "verifier/verify.h"

namespace weft::planner {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kPipe[] = "mesh { axes { name: 'data' size: 2 } axes { name: 'pipe' size: 4 } } ";

// A cluster on which messages take long, so that the placement of transfers matters.
Cluster SlowCluster() {
  Cluster cluster = TinyCluster();
  cluster.mutable_intra_node()->set_latency_seconds(1e-4);
  return cluster;
}

PlanInputs Inputs(const std::string& plan, int layers = 8, const std::string& recipe = "global_batch_sequences: 12") {
  auto inputs = ResolveInputs(TinyGpt2(layers), Parse<Recipe>("sequence_length: 16 " + recipe),
                              Parse<Plan>(kPipe + plan), SlowCluster(), nullptr);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  return inputs.ok() ? *std::move(inputs) : PlanInputs();
}

StepCost Costs(const PlanInputs& inputs) { return *CostsOf(inputs); }

Program ProgramOf(const PlanInputs& inputs) {
  CompileContext context;
  auto program = CompileTraining(context, inputs, Costs(inputs), nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

TEST(PlanChoices, KeepsChoicesOfTheUser) {
  for (const char* plan : {"", "recompute { mode: FULL }", "recompute { mode: INTERVAL interval: 2 }",
                           "transfer_placement: DEFERRED", "schedule { name: 'axonn' }"}) {
    PlanInputs inputs = Inputs(plan);
    const std::string before = inputs.plan.DebugString();
    const StepCost cost = Costs(inputs);
    std::vector<std::string> notes;
    EXPECT_TRUE(ResolveRecompute(inputs, cost, nullptr, &notes).ok());
    EXPECT_TRUE(ChooseTransfers(inputs, cost, &notes).ok());
    const auto frozen = Freeze(inputs, cost);
    ASSERT_TRUE(frozen.ok()) << frozen.status();
    EXPECT_FALSE(frozen->has_value());
    EXPECT_EQ(inputs.plan.DebugString(), before);
    EXPECT_THAT(notes, IsEmpty());
  }
}

// For every other interval, the highest arena is not lower. For every smaller interval, it is higher.
TEST(ResolveRecompute, TheIntervalWithTheLowestArena) {
  PlanInputs inputs = Inputs("recompute { mode: INTERVAL }", 20);
  std::vector<std::string> notes;
  ASSERT_TRUE(ResolveRecompute(inputs, Costs(inputs), nullptr, &notes).ok());
  const int chosen = inputs.plan.recompute().interval();
  ASSERT_GE(chosen, 1);
  EXPECT_EQ(inputs.plan.recompute().mode(), Recompute::INTERVAL);
  EXPECT_EQ(inputs.plan.partition().layers_per_stage_size(), 4);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("interval")));
  const int64_t lowest = HighestArena(ProgramOf(inputs));
  for (int interval = 1; interval <= 6; ++interval) {
    PlanInputs other = inputs;
    other.plan.mutable_recompute()->set_interval(interval);
    EXPECT_GE(HighestArena(ProgramOf(other)), interval < chosen ? lowest + 1 : lowest) << interval;
  }
}

TEST(ResolveRecompute, AsFewLayersAsFit) {
  // If everything fits, no layer is recomputed.
  PlanInputs inputs = Inputs("recompute { mode: FIT }", 20);
  std::vector<std::string> notes;
  const PlanInputs asked = inputs;
  ASSERT_TRUE(ResolveRecompute(inputs, Costs(inputs), nullptr, &notes).ok());
  EXPECT_EQ(inputs.plan.recompute().layers_size(), 0);
  EXPECT_EQ(notes.size(), 1u);
  const int64_t most = HighestArena(ProgramOf(inputs));
  // If the device states no memory size, everything fits too.
  PlanInputs unknown = asked;
  unknown.cluster.mutable_device()->clear_memory_bytes();
  unknown.cluster.mutable_device()->clear_reserved_bytes();
  ASSERT_TRUE(ResolveRecompute(unknown, Costs(unknown), nullptr, nullptr).ok());
  EXPECT_EQ(unknown.plan.recompute().DebugString(), inputs.plan.recompute().DebugString());
  // With a little less memory some layers are recomputed, and the program fits.
  PlanInputs tight = asked;
  tight.cluster.mutable_device()->set_memory_bytes(most - 1 + tight.cluster.device().reserved_bytes());
  ASSERT_TRUE(ResolveRecompute(tight, Costs(tight), nullptr, nullptr).ok());
  EXPECT_EQ(tight.plan.recompute().mode(), Recompute::LAYERS);
  ASSERT_GT(tight.plan.recompute().layers_size(), 0);
  EXPECT_LT(HighestArena(ProgramOf(tight)), most);
  // If one layer less were recomputed, it would not fit.
  PlanInputs fewer = tight;
  fewer.plan.mutable_recompute()->mutable_layers()->RemoveLast();
  EXPECT_GE(HighestArena(ProgramOf(fewer)), most);
}

// A framework whose allocator wastes memory recomputes more layers than weft's own executor, and as many as it needs.
TEST(ResolveRecompute, FitsTheMemoryOfTheRuntime) {
  PlanInputs asked = Inputs("recompute { mode: FIT }", 20);
  asked.cluster.mutable_device()->set_memory_bytes(HighestArena(ProgramOf(Inputs("", 20))) +
                                                   asked.cluster.device().reserved_bytes());
  Runtime wasteful;
  wasteful.mutable_memory()->set_fragmentation(0.05);
  PlanInputs own = asked, under = asked;
  ASSERT_TRUE(ResolveRecompute(own, Costs(own), nullptr, nullptr).ok());
  ASSERT_TRUE(ResolveRecompute(under, Costs(under), &wasteful, nullptr).ok());
  EXPECT_EQ(own.plan.recompute().layers_size(), 0);
  ASSERT_GT(under.plan.recompute().layers_size(), 0);
  const auto most = [&](const PlanInputs& inputs) {
    const std::vector<int64_t> bytes = sim::BytesOfTemplatesUnder(ProgramOf(inputs), wasteful);
    return *std::max_element(bytes.begin(), bytes.end());
  };
  EXPECT_LE(most(under), UsableBytes(asked.cluster.device()));
  PlanInputs fewer = under;
  fewer.plan.mutable_recompute()->mutable_layers()->RemoveLast();
  EXPECT_GT(most(fewer), UsableBytes(asked.cluster.device()));
}

// For schedules without a flush, too, the choice compares the arenas of the final program. They hold the versions of
// the weights, and the activations saved for backwards of later steps.
TEST(ResolveRecompute, FitsSchedulesWithoutAFlush) {
  const auto bytes = [](const PlanInputs& inputs) {
    const auto program = LowerPlan(inputs, Costs(inputs), /*evaluation=*/false, nullptr, nullptr);
    EXPECT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(VerifyProgram(*program, {.allow_unfit = true}).ok()) << VerifyProgram(*program, {.allow_unfit = true});
    std::vector<int64_t> of_ranks(4);
    for (const Template& t : program->templates()) {
      for (const Coordinate& pin : t.pins()) {
        if (pin.axis() == "pipe") of_ranks[pin.index()] = t.device_arena_bytes();
      }
    }
    return of_ranks;
  };
  const auto asked = [](const std::string& schedule, const std::string& recompute) {
    auto inputs = ResolveInputs(TinyGpt2(11, R"(, "tie_word_embeddings": false)"),
                                Parse<Recipe>("sequence_length: 16 clip_norm: 0 global_batch_sequences: " +
                                              std::string(schedule == "pipedream" ? "2" : "8")),
                                Parse<Plan>(absl::StrCat(kPipe, "schedule { name: '", schedule, "' } ", recompute)),
                                SlowCluster(), nullptr);
    EXPECT_TRUE(inputs.ok()) << inputs.status();
    return *std::move(inputs);
  };
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    SCOPED_TRACE(schedule);
    const PlanInputs fit = asked(schedule, "recompute { mode: FIT }");
    // If everything fits, no layer is recomputed. After that, the device has one byte less than the fullest rank needs.
    PlanInputs roomy = fit;
    std::vector<std::string> notes;
    ASSERT_EQ(ResolveRecompute(roomy, Costs(roomy), nullptr, &notes), absl::OkStatus());
    EXPECT_EQ(roomy.plan.recompute().layers_size(), 0);
    EXPECT_THAT(notes, ElementsAre(HasSubstr("plan.recompute.mode = FIT")));
    const std::vector<int64_t> full = bytes(roomy);
    const int64_t capacity = *std::max_element(full.begin(), full.end()) - 1;
    PlanInputs tight = fit;
    tight.cluster.mutable_device()->set_memory_bytes(capacity + tight.cluster.device().reserved_bytes());
    ASSERT_EQ(ResolveRecompute(tight, Costs(tight), nullptr, nullptr), absl::OkStatus());
    EXPECT_EQ(tight.plan.recompute().mode(), Recompute::LAYERS);
    ASSERT_GT(tight.plan.recompute().layers_size(), 0);
    for (int64_t rank : bytes(tight)) EXPECT_LE(rank, capacity);
    // If one layer less were recomputed, it would not fit.
    PlanInputs fewer = tight;
    fewer.plan.mutable_recompute()->mutable_layers()->RemoveLast();
    if (fewer.plan.recompute().layers().empty()) fewer.plan.clear_recompute();
    const std::vector<int64_t> more = bytes(fewer);
    EXPECT_GT(*std::max_element(more.begin(), more.end()), capacity);
    // The interval with the fewest bytes is chosen.
    PlanInputs interval = asked(schedule, "recompute { mode: INTERVAL }");
    ASSERT_EQ(ResolveRecompute(interval, Costs(interval), nullptr, nullptr), absl::OkStatus());
    ASSERT_GE(interval.plan.recompute().interval(), 1);
    const std::vector<int64_t> best = bytes(interval);
    for (int other = 1; other <= 3; ++other) {
      PlanInputs tried = interval;
      tried.plan.mutable_recompute()->set_interval(other);
      const std::vector<int64_t> worse = bytes(tried);
      EXPECT_GE(*std::max_element(worse.begin(), worse.end()), *std::max_element(best.begin(), best.end())) << other;
    }
  }
}

TEST(ResolveRecompute, RefusesPlansWithoutAChoice) {
  for (const auto& [recompute, field] : {std::pair{"recompute { mode: FIT }", "plan.recompute.mode = FIT"},
                                         std::pair{"recompute { mode: INTERVAL }", "plan.recompute.interval = 0"}}) {
    PlanInputs inputs = Inputs(absl::StrCat(recompute, " schedule { name: 'axonn' freeze: true } zero { stage: 2 }"));
    EXPECT_THAT(std::string(ResolveRecompute(inputs, Costs(inputs), nullptr, nullptr).message()),
                AllOf(HasSubstr(field), HasSubstr("plan.schedule.freeze gives schedule 'axonn' an order")));
  }
}

// After Freeze, the plan states the order, and it resolves to the schedule that Freeze returned.
TEST(Freeze, BecomesADefinition) {
  for (const char* plan : {"", "zero { stage: 3 }", "transfer_order: TOGETHER transfer_placement: DEFERRED",
                           "transfer_placement: FASTEST"}) {
    SCOPED_TRACE(plan);
    PlanInputs inputs = Inputs(absl::StrCat(plan, " schedule { name: 'axonn' freeze: true }"));
    const PlanInputs asked = inputs;
    const auto frozen = Freeze(inputs, Costs(inputs));
    ASSERT_TRUE(frozen.ok()) << frozen.status();
    ASSERT_TRUE(frozen->has_value());
    EXPECT_GT((*frozen)->message_driven_seconds, 0);
    EXPECT_EQ((*frozen)->without_collectives, std::string(plan) == "zero { stage: 3 }");
    EXPECT_FALSE(inputs.schedule.message_driven.has_value());
    EXPECT_EQ(inputs.plan.schedule().name(), "axonn");
    EXPECT_FALSE(inputs.plan.schedule().freeze());
    // Nothing else of the plan has changed.
    PlanInputs restored = inputs;
    *restored.plan.mutable_schedule() = asked.plan.schedule();
    EXPECT_EQ(restored.plan.DebugString(), asked.plan.DebugString());
    // Every rank has the same slots, in some order.
    ASSERT_EQ(inputs.schedule.order.size(), asked.schedule.order.size());
    for (size_t rank = 0; rank < inputs.schedule.order.size(); ++rank) {
      EXPECT_THAT(inputs.schedule.order[rank], ::testing::UnorderedElementsAreArray(asked.schedule.order[rank]));
    }
    // There is nothing left to freeze.
    const auto again = Freeze(inputs, Costs(inputs));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_FALSE(again->has_value());
    if (std::string(plan) == "transfer_placement: FASTEST") continue;
    const Program program = ProgramOf(inputs);
    EXPECT_TRUE(VerifyProgram(program).ok()) << VerifyProgram(program);
    const auto note = NoteOfFreezing(**frozen, program, inputs);
    ASSERT_TRUE(note.ok()) << note.status();
    EXPECT_THAT(*note, AllOf(HasSubstr("plan.schedule.freeze"), HasSubstr("'axonn'"), HasSubstr("s static")));
    EXPECT_EQ(note->find("whose stages have no collectives") != std::string::npos, (*frozen)->without_collectives);
  }
}

// None of the four choices simulates faster, and the note gives the time of each.
TEST(ChooseTransfers, TheFastestPlacement) {
  for (const char* plan : {"schedule { name: '1f1b' } ", "schedule { name: 'gpipe' } ",
                           "schedule { name: 'interleaved' virtual_stages: 2 } transfer_order: TOGETHER "}) {
    SCOPED_TRACE(plan);
    PlanInputs inputs = Inputs(absl::StrCat(plan, "transfer_placement: FASTEST"));
    std::vector<std::string> notes;
    ASSERT_TRUE(ChooseTransfers(inputs, Costs(inputs), &notes).ok());
    EXPECT_NE(inputs.plan.transfer_placement(), FASTEST);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_THAT(notes[0], HasSubstr("plan.transfer_placement = FASTEST: transfers are "));
    const double chosen = SecondsOf(ProgramOf(inputs), inputs.cluster);
    int tried = 0;
    for (const TransferPlacement placement : {EARLY, DEFERRED}) {
      for (const bool grouped : {false, true}) {
        PlanInputs other = inputs;
        other.plan.set_transfer_placement(placement);
        other.plan.set_group_transfers(grouped);
        if (!VerifyProgram(ProgramOf(other)).ok()) continue;
        ++tried;
        EXPECT_LE(chosen, SecondsOf(ProgramOf(other), other.cluster)) << placement << " " << grouped;
      }
    }
    EXPECT_GE(tried, 2);
  }
}

}  // namespace
}  // namespace weft::planner
