// Tests which attention steps the backend passes to the library, and with what arguments. The tests run on the host
// with a library that only records its calls. fused_steps_test.cc and the conformance tests check the results.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/counting_device_testing.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;
using testing::HasSubstr;

struct Asked {
  std::vector<AttentionShape> forward, backward;
  AttentionPointers pointers;
};

class WritingAttention : public FusedAttention {
 public:
  explicit WritingAttention(Asked* asked) : asked_(*asked) {}
  bool Has(const AttentionShape&, bool) override { return true; }
  absl::Status Prepare(const AttentionShape&, bool) override { return absl::OkStatus(); }
  absl::Status Settle(IdleMemory&) override { return absl::OkStatus(); }
  absl::Status Forward(const AttentionShape& shape, const AttentionPointers& pointers, const StreamRef&) override {
    asked_.forward.push_back(shape);
    asked_.pointers = pointers;
    return absl::OkStatus();
  }
  absl::Status Backward(const AttentionShape& shape, const AttentionPointers& pointers, const StreamRef&) override {
    asked_.backward.push_back(shape);
    asked_.pointers = pointers;
    return absl::OkStatus();
  }

 private:
  Asked& asked_;
};

constexpr int64_t kSequence = 4, kSequences = 3, kRows = kSequence * kSequences, kWidth = 8, kHeads = 6;

Step AttentionStep(Kernel kernel, int kv_heads) {
  Step step;
  step.set_name("attn");
  step.set_kernel(kernel);
  StepAttributes& a = *step.mutable_attributes();
  a.set_heads(kHeads);
  a.set_kv_heads(kv_heads);
  a.set_sequence(kSequence);
  a.set_causal(true);
  a.set_window(3);
  a.set_scale(0.25);
  return step;
}

Tensor MakeTensor(DType dtype, int64_t columns, int64_t rows = kRows) { return Tensor(dtype, {rows, columns}); }

absl::Status RunStep(const Step& step, std::vector<Tensor>& in, std::vector<Tensor>& out, Asked* asked) {
  CountingDevice device;
  Libraries libraries = EmulatedLibraries();
  libraries.attention = std::make_unique<WritingAttention>(asked);
  const auto backend = MakeBackend(&device, std::move(libraries), {});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return cpu::RunStep(**backend, step, in, out);
}

TEST(CudaAttention, OneMatrixOfThreePartsIsThreeLayouts) {
  Asked asked;
  std::vector<Tensor> in = {MakeTensor(BF16, 3 * kHeads * kWidth)},
                      out = {MakeTensor(BF16, kHeads * kWidth), MakeTensor(FP32, kHeads)};
  ASSERT_EQ(RunStep(AttentionStep(ATTENTION, 0), in, out, &asked), absl::OkStatus());
  ASSERT_EQ(asked.forward.size(), 1u);
  const AttentionShape& shape = asked.forward[0];
  EXPECT_EQ(shape.type, Type::kBf16);
  EXPECT_EQ(shape.batch, kSequences);
  EXPECT_EQ(shape.heads, kHeads);
  EXPECT_EQ(shape.kv_heads, kHeads);
  EXPECT_EQ(shape.sequence, kSequence);
  EXPECT_EQ(shape.head_size, kWidth);
  EXPECT_TRUE(shape.causal);
  EXPECT_EQ(shape.window, 3);
  EXPECT_EQ(shape.scale, 0.25);
  // q, k and v lie in the rows of one matrix; o has rows of its own.
  for (const HeadLayout& part : {shape.q, shape.k, shape.v}) EXPECT_EQ(part.row_stride, 3 * kHeads * kWidth);
  EXPECT_EQ(shape.o, (HeadLayout{kHeads * kWidth, kWidth}));
  EXPECT_EQ(asked.pointers.q, in[0].data<void>());
  EXPECT_EQ(asked.pointers.o, out[0].data<void>());
  EXPECT_EQ(asked.pointers.statistics, out[1].data<float>());
}

