// The performance model of Li and Hoefler 2021 (Chimera, arXiv:2107.06925), sec. 3.4, equation 1:
//
//   T = (F_t + Comm_p2p) C_f + (B_t + Comm_p2p) C_b + max over workers of Comm_unoverlapped(i)
//
// F_t and B_t are the times of a forward and a backward of one stage, C_f and C_b their numbers on the critical path.
// Comm_p2p = alpha + beta L for a message of L bytes. The sum of a stage's gradients over its r replicas takes, by
// Rabenseifner's algorithm, 2 log2(r) alpha + 2 (r - 1) beta L / r.
#ifndef WEFT_PLANNER_PRESETS_CHIMERA_MODEL_H_
#define WEFT_PLANNER_PRESETS_CHIMERA_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/presets/candidates.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {

// Seconds of Rabenseifner's all-reduce of `bytes` over `replicas`.
double RabenseifnerSeconds(double bytes, int64_t replicas, const AlphaBeta& link);

struct ChimeraTimes {
  // Seconds.
  double forward = 0;
  double backward = 0;
  double p2p = 0;
  // By stage, seconds of the sum of its gradients.
  std::vector<double> sums = {};
};

struct ChimeraEstimate {
  // T.
  double seconds = 0;
  // C_f and C_b. If several paths are critical, the path with the most backwards counts.
  int64_t forwards = 0;
  int64_t backwards = 0;
  // The last term of equation 1.
  double unoverlapped = 0;
};

// Equation 1 for a schedule whose ranks sum their stages' gradients as early as they can. The critical path and the
// free regions (the paper's figure 6) follow from the times of all slots, each with the message that follows it:
// - A stage's sum may begin after the stage's last backward on the worker.
// - Until the worker's computation ends, the sum proceeds only while the worker computes nothing (regions a and b).
//   So the sums of middle stages cannot run early: no bubble follows these stages.
// - After that, the sum proceeds until the last worker ends (region c). This region serves "both stage replicas": the
//   sums of a worker run at the same time, each as fast as alone.
//
// `schedule` must be static and flush.
absl::StatusOr<ChimeraEstimate> EstimateChimera(const PipelineSchedule& schedule, int microbatches,
                                                const ChimeraTimes& times);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_PRESETS_CHIMERA_MODEL_H_
