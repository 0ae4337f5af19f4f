// Random schedules given as a plan's own definition: the compiler compiles every schedule that the checker accepts. A
// sample of the programs takes as long as the schedule predicts and trains to the losses, norms and weights of one
// rank, bit for bit.
//
// The test makes a schedule by running stages on ranks at random: placements with loops, snakes, no pattern, several
// lanes and idle ranks; whole backwards, halves, or both; wide forwards; overlapped pairs; message-driven orders. Most
// results are valid schedules, but some deadlock once pairs start together; the checker must refuse those.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/schedule_text.h"
#include "schedules/pipeline/timing.h"
#include "simulator/simulate.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/full.h"

namespace weft {
namespace {

constexpr int kMaxStages = 6;

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  NamedSchedule Make() {
    const int ranks = 1 + Below(4);
    microbatches_ = 2 + Below(5);
    schedule_ = PipelineSchedule();
    schedule_.stages = std::min({kMaxStages, 1 + Below(3 * ranks), ranks * (1 + Below(3))});
    const bool driven = Below(3) == 0;
    schedule_.lanes = driven ? 1 : 1 + Below(5) / 4;
    for (int lane = 0; lane < schedule_.lanes; ++lane) schedule_.placement.push_back(Placement(ranks, driven));
    schedule_.order.resize(ranks);
    if (driven) {
      const auto rule = Below(2) == 0 ? MessageDriven::Rule::kArrival : MessageDriven::Rule::kBackwardFirst;
      schedule_.message_driven = MessageDriven{.rule = rule, .limit = 1 + Below(microbatches_)};
    }
    ChooseSlots();
    RunAtRandom();
    if (!driven && Below(5) < 2) Pair();
    return {.name = "random", .schedule = schedule_, .microbatches = microbatches_};
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

 private:
  std::vector<int> Placement(int ranks, bool driven) {
    // Some ranks may stay idle, at any position.
    std::vector<int> used(ranks);
    for (int rank = 0; rank < ranks; ++rank) used[rank] = rank;
    if (Below(3) == 0) std::shuffle(used.begin(), used.end(), random_);
    if (Below(4) == 0) used.resize(1 + Below(ranks));
    const int count = static_cast<int>(used.size());
    const int pattern = Below(driven ? 5 : 4);
    std::vector<int> placement;
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const int turn = stage / count, at = stage % count;
      placement.push_back(pattern == 0   ? used[Below(count)]
                          : pattern == 1 ? used[at]
                                         : used[turn % 2 == 0 ? at : count - 1 - at]);
    }
    return placement;
  }

  void ChooseSlots() {
    const bool driven = schedule_.message_driven.has_value();
    todo_.clear();
    lane_of_.clear();
    for (int m = 0; m < microbatches_; ++m) lane_of_.push_back(static_cast<int16_t>(Below(schedule_.lanes)));
    position_.resize(microbatches_);
    for (int m = 0; m < microbatches_; ++m) position_[m] = m;
    if (Below(3) == 0) std::shuffle(position_.begin(), position_.end(), random_);
    // For each microbatch, the first microbatch of the forward that computes it. `wide_` marks the microbatches of
    // forwards of two.
    std::vector<int> first(microbatches_);
    wide_.assign(microbatches_, false);
    const bool widens = !driven && Below(4) == 0;
    for (int m = 0; m < microbatches_; ++m) {
      first[m] = m;
      if (!widens || m + 1 >= microbatches_ || lane_of_[m] != lane_of_[m + 1] || Below(2) == 0) continue;
      first[m + 1] = m;
      wide_[m] = wide_[m + 1] = true;
      ++m;
    }
    const int cut = Below(3);
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const bool stage_cut = Below(2) == 0;
      for (int m = 0; m < microbatches_; ++m) {
        Slot slot = {.lane = lane_of_[m], .stage = stage, .microbatch = m};
        if (first[m] == m) {
          slot.width = wide_[m] ? 2 : 1;
          todo_.push_back(slot);
          slot.width = 1;
        }
        const bool halves = cut == 2 || (cut == 1 && (driven ? stage_cut : Below(2) == 0));
        slot.kind = halves ? SlotKind::kBackwardInput : SlotKind::kBackward;
        todo_.push_back(slot);
        slot.kind = SlotKind::kBackwardWeight;
        if (halves) todo_.push_back(slot);
      }
    }
  }

