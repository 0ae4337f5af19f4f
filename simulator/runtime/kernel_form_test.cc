#include "simulator/runtime/kernel_form.h"

#include "gtest/gtest.h"
#include "proto/io.h"

namespace weft {
namespace {

TEST(KernelForm, TheLastOneForTheDeviceCounts) {
  Runtime runtime;
  ASSERT_TRUE(ParseMessage(R"(kernels { kernel: "MATMUL" time: 2 below_compute_capability: 100 }
                              kernels { kernel: "MATMUL" time: 3 from_compute_capability: 90 }
                              kernels { kernel: "ADD" time: 4 from_compute_capability: 90 })",
                           "test", &runtime)
                  .ok());
  EXPECT_EQ(FormOf(runtime, MATMUL, 0)->time(), 2);
  EXPECT_EQ(FormOf(runtime, MATMUL, 89)->time(), 2);
  EXPECT_EQ(FormOf(runtime, MATMUL, 90)->time(), 3);
  EXPECT_EQ(FormOf(runtime, MATMUL, 100)->time(), 3);
  EXPECT_EQ(FormOf(runtime, ADD, 89), nullptr);
  EXPECT_EQ(FormOf(runtime, GELU, 90), nullptr);
}

}  // namespace
}  // namespace weft
