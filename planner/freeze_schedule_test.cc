// Tests that frozen programs have the order of a simulated step, not the order for equal stages and free links. Also
// tests which schedules depend on the links.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"
#include "simulator/simulate.h"
#include "tests/parse_text.h"
#include "verifier/verify.h"

namespace weft::planner {
namespace {

using testing::HasSubstr;

const ModelGraph& Model() {
  static const ModelGraph* model = new ModelGraph(*ImportHuggingFaceConfig(
      R"({"model_type": "gpt2", "vocab_size": 100, "n_positions": 16, "n_embd": 16, "n_head": 2, "n_layer": 12})",
      "tiny"));
  return *model;
}

Cluster MakeCluster(double latency) {
  return Parse<Cluster>(absl::StrCat(R"(
    name: "test" nodes: 1 devices_per_node: 8
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e9 reserved_bytes: 1000
             peaks { dtype: FP32 flops_per_second: 1e10 } }
    host { bytes_per_second: 1e10 } host_memory_bytes: 1000000000
    intra_node { bytes_per_second: 1e10 latency_seconds: )",
                                     latency, " } "));
}

// The cases differ in their links and stages: free links and equal stages, slow links, and one stage far slower than
// the others.
struct Case {
  const char* name;
  double latency;
  const char* partition;
};
constexpr Case kEqual = {"equal", 1e-9, ""};
constexpr Case kSlowLinks = {"slow links", 1e-2, ""};
constexpr Case kUnequal = {"unequal stages", 1e-9, "partition { layers_per_stage: [2, 1, 9, 2] }"};

Plan MakePlan(const Case& c, const std::string& schedule, const std::string& more = "", int data = 1) {
  return Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", data,
                                  " } axes { name: 'pipe' size: 4 } } schedule { ", schedule, " } ", c.partition,
                                  more));
}

absl::StatusOr<Program> CompileCase(const Case& c, const Plan& plan, std::vector<std::string>* notes = nullptr) {
  const int data = static_cast<int>(plan.mesh().axes(0).size());
  const Recipe recipe = Parse<Recipe>(absl::StrCat("sequence_length: 16 global_batch_sequences: ", 12 * data));
  CompileOptions options;
  options.notes = notes;
  return CompilePlan(Model(), recipe, plan, MakeCluster(c.latency), options);
}

// The order of a rank's list, as "F0 F1 B0 ...".
std::string OrderOf(const Program& program, int rank) {
  std::string order;
  for (const Action& action : program.templates(rank).body()) {
    if (action.kind() == FORWARD) absl::StrAppend(&order, "F", action.microbatch(), " ");
    if (action.kind() == BACKWARD) absl::StrAppend(&order, "B", action.microbatch(), " ");
  }
  return order;
}

std::string OrderOf(const PipelineSchedule& schedule, int rank) {
  std::string order;
  for (const Slot& slot : schedule.order[rank]) {
    absl::StrAppend(&order, slot.kind == SlotKind::kForward ? "F" : "B", slot.microbatch, " ");
  }
  return order;
}

// The order that a run took.
std::string OrderOf(const Trace& trace, const Program& program, int rank) {
  std::string order;
  std::vector<bool> started;
  const Template& t = program.templates(rank);
  for (const TraceEvent& event : trace.ranks(rank).events()) {
    for (const Action& action : t.body()) {
      if (action.id() != event.action() || (action.kind() != FORWARD && action.kind() != BACKWARD)) continue;
      started.resize(std::max<size_t>(started.size(), action.id() + 1));
      if (started[action.id()]) continue;
      started[action.id()] = true;
      absl::StrAppend(&order, action.kind() == FORWARD ? "F" : "B", action.microbatch(), " ");
    }
  }
  return order;
}

TEST(FreezeScheduleTest, IsTheOrderOfASimulatedStep) {
  int differ = 0;
  for (const Case& c : {kEqual, kSlowLinks, kUnequal}) {
    SCOPED_TRACE(c.name);
    // Give every message its own buffer. Otherwise a receive of a static list waits until the previous message is
    // consumed. With slow links, this wait costs more than the order does.
    const std::string room = " receive_buffers: 12 send_buffers: 12";
    auto dynamic = CompileCase(c, MakePlan(c, "name: 'axonn'", room));
    ASSERT_TRUE(dynamic.ok()) << dynamic.status();
    auto frozen = CompileCase(c, MakePlan(c, "name: 'axonn' freeze: true", room));
    ASSERT_TRUE(frozen.ok()) << frozen.status();
    EXPECT_EQ(dynamic->compute_order(), ARRIVAL);
    EXPECT_EQ(frozen->compute_order(), STATIC_ORDER);
    EXPECT_TRUE(FindViolations(*frozen).empty());

    const Cluster cluster = MakeCluster(c.latency);
    auto run = sim::Simulate(*dynamic, cluster, {.trace = true});
    ASSERT_TRUE(run.ok()) << run.status();
    auto again = sim::Simulate(*frozen, cluster, {.trace = true});
    ASSERT_TRUE(again.ok()) << again.status();
    const PipelineSchedule alone = *BuildSchedule(**FindSchedule("axonn"), {.ranks = 4, .microbatches = 12});
    const PipelineSchedule uniform = *FreezeSchedule(alone, 12, {});
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(OrderOf(*frozen, rank), OrderOf(*run->trace, *dynamic, rank)) << rank;
      EXPECT_EQ(OrderOf(*frozen, rank), OrderOf(*again->trace, *frozen, rank)) << rank;
      differ += OrderOf(*frozen, rank) != OrderOf(uniform, rank);
    }
    EXPECT_EQ(again->report.makespan_seconds(), run->report.makespan_seconds());
  }
  EXPECT_GT(differ, 0) << "no case tells a simulated step from equal stages and free links";
}

