// Compiles programs for every schedule with a flush. Each program must be proven, and as fast as the schedule alone. By
// default the test covers a sample of the plans; with --full it covers all of them.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/action_slots.h"
#include "planner/compile.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"
#include "simulator/simulate.h"
#include "tests/full.h"
#include "tests/parse_text.h"
#include "verifier/verify.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

const ModelGraph& Model() {
  static const ModelGraph* model = new ModelGraph(TinyGpt2(14));
  return *model;
}

Recipe MakeRecipe(int batch, const std::string& fields = "") {
  return Parse<Recipe>(absl::StrCat("sequence_length: 16 dropout: 0.1 global_batch_sequences: ", batch, " ", fields));
}

Plan MakePlan(int pipe, int data, const std::string& schedule, const std::string& fields = "") {
  return Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", data, " } axes { name: 'pipe' size: ", pipe,
                                  " } } schedule { ", schedule, " } accumulation: EXACT ", fields));
}

// The schedule's parameters as fields of the plan, one variant per choice that it offers.
std::vector<std::string> Variants(const ScheduleEntry& entry) {
  std::vector<std::string> variants = {""};
  if (entry.takes & kTakesVirtualStages) variants.push_back("virtual_stages: 2");
  if (entry.takes & kTakesWaves) variants.insert(variants.end(), {"waves: 1", "waves: 2"});
  if (entry.takes & kTakesLanes) variants.push_back("lanes: 4");
  if (entry.takes & kTakesLimit) variants.push_back("limit: 3");
  if (entry.takes & kTakesGroup) variants.push_back("virtual_stages: 2 group: 4");
  if (entry.takes & kTakesScaling) {
    variants.insert(variants.end(), {"scaling: FORWARD_DOUBLING", "scaling: BACKWARD_HALVING"});
  }
  for (std::string& variant : variants) {
    variant = absl::StrCat("name: '", std::string(entry.name), "' ", variant);
  }
  return variants;
}

// The slots that a program runs.
PipelineSchedule ScheduleOfProgram(const Program& program) {
  PipelineSchedule schedule;
  schedule.stages = program.stages();
  for (const Template& t : program.templates()) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    const int rank = static_cast<int>(schedule.order.size()) - 1;
    for (const Action& action : t.body()) {
      for (const Slot& slot : SlotsOf(action)) {
        order.push_back(slot);
        schedule.lanes = std::max(schedule.lanes, slot.lane + 1);
        schedule.placement.resize(schedule.lanes, std::vector<int>(schedule.stages, 0));
        schedule.placement[slot.lane][slot.stage] = rank;
      }
    }
  }
  if (program.compute_order() != STATIC_ORDER) {
    schedule.message_driven = MessageDriven{};
    if (program.compute_order() == BACKWARD_FIRST) schedule.message_driven->rule = MessageDriven::Rule::kBackwardFirst;
  }
  return schedule;
}

void ExpectSound(const Program& program) {
  for (const Finding& finding : FindViolations(program)) ADD_FAILURE() << finding.rule << ": " << finding.message;
}

// Checks that with unit costs and free transfers a simulated program takes as long as its slots alone.
void ExpectUnitCosts(const Program& program, int limit) {
  PipelineSchedule schedule = ScheduleOfProgram(program);
  if (schedule.message_driven) schedule.message_driven->limit = limit;
  for (const SlotCosts& costs : {SlotCosts{1, 1, 1}, SlotCosts{1, 2, 1}, SlotCosts{2, 3, 1}, SlotCosts{10, 20, 7}}) {
    if (!full && costs.forward == 1) continue;
    auto timing = TimeSchedule(schedule, program.microbatches(), costs);
    ASSERT_TRUE(timing.ok()) << timing.status();
    sim::SimulateOptions options;
    options.cost = "unit";
    options.network = "none";
    options.cost_options.unit_forward = {costs.forward * 1'000'000};
    options.cost_options.unit_backward = {costs.backward * 1'000'000};
    options.cost_options.unit_weight = {costs.weight * 1'000'000};
    auto simulation = sim::Simulate(program, TinyCluster(), options);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    EXPECT_NEAR(simulation->report.makespan_seconds() * 1e6,
                static_cast<double>(timing->makespan) / static_cast<double>(timing->unit), 1e-6)
        << "forward " << costs.forward << " backward " << costs.backward << " weight " << costs.weight;
  }
}

