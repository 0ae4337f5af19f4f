#include "proto/util/kernel_key.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(ParseKernelKey, TakesApartWhatItMade) {
  KernelKeyParts parts;
  ASSERT_TRUE(ParseKernelKey("MATMUL bf16*3>bf16 tb += 64x128x32", &parts));
  EXPECT_EQ(parts.kernel, "MATMUL");
  EXPECT_EQ(parts.form, "MATMUL bf16*3>bf16 tb +=");
  EXPECT_EQ(parts.extents, (std::vector<int64_t>{64, 128, 32}));
  ASSERT_TRUE(ParseKernelKey("LAYER_NORM bf16>bf16 8x4,4,8", &parts));
  EXPECT_EQ(parts.extents, (std::vector<int64_t>{8, 4, 4, 8}));
  for (const char* bad : {"", "MATMUL", "MATMUL bf16>bf16", "MATMUL 4x4", "MATMUL a>b 4xx4", "MATMUL a>b 0x4",
                          "MATMUL a>b -1", " a 4", "MATMUL a>b 99999999999999999999", "MATMUL a>b tb"}) {
    EXPECT_FALSE(ParseKernelKey(bad, &parts)) << bad;
  }
}

}  // namespace
}  // namespace weft
