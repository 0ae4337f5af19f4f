// Chimera-wave: Chimera with two pipelines, folded in the middle. One pipeline runs down and back up, and no weights
// are held twice.
//
//   P=4, N=4, F=1, B=2; a slot is half a rank's work   (letters: microbatch; lower case: forward, upper case: backward)
//     rank 0: abcd...aAAbBBcCCdDD...AA..BB..CC..DD      stages 0 and 7
//     rank 1: .abc..adb.AAcBBdCC..AADDBB..CC..DD..      stages 1 and 6
//     rank 2: ..ab.acbdc..AAdBB.AACCBBDDCC..DD....      stages 2 and 5
//     rank 3: ...aabbccdd...AAAABBBBCCCCDDDD......      stages 3 and 4
//
// In a Chimera of D = 2P ranks, the up lane does on rank D-1-r what the down lane does on rank r at the same time.
// Swapping the two gives two independent pipelines of P ranks (Hanayo's Figure 5): stages 0..P-1 down, P..2P-1 up.
// Chimera-wave is one of these pipelines, and data parallelism uses the other ranks. A rank runs the slots in the order
// of wave_table.h, in units of N = P microbatches; chimera.cc describes more microbatches (params.scaling). Hanayo with
// one wave has the same placement, and at N = P the same order.
//
// Constraints: any P >= 1 (D = 2P is even), N >= 1. Two stages per rank.
// Time:    Chimera's with D = 2P, f = 1 and 2N microbatches, halved. For B >= F and N = KP:
//          makespan = P F + (2P - 1) B + (K - 1) (F + (2P - 1) B).
//          B = 2F: bubble (K + 1)(P - 1) F. The drawing: 18 = 36/2. Doubling, B = 2F, N a multiple of 2P: makespan =
//          (N + (P - 1)/2)(F + B).
// Memory:  rank r: (P + 1 + r)/2 microbatches' activations; doubling: P more, with halves rounded up to whole ones
//          from the second unit on. Weights once.
// Source:  Liu et al. 2023, "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model Training
//          Efficiency", SC 2023, doi:10.1145/3581784.3607073, sec. 3.2.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/wave_table.h"

namespace weft {

// Defined in chimera.cc.
ClosedFormFn ClosedFormChimera;

absl::StatusOr<PipelineSchedule> BuildChimeraWave(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params, 2); !status.ok()) return status;
  WaveTable table = {
      .ranks = params.ranks, .placement = SnakePlacement(params.ranks, 2 * params.ranks), .per_lane = params.ranks};
  if (params.scaling != Scaling::kConcatenation) {
    table.unit = WaveUnit::kDoubled;
    table.undoubled = table.per_lane / 2;
  }
  std::vector<std::vector<Slot>> order = WaveOrder(table, params.microbatches);
  return PipelineSchedule{
      .stages = 2 * params.ranks, .lanes = 1, .placement = std::move(table.placement), .order = std::move(order)};
}

// In a Chimera with D = 2P and f = 1, ranks r and 2P-1-r together do, for one of the two lanes, the work of rank r
// here. Chimera's rank r does as much at any time for both lanes together. So Chimera's formulas apply with 2N
// microbatches, and each slot is half a rank's work.
std::optional<ClosedForm> ClosedFormChimeraWave(const ScheduleParams& params) {
  ScheduleParams unfolded = params;
  unfolded.ranks *= 2;
  unfolded.microbatches *= 2;
  unfolded.lanes = 2;
  std::optional<ClosedForm> form = ClosedFormChimera(unfolded);
  if (!form) return std::nullopt;
  if (form->makespan) form->makespan->denominator *= 2;
  form->peak_activations.resize(params.ranks);
  for (Ratio& peak : form->peak_activations) peak.denominator *= 2;
  return form;
}

}  // namespace weft