class EveryScheduleTest : public testing::TestWithParam<const ScheduleEntry*> {};
std::vector<const ScheduleEntry*> Entries() {
  std::vector<const ScheduleEntry*> entries;
  for (const ScheduleEntry& entry : Schedules()) entries.push_back(&entry);
  return entries;
}
INSTANTIATE_TEST_SUITE_P(Schedules, EveryScheduleTest, testing::ValuesIn(Entries()), [](const auto& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(EveryScheduleTest, GivesAProvenProgramAsFastAsItself) {
  const ScheduleEntry& entry = *GetParam();
  if (absl::StartsWith(entry.name, "pipedream")) return;
  int compiled = 0;
  const std::vector<std::string> variants = Variants(entry);
  for (const std::string& variant : variants) {
    for (const auto& [pipe, batch] : {std::pair(1, 2), {2, 4}, {4, 8}, {4, 12}}) {
      if (!full && batch == (&variant == &variants.front() ? 2 : 12)) continue;
      const bool halves = absl::StrContains(variant, "HALVING");
      SCOPED_TRACE(absl::StrCat(variant, ", ", pipe, " ranks, ", batch, " sequences"));
      const Recipe recipe = MakeRecipe(batch, halves ? "microbatch_sequences: 2" : "");
      auto program = CompilePlan(Model(), recipe, MakePlan(pipe, 1, variant), TinyCluster(), {});
      if (!program.ok()) {
        // The schedule itself does not support this number of ranks or microbatches.
        EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument) << program.status();
        const std::string message(program.status().message());
        EXPECT_TRUE(absl::StrContains(message, "ranks") || absl::StrContains(message, "microbatches") ||
                    absl::StrContains(message, "lanes") || absl::StrContains(message, "group"))
            << message;
        continue;
      }
      ++compiled;
      ExpectSound(*program);
      ASSERT_TRUE(program->has_evaluation());
      for (const Template& t : program->evaluation().templates()) {
        for (const Action& action : t.body()) {
          EXPECT_TRUE(SlotsOf(action).empty() || (action.kind() == FORWARD && action.width() <= 1)) << action.name();
        }
      }
      ExpectUnitCosts(*program, absl::StrContains(variant, "limit: 3") ? 3 : pipe);
    }
  }
  EXPECT_GT(compiled, 0);
}

TEST_P(EveryScheduleTest, WorksWithReplicasInOrderWhereItKeepsIt) {
  const ScheduleEntry& entry = *GetParam();
  if (absl::StartsWith(entry.name, "pipedream")) return;
  for (const char* sync : {"EAGER", "LAZY", "EAGER_OPT"}) {
    for (const char* accumulation : {"IN_ORDER", "EXACT"}) {
      if (std::string(sync) == "LAZY" && std::string(accumulation) == "EXACT") continue;
      if (!full && std::string(sync) == "EAGER" && std::string(accumulation) == "EXACT") continue;
      SCOPED_TRACE(absl::StrCat(sync, " ", accumulation));
      Plan plan = MakePlan(4, 2, absl::StrCat("name: '", std::string(entry.name), "'"),
                           absl::StrCat("gradient_sync: ", sync, " gradient_bucket_bytes: 4096"));
      AccumulationMode mode = EXACT;
      ASSERT_TRUE(AccumulationMode_Parse(accumulation, &mode));
      plan.set_accumulation(mode);
      auto program = CompilePlan(Model(), MakeRecipe(16), plan, TinyCluster(), {});
      if (!program.ok() && mode == IN_ORDER) {
        EXPECT_THAT(std::string(program.status().message()), HasSubstr("ascending microbatch order"))
            << program.status();
        continue;
      }
      ASSERT_TRUE(program.ok()) << program.status();
      ExpectSound(*program);
    }
  }
}

// For all settings of transfers, the program is proven, or the refusal names the actions that wait for one another.
TEST_P(EveryScheduleTest, TransfersGoInAnyOrder) {
  const ScheduleEntry& entry = *GetParam();
  if (absl::StartsWith(entry.name, "pipedream")) return;
  for (const char* order : {"BY_EDGE", "BY_DIRECTION", "TOGETHER"}) {
    for (const char* placement : {"EARLY", "DEFERRED"}) {
      for (const char* grouped : {"false", "true"}) {
        SCOPED_TRACE(absl::StrCat(order, " ", placement, " ", grouped));
        // Only --full tests the default settings, and settings that are refused for every schedule.
        if (!full && std::string(placement) == "EARLY" && std::string(grouped) == "false") continue;
        const Plan plan = MakePlan(
            4, 1, absl::StrCat("name: '", std::string(entry.name), "'"),
            absl::StrCat("transfer_order: ", order, " transfer_placement: ", placement, " group_transfers: ", grouped));
        auto program = CompilePlan(Model(), MakeRecipe(8), plan, TinyCluster(), {});
        if (program.ok()) {
          ExpectSound(*program);
          continue;
        }
        // On a shared stream, an early receive may precede an action that it waits for. A rank that chooses its order
        // at run time cannot promise the order of its messages.
        const bool naive =
            std::string(order) != "BY_EDGE" && (std::string(placement) == "EARLY" || entry.name == "axonn");
        EXPECT_TRUE(naive) << program.status();
        EXPECT_THAT(std::string(program.status().message()), HasSubstr("wait for one another"));
      }
    }
  }
}

TEST(CompileSchedulesTest, FastestTransfersAreChosenAndMentioned) {
  std::vector<std::string> notes;
  CompileOptions options;
  options.notes = &notes;
  auto program = CompilePlan(Model(), MakeRecipe(8), MakePlan(4, 1, "name: '1f1b'", "transfer_placement: FASTEST"),
                             TinyCluster(), options);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(notes.size(), 1);
  EXPECT_THAT(notes[0], testing::AllOf(HasSubstr("FASTEST: transfers are "), HasSubstr("early "),
                                       HasSubstr("deferred "), HasSubstr("deferred in groups ")));
  // No other choice is faster.
  auto seconds = [](const Program& p) { return sim::Simulate(p, TinyCluster(), {})->report.iteration_seconds(); };
  for (const char* placement : {"EARLY", "DEFERRED"}) {
    for (const char* grouped : {"false", "true"}) {
      auto other = CompilePlan(Model(), MakeRecipe(8),
                               MakePlan(4, 1, "name: '1f1b'",
                                        absl::StrCat("transfer_placement: ", placement, " group_transfers: ", grouped)),
                               TinyCluster(), {});
      ASSERT_TRUE(other.ok()) << other.status();
      EXPECT_LE(seconds(*program), seconds(*other)) << placement << " " << grouped;
    }
  }
}

TEST(CompileSchedulesTest, FrozenSchedulesAreStatic) {
  for (const char* freeze : {"false", "true"}) {
    auto program = CompilePlan(Model(), MakeRecipe(8), MakePlan(4, 1, absl::StrCat("name: 'axonn' freeze: ", freeze)),
                               TinyCluster(), {});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->compute_order(), std::string(freeze) == "true" ? STATIC_ORDER : ARRIVAL);
    EXPECT_EQ(program->evaluation().compute_order(), STATIC_ORDER);
  }
}

