// Whether a schedule stays within a cap of activations, and if not, where it first exceeds it.
#ifndef WEFT_SCHEDULES_PIPELINE_ACTIVATION_CAP_H_
#define WEFT_SCHEDULES_PIPELINE_ACTIVATION_CAP_H_

#include "absl/status/status.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// OK if no rank ever holds the activations of more than `cap` microbatches, each counted as one whole rank's: what
// RankTiming::peak_activations counts. Of a message-driven schedule, whatever its ranks choose: of each of its stages a
// rank may hold as many as the limit lets in. InvalidArgument names the rank, the slot that first exceeds the cap, what
// is held then and the cap; or what is wrong with a schedule that CheckSchedule refuses.
absl::Status CheckActivations(const PipelineSchedule& schedule, int microbatches, const Ratio& cap);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_ACTIVATION_CAP_H_
