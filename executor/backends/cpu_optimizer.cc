// ADAMW and SGD_STEP.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu_kernel.h"
#include "proto/status.h"

namespace weft::cpu {
namespace {

// Rounds updated weights to the copy that compute reads, if there is one.
template <typename T>
void WriteParam(const Call& call, size_t output, int64_t first, int64_t count, const T* w) {
  if (call.out.size() <= output) return;
  GetLoops<T>(call).store(w, StorageOf(call.out[output]), count, At(call.out[output], first));
}

}  // namespace

absl::Status AdamW(const Call& call) {
  const size_t outputs = call.out.size() == 4 ? 4 : 3;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 4, outputs, outputs == 4 ? 0xff : 0x7f));
  const StepAttributes& attributes = call.attributes();
  const double t = static_cast<double>(call.context.step + 1);
  const AdamParameters parameters = {call.context.learning_rate,
                                     attributes.beta1(),
                                     attributes.beta2(),
                                     attributes.epsilon(),
                                     attributes.weight_decay(),
                                     1 - std::pow(attributes.beta1(), t),
                                     std::sqrt(1 - std::pow(attributes.beta2(), t))};
  WithComputeType(call.in, [&]<typename T>() {
    ForChunks(call, Elements(call.in[0]), [&](int64_t first, int64_t count) {
      // Inputs 1 to 3 are outputs 0 to 2, in place or copied.
      T buffer[4][kChunk];
      T* state[3];
      const T* gradient = Read(call, call.in[0], first, count, buffer[3]);
      for (int i = 0; i < 3; ++i) {
        state[i] = Target(call.out[i], first, false, buffer[i]);
        const T* old = Read(call, call.in[i + 1], first, count, state[i]);
        if (old != state[i]) std::copy(old, old + count, state[i]);
      }
      GetLoops<T>(call).adamw(parameters, gradient, count, state[0], state[1], state[2]);
      for (int i = 0; i < 3; ++i) Write(call, call.out[i], first, count, false, state[i]);
      WriteParam(call, 3, first, count, state[0]);
    });
  });
  return absl::OkStatus();
}

absl::Status SgdStep(const Call& call) {
  // grad, w, [momentum] -> w, [momentum], [param].
  const bool has_momentum = call.in.size() == 3;
  const size_t inputs = has_momentum ? 3 : 2;
  const size_t fixed = has_momentum ? 2 : 1;
  const size_t outputs = call.out.size() == fixed + 1 ? fixed + 1 : fixed;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, inputs, outputs, (1u << (inputs + outputs)) - 1));
  WithComputeType(call.in, [&]<typename T>() {
    ForChunks(call, Elements(call.in[0]), [&](int64_t first, int64_t count) {
      T buffer[3][kChunk];
      T* state[2] = {nullptr, nullptr};
      const T* gradient = Read(call, call.in[0], first, count, buffer[2]);
      for (size_t i = 0; i < fixed; ++i) {
        state[i] = Target(call.out[i], first, false, buffer[i]);
        const T* old = Read(call, call.in[i + 1], first, count, state[i]);
        if (old != state[i]) std::copy(old, old + count, state[i]);
      }
      GetLoops<T>(call).sgd(static_cast<T>(call.context.learning_rate), static_cast<T>(call.attributes().momentum()),
                            static_cast<T>(call.attributes().weight_decay()), gradient, count, state[0], state[1]);
      for (size_t i = 0; i < fixed; ++i) Write(call, call.out[i], first, count, false, state[i]);
      WriteParam(call, fixed, first, count, state[0]);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::cpu