  // A result of a slot, as (kind, stage, microbatch). A whole backward produces the results of both halves.
  using Thing = std::tuple<char, int, int>;

  bool Ready(const Slot& slot) const {
    for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
      if (slot.kind == SlotKind::kForward) {
        if (slot.stage > 0 && !done_.contains({'F', slot.stage - 1, m})) return false;
      } else if (slot.kind == SlotKind::kBackwardWeight) {
        if (!done_.contains({'I', slot.stage, m})) return false;
      } else {
        if (!done_.contains({'F', slot.stage, m})) return false;
        if (slot.stage + 1 < schedule_.stages && !done_.contains({'I', slot.stage + 1, m})) return false;
      }
    }
    return true;
  }

  // True if `slot` is the next of its kind and stage in the common order of microbatches (position_), and the limit on
  // microbatches in flight allows it.
  bool InTurn(const Slot& slot) const {
    int under_way = 0;
    for (int m = 0; m < microbatches_; ++m) {
      if (done_.contains({'F', slot.stage, m}) && !done_.contains({'W', slot.stage, m})) ++under_way;
    }
    if (slot.kind == SlotKind::kForward && under_way >= schedule_.message_driven->limit) return false;
    return std::none_of(todo_.begin(), todo_.end(), [&](const Slot& other) {
      return other.kind == slot.kind && other.stage == slot.stage &&
             position_[other.microbatch] < position_[slot.microbatch];
    });
  }

  // Runs the slots in a random valid order, so that no two ranks wait for each other.
  void RunAtRandom() {
    done_.clear();
    const bool backwards_first = Below(2) == 0;
    while (!todo_.empty()) {
      std::vector<size_t> ready;
      for (size_t i = 0; i < todo_.size(); ++i) {
        if (Ready(todo_[i]) && (!schedule_.message_driven || InTurn(todo_[i]))) ready.push_back(i);
      }
      std::vector<size_t> backwards;
      for (size_t i : ready) {
        if (todo_[i].kind != SlotKind::kForward) backwards.push_back(i);
      }
      if (backwards_first && !backwards.empty() && Below(5) > 0) ready = backwards;
      const size_t next = ready[Below(static_cast<int>(ready.size()))];
      const Slot slot = todo_[next];
      todo_.erase(todo_.begin() + static_cast<std::ptrdiff_t>(next));
      for (int m = slot.microbatch; m < slot.microbatch + slot.width; ++m) {
        if (slot.kind == SlotKind::kForward) done_.insert({'F', slot.stage, m});
        if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardInput) {
          done_.insert({'I', slot.stage, m});
        }
        if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardWeight) {
          done_.insert({'W', slot.stage, m});
        }
      }
      schedule_.order[schedule_.placement[slot.lane][slot.stage]].push_back(slot);
    }
  }

  void Pair() {
    for (std::vector<Slot>& order : schedule_.order) {
      for (size_t i = 0; i + 1 < order.size(); ++i) {
        const Slot &a = order[i], &b = order[i + 1];
        const bool may = a.kind == SlotKind::kForward && a.width == 1 && b.kind == SlotKind::kBackward &&
                         !wide_[b.microbatch] && (a.stage != b.stage || a.microbatch != b.microbatch);
        if (may && Below(3) > 0) order[i++].paired = true;
      }
    }
  }

  std::mt19937_64 random_;
  PipelineSchedule schedule_;
  int microbatches_ = 0;
  std::vector<int16_t> lane_of_;
  // Position of each microbatch in the common order of a message-driven schedule.
  std::vector<int> position_;
  std::vector<bool> wide_;
  std::vector<Slot> todo_;
  std::set<Thing> done_;
};

// Enough buffers for all messages of the largest schedule.
constexpr char kAmple[] = "receive_buffers: 64 send_buffers: 64";

TinyPlan PlanOf(int pipe, int microbatches) {
  TinyPlan plan{.pipe = pipe, .schedule = "gpipe", .exact = true};
  plan.steps = 2;
  plan.batch = microbatches;
  plan.layers = kMaxStages;
  return plan;
}

// Trains on one rank with `microbatches` microbatches, once for each number, and returns the result.
const exec::RunResult& Reference(int microbatches) {
  static std::map<int, exec::RunResult>* results = new std::map<int, exec::RunResult>();
  auto [found, added] = results->try_emplace(microbatches);
  if (added) {
    const auto program = CompileTiny(PlanOf(1, microbatches));
    EXPECT_TRUE(program.ok()) << program.status();
    auto result = Train(*program);
    EXPECT_TRUE(result.ok()) << result.status();
    found->second = *std::move(result);
  }
  return found->second;
}

