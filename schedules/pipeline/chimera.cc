// Chimera: two or more pipelines over the same ranks in opposite directions, each filling the bubbles of the others.
// Every rank holds a replica of one stage per pipeline.
//
//   D=4, N=4, f=1, F=1, B=2   (letters: microbatch; lower case: forward, upper case: backward; dots: idle)
//     rank 0: ab.cCCdDD.AA..BB      lane 0, down: microbatches a b, stage s on rank s
//     rank 1: .acbd.CCAADDBB..      lane 1, up:   microbatches c d, stage s on rank D-1-s
//     rank 2: .cadb.AACCBBDD..
//     rank 3: cd.aAAbBB.CC..DD
//
//   The same with N=8 and forward doubling: two adjacent letters are one forward of two microbatches, except in the
//   first pair of each lane
//     rank 0: abcdefEE.ghFFAAGGBBHHCC..DD
//     rank 1: .abefcdghEEAAFFBBGGCCHHDD..
//     rank 2: .efabghcdAAEEBBFFCCGGDDHH..
//     rank 3: efghabAA.cdBBEECCFFDDGG..HH
//
// With 2f lanes, lane 2i (down) has stage s on rank (iD/f + s) mod D, lane 2i + 1 (up) on (iD/f + D - 1 - s) mod D. A
// rank runs the slots in the order of wave_table.h, in units of N = D microbatches, D/2f from each lane. For more
// microbatches there are three ways (params.scaling):
// - concatenation: units follow each other 2D slots apart. The first forwards of a unit fill the end of the one
//   before.
// - forward doubling: units of 2D microbatches. One forward computes two microbatches, and each has its own backward,
//   so forwards take as long as backwards. The first D/4f pairs of each lane, rounded down, run as two forwards. This
//   halves the bubbles at the beginning (the paper's Figure 7(d), which does not say how). If at most D microbatches
//   are left, they form a unit without doubling; if more are left, they form a partly filled unit.
// - backward halving: the lists of doubling, where `microbatches` counts halves. One forward is a whole microbatch,
//   which is width 2, and each of its halves has its own backward. Costs are those of a half.
//
// Within a lane, microbatches are in ascending order, forwards and backwards (rule P9).
//
// Constraints: D = P even; lanes = 2f with f a divisor of D/2, default 2; any N >= 1. The lanes of a partly filled unit
//          get equal shares, the first lanes one more.
// Time:    equal stages, free transfers, s = min(F, B), l = max(F, B), N = KD, concatenation:
//          makespan = D s + (D + D/f - 2) l + (K - 1) ((D - D/f + 2) s + (D + D/f - 2) l).
//          F = B: bubble (D/f - 2) F for any K, bubble / makespan = (D - 2f) / (2fN + D - 2f), the paper's Table 3
//          (with f = 1, Table 2). B = 2F: bubble (K + 1)(D/f - 2) F, so the (D - 2) / (3N/2 + D - 2) of sec. 2 holds
//          for K = 1 only. The drawing: 16, bubble 4.
//          Doubling, B = 2F, N a multiple of 2D: makespan = (N + D/2f - 1)(F + B), the second drawing 27: Table 3
//          again, and the least possible for any order: a rank in the middle (r = D/2 - 1 with f = 1) gets no input
//          before D/2 - 1 forwards are done, and D/2 - 1 other backwards follow its last.
// Memory:  2f replicas of the weights. Activations: each pipe is cut into parts of D/f ranks. The first and the last
//          rank of a part hold D - D/2f + 1 microbatches, one more per rank towards the middle, where it is D.
//          Doubling: D more (both microbatches of a pair count while either is in use); from the second unit on,
//          rounded up to pairs.
// Source:  Li and Hoefler 2021, "Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional
//          Pipelines", SC 2021, arXiv:2107.06925, sec. 3.1 (slots), 3.5 (scaling), 3.6 (2f lanes).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/wave_table.h"

