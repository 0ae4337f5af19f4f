#include "executor/backends/cuda/cuda_switches.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using ::testing::HasSubstr;

TEST(CudaSwitches, AddsAndLeavesOutWhatIsNamed) {
  const auto none = ParseSwitches("", "");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->cudnn_attention && none->joined_launches);
  EXPECT_FALSE(none->cudnn_convolution);
  const auto changed = ParseSwitches("cudnn-convolution", " joined-launches,cudnn-attention");
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(changed->cudnn_attention);
  EXPECT_TRUE(changed->cudnn_convolution);
  EXPECT_FALSE(changed->joined_launches);
}

TEST(CudaSwitches, NamesTheNearestKnownPart) {
  const auto wrong = ParseSwitches("", "joined-launches,cudnn-atention");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.status().message(),
              HasSubstr("WEFT_CUDA_WITHOUT: unknown part 'cudnn-atention'; allowed: cudnn-attention, "));
  EXPECT_THAT(wrong.status().message(), HasSubstr("did you mean 'cudnn-attention'?"));
  EXPECT_FALSE(ParseSwitches("all", "").ok());
}

}  // namespace
}  // namespace weft::exec::cuda