void ExpectTrainsAlike(const Program& program, const exec::RunResult& reference) {
  const auto result = Train(program);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectSame(OutcomeOf(*result), OutcomeOf(reference), program.schedule());
}

Cluster UnitCluster() {
  Cluster cluster;
  cluster.set_name("unit");
  cluster.set_nodes(1);
  cluster.set_devices_per_node(16);
  cluster.mutable_device()->set_name("d");
  cluster.mutable_device()->set_memory_bytes(1'000'000'000);
  cluster.mutable_device()->set_memory_bytes_per_second(1e12);
  for (const DType dtype : {FP32, BF16}) {
    Peak* peak = cluster.mutable_device()->add_peaks();
    peak->set_dtype(dtype);
    peak->set_flops_per_second(1e13);
  }
  cluster.mutable_intra_node()->set_bytes_per_second(1e11);
  return cluster;
}

// With unit costs, free transfers and buffers for all messages, a program takes as long as its slots alone. With fewer
// buffers it may take longer: messages of an edge are sent in the order in which they are made, but may be read in
// another order.
void ExpectUnitTime(const Program& program, const NamedSchedule& named, const SlotCosts& costs, bool ample) {
  const auto timing = TimeSchedule(named.schedule, named.microbatches, costs);
  ASSERT_TRUE(timing.ok()) << timing.status();
  sim::SimulateOptions options;
  options.cost = "unit";
  options.network = "none";
  // A unit is 60 microseconds, so that every stage's share is a whole number of picoseconds and simultaneous events
  // stay simultaneous.
  options.cost_options.unit_forward = {costs.forward * 60'000'000};
  options.cost_options.unit_backward = {costs.backward * 60'000'000};
  options.cost_options.unit_weight = {costs.weight * 60'000'000};
  const auto simulation = sim::Simulate(program, UnitCluster(), options);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  const double simulated = simulation->report.makespan_seconds() * 1e6 / 60;
  const double alone = static_cast<double>(timing->makespan) / static_cast<double>(timing->unit);
  const std::string what =
      absl::StrCat("forward ", costs.forward, " backward ", costs.backward, " weight ", costs.weight);
  if (ample) {
    EXPECT_NEAR(simulated, alone, 1e-3) << what;
  } else {
    EXPECT_GE(simulated, alone - 1e-3) << what;
  }
}

// Counts the kinds of schedules in the sample, because the test proves nothing about a kind that does not occur.
struct Kinds {
  int driven = 0, lanes = 0, halves = 0, wide = 0, pairs = 0, idle = 0, several = 0;

  void Count(const PipelineSchedule& schedule) {
    std::set<SlotKind> slots;
    bool is_wide = false, is_paired = false, is_idle = false;
    for (const std::vector<Slot>& order : schedule.order) {
      is_idle |= order.empty();
      for (const Slot& slot : order) {
        slots.insert(slot.kind);
        is_wide |= slot.width > 1;
        is_paired |= slot.paired;
      }
    }
    driven += schedule.message_driven.has_value();
    lanes += schedule.lanes > 1;
    halves += slots.contains(SlotKind::kBackwardWeight);
    wide += is_wide;
    pairs += is_paired;
    idle += is_idle;
    several += schedule.stages > static_cast<int>(schedule.order.size());
  }
  int Fewest() const { return std::min({driven, lanes, halves, wide, pairs, idle, several}); }
};

// Checks that the schedule compiles as a plan's definition, takes the right time, and, if `run` is set, trains like one
// rank.
void ExpectGood(const NamedSchedule& named, const std::string& fields, bool run, int data = 1) {
  TinyPlan plan = PlanOf(static_cast<int>(named.schedule.order.size()), named.microbatches);
  std::string quoted;
  for (const char c : FormatSchedule(named)) quoted += c == '\n' ? "\\n" : std::string(1, c);
  plan.schedule = "";
  plan.schedule_fields = absl::StrCat("definition: \"", quoted, "\"");
  plan.plan_fields = fields;
  plan.data = data;
  plan.batch = data * named.microbatches;
  SCOPED_TRACE(fields);
  const auto program = CompileTiny(plan);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const SlotCosts& costs : {SlotCosts{1, 2, 1}, SlotCosts{10, 20, 7}}) {
    ExpectUnitTime(*program, named, costs, named.schedule.message_driven.has_value() || fields == kAmple);
  }
  if (run) ExpectTrainsAlike(*program, Reference(plan.batch));
}

