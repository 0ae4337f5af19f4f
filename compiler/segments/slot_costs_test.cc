#include "compiler/segments/slot_costs.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ir::Role;
using ir::SegmentKind;

// A cost function for tests: the name of each step is its time.
absl::StatusOr<int64_t> TimeByName(const Segment&, const Step& step, ActionKind) {
  int64_t ps = 0;
  if (!absl::SimpleAtoi(step.name(), &ps)) return absl::InternalError("no time: " + step.name());
  return ps;
}

// A segment of one compute step.
StageSegment SegmentOf(SegmentKind kind, int stage, int64_t ps) {
  StageSegment segment;
  segment.kind = kind;
  segment.stage = stage;
  segment.segment.add_steps()->set_name(std::to_string(ps));
  return segment;
}

void AddOperand(Role role, int use, int64_t bytes, StageSegment* segment) {
  SegmentOperand operand;
  operand.role = role;
  operand.use = use;
  operand.bytes = bytes;
  segment->operands.push_back(operand);
}

// Eight nodes of one device. A message takes 10 us, and 1 us more per kB.
Cluster SlowLinks() {
  return Parse<Cluster>(R"pb(
    name: "test"
    nodes: 8
    devices_per_node: 1
    device { name: "d" memory_bytes: 1000000000 memory_bytes_per_second: 1e12 }
    intra_node { bytes_per_second: 1e9 latency_seconds: 1e-5 }
    inter_node { bytes_per_second: 1e9 latency_seconds: 1e-5 }
    nics_per_node: 1
    host { bytes_per_second: 1e10 })pb");
}

Mesh Pipe(int size) {
  Mesh mesh;
  MeshAxis& axis = *mesh.add_axes();
  axis.set_name("pipe");
  axis.set_size(size);
  return mesh;
}

// One lane, with stage s on rank placement[s].
PipelineSchedule Placed(std::vector<int> placement, int ranks) {
  PipelineSchedule schedule;
  schedule.stages = static_cast<int>(placement.size());
  schedule.placement = {std::move(placement)};
  schedule.order.resize(ranks);
  return schedule;
}

SlotCosts CostsOf(const SegmentSet& set, const PipelineSchedule& schedule) {
  const int ranks = static_cast<int>(schedule.order.size());
  const auto costs = SlotCostsOf(set, schedule, TimeByName, Pipe(ranks), SlowLinks());
  EXPECT_TRUE(costs.ok()) << costs.status();
  return costs.ok() ? *costs : SlotCosts();
}

// For all ratios of small numbers, forward and backward together take a million units. Their ratio is the ratio of
// their sums over stages, and neither is zero.
TEST(SlotCostsTest, ForwardAndBackwardAreAMillion) {
  for (int64_t forward = 0; forward <= 4; ++forward) {
    for (int64_t backward = 0; backward <= 4; ++backward) {
      if (forward + backward == 0) continue;
      SegmentSet set;
      for (int stage = 0; stage < 3; ++stage) {
        set.segments.push_back(SegmentOf(SegmentKind::Forward, stage, (stage == 0 ? 3 : 0) * forward));
        set.segments.push_back(SegmentOf(SegmentKind::Backward, stage, backward));
        // These segments are neither forwards nor backwards.
        set.segments.push_back(SegmentOf(SegmentKind::OptimizerStep, stage, 1000));
        set.segments.push_back(SegmentOf(SegmentKind::GradNorm, stage, 1000));
      }
      const SlotCosts costs = CostsOf(set, Placed({0, 1, 2}, 3));
      EXPECT_EQ(costs.forward + costs.backward, 1'000'000);
      EXPECT_GE(costs.forward, 1);
      EXPECT_GE(costs.backward, 2);
      EXPECT_NEAR(static_cast<double>(costs.forward * (forward + backward)), 1e6 * static_cast<double>(forward),
                  static_cast<double>(2 * (forward + backward)))
          << forward << " and " << backward;
      // No backward is split here.
      EXPECT_NEAR(static_cast<double>(costs.weight), static_cast<double>(costs.backward) / 2, 1);
    }
  }
}

