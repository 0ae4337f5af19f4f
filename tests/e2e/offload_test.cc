// What plan.offload moves to host memory changes no bit of losses, norms and weights.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

// Of a few thousand parameters: many buckets, tensors cut between them, and several sums of gradients.
constexpr char kSmallBuckets[] = " offload { optimizer: true bucket_elements: 1500 buckets_per_reduce: 2 }";
constexpr char kOneBucket[] = " offload { optimizer: true }";

void ExpectNoBitChanges(TinyPlan plan, const std::string& offload) {
  const auto plain = TrainTiny(plan);
  ASSERT_TRUE(plain.ok()) << plan.Name() << ": " << plain.status();
  ASSERT_FALSE(plain->weights.empty());
  absl::StrAppend(&plan.plan_fields, offload);
  const auto program = CompileTiny(plan);
  ASSERT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
  for (const Template& t : program->templates()) {
    EXPECT_GT(t.host_arena_bytes(), 0) << t.name();
    for (const Buffer& buffer : t.buffers()) {
      const bool state = buffer.role() == MASTER || buffer.role() == MOMENT1 || buffer.role() == MOMENT2;
      EXPECT_EQ(buffer.place() == HOST, state) << buffer.name();
    }
  }
  const auto offloaded = TrainTiny(plan);
  ASSERT_TRUE(offloaded.ok()) << plan.Name() << ": " << offloaded.status();
  ExpectSame(*offloaded, *plain, plan.Name());
}

struct Case {
  int pipe = 1, data = 1;
  double clip = 0.5;
  bool exact = false, bf16 = false, tied = true;
  const char* schedule = "1f1b";
  const char* schedule_fields = "";
  const char* plan_fields = "";
};

class OffloadOptimizerOf : public testing::TestWithParam<Case> {};

TEST_P(OffloadOptimizerOf, ChangesNoBit) {
  const Case& c = GetParam();
  TinyPlan plan{.pipe = c.pipe, .data = c.data, .schedule = c.schedule};
  plan.clip = c.clip;
  plan.exact = c.exact;
  plan.bf16 = c.bf16;
  plan.tied = c.tied;
  plan.schedule_fields = c.schedule_fields;
  plan.plan_fields = c.plan_fields;
  plan.steps = 6;
  ExpectNoBitChanges(plan, kSmallBuckets);
  ExpectNoBitChanges(plan, kOneBucket);
}

constexpr char kZero[] = "zero { stage: 3 }";
INSTANTIATE_TEST_SUITE_P(
    OffloadTest, OffloadOptimizerOf,
    testing::Values(
        Case{}, Case{.clip = 0}, Case{.data = 2, .clip = 0}, Case{.data = 2, .bf16 = true},
        Case{.data = 2, .clip = 0, .exact = true, .tied = false}, Case{.exact = true, .bf16 = true}, Case{.pipe = 2},
        Case{.pipe = 2, .clip = 0}, Case{.pipe = 2, .data = 2, .clip = 0, .bf16 = true},
        Case{.pipe = 2, .data = 2, .exact = true}, Case{.data = 2, .clip = 0, .plan_fields = kZero},
        Case{.pipe = 2, .data = 2, .plan_fields = kZero},
        Case{.pipe = 2, .data = 2, .clip = 0, .exact = true, .plan_fields = kZero},
        Case{.pipe = 2, .clip = 0, .schedule = "zb-v"},
        Case{.pipe = 2, .data = 2, .clip = 0, .schedule = "interleaved", .schedule_fields = "virtual_stages: 2"},
        Case{.pipe = 2, .clip = 0, .exact = true, .schedule = "axonn"},
        Case{.pipe = 2, .data = 2, .clip = 0, .schedule = "chimera", .plan_fields = "step_barrier: true"}));

}  // namespace
}  // namespace weft