TEST(CompileSchedulesTest, AScheduleOfTheUsersOwnIsCompiled) {
  constexpr char kOwn[] =
      "weft schedule 1\\nname: own\\nranks: 2\\nmicrobatches: 2\\n"
      "rank 0: F0.0 F0.1 F3.0 B3.0 F3.1 B3.1 B0.0 B0.1\\nrank 1: F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 B2.1 B1.1\\n";
  auto program =
      CompilePlan(Model(), MakeRecipe(2), MakePlan(2, 1, absl::StrCat("definition: '", kOwn, "'")), TinyCluster(), {});
  ASSERT_TRUE(program.ok()) << program.status();
  ExpectSound(*program);
  EXPECT_EQ(program->stages(), 4);
  EXPECT_EQ(program->templates_size(), 2);
  auto three =
      CompilePlan(Model(), MakeRecipe(3), MakePlan(2, 1, absl::StrCat("definition: '", kOwn, "'")), TinyCluster(), {});
  EXPECT_THAT(std::string(three.status().message()), HasSubstr("microbatches"));
}

TEST(CompileSchedulesTest, RefusalsNameTheField) {
  auto error = [](const std::string& schedule, const std::string& recipe = "", const std::string& plan = "") {
    auto program = CompilePlan(Model(), MakeRecipe(4, recipe), MakePlan(2, 1, schedule, plan), TinyCluster(), {});
    EXPECT_FALSE(program.ok());
    return std::string(program.status().message());
  };
  EXPECT_THAT(error("name: 'chimera' scaling: BACKWARD_HALVING"),
              HasSubstr("recipe.microbatch_sequences = 1 must be even; nearest: 2"));
  EXPECT_THAT(error("name: '1f1b' virtual_stages: 2"), HasSubstr("interleaved"));
  EXPECT_THAT(error("name: 'interleaved' virtual_stages: 2", "", "partition { layers_per_stage: [10, 12] }"),
              HasSubstr("plan.partition.layers_per_stage has 2 entries; it must have 4"));
  EXPECT_THAT(error("name: 'looped-bfs' virtual_stages: 16"), HasSubstr("stages"));
}

}  // namespace
}  // namespace weft::planner
