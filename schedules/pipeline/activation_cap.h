// Checks whether a schedule stays within a cap on activations, and if not, where it first exceeds the cap.
#ifndef WEFT_SCHEDULES_PIPELINE_ACTIVATION_CAP_H_
#define WEFT_SCHEDULES_PIPELINE_ACTIVATION_CAP_H_

#include "absl/status/status.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// OK if no rank ever holds the activations of more than `cap` microbatches. As in RankTiming::peak_activations, the
// unit is the activations of one microbatch in all stages of one rank. In a message-driven schedule the check assumes
// the worst choice of the ranks: for each of its stages a rank may hold as many microbatches as the limit admits.
// InvalidArgument names the rank, the slot that first exceeds the cap, the amount held then and the cap. If
// CheckSchedule refuses the schedule, its error is returned.
absl::Status CheckActivations(const PipelineSchedule& schedule, int microbatches, const Ratio& cap);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_ACTIVATION_CAP_H_
