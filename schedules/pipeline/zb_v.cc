// ZB-V: two stages per rank, placed as a V. So the rank of the first stage also has the last stage with the loss, and
// the backward begins where the forward began. It has no bubbles, like ZB-H2, with the memory of 1F1B.
//
//   P=3, N=5, F=I=W=1 per stage   (lower case: chunk 0, stages 0 to 2; upper case: chunk 1, stages 5 to 3)
//     rank 0: f0 f1 f2 f3 f4 F0 I0 W0 F1 I1 W1 F2 I2 W2 i0 w0 F3 I3 W3 i1 w1 F4 I4 W4 i2 w2 i3 w3 i4 w4 .. ..
//     rank 1: .. f0 f1 f2 F0 f3 F1 I0 W0 F2 I1 W1 f4 i0 w0 F3 I2 W2 i1 w1 F4 I3 W3 i2 I4 i3 w2 i4 w3 W4 w4 ..
//     rank 2: .. .. f0 F0 f1 F1 f2 F2 I0 W0 f3 i0 w0 F3 I1 W1 f4 i1 w1 F4 I2 W2 i2 I3 i3 I4 i4 w2 W3 W4 w3 w4
//
// Rank r has stages r (chunk 0) and 2P - 1 - r (chunk 1). It runs these phases: 2(P - r) - 1 times f; r times F f; P -
// r times F I W; f i w F I W as long as there are forwards; r times i I; P - r times i w; then the remaining W and w.
// With N < 2P - 1 this is the list for 2P - 1 microbatches without those that do not exist. Each stage's weight
// gradients are in ascending microbatch order.
//
// Constraints: any P >= 1, N >= 1; two stages per rank (virtual_stages = 2, or not given).
// Time:    equal stages, free transfers, W <= F <= I, N >= 2P - 1, with the times of one stage's slots:
//          span = 2N (F + B) + (P - 1) 2(I - W); makespan = 2N (F + B) + (P - 1) max(I, 2(I - W)).
//          At F = I = W the span has no bubble and the makespan P - 1 slots; with N < 2P - 1 the span has
//          b = 4(P - 1) - 2(N - 1) slots, the makespan max(P - 1, b). The drawing: 30 + 0 and 30 + 2.
//          The paper's search for an order (no fixed list) is better if the times differ: at P = 4, with F = 1, I =
//          1.2, W = 0.8 for a whole rank, its span has a bubble of 0.8, here 1.2.
// Memory:  rank r holds at most min(2P, N + min(N, r + 1)) stages' activations, each half a microbatch: P microbatches
//          on all ranks if N >= 2P - 1.
// Source:  Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362, and Qi et al. 2023,
//          arXiv:2401.10241, sec. 6; the same order as PyTorch 2.13's ScheduleZBVZeroBubble. Formulas for unequal times
//          and N < 2P - 1 are measured, and tested here.
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/v_shape.h"

namespace weft {
namespace {

// One rank's list. The phases are written for `full` microbatches, but only the first `microbatches` exist.
class Rank {
 public:
  Rank(int ranks, int rank, int microbatches)
      : ranks_(ranks),
        rank_(rank),
        stages_({rank, 2 * ranks - 1 - rank}),
        microbatches_(microbatches),
        full_(std::max(2 * ranks - 1, microbatches)) {
    order_.reserve(size_t{6} * microbatches);
  }

  std::vector<Slot> Run() {
    constexpr Step f = {SlotKind::kForward, 0}, i = {SlotKind::kBackwardInput, 0}, w = {SlotKind::kBackwardWeight, 0};
    constexpr Step F = {SlotKind::kForward, 1}, I = {SlotKind::kBackwardInput, 1}, W = {SlotKind::kBackwardWeight, 1};
    const int below = ranks_ - rank_;
    Repeat(2 * below - 1, {f});
    Repeat(rank_, {F, f});
    Repeat(below, {F, I, W});
    Repeat(full_ - Done(F), {f, i, w, F, I, W});
    Repeat(rank_, {i, I});
    Repeat(below, {i, w});
    Repeat(full_ - Done(W), {W});
    Repeat(full_ - Done(w), {w});
    return std::move(order_);
  }

 private:
  struct Step {
    SlotKind kind;
    int chunk;
  };

  int& Done(const Step& step) { return done_[static_cast<int>(step.kind)][step.chunk]; }

  void Repeat(int times, std::initializer_list<Step> steps) {
    for (int k = 0; k < times; ++k) {
      bool any = false;
      for (const Step& step : steps) any |= Done(step) < microbatches_;
      if (!any) {
        // Counts the remaining steps without a loop. Their microbatches do not exist, and they may far outnumber those
        // that do.
        for (const Step& step : steps) Done(step) += times - k;
        return;
      }
      for (const Step& step : steps) {
        const int m = Done(step)++;
        if (m < microbatches_) order_.push_back({.kind = step.kind, .stage = stages_[step.chunk], .microbatch = m});
      }
    }
  }

  const int ranks_;
  const int rank_;
  const std::array<int, 2> stages_;
  const int microbatches_;
  const int full_;
  std::array<std::array<int, 2>, 4> done_ = {};
  std::vector<Slot> order_;
};

}  // namespace

absl::StatusOr<PipelineSchedule> BuildZbV(const ScheduleParams& params) {
  if (absl::Status status = CheckVShape("zb-v", params); !status.ok()) return status;
  const int p = params.ranks;
  PipelineSchedule schedule = {.stages = 2 * p, .lanes = 1, .placement = SnakePlacement(p, 2 * p), .order = {}};
  for (int rank = 0; rank < p; ++rank) schedule.order.push_back(Rank(p, rank, params.microbatches).Run());
  return schedule;
}

// The head of this file gives the source and the conditions.
std::optional<ClosedForm> ClosedFormZbV(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  const __int128 f = params.costs.forward, w = params.costs.weight, i = params.costs.backward - params.costs.weight;
  ClosedForm form;
  const bool enough = n >= 2 * p - 1;
  if (w <= f && f <= i && (enough || w == i)) {
    const __int128 busy = 2 * n * (f + i + w);
    const __int128 wait = enough ? 2 * (p - 1) * (i - w) : (4 * (p - 1) - 2 * (n - 1)) * f;
    form.span = RatioIfItFits(busy + wait, 2);
    form.makespan = RatioIfItFits(busy + std::max(wait, (p - 1) * i), 2);
  }
  for (int64_t r = 0; r < p; ++r) form.peak_activations.push_back({std::min(2 * p, n + std::min(n, r + 1)), 2});
  return form;
}

}  // namespace weft
