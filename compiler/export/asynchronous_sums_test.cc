#include "compiler/export/asynchronous_sums.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/segments/state_shards.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ir::Role;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

SegmentOperand Operand(Role role, int tensor) {
  SegmentOperand operand;
  operand.role = role;
  operand.tensor = tensor;
  return operand;
}

StageSegment Holding(const std::vector<std::pair<Role, int>>& operands) {
  StageSegment segment;
  for (const auto& [role, tensor] : operands) segment.operands.push_back(Operand(role, tensor));
  return segment;
}

// A plan with eight replicas of two ranks on a tensor axis; `zero` holds the fields of its `zero`.
Plan PlanOf(const std::string& zero) {
  return Parse<Plan>(R"(mesh { axes { name: "x" size: 2 } axes { name: "y" size: 1 } axes { name: "data" size: 8 } }
                        zero { )" +
                     zero + " }");
}

// For example "data", "x data", "data/2" (stride) or "data[4]" (block).
std::string Text(const Group& group) {
  std::string text;
  for (const AxisSubset& axis : group.axes()) {
    text += (text.empty() ? "" : " ") + axis.axis();
    if (axis.stride() > 0) text += "/" + std::to_string(axis.stride());
    if (axis.block() > 0) text += "[" + std::to_string(axis.block()) + "]";
  }
  return text;
}

// For example "ALL_REDUCE over x data of 0 2", where 0 and 2 are tensors.
std::vector<std::string> Texts(const std::vector<GradientSum>& sums) {
  std::vector<std::string> texts;
  for (const GradientSum& sum : sums) {
    std::string text = ActionKind_Name(sum.kind) + " over " + Text(sum.group) + " of";
    for (const SegmentOperand* operand : sum.from) text += " " + std::to_string(operand->tensor);
    texts.push_back(text + (sum.after_previous ? ", further" : ""));
  }
  return texts;
}

SegmentSet Synchronized(const std::vector<std::vector<std::string>>& axes) {
  SegmentSet set;
  for (const std::vector<std::string>& of_tensor : axes) set.shards.emplace_back().sync_axes = of_tensor;
  return set;
}

TEST(GradientSumsBeforeTest, GradientsOverTheSameAxesGoTogether) {
  const SegmentSet set = Synchronized({{"data"}, {"x", "data"}, {"data"}, {"y"}, {}});
  const StageSegment optimizer = Holding({{Role::Master, 0},
                                          {Role::Grad, 0},
                                          {Role::Grad, 1},
                                          {Role::Moment1, 2},
                                          {Role::Grad, 2},
                                          {Role::Grad, 3},
                                          {Role::Grad, 4}});
  const std::vector<GradientSum> sums = GradientSumsBefore(optimizer, set, PlanOf(""));
  // Axis y has one rank, and tensor 4 is not cut, so neither needs a sum.
  EXPECT_THAT(Texts(sums), ElementsAre("ALL_REDUCE over data of 0 2", "ALL_REDUCE over x data of 1"));
  for (const GradientSum& sum : sums) EXPECT_EQ(sum.from, sum.to) << "an all-reduce is in place";
}

TEST(GradientSumsBeforeTest, SharedStatesScatterFirst) {
  const SegmentSet set = Synchronized({{"data"}, {"x", "data"}, {"data"}});
  const StageSegment optimizer =
      Holding({{Role::Grad, 0}, {Role::GradPart, 0}, {Role::Grad, 1}, {Role::GradPart, 1}, {Role::Grad, 2}});
  // All replicas share states, so the scatter is the whole sum over data. Tensor 2 has no parts, so it is summed whole.
  const std::vector<GradientSum> all = GradientSumsBefore(optimizer, set, PlanOf("stage: 1"));
  EXPECT_THAT(Texts(all), ElementsAre("REDUCE_SCATTER over data of 0", "REDUCE_SCATTER over data of 1",
                                      "ALL_REDUCE over x of 1, further", "ALL_REDUCE over data of 2"));
  for (const GradientSum& sum : all) {
    if (sum.kind != REDUCE_SCATTER) continue;
    ASSERT_EQ(sum.to.size(), 1u);
    EXPECT_EQ(sum.from[0]->role, Role::Grad);
    EXPECT_EQ(sum.to[0]->role, Role::GradPart);
    EXPECT_EQ(sum.to[0]->tensor, sum.from[0]->tensor);
  }
  // With groups of four, the parts are then summed over the replicas that have the same place in their groups.
  EXPECT_THAT(Texts(GradientSumsBefore(optimizer, set, PlanOf("stage: 1 group: 4"))),
              ElementsAre("REDUCE_SCATTER over data[4] of 0", "ALL_REDUCE over data/4 of 0, further",
                          "REDUCE_SCATTER over data[4] of 1", "ALL_REDUCE over x data/4 of 1, further",
                          "ALL_REDUCE over data of 2"));
}

