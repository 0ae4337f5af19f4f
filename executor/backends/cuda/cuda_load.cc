// LOAD_TOKENS, LOAD_TARGETS, LOAD_TIMESTEPS, LOAD_NOISY_IMAGE, LOAD_NOISE. The host runs the CPU backend's kernel and
// writes the result to pinned memory. The stream then copies the result to the device.
#include "executor/backends/cuda/cuda_call.h"

namespace weft::exec::cuda {
namespace {

absl::Status LoadByHost(const Call& call) {
  const TensorView& out = call.out[0];
  const int64_t bytes = Elements(out) * ElementBytes(TypeOf(out));
  return call.Upload(out.data, bytes, [&](void* memory) {
    const TensorView staged = {memory, out.dtype, out.shape};
    return call.resources.host->Run(call.step, {}, absl::MakeConstSpan(&staged, 1), call.context);
  });
}

}  // namespace

absl::Status LoadTokens(const Call& call) { return LoadByHost(call); }
absl::Status LoadTargets(const Call& call) { return LoadByHost(call); }
absl::Status LoadTimesteps(const Call& call) { return LoadByHost(call); }
absl::Status LoadNoisyImage(const Call& call) { return LoadByHost(call); }
absl::Status LoadNoise(const Call& call) { return LoadByHost(call); }

}  // namespace weft::exec::cuda