TEST(RandomScheduleTest, Corners) {
  const std::pair<const char*, const char*> corners[] = {
      {"a message-driven rank without slots",
       "ranks: 2\nmicrobatches: 2\nmessage-driven: backward-first\nlimit: 2\nlane 0: 0\n"
       "rank 0: F0.0 F0.1 B0.0 B0.1\nrank 1:\n"},
      {"the limit by places in the order",
       "ranks: 2\nmicrobatches: 4\nmessage-driven: backward-first\nlimit: 2\n"
       "rank 0: F0.0 F0.2 F0.1 F0.3 B0.0 B0.2 B0.1 B0.3\nrank 1: F1.0 F1.2 F1.1 F1.3 B1.0 B1.2 B1.1 B1.3\n"},
      {"descending, one at a time",
       "ranks: 2\nmicrobatches: 3\nmessage-driven: arrival\nlimit: 1\n"
       "rank 0: F0.2 F0.1 F0.0 B0.2 B0.1 B0.0\nrank 1: F1.2 F1.1 F1.0 B1.2 B1.1 B1.0\n"},
      {"message-driven halves, the second late",
       "ranks: 2\nmicrobatches: 3\nmessage-driven: arrival\nlimit: 2\n"
       "rank 0: F0.0 F0.1 F0.2 I0.0 I0.1 W0.0 I0.2 W0.1 W0.2\n"
       "rank 1: F1.0 F1.1 F1.2 I1.0 I1.1 W1.0 I1.2 W1.1 W1.2\n"},
      {"message-driven snake",
       "ranks: 2\nmicrobatches: 3\nmessage-driven: arrival\nlimit: 2\n"
       "rank 0: F0.0 F0.1 F3.0 F3.1 F0.2 F3.2 B3.0 B0.0 B3.1 B0.1 B3.2 B0.2\n"
       "rank 1: F1.0 F2.0 F1.1 F2.1 F1.2 F2.2 B2.0 B1.0 B2.1 B1.1 B2.2 B1.2\n"},
      {"the first rank idle, and one in the middle",
       "ranks: 4\nmicrobatches: 2\nrank 0:\nrank 1: F0.0 F0.1 B0.0 B0.1\nrank 2:\nrank 3: F1.0 B1.0 F1.1 B1.1\n"},
      {"the same, against the order of ranks",
       "ranks: 4\nmicrobatches: 2\nrank 0:\nrank 1: F1.0 B1.0 F1.1 B1.1\nrank 2:\nrank 3: F0.0 F0.1 B0.0 B0.1\n"},
  };
  for (const auto& [name, text] : corners) {
    SCOPED_TRACE(name);
    const auto named = ParseSchedule(absl::StrCat("weft schedule 1\n", text));
    ASSERT_TRUE(named.ok()) << named.status();
    ExpectGood(*named, kAmple, /*run=*/true);
    ExpectGood(*named, "", /*run=*/true, /*data=*/2);
  }
}

TEST(RandomScheduleTest, AcceptedSchedulesCompileSimulateAndTrain) {
  constexpr uint64_t kSeed = 20261120;
  const char* const kFields[] = {kAmple,
                                 kAmple,
                                 "",
                                 "gradient_sync: LAZY",
                                 "gradient_sync: EAGER_OPT",
                                 "receive_buffers: 2",
                                 "send_buffers: 1",
                                 "gradient_bucket_bytes: 4096"};
  const int cases = full ? 3000 : 120;
  Kinds kinds;
  int refused = 0;
  for (int i = 0; i < cases; ++i) {
    Generator generator(kSeed + i);
    const NamedSchedule named = generator.Make();
    const std::string text = FormatSchedule(named);
    SCOPED_TRACE(absl::StrCat("seed ", kSeed + i, "\n", text));
    if (const absl::Status status = CheckSchedule(named.schedule, named.microbatches); !status.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(status)) << status;
      ++refused;
      continue;
    }
    kinds.Count(named.schedule);
    ExpectGood(named, kFields[generator.Below(std::size(kFields))], i % 4 == 0);
    if (HasFailure()) return;
  }
  EXPECT_LE(refused, cases / 2);
  EXPECT_GE(kinds.Fewest(), cases / 40);
}

}  // namespace
}  // namespace weft
