// ADAMW and SGD_STEP, which undo the loss scale, and UPDATE_LOSS_SCALE.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/backends/cpu/cpu_random.h"

namespace weft::exec::cpu {
namespace {

// True if the step rounds this output stochastically.
bool AtRandom(const Call& call, const TensorView& output) {
  return call.attributes().rounding_site() > 0 && (output.dtype == BF16 || output.dtype == FP16);
}

void StoreAtRandom(const Call& call, size_t output, PhiloxPurpose purpose, int64_t first, int64_t count,
                   const float* x) {
  alignas(64) uint32_t scratch[RoundingBits::Scratch(kChunk)];
  const void* random = RoundingBits(call, purpose).Get(first, count, scratch);
  call.workspace.loops.store_at_random(x, StorageOf(call.out[output]), random, count, At(call.out[output], first));
}

// Rounds updated weights into the copy that compute steps read, if there is one.
template <typename T>
void WriteParam(const Call& call, size_t output, int64_t first, int64_t count, const T* w) {
  if (call.out.size() <= output) return;
  if constexpr (std::is_same_v<T, float>) {
    if (AtRandom(call, call.out[output])) {
      return StoreAtRandom(call, output, PhiloxPurpose::kWeightRounding, first, count, w);
    }
  }
  GetLoops<T>(call).store(w, StorageOf(call.out[output]), count, At(call.out[output], first));
}

// Stores the weights (output 0) and the moments (the outputs after it). States computed in place (Target) need no
// store. If the step is skipped, moments in half precision are stored again. Stochastic rounding leaves them unchanged,
// because they need no rounding.
template <typename T>
void WriteStates(const Call& call, size_t states, int64_t first, int64_t count, T* const* state) {
  constexpr PhiloxPurpose kPurposes[] = {PhiloxPurpose::kFirstMomentRounding, PhiloxPurpose::kSecondMomentRounding};
  for (size_t i = 0; i < states; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      if (i > 0 && AtRandom(call, call.out[i])) {
        StoreAtRandom(call, i, kPurposes[i - 1], first, count, state[i]);
        continue;
      }
    }
    Write(call, call.out[i], first, count, false, state[i]);
  }
}

// The loss scaling of a step, read from the inputs that follow the gradient and the states (docs/kernels.md).
struct Scaling {
  bool given = false;
  double factor = 1;
  // True if the state stays unchanged. The kernel still writes the copy for compute steps.
  bool skips = false;
  // Optimizer steps skipped so far.
  double skipped = 0;
};

// Returns the loss scaling of the step. `states` is the number of tensors that the kernel keeps from iteration to
// iteration.
Scaling ScalingOf(const Call& call, size_t states) {
  Scaling scaling;
  if (call.in.size() > states + 1) {
    scaling.given = true;
    scaling.factor = static_cast<const double*>(call.in[states + 1].data)[1];
  }
  if (call.in.size() > states + 2) {
    scaling.skips = scaling.factor == 0;
    scaling.skipped = static_cast<const double*>(call.in[states + 2].data)[2];
  }
  return scaling;
}

// Returns the gradient times the factor of `scaling`, as the kernel SCALE would compute it.
template <typename T>
const T* ReadGradient(const Call& call, const Scaling& scaling, int64_t first, int64_t count, T* buffer) {
  const T* gradient = Read(call, call.in[0], first, count, buffer);
  if (!scaling.given) return gradient;
  const T factor = static_cast<T>(scaling.factor);
  for (int64_t i = 0; i < count; ++i) buffer[i] = gradient[i] * factor;
  return buffer;
}

}  // namespace

absl::Status UpdateLossScale(const Call& call) {
  const auto* norm = static_cast<const double*>(call.in[0].data);
  const auto* old = static_cast<const double*>(call.in[1].data);
  auto* scale = static_cast<double*>(call.out[0].data);
  std::copy(old, old + 3, scale);
  if (norm[1] == 0) {
    scale[0] = std::max(1.0, scale[0] / 2);
    scale[1] = 0;
    scale[2] += 1;
    return absl::OkStatus();
  }
  scale[1] += 1;
  if (scale[1] >= call.attributes().growth_interval()) {
    scale[0] = std::min(0x1p60, scale[0] * 2);
    scale[1] = 0;
  }
  return absl::OkStatus();
}

absl::Status AdamW(const Call& call) {
  const Scaling scaling = ScalingOf(call, 3);
  const StepAttributes& attributes = call.attributes();
  const double t = static_cast<double>(call.context.step + 1) - scaling.skipped;
  const AdamParameters parameters = {call.context.learning_rate,
                                     attributes.beta1(),
                                     attributes.beta2(),
                                     attributes.epsilon(),
                                     attributes.weight_decay(),
                                     1 - std::pow(attributes.beta1(), t),
                                     std::sqrt(1 - std::pow(attributes.beta2(), t))};
  WithComputeType(call.in.subspan(0, 4), [&]<typename T>() {
    ForChunks(call, Elements(call.in[0]), [&](int64_t first, int64_t count) {
      // Inputs 1 to 3 become outputs 0 to 2, in place or copied.
      T buffer[4][kChunk];
      T* state[3];
      const T* gradient = ReadGradient(call, scaling, first, count, buffer[3]);
      for (int i = 0; i < 3; ++i) {
        state[i] = Target(call.out[i], first, false, buffer[i]);
        const T* old = Read(call, call.in[i + 1], first, count, state[i]);
        if (old != state[i]) std::copy(old, old + count, state[i]);
      }
      if (!scaling.skips) GetLoops<T>(call).adamw(parameters, gradient, count, state[0], state[1], state[2]);
      WriteStates<T>(call, 3, first, count, state);
      WriteParam(call, 3, first, count, state[0]);
    });
  });
  return absl::OkStatus();
}

absl::Status SgdStep(const Call& call) {
  // grad, w, [momentum], [norm, [scale]] -> w, [momentum], [param].
  const size_t fixed = call.attributes().momentum() != 0 ? 2 : 1;
  const Scaling scaling = ScalingOf(call, fixed);
  WithComputeType(call.in.subspan(0, fixed + 1), [&]<typename T>() {
    ForChunks(call, Elements(call.in[0]), [&](int64_t first, int64_t count) {
      T buffer[3][kChunk];
      T* state[2] = {nullptr, nullptr};
      const T* gradient = ReadGradient(call, scaling, first, count, buffer[2]);
      for (size_t i = 0; i < fixed; ++i) {
        state[i] = Target(call.out[i], first, false, buffer[i]);
        const T* old = Read(call, call.in[i + 1], first, count, state[i]);
        if (old != state[i]) std::copy(old, old + count, state[i]);
      }
      if (!scaling.skips) {
        GetLoops<T>(call).sgd(static_cast<T>(call.context.learning_rate), static_cast<T>(call.attributes().momentum()),
                              static_cast<T>(call.attributes().weight_decay()), gradient, count, state[0], state[1]);
      }
      WriteStates<T>(call, fixed, first, count, state);
      WriteParam(call, fixed, first, count, state[0]);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