// If backwards have already summed gradients within a group, only the sum between groups is left.
TEST(GradientSumsBeforeTest, BetweenGroups) {
  const SegmentSet set = Synchronized({{kOverGroups}});
  const StageSegment optimizer = Holding({{Role::Grad, 0}});
  EXPECT_THAT(Texts(GradientSumsBefore(optimizer, set, PlanOf("stage: 2 group: 2"))),
              ElementsAre("ALL_REDUCE over data/2 of 0"));
  EXPECT_THAT(GradientSumsBefore(optimizer, set, PlanOf("stage: 2")), IsEmpty());
}

TEST(GroupOfSharersTest, AllReplicasOrTheNeighbors) {
  EXPECT_EQ(Text(GroupOfSharers(PlanOf("stage: 1"))), "data");
  EXPECT_EQ(Text(GroupOfSharers(PlanOf("stage: 1 group: 8"))), "data");
  EXPECT_EQ(Text(GroupOfSharers(PlanOf("stage: 3 group: 2"))), "data[2]");
}

TEST(GatheredWeightsTest, FindsParametersThatTheOptimizerWritesInPart) {
  // Tensor 0: whole parameters. 1: the master weights are themselves the part. 2: a part in the precision of the
  // parameters. 3: only the backward reads the parameter. 4: nothing on this rank reads the parameter.
  const StageSegment optimizer = Holding({{Role::Master, 0},
                                          {Role::Param, 0},
                                          {Role::Master, 1},
                                          {Role::Master, 2},
                                          {Role::ParamPart, 2},
                                          {Role::Master, 3},
                                          {Role::Master, 4}});
  const StageSegment forward = Holding({{Role::Param, 0}, {Role::Param, 1}, {Role::Param, 2}});
  const StageSegment backward = Holding({{Role::Param, 2}, {Role::Param, 3}});
  const auto gathered = GatheredWeights(optimizer, forward, backward);
  ASSERT_EQ(gathered.size(), 3u);
  EXPECT_EQ(gathered[0], std::make_pair(FindOperand(optimizer, Role::Master, 1), FindOperand(forward, Role::Param, 1)));
  EXPECT_EQ(gathered[1],
            std::make_pair(FindOperand(optimizer, Role::ParamPart, 2), FindOperand(forward, Role::Param, 2)));
  EXPECT_EQ(gathered[2],
            std::make_pair(FindOperand(optimizer, Role::Master, 3), FindOperand(backward, Role::Param, 3)));
  EXPECT_EQ(FindOperand(forward, Role::Param, 3), nullptr);
  EXPECT_EQ(FindOperand(forward, Role::Grad, 0), nullptr);
}

// Segment 0 only computes, segment 1 has a collective, segment 2 has a detached collective.
Program Segments() {
  return Parse<Program>(R"pb(
    segments { steps { name: "a" stream: COMPUTE } }
    segments {
      steps { name: "a" stream: COMPUTE }
      steps { name: "b" stream: COLLECTIVE }
    }
    segments {
      steps { name: "a" stream: COMPUTE }
      steps { name: "b" stream: COLLECTIVE detached: true }
    })pb");
}

bool Computes(const Action& action) {
  return action.kind() == FORWARD || action.kind() == BACKWARD || action.kind() == OPTIMIZER_STEP;
}

