#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "simulator/runtime/rewrites.h"

namespace weft::sim {
namespace {

TEST(StagedSums, CopiesStandBeforeAndBehindASumAndTheNextComputationWaits) {
  Program program;
  ASSERT_TRUE(ParseMessage(R"(templates {
    buffers { bytes: 1000 }
    body { id: 1 kind: BACKWARD }
    body { id: 2 kind: ALL_REDUCE purpose: GRADIENT_SYNC sources: 0 destinations: 0 deps { action: 1 } }
    body { id: 3 kind: SEND }
    body { id: 4 kind: BACKWARD }
    body { id: 5 kind: OPTIMIZER_STEP deps { action: 2 } }
    body { id: 6 kind: ALL_REDUCE purpose: LOSS_SYNC deps { action: 4 } }
  })",
                           "test", &program)
                  .ok());
  StageGradientSums(&program);
  const auto& body = program.templates(0).body();
  ASSERT_EQ(body.size(), 8);
  const Action& out = body[1];
  EXPECT_EQ(out.kind(), OFFLOAD);
  EXPECT_EQ(out.deps(0).action(), 1);
  EXPECT_EQ(program.segments(out.segment()).steps(0).stream(), D2H);
  EXPECT_EQ(program.segments(out.segment()).steps(0).work().bytes(), 1000);
  EXPECT_EQ(body[2].id(), 2);
  ASSERT_EQ(body[2].deps_size(), 1);
  EXPECT_EQ(body[2].deps(0).action(), out.id());
  const Action& back = body[3];
  EXPECT_EQ(back.kind(), FETCH);
  EXPECT_EQ(back.deps(0).action(), 2);
  EXPECT_EQ(program.segments(back.segment()).steps(0).stream(), H2D);
  // A message does not wait for the copy to the host, but the next backward does. The optimizer waits for the copy
  // back.
  EXPECT_EQ(body[4].deps_size(), 0);
  ASSERT_EQ(body[5].deps_size(), 1);
  EXPECT_EQ(body[5].deps(0).action(), out.id());
  ASSERT_EQ(body[6].deps_size(), 1);
  EXPECT_EQ(body[6].deps(0).action(), back.id());
  // Other sums are unchanged.
  EXPECT_EQ(body[7].deps(0).action(), 4);
}

}  // namespace
}  // namespace weft::sim
