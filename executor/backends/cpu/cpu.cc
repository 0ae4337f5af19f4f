// The CPU backend: dispatches steps to kernels.
#include "executor/backends/cpu/cpu.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/interface/backend.h"

namespace weft::exec {
namespace cpu {

namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, const LoopTable& loops) : workspace_(std::max(threads, 1), loops) {}

  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    const Call call{step, inputs, outputs, context, workspace_};
    switch (step.kernel()) {
      case LOAD_TOKENS:
        return LoadTokens(call);
      case LOAD_TARGETS:
        return LoadTargets(call);
      case EMBEDDING:
        return Embedding(call);
      case EMBEDDING_BACKWARD:
        return EmbeddingBackward(call);
      case POSITION_EMBEDDING:
        return PositionEmbedding(call);
      case POSITION_EMBEDDING_BACKWARD:
        return PositionEmbeddingBackward(call);
      case ADD:
        return AddTensors(call);
      case MATMUL:
        return MatMul(call);
      case BIAS_GRADIENT:
        return BiasGradient(call);
      case LAYER_NORM:
        return LayerNorm(call);
      case LAYER_NORM_BACKWARD:
        return LayerNormBackward(call);
      case LAYER_NORM_BACKWARD_WEIGHT:
        return LayerNormBackwardWeight(call);
      case GELU:
        return Gelu(call);
      case GELU_BACKWARD:
        return GeluBackward(call);
      case ATTENTION:
        return Attention(call);
      case ATTENTION_BACKWARD:
        return AttentionBackward(call);
      case ATTENTION_SCORES:
        return AttentionScores(call);
      case ATTENTION_SCORES_BACKWARD:
        return AttentionScoresBackward(call);
      case ATTENTION_SOFTMAX:
        return AttentionSoftmax(call);
      case ATTENTION_SOFTMAX_BACKWARD:
        return AttentionSoftmaxBackward(call);
      case ATTENTION_VALUES:
        return AttentionValues(call);
      case ATTENTION_VALUES_BACKWARD:
        return AttentionValuesBackward(call);
      case RMS_NORM:
        return RmsNorm(call);
      case RMS_NORM_BACKWARD:
        return RmsNormBackward(call);
      case RMS_NORM_BACKWARD_WEIGHT:
        return RmsNormBackwardWeight(call);
      case ROPE:
        return Rope(call);
      case SWIGLU:
        return Swiglu(call);
      case SWIGLU_BACKWARD:
        return SwigluBackward(call);
      case DROPOUT:
        return Dropout(call);
      case DROPOUT_MASK:
        return DropoutMask(call);
      case DROPOUT_BY_MASK:
        return DropoutByMask(call);
      case CROSS_ENTROPY:
        return CrossEntropy(call);
      case CROSS_ENTROPY_BACKWARD:
        return CrossEntropyBackward(call);
      case CAST:
        return Cast(call);
      case FILL:
        return Fill(call);
      case EXACT_ACCUMULATE:
        return ExactAccumulateTensor(call);
      case EXACT_ROUND:
        return ExactRoundTensor(call);
      case SQUARED_NORM:
        return SquaredNorm(call);
      case NORM_TOTAL:
        return NormTotal(call);
      case UPDATE_LOSS_SCALE:
        return UpdateLossScale(call);
      case SCALE:
        return ScaleTensor(call);
      case ADAMW:
        return AdamW(call);
      case SGD_STEP:
        return SgdStep(call);
      case BIAS_ADD:
        return BiasAdd(call);
      case CROSS_ENTROPY_PARTIAL:
        return CrossEntropyPartial(call);
      case CROSS_ENTROPY_COMBINE:
        return CrossEntropyCombine(call);
      case NORM_PARTIAL:
        return NormPartial(call);
      case NORM_COMBINE:
        return NormCombine(call);
      case NORM_APPLY:
        return NormApply(call);
      case NORM_BACKWARD_PARTIAL:
        return NormBackwardPartial(call);
      case NORM_BACKWARD_APPLY:
        return NormBackwardApply(call);
      case CONV2D:
        return Conv2d(call);
      case CONV2D_BACKWARD:
        return Conv2dBackward(call);
      case CONV2D_BACKWARD_WEIGHT:
        return Conv2dBackwardWeight(call);
      case GROUP_NORM:
        return GroupNorm(call);
      case GROUP_NORM_BACKWARD:
        return GroupNormBackward(call);
      case GROUP_NORM_BACKWARD_WEIGHT:
        return GroupNormBackwardWeight(call);
      case SILU:
        return Silu(call);
      case SILU_BACKWARD:
        return SiluBackward(call);
      case CONCAT_COLUMNS:
        return ConcatColumns(call);
      case SLICE_COLUMNS:
        return SliceColumns(call);
      case UPSAMPLE:
        return Upsample(call);
      case UPSAMPLE_BACKWARD:
        return UpsampleBackward(call);
      case TIMESTEP_EMBEDDING:
        return TimestepEmbedding(call);
      case ADD_PER_SAMPLE:
        return AddPerSample(call);
      case SUM_PER_SAMPLE:
        return SumPerSample(call);
      case SCALE_SHIFT:
        return ScaleShift(call);
      case SCALE_SHIFT_BACKWARD:
        return ScaleShiftBackward(call);
      case SCALE_SHIFT_BACKWARD_SAMPLE:
        return ScaleShiftBackwardSample(call);
      case SQUARED_ERROR:
        return SquaredError(call);
      case SQUARED_ERROR_BACKWARD:
        return SquaredErrorBackward(call);
      case LOAD_TIMESTEPS:
        return LoadTimesteps(call);
      case LOAD_NOISY_IMAGE:
        return LoadNoisyImage(call);
      case LOAD_NOISE:
        return LoadNoise(call);
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("step '", step.name(), "': the CPU backend has no kernel ", static_cast<int>(step.kernel())));
    }
  }

 private:
  Workspace workspace_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackendWithLoops(int threads, const LoopTable& loops) {
  return std::make_unique<CpuBackend>(threads, loops);
}

}  // namespace cpu

std::unique_ptr<Backend> MakeCpuBackend(int threads) { return cpu::MakeCpuBackendWithLoops(threads, cpu::BestLoops()); }

}  // namespace weft::exec