TEST(CudaAttention, FewerHeadsOfKeysAndValues) {
  Asked asked;
  std::vector<Tensor> in = {MakeTensor(FP16, kHeads * kWidth), MakeTensor(FP16, 2 * kWidth),
                            MakeTensor(FP16, 2 * kWidth)};
  std::vector<Tensor> out = {MakeTensor(FP16, kHeads * kWidth), MakeTensor(FP32, kHeads)};
  ASSERT_EQ(RunStep(AttentionStep(ATTENTION, 2), in, out, &asked), absl::OkStatus());
  ASSERT_EQ(asked.forward.size(), 1u);
  EXPECT_EQ(asked.forward[0].kv_heads, 2);
  EXPECT_EQ(asked.forward[0].q, (HeadLayout{kHeads * kWidth, kWidth}));
  EXPECT_EQ(asked.forward[0].k, (HeadLayout{2 * kWidth, kWidth}));
  EXPECT_EQ(asked.forward[0].v, (HeadLayout{2 * kWidth, kWidth}));
  EXPECT_EQ(asked.pointers.k, in[1].data<void>());
  EXPECT_EQ(asked.pointers.v, in[2].data<void>());
}

// Returns the inputs of ATTENTION_BACKWARD: do, q, k, v, o and statistics.
std::vector<Tensor> BackwardInputs(DType gradient, DType type) {
  return {MakeTensor(gradient, kHeads * kWidth), MakeTensor(type, kHeads * kWidth), MakeTensor(type, 2 * kWidth),
          MakeTensor(type, 2 * kWidth),          MakeTensor(type, kHeads * kWidth), MakeTensor(FP32, kHeads)};
}

TEST(CudaAttention, GradientsOfTheTypeOfWhatTheyAreOf) {
  const auto run = [](DType gradient, Asked* asked) {
    std::vector<Tensor> in = BackwardInputs(gradient, BF16);
    std::vector<Tensor> out = {MakeTensor(BF16, kHeads * kWidth), MakeTensor(BF16, 2 * kWidth),
                               MakeTensor(BF16, 2 * kWidth)};
    ASSERT_EQ(RunStep(AttentionStep(ATTENTION_BACKWARD, 2), in, out, asked), absl::OkStatus());
    if (asked->backward.empty()) return;
    EXPECT_EQ(asked->pointers.gradient_o, in[0].data<void>());
    EXPECT_EQ(asked->pointers.gradient_q, out[0].data<void>());
    EXPECT_EQ(asked->pointers.gradient_k, out[1].data<void>());
    EXPECT_EQ(asked->pointers.gradient_v, out[2].data<void>());
    EXPECT_EQ(asked->pointers.o, in[4].data<void>());
  };
  Asked same, other;
  run(BF16, &same);
  EXPECT_EQ(same.backward.size(), 1u);
  // The library takes tensors and gradients of one type only. The backend's own kernels take a wider gradient.
  run(FP32, &other);
  EXPECT_TRUE(other.backward.empty());
}

TEST(CudaAttention, NeverPassesUnsupportedStepsToTheLibrary) {
  const auto asked_of = [](const Step& step, DType type, DType statistics, int64_t rows) {
    Asked asked;
    std::vector<Tensor> in = {MakeTensor(type, 3 * kHeads * kWidth, rows)};
    std::vector<Tensor> out = {MakeTensor(type, kHeads * kWidth, rows), MakeTensor(statistics, kHeads, rows)};
    EXPECT_EQ(RunStep(step, in, out, &asked), absl::OkStatus());
    return asked.forward.size();
  };
  const Step plain = AttentionStep(ATTENTION, 0);
  EXPECT_EQ(asked_of(plain, BF16, FP32, kRows), 1u);
  // Steps with dropout never use the library: its random numbers differ from weft's.
  Step dropped = plain;
  dropped.mutable_attributes()->set_dropout(0.5);
  EXPECT_EQ(asked_of(dropped, BF16, FP32, kRows), 0u);
  EXPECT_EQ(asked_of(plain, FP64, FP64, kRows), 0u);
  // Without any sequences the library is not called.
  EXPECT_EQ(asked_of(plain, BF16, FP32, 0), 0u);
}

}  // namespace
}  // namespace weft::exec::cuda
