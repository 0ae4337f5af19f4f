#include "executor/interpreter/figure_copies.h"

#include <algorithm>

#include "executor/numerics/exact192.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr int64_t kAlignment = 64;

int64_t BytesOf(const TensorView& norms) {
  if (norms.data == nullptr) return 0;
  return norms.shape[0] * static_cast<int64_t>(norms.dtype == EXACT192 ? sizeof(Exact192) : sizeof(double));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FigureCopies>> FigureCopies::Create(const PreparedProgram& program,
                                                                   ComputeDevice& device, int64_t slots) {
  std::unique_ptr<FigureCopies> result(new FigureCopies(program, device));
  const Figures& from = program.figures;
  int64_t bytes = 0;
  const auto place = [&bytes](int64_t size) {
    const int64_t offset = bytes;
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  };
  const int64_t losses = place(from.losses.size() * sizeof(double));
  const int64_t norm = place(from.norm.size() * sizeof(double));
  const int64_t norms = place(BytesOf(from.norms));
  const int64_t scale = place(sizeof(double));
  WEFT_ASSIGN_OR_RETURN(void* const memory, device.Allocate(HOST, bytes * slots));
  result->slots_.resize(slots);
  for (int64_t i = 0; i < slots; ++i) {
    std::byte* const base = static_cast<std::byte*>(memory) + i * bytes;
    const auto doubles = [base](int64_t offset) { return reinterpret_cast<const double*>(base + offset); };
    Slot& slot = result->slots_[i];
    slot.figures.losses = {doubles(losses), from.losses.size()};
    slot.figures.norm = {doubles(norm), from.norm.size()};
    if (from.norms.data != nullptr) slot.figures.norms = {base + norms, from.norms.dtype, from.norms.shape};
    if (from.loss_scale != nullptr) slot.figures.loss_scale = doubles(scale);
    for (int& event : slot.events) {
      WEFT_ASSIGN_OR_RETURN(event, device.NewEvent(/*timed=*/false));
    }
  }
  return result;
}

absl::Status FigureCopies::Enqueue(uint8_t which, int action, int64_t repetition, int stream) {
  const Figures& from = program_.figures;
  Slot& slot = SlotOf(repetition);
  const auto copy = [&](const void* to, const void* source, int64_t bytes) {
    return bytes > 0 ? device_.Copy(stream, const_cast<void*>(to), source, bytes) : absl::OkStatus();
  };
  if (which & kLossFigure) {
    WEFT_RETURN_IF_ERROR(copy(slot.figures.losses.data(), from.losses.data(), from.losses.size() * sizeof(double)));
  }
  if (which & (kNormFigure | kVerdictFigure)) {
    WEFT_RETURN_IF_ERROR(copy(slot.figures.norm.data(), from.norm.data(), from.norm.size() * sizeof(double)));
    WEFT_RETURN_IF_ERROR(copy(slot.figures.norms.data, from.norms.data, BytesOf(from.norms)));
  }
  if (which & (kLossScaleFigure | kVerdictFigure) && from.loss_scale != nullptr) {
    WEFT_RETURN_IF_ERROR(copy(slot.figures.loss_scale, from.loss_scale, sizeof(double)));
  }
  const int event = slot.events[__builtin_ctz(which)];
  WEFT_RETURN_IF_ERROR(device_.Record(event, stream));
  pending_.push_back({which, action, repetition, event});
  return absl::OkStatus();
}

absl::StatusOr<bool> FigureCopies::TakeOver(Take take) {
  bool any = false;
  // Bits of the figures that still have a pending copy; their later copies are not taken yet.
  uint8_t held = 0;
  for (auto it = pending_.begin(); it != pending_.end();) {
    const Pending pending = *it;
    bool over = false;
    if ((pending.which & held) == 0) {
      WEFT_ASSIGN_OR_RETURN(over, device_.Finished(pending.event));
    }
    if (!over) {
      held |= pending.which;
      ++it;
      continue;
    }
    it = pending_.erase(it);
    any = true;
    WEFT_RETURN_IF_ERROR(take(pending.which, pending.action, pending.repetition, SlotOf(pending.repetition).figures));
  }
  return any;
}

absl::StatusOr<double> FigureCopies::LossScaleNow() const {
  double scale = 0;
  if (program_.figures.loss_scale == nullptr) return scale;
  WEFT_RETURN_IF_ERROR(device_.CopyNow(&scale, program_.figures.loss_scale, sizeof(scale)));
  return scale;
}

}  // namespace weft::exec