TEST(SlotCostsTest, HalvesGoBeforeWholeBackwards) {
  SegmentSet set;
  set.segments = {SegmentOf(SegmentKind::Forward, 0, 40), SegmentOf(SegmentKind::Backward, 0, 5000),
                  SegmentOf(SegmentKind::BackwardInput, 0, 45), SegmentOf(SegmentKind::BackwardWeight, 0, 15)};
  const SlotCosts costs = CostsOf(set, Placed({0}, 1));
  EXPECT_EQ(costs.forward, 400'000);
  EXPECT_EQ(costs.backward, 600'000);
  EXPECT_EQ(costs.weight, 150'000);
  EXPECT_EQ(costs.p2p, 0);
  // If one half takes all the time, the other still gets one unit.
  set.segments[2].segment.mutable_steps(0)->set_name("0");
  const SlotCosts all = CostsOf(set, Placed({0}, 1));
  EXPECT_EQ(all.weight, all.backward - 1);
}

// Two forwards compute for 40 and 100 ps beside a collective of 60 ps. The collective counts only if computation waits
// for it.
TEST(SlotCostsTest, CollectivesCountWhereComputationWaits) {
  const auto forward = [](bool detached, int waits_for, bool compute_behind) {
    StageSegment forward = SegmentOf(SegmentKind::Forward, 0, 40);
    Step& collective = *forward.segment.add_steps();
    collective.set_name("60");
    collective.set_stream(COLLECTIVE);
    collective.set_detached(detached);
    if (compute_behind) {
      Step& behind = *forward.segment.add_steps();
      behind.set_name("60");
      if (waits_for >= 0) behind.add_deps(waits_for);
    }
    SegmentSet set;
    set.segments = {std::move(forward), SegmentOf(SegmentKind::Backward, 0, 1000)};
    return CostsOf(set, Placed({0}, 1)).forward;
  };
  const auto of = [](double ps) { return static_cast<double>(1e6 * ps / (ps + 1000)); };
  EXPECT_NEAR(static_cast<double>(forward(false, 1, true)), of(160), 1);
  EXPECT_NEAR(static_cast<double>(forward(false, 0, true)), of(100), 1) << "the next step waits for another";
  EXPECT_NEAR(static_cast<double>(forward(false, -1, true)), of(100), 1);
  EXPECT_NEAR(static_cast<double>(forward(false, -1, false)), of(100), 1) << "whoever comes next waits";
  EXPECT_NEAR(static_cast<double>(forward(true, -1, false)), of(40), 1);
  EXPECT_NEAR(static_cast<double>(forward(true, 1, true)), of(100), 1);
}

// Stages that take 10 us forward and 20 us backward, and send `activation` and `gradient` bytes.
SegmentSet Handing(int stages, int64_t activation, int64_t gradient) {
  SegmentSet set;
  for (int stage = 0; stage < stages; ++stage) {
    StageSegment forward = SegmentOf(SegmentKind::Forward, stage, 10'000'000);
    StageSegment backward = SegmentOf(SegmentKind::Backward, stage, 20'000'000);
    if (stage + 1 < stages) AddOperand(Role::Output, 0, activation, &forward);
    if (stage > 0) AddOperand(Role::InputGrad, 0, gradient, &backward);
    // Skip connections and outputs of wide forwards do not count.
    AddOperand(Role::Output, 1, 1'000'000'000, &forward);
    StageSegment wide = forward;
    wide.width = 2;
    wide.segment.clear_steps();
    AddOperand(Role::Output, 0, 1'000'000'000, &wide);
    set.segments.push_back(std::move(forward));
    set.segments.push_back(std::move(backward));
    set.segments.push_back(std::move(wide));
  }
  return set;
}

// A rank computes 30 us per stage. A message of 20 kB takes 10 + 20 us, as long as one stage.
TEST(SlotCostsTest, TheSlowestMessageInTheUnitOfARank) {
  EXPECT_EQ(CostsOf(Handing(4, 20'000, 5'000), Placed({0, 1, 2, 3}, 4)).p2p, 1'000'000);
  EXPECT_EQ(CostsOf(Handing(4, 5'000, 20'000), Placed({0, 1, 2, 3}, 4)).p2p, 1'000'000) << "the gradient's";
  EXPECT_EQ(CostsOf(Handing(4, 50'000, 5'000), Placed({0, 1, 2, 3}, 4)).p2p, 2'000'000);
  // With two stages per rank, a rank takes twice the time, while the message takes the same time as before.
  EXPECT_EQ(CostsOf(Handing(4, 20'000, 5'000), Placed({0, 1, 0, 1}, 2)).p2p, 500'000);
  // In a V, the two middle stages are on one rank, so no message crosses there. On a single rank there is no boundary
  // at all.
  EXPECT_EQ(CostsOf(Handing(2, 20'000, 5'000), Placed({0, 0}, 1)).p2p, 0);
  // Two lanes that place their stages on different ranks.
  PipelineSchedule both = Placed({0, 0}, 2);
  both.placement.push_back({1, 0});
  EXPECT_GT(CostsOf(Handing(2, 20'000, 5'000), both).p2p, 0);
}

TEST(SlotCostsTest, BeyondAThousandTimesNoOrderChanges) {
  EXPECT_EQ(CostsOf(Handing(2, int64_t{1} << 40, 1), Placed({0, 1}, 2)).p2p, 1'000'000'000);
}

TEST(SlotCostsTest, NothingToOrderBy) {
  const SlotCosts defaults;
  SegmentSet set;
  set.segments = {SegmentOf(SegmentKind::Forward, 0, 0), SegmentOf(SegmentKind::Backward, 0, 0)};
  const SlotCosts costs = CostsOf(set, Placed({0}, 1));
  EXPECT_EQ(costs.forward, defaults.forward);
  EXPECT_EQ(costs.backward, defaults.backward);
  EXPECT_EQ(costs.weight, defaults.weight);
  EXPECT_EQ(costs.p2p, defaults.p2p);
}

TEST(SlotCostsTest, ErrorsOfTheCostArePassedOn) {
  SegmentSet set;
  set.segments = {SegmentOf(SegmentKind::Forward, 0, 1)};
  set.segments[0].segment.mutable_steps(0)->set_name("unknown");
  const auto costs = SlotCostsOf(set, Placed({0}, 1), TimeByName, Pipe(1), SlowLinks());
  EXPECT_EQ(costs.status().message(), "no time: unknown");
}

}  // namespace
}  // namespace weft