// Maps (action, distance) to whether the wait includes detached steps.
using Waits = std::map<std::pair<int, int>, bool>;

Waits WaitsOf(const Action& action) {
  Waits waits;
  for (const Dependency& dep : action.deps()) {
    EXPECT_TRUE(waits.insert({{dep.action(), dep.distance()}, dep.detached()}).second)
        << "action " << action.id() << " waits twice for " << dep.action();
  }
  return waits;
}

// The last action before place `end` of the list for which `holds` returns true, or null.
template <typename Holds>
const Action* LastBefore(const google::protobuf::RepeatedPtrField<Action>& list, int end, const Holds& holds) {
  for (int i = end; i-- > 0;) {
    if (holds(list[i])) return &list[i];
  }
  return nullptr;
}

// The waits that the header promises, found for each action separately.
Waits Expected(const Template& t, bool in_body, int place, bool detached) {
  const auto& list = in_body ? t.body() : t.prologue();
  const Action& action = list[place];
  Waits waits = WaitsOf(action);
  const auto backward = [](const Action& a) { return a.kind() == BACKWARD; };
  if (Computes(action)) {
    const Action* before = LastBefore(list, place, Computes);
    const Action* of_prologue = LastBefore(t.prologue(), t.prologue_size(), Computes);
    if (before != nullptr) {
      waits[{before->id(), 0}];
    } else if (in_body) {
      waits[{LastBefore(list, list.size(), Computes)->id(), 1}];
      if (of_prologue != nullptr) waits[{of_prologue->id(), 0}];
    }
  }
  const bool uses_gradients = action.kind() == BACKWARD || action.kind() == OPTIMIZER_STEP ||
                              (action.kind() == ALL_REDUCE && action.purpose() == GRADIENT_SYNC);
  if (in_body && detached && uses_gradients) {
    const Action* before = LastBefore(list, place, backward);
    const Action* last = LastBefore(list, list.size(), backward);
    if (before != nullptr) {
      waits[{before->id(), 0}] = true;
    } else if (last != nullptr) {
      waits[{last->id(), 1}] = true;
    }
  }
  return waits;
}

TEST(ChainComputeTest, EveryActionOfRandomListsWaitsAsSaid) {
  const Program program = Segments();
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Template t;
    int next = 1;
    const auto add = [&](bool body) {
      Action& action = *(body ? t.mutable_body() : t.mutable_prologue())->Add();
      action.set_id(next++);
      constexpr ActionKind kKinds[] = {FORWARD, BACKWARD, OPTIMIZER_STEP, SEND, ALL_REDUCE};
      action.set_kind(body ? kKinds[random() % 5] : random() % 3 == 0 ? SEND : FORWARD);
      if (Computes(action)) action.set_segment(static_cast<int>(random() % (seed % 3 + 1)));
      if (action.kind() == ALL_REDUCE && random() % 3 != 0) action.set_purpose(GRADIENT_SYNC);
      // Some actions already wait for the action before them.
      if (action.id() > 1 && random() % 2 == 0) action.add_deps()->set_action(action.id() - 1);
    };
    for (uint32_t i = random() % 4; i > 0; --i) add(false);
    for (uint32_t i = 1 + random() % 9; i > 0; --i) add(true);
    const auto any = [&](int least) {
      for (const Action& action : t.body()) {
        if (Computes(action) && action.segment() >= least) return true;
      }
      return false;
    };
    const Template before = t;
    ChainCompute(program, &t);
    if (!any(1)) {
      // No segment has a collective, so the order of the compute stream is the order of all steps.
      EXPECT_EQ(t.SerializeAsString(), before.SerializeAsString());
      continue;
    }
    for (int i = 0; i < t.prologue_size(); ++i) EXPECT_EQ(WaitsOf(t.prologue(i)), Expected(before, false, i, any(2)));
    for (int i = 0; i < t.body_size(); ++i) {
      EXPECT_EQ(WaitsOf(t.body(i)), Expected(before, true, i, any(2))) << before.DebugString();
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft
