#include "simulator/runtime/as_run_by.h"

#include "simulator/runtime/cast_gathers.h"
#include "simulator/runtime/kernel_form.h"
#include "simulator/runtime/rewrites.h"
#include "simulator/runtime/weight_casts.h"

namespace weft::sim {
namespace {

// Puts copies to the host and copies from the host on one stream, where they wait for each other.
void UseOneCopyStream(Program* program) {
  for (Segment& segment : *program->mutable_segments()) {
    for (Step& step : *segment.mutable_steps()) {
      if (step.stream() == D2H) step.set_stream(H2D);
    }
  }
}

// Returns the form of products of the first device that casts weights to 8 bits once; null = no device does.
const KernelForm* FormThatCastsOnce(const Runtime& runtime, absl::Span<const int> capabilities) {
  for (const int capability : capabilities) {
    const KernelForm* product = FormOf(runtime, MATMUL, capability);
    if (product != nullptr && product->weights_cast_once()) return product;
  }
  return nullptr;
}

}  // namespace

std::optional<Program> AsRunBy(const Runtime& runtime, absl::Span<const int> capabilities, const Program& program) {
  const double gathered = capabilities.empty() ? 1 : GatheredBytes(runtime, capabilities.front());
  const KernelForm* casts_once = FormThatCastsOnce(runtime, capabilities);
  // A runtime that joins steps as weft's executor does also computes bias gradients where the compiler puts them.
  const bool biases_last = runtime.joins_from_compute_capability() == 0 && HasBiasSums(program);
  if (!runtime.sums_under_backward() && !runtime.gathers_under_forward() && runtime.tensor_pieces() < 2 &&
      !runtime.collectives_per_tensor() && !runtime.gathers_within_block() && !runtime.one_copy_stream() &&
      !runtime.recomputes_whole_layers() && !runtime.has_host_transport() && !runtime.gate_sums_apart() &&
      gathered == 1 && casts_once == nullptr && !biases_last) {
    return std::nullopt;
  }
  Program as_run = program;
  if (biases_last) SumBiasesLast(&as_run);
  // DelayGathers runs first, because the end of a recomputed layer must come after the gathers that it waits for.
  if (runtime.gathers_within_block()) DelayGathers(&as_run);
  if (runtime.recomputes_whole_layers()) RecomputeWholeLayers(&as_run);
  if (runtime.sums_under_backward()) HideGradientSums(&as_run);
  if (runtime.gathers_under_forward()) HideWeightGathers(&as_run);
  if (runtime.has_host_transport()) StageGradientSums(&as_run);
  if (runtime.one_copy_stream()) UseOneCopyStream(&as_run);
  if (runtime.collectives_per_tensor()) SplitCollectives(&as_run);
  if (runtime.gate_sums_apart()) TakeGateSumsApart(&as_run);
  CutTensorCollectives(runtime.tensor_pieces(), &as_run);
  if (gathered != 1) ScaleGathers(gathered, CastsAtLoss(runtime, capabilities.front()), &as_run);
  if (casts_once != nullptr) CastWeightsOnce(casts_once->factor_bytes(), !(casts_once->loss_time() > 0), &as_run);
  return as_run;
}

}  // namespace weft::sim
