#include "executor/backends/cuda/cuda_switches.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using ::testing::HasSubstr;

TEST(CudaSwitches, LeavesOutWhatIsNamed) {
  const auto none = ParseSwitches("");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->cudnn_attention && none->cudnn_convolution && none->joined_launches);
  const auto two = ParseSwitches(" joined-launches,cudnn-attention");
  ASSERT_TRUE(two.ok());
  EXPECT_FALSE(two->cudnn_attention);
  EXPECT_TRUE(two->cudnn_convolution);
  EXPECT_FALSE(two->joined_launches);
}

TEST(CudaSwitches, NamesTheNearestKnownPart) {
  const auto wrong = ParseSwitches("joined-launches,cudnn-atention");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.status().message(), HasSubstr("unknown part 'cudnn-atention'; allowed: cudnn-attention, "));
  EXPECT_THAT(wrong.status().message(), HasSubstr("did you mean 'cudnn-attention'?"));
}

}  // namespace
}  // namespace weft::exec::cuda