namespace weft {
namespace {

// The valid numbers of lanes for `ranks`, at most `most`, that are nearest to `lanes`, below and above.
std::vector<int> NearestLanes(int ranks, int lanes, int64_t most) {
  int below = 0, above = 0;
  for (int f = 1; f <= ranks / 2 && 2 * f <= most; ++f) {
    if (ranks / 2 % f != 0) continue;
    if (2 * f <= lanes) below = 2 * f;
    if (2 * f >= lanes && above == 0) above = 2 * f;
  }
  std::vector<int> nearest;
  if (below != 0) nearest.push_back(below);
  if (above != 0 && above != below) nearest.push_back(above);
  return nearest;
}

absl::Status CheckChimera(const ScheduleParams& params, int lanes) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  if (params.ranks % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks = ", params.ranks, "; a schedule with two directions needs an even number, nearest valid: ",
                     params.ranks > 1 ? absl::StrCat(params.ranks - 1, " and ") : "", params.ranks + 1));
  }
  // A slot stores its lane in 16 bits, and the placement lists every stage of every lane. Both limit the lanes.
  const int64_t most = std::min<int64_t>({INT16_MAX, params.ranks, std::max(kMaxSlots / params.ranks, int64_t{2})});
  if (lanes % 2 != 0 || lanes > most || params.ranks / 2 % (lanes / 2) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("lanes = ", lanes, " with ranks = ", params.ranks,
                     "; allowed: 2f where f divides ranks / 2 = ", params.ranks / 2, ", at most ", most,
                     ", nearest valid: ", absl::StrJoin(NearestLanes(params.ranks, lanes, most), " and ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PipelineSchedule> BuildChimera(const ScheduleParams& params) {
  const int lanes = params.lanes == 0 ? 2 : params.lanes;
  if (absl::Status status = CheckChimera(params, lanes); !status.ok()) return status;
  const int depth = params.ranks;
  WaveTable table = {.ranks = depth, .placement = {}, .per_lane = depth / lanes};
  for (int lane = 0; lane < lanes; lane += 2) {
    const int first = lane / 2 * (depth / (lanes / 2));
    std::vector<int>& down = table.placement.emplace_back(depth);
    for (int stage = 0; stage < depth; ++stage) down[stage] = (first + stage) % depth;
    std::vector<int> up(table.placement.back().rbegin(), table.placement.back().rend());
    table.placement.push_back(std::move(up));
  }
  if (params.scaling != Scaling::kConcatenation) {
    table.unit = WaveUnit::kDoubled;
    table.undoubled = table.per_lane / 2;
  }
  std::vector<std::vector<Slot>> order = WaveOrder(table, params.microbatches);
  return PipelineSchedule{
      .stages = depth, .lanes = lanes, .placement = std::move(table.placement), .order = std::move(order)};
}

// The form for concatenation needs K = N/D full units and holds for any costs. The paper (Table 3, from sec. 3.1 and
// 3.6) assumes forwards that take as long as backwards, with a bubble ratio of (D-2f)/(2fN+D-2f). Its Figure 6 gives
// the critical path of a single unit with f = 1: D forwards and 2D-2 backwards (C_f = 6, C_b = 10 for D = 6). The
// general form is ours, and tests compare it with measured times. The form for doubling has Table 3's ratio; a pair of
// forwards takes as long as one backward there (sec. 3.5).
std::optional<ClosedForm> ClosedFormChimera(const ScheduleParams& params) {
  const int64_t lanes = params.lanes == 0 ? 2 : params.lanes;
  const int64_t d = params.ranks, n = params.microbatches, q = d / lanes, forward = params.costs.forward,
                backward = params.costs.backward;
  const bool doubled = params.scaling != Scaling::kConcatenation && n > d;
  if (params.costs.p2p != 0 || n % (doubled ? 2 * d : d) != 0) return std::nullopt;
  ClosedForm form;
  if (!doubled) {
    const int64_t units = n / d, shorter = std::min(forward, backward), longer = std::max(forward, backward);
    form.makespan = Ratio{
        d * shorter + (d + 2 * q - 2) * longer + (units - 1) * ((d - 2 * q + 2) * shorter + (d + 2 * q - 2) * longer),
        1};
  } else if (backward == 2 * forward) {
    form.makespan = Ratio{(n + q - 1) * (forward + backward), 1};
  }
  for (int64_t rank = 0; rank < d; ++rank) {
    const int64_t near = std::min(rank % (2 * q), 2 * q - 1 - rank % (2 * q));
    int64_t peak = d - q + 1 + near;
    // From the second unit on, no pair runs as two forwards, so activations come and go two at a time.
    if (doubled) peak = d + (n > 2 * d ? (peak + 1) / 2 * 2 : peak);
    form.peak_activations.push_back({peak, 1});
  }
  return form;
}

}  // namespace weft
