// Checks that both rankings of nodes give the same order relation for a template's steps, and that each ranking agrees
// with this relation.
#include "verifier/order.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

// Calls fn(index) with the tables of the program.
void WithIndex(const Program& program, const std::function<void(const Index& index)>& fn) {
  Findings findings(20);
  Index index;
  index.program = &program;
  ASSERT_TRUE(CheckRoles(&index, &findings));
  CheckSegmentOrder(&index, &findings);
  ASSERT_TRUE(BuildTemplates(&index, &findings));
  fn(index);
}

// Compares the two rankings. Returns the number of pairs of nodes that are ordered.
int Compare(const Index& index, const TemplateIndex& t, int repetitions) {
  Order by_readiness, by_list;
  EXPECT_TRUE(by_readiness.Build(index, t, repetitions, Order::kOfReadiness));
  EXPECT_TRUE(by_list.Build(index, t, repetitions, Order::kOfList));
  const auto& instances = by_readiness.instances();
  EXPECT_EQ(instances.size(), by_list.instances().size());
  int ordered = 0;
  for (int i = 0; i < static_cast<int>(instances.size()); ++i) {
    EXPECT_EQ(instances[i].dependents, by_list.instances()[i].dependents);
    EXPECT_EQ(instances[i].detached_dependents, by_list.instances()[i].detached_dependents);
    for (int j = 0; j < static_cast<int>(instances.size()); ++j) {
      EXPECT_EQ(by_readiness.InstanceBefore(i, j), by_list.InstanceBefore(i, j)) << i << " " << j;
      for (int a = instances[i].first_node; a < instances[i].first_node + instances[i].nodes; ++a) {
        for (int b = instances[j].first_node; b < instances[j].first_node + instances[j].nodes; ++b) {
          const bool before = by_readiness.Before(i, a, b);
          EXPECT_EQ(before, by_list.Before(i, a, b)) << a << " " << b;
          EXPECT_EQ(by_readiness.Visible(i, a, b), by_list.Visible(i, a, b)) << a << " " << b;
          if (!before) continue;
          ++ordered;
          EXPECT_LT(by_readiness.Rank(a), by_readiness.Rank(b));
          EXPECT_LT(by_list.Rank(a), by_list.Rank(b));
        }
      }
    }
  }
  return ordered;
}

void CompareAll(const Program& program) {
  WithIndex(program, [](const Index& index) {
    for (const TemplateIndex& t : index.templates) {
      for (const int repetitions : {1, 2}) EXPECT_GT(Compare(index, t, repetitions), 0);
    }
  });
}

const std::vector<std::vector<int>> kChain = {{0, 1}};
const std::vector<std::string> kOneForwardOneBackward = {"F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1 B1.1"};

TEST(Order, SameRelation) {
  CompareAll(TinyProgram());
  CompareAll(TinyEvaluation());
  CompareAll(SplitProgram(false, 2, 2, 2));
  CompareAll(SplitProgram(true));
}

TEST(Order, SameRelationOfSchedules) {
  ScheduleSpec spec{kOneForwardOneBackward, kChain, {0, 0}};
  CompareAll(ScheduleProgram(spec));
  spec.compute_order = ARRIVAL;
  CompareAll(ScheduleProgram(spec));
  CompareAll(ScheduleProgram({{"F0.0 F0.1 I0.0 I0.1 W0.0 W0.1", "F1.0 I1.0 F1.1 I1.1 W1.0 W1.1"}, kChain, {0, 0}}));
}

TEST(Order, SameRelationOfTransferGroups) {
  ScheduleSpec spec{
      {"F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1", "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1"}, {{0, 1, 0, 1}}, {0, 0}};
  spec.group = true;
  CompareAll(ScheduleProgram(spec));
}

// Finds the first RECV whose reader comes right after it, and moves it after that reader. Returns false if there is
// none.
bool PutBehindItsWaiter(Program* program, int t) {
  const Template& list = program->templates(t);
  for (int a = 1; a < list.body_size(); ++a) {
    const Action &before = list.body(a - 1), &action = list.body(a);
    if (before.kind() != RECV || !IsCompute(action.kind())) continue;
    for (const Dependency& dep : action.deps()) {
      if (dep.action() != before.id() || dep.distance() != 0) continue;
      SwapActions(program, t, before.name(), action.name());
      return true;
    }
  }
  return false;
}

TEST(Order, SomebodyWaitsForALaterOne) {
  Program program = ScheduleProgram({kOneForwardOneBackward, kChain, {0, 0}});
  ASSERT_TRUE(PutBehindItsWaiter(&program, 1));
  CompareAll(program);
  WithIndex(program, [](const Index& index) {
    const TemplateIndex& t = index.templates[1];
    Order order;
    ASSERT_TRUE(order.Build(index, t, 1, Order::kOfList));
    int waits_for_later = 0;
    for (const Order::Instance& instance : order.instances()) {
      for (const int d : instance.dependents) {
        const Order::Instance& waiter = order.instances()[d];
        EXPECT_LT(order.Rank(instance.first_node), order.Rank(waiter.first_node));
        if (waiter.first_node < instance.first_node) ++waits_for_later;
      }
    }
    EXPECT_GT(waits_for_later, 0);
  });
}

}  // namespace
}  // namespace weft::verify