TEST(FreezeScheduleTest, SaysWhatItDid) {
  std::vector<std::string> notes;
  auto program = CompileCase(kSlowLinks, MakePlan(kSlowLinks, "name: 'axonn' freeze: true limit: 3", "", 2), &notes);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->templates_size(), 4);
  EXPECT_THAT(notes, testing::Contains(testing::AllOf(HasSubstr("plan.schedule.freeze: "), HasSubstr("'axonn'"),
                                                      HasSubstr(" s message-driven, "), HasSubstr(" s static"))));
}

// Ranks that choose their order at run time cannot share an order of transfers; ranks with a frozen order can.
TEST(FreezeScheduleTest, TransfersMayThenShareAnOrder) {
  const std::string ask = " transfer_order: BY_DIRECTION transfer_placement: DEFERRED group_transfers: true";
  auto dynamic = CompileCase(kSlowLinks, MakePlan(kSlowLinks, "name: 'axonn'", ask));
  EXPECT_FALSE(dynamic.ok());
  auto frozen = CompileCase(kSlowLinks, MakePlan(kSlowLinks, "name: 'axonn' freeze: true", ask));
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  EXPECT_EQ(frozen->transfer_streams(), PER_DIRECTION);
  EXPECT_TRUE(FindViolations(*frozen).empty());
}

TEST(FreezeScheduleTest, TheIrShowsTheOrder) {
  const Recipe recipe = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 4");
  auto ir = EmitIr(Model(), recipe, MakePlan(kEqual, "name: 'axonn' freeze: true"), MakeCluster(1e-9), "rank");
  ASSERT_TRUE(ir.ok()) << ir.status();
  EXPECT_THAT(*ir, HasSubstr("definition = \"weft schedule 1"));
}

// Hanayo orders its slots by their times, so slow transfers give it another order than fast ones.
TEST(FreezeScheduleTest, SchedulesThatOrderByTimeKnowTheLinks) {
  const std::string hanayo = "name: 'hanayo' waves: 1";
  auto fast = CompileCase(kEqual, MakePlan(kEqual, hanayo, " accumulation: EXACT"));
  auto slow = CompileCase(kSlowLinks, MakePlan(kSlowLinks, hanayo, " accumulation: EXACT"));
  ASSERT_TRUE(fast.ok()) << fast.status();
  ASSERT_TRUE(slow.ok()) << slow.status();
  bool differ = false;
  for (int rank = 0; rank < 4; ++rank) differ |= OrderOf(*fast, rank) != OrderOf(*slow, rank);
  EXPECT_TRUE(differ);
  auto seconds = [](const Program& p) {
    return sim::Simulate(p, MakeCluster(kSlowLinks.latency), {})->report.makespan_seconds();
  };
  EXPECT_LE(seconds(*slow), seconds(*fast));
  // 1F1B does not order by time, so it has one order for all links.
  auto plain_fast = CompileCase(kEqual, MakePlan(kEqual, "name: '1f1b'"));
  auto plain_slow = CompileCase(kSlowLinks, MakePlan(kSlowLinks, "name: '1f1b'"));
  ASSERT_TRUE(plain_fast.ok() && plain_slow.ok());
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(OrderOf(*plain_fast, rank), OrderOf(*plain_slow, rank));
}

// The cost of a transfer is the time from the end of a rank's action until another rank can use the result: overhead,
// bytes over bandwidth, and latency. The unit is a millionth of the time that a rank takes for the forward and backward
// of a microbatch.
TEST(FreezeScheduleTest, TheCostOfATransferIsOfTheClusterInUnitsOfCompute) {
  auto p2p = [](double latency) {
    const Recipe recipe = Parse<Recipe>("sequence_length: 16 global_batch_sequences: 4");
    const std::string ir = *EmitIr(Model(), recipe, MakePlan(kEqual, "name: '1f1b'"), MakeCluster(latency), "rank");
    const size_t at = ir.find("p2p_cost = ");
    return at == std::string::npos ? 0.0 : std::stod(ir.substr(at + 11));
  };
  const double bytes = p2p(0), one = p2p(1e-3), two = p2p(2e-3);
  EXPECT_GT(bytes, 0);
  EXPECT_NEAR(two - one, one - bytes, 2);
  // 16 x 16 floats at 1e10 bytes per second are 1.024e-7 s.
  EXPECT_NEAR((one - bytes) / bytes, 1e-3 / 1.024e-7, 1e-3 / 1.024e-7 / bytes);
  // The cost is capped at the compute of a thousand microbatches.
  EXPECT_EQ(p2p(1e6), 1e9);
}

TEST(FreezeScheduleTest, ErrorsOfADefinitionNameIt) {
  auto error = [](const std::string& schedule) {
    return std::string(CompileCase(kEqual, MakePlan(kEqual, schedule)).status().message());
  };
  EXPECT_THAT(error("definition: 'weft schedule 1\\nranks: two\\n'"),
              testing::StartsWith("plan.schedule.definition: line 2"));
  EXPECT_THAT(error("name: 'mine' definition: '0F0,0B0\\n'"),
              testing::StartsWith("plan.schedule.definition ('mine'): "));
}

}  // namespace
}  // namespace weft::planner
