// Checks that every use of a buffer is listed once, in an order that agrees with happens-before.
#include "verifier/accesses.h"

#include <functional>
#include <map>
#include <utility>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

// Calls fn(index, t, order) for each template of the program, with several numbers of repetitions and both ways of
// ranking.
void ForOrders(const Program& program,
               const std::function<void(const Index& index, const TemplateIndex& t, const Order& order)>& fn) {
  Findings findings(20);
  Index index;
  index.program = &program;
  ASSERT_TRUE(CheckRoles(&index, &findings));
  CheckSegmentOrder(&index, &findings);
  ASSERT_TRUE(BuildTemplates(&index, &findings));
  for (const TemplateIndex& t : index.templates) {
    for (const int repetitions : {1, 2}) {
      for (const Order::Ranks ranks : {Order::kOfReadiness, Order::kOfList}) {
        Order order;
        ASSERT_TRUE(order.Build(index, t, repetitions, ranks));
        fn(index, t, order);
      }
    }
  }
}

struct Use {
  bool write = false, reads = false;
  friend bool operator==(const Use&, const Use&) = default;
};

// The uses by (buffer, instance), read directly from the actions.
std::map<std::pair<int, int>, Use> UsesOf(const TemplateIndex& t, const Order& order) {
  std::map<std::pair<int, int>, Use> uses;
  for (int i = 0; i < static_cast<int>(order.instances().size()); ++i) {
    const Order::Instance& instance = order.instances()[i];
    const Action& action = *t.actions[instance.action].action;
    for (int o = 0; o < action.operands_size(); ++o) {
      const OperandUse& use = instance.segment->operands[o];
      uses[{action.operands(o), i}] = {!use.writes.empty(), !use.first_reads.empty()};
    }
    for (const int buffer : action.sources()) uses[{buffer, i}].reads = true;
    for (const int buffer : action.destinations()) uses[{buffer, i}].write = true;
  }
  return uses;
}

void ExpectListed(const Program& program) {
  ForOrders(program, [](const Index& index, const TemplateIndex& t, const Order& order) {
    const Accesses accesses(index, t, order);
    std::map<std::pair<int, int>, Use> listed;
    size_t count = 0;
    for (int buffer = 0; buffer < t.t->buffers_size(); ++buffer) {
      for (const BufferAccess& access : accesses.AccessesOf(buffer)) {
        listed[{buffer, access.instance}] = {access.write, access.reads};
        // A compute action states the bytes that it uses. A message moves all bytes.
        EXPECT_EQ(access.use != nullptr, order.instances()[access.instance].segment != nullptr);
        ++count;
      }
    }
    EXPECT_EQ(listed.size(), count);
    EXPECT_TRUE(listed == UsesOf(t, order)) << t.t->name();
  });
}

// Checks that no access is listed before one that happens before it. Returns the number of pairs that are ordered.
int ExpectOrdered(const Program& program) {
  int ordered = 0;
  ForOrders(program, [&](const Index& index, const TemplateIndex& t, const Order& order) {
    const Accesses accesses(index, t, order);
    for (int buffer = 0; buffer < t.t->buffers_size(); ++buffer) {
      const absl::Span<const BufferAccess> list = accesses.AccessesOf(buffer);
      for (size_t later = 0; later < list.size(); ++later) {
        for (size_t earlier = 0; earlier < later; ++earlier) {
          EXPECT_FALSE(order.InstanceBefore(list[later].instance, list[earlier].instance))
              << t.t->name() << " " << t.t->buffers(buffer).name();
          ordered += order.InstanceBefore(list[earlier].instance, list[later].instance);
        }
      }
    }
  });
  return ordered;
}

TEST(Accesses, EveryUseIsListedOnce) {
  ExpectListed(TinyProgram());
  ExpectListed(TinyEvaluation());
  ExpectListed(SplitProgram(true, 2, 2, 2));
}

TEST(Accesses, ListsAccessesInExecutionOrder) {
  EXPECT_GT(ExpectOrdered(TinyProgram()), 0);
  EXPECT_GT(ExpectOrdered(SplitProgram(true, 2, 2, 2)), 0);
}

// The list has the action that reads a message before the action that receives it.
TEST(Accesses, AnActionThatWaitsForALaterOne) {
  Program program = TinyProgram();
  SwapActions(&program, 1, "recv F0", "F0");
  EXPECT_GT(ExpectOrdered(program), 0);
  ExpectListed(program);
}

}  // namespace
}  // namespace weft::verify
