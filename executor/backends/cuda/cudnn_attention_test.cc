// Tests FusedAttention on devices that are only described: which shapes it supports, and which it refuses. A shape
// whose plan cannot be made must count as unsupported from then on. Only a GPU can show that plans compute attention.
#include "executor/backends/cuda/cudnn_attention.h"

#include <memory>
#include <string>

#include "executor/backends/cuda/cudnn_described_device_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using ::testing::HasSubstr;

AttentionShape Shape(int64_t batch, int64_t sequence, int64_t heads, int64_t kv_heads, int64_t head_size) {
  AttentionShape shape;
  shape.type = Type::kBf16;
  shape.batch = batch;
  shape.sequence = sequence;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_size = head_size;
  shape.q = shape.o = {heads * head_size, head_size};
  shape.k = shape.v = {kv_heads * head_size, head_size};
  shape.causal = true;
  shape.scale = 0.125;
  return shape;
}

class CudnnAttentionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const absl::StatusOr<const Cudnn*> cudnn = OpenCudnnWithoutDriver();
    ASSERT_TRUE(cudnn.ok()) << cudnn.status();
    cudnn_ = *cudnn;
  }
  void SetUp() override {
    ASSERT_NE(cudnn_, nullptr);
    On(kH200);
  }
  void On(const DescribedDevice& described) {
    absl::StatusOr<CudnnDescriptor> device = Describe(cudnn_, described);
    ASSERT_TRUE(device.ok()) << device.status();
    attention_ = nullptr;
    device_ = *std::move(device);
    session_ = CudnnSession::ForDescribedDevice(cudnn_, &device_, memory_.get());
    attention_ = MakeCudnnAttention(session_);
  }

  static const Cudnn* cudnn_;
  const std::unique_ptr<ComputeDevice> memory_ = MakeHostDevice();
  CudnnDescriptor device_;
  std::shared_ptr<CudnnSession> session_;
  std::unique_ptr<FusedAttention> attention_;
};
const Cudnn* CudnnAttentionTest::cudnn_ = nullptr;

TEST_F(CudnnAttentionTest, HasWhatItsGraphsHaveEnginesFor) {
  for (const AttentionShape& shape : {Shape(2, 1024, 12, 12, 64), Shape(1, 2048, 32, 8, 128)}) {
    for (const bool backward : {false, true}) {
      EXPECT_TRUE(attention_->Has(shape, backward));
      EXPECT_EQ(attention_->Refusal(shape, backward), "");
    }
  }
  // If deterministic gradients need more memory than one call may take, they are computed in slices, so the shape is
  // supported.
  EXPECT_TRUE(attention_->Has(Shape(2, 8192, 32, 8, 128), /*backward=*/true));
}

// Shapes refused here run on the backend's own kernels, and a note gives the reason.
TEST_F(CudnnAttentionTest, RefusesWithTheReason) {
  AttentionShape shape = Shape(2, 256, 8, 8, 64);
  shape.type = Type::kFp32;
  for (const bool backward : {false, true}) {
    EXPECT_FALSE(attention_->Has(shape, backward));
    EXPECT_THAT(attention_->Refusal(shape, backward), HasSubstr("neither bf16 nor fp16"));
  }
  shape = Shape(1, 65536, 8, 8, 128);
  EXPECT_TRUE(attention_->Has(shape, /*backward=*/false));
  EXPECT_FALSE(attention_->Has(shape, /*backward=*/true));
  EXPECT_THAT(attention_->Refusal(shape, /*backward=*/true), HasSubstr("bytes of workspace"));
  On(kV100);
  EXPECT_FALSE(attention_->Has(Shape(2, 256, 8, 8, 64), /*backward=*/false));
  EXPECT_NE(attention_->Refusal(Shape(2, 256, 8, 8, 64), /*backward=*/false), "");
}

// The answer for a shape is kept. So AttentionShape must hold every property that changes the graph or the slices.
TEST_F(CudnnAttentionTest, AnswersAreOfTheWholeShape) {
  const AttentionShape shape = Shape(2, 256, 8, 4, 64);
  EXPECT_TRUE(attention_->Has(shape, false));
  AttentionShape wrong = shape;
  wrong.kv_heads = 3;
  EXPECT_FALSE(attention_->Has(wrong, false));
  wrong = shape;
  wrong.v.row_stride += 4;
  EXPECT_FALSE(attention_->Has(wrong, false));
  wrong = shape;
  wrong.window = 128;
  EXPECT_TRUE(attention_->Has(wrong, false));
  wrong.causal = false;
  EXPECT_FALSE(attention_->Has(wrong, false));
  // Earlier answers have not changed.
  EXPECT_TRUE(attention_->Has(shape, false));
  EXPECT_EQ(attention_->Refusal(shape, false), "");
}

// The stand-in for the driver loads no code, so no plan can be made. The same can happen on a real device that cannot
// run an engine after all. From then on the shape is refused with that error, and the missing plan is never run.
TEST_F(CudnnAttentionTest, APlanThatCannotBeMadeIsRefusedFromThenOn) {
  const AttentionShape shape = Shape(2, 256, 8, 8, 64), other = Shape(2, 256, 4, 4, 64);
  for (const bool backward : {false, true}) {
    EXPECT_TRUE(attention_->Has(shape, backward));
    const absl::Status prepared = attention_->Prepare(shape, backward);
    EXPECT_THAT(std::string(prepared.message()), HasSubstr("cuLibraryLoadData"));
    EXPECT_FALSE(attention_->Has(shape, backward));
    EXPECT_EQ(attention_->Refusal(shape, backward), prepared.message());
    EXPECT_FALSE(attention_->Prepare(shape, backward).ok());
    EXPECT_TRUE(attention_->Has(other, backward));
  }
  EXPECT_FALSE(attention_->Forward(shape, {}, {}).ok());
  EXPECT_FALSE(attention_->Backward(shape, {}, {}).ok());
  // Nothing was reserved for the missing plan, and Settle has nothing to run.
  IdleMemory memory(nullptr, 0);
  EXPECT_TRUE(attention_->Settle(memory).ok());
  EXPECT_EQ(session_->workspace().allocated_bytes(), 0);
}

}  // namespace
}  // namespace weft::exec::cuda
