// Synthesizes the schedule that `weft schedule --synthesize` shows.
#ifndef WEFT_CLI_SCHEDULE_SCHEDULE_SYNTHESIS_H_
#define WEFT_CLI_SCHEDULE_SCHEDULE_SYNTHESIS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/schedule/schedule_load.h"
#include "proto/synthesis_report.pb.h"

namespace weft {

struct SynthesisRequest {
  // Ranks, microbatches, virtual stages and p2p; its other fields are not used. 0 ranks: one for each stage of `times`.
  ScheduleParams params;
  // Times, activations and cap are in 1 / scale.
  int64_t scale = 1;
  StageTimes times;
  // Backwards run whole.
  bool whole = false;
  // Stages may be on two ranks each.
  bool replicas = false;
  // The cap of a rank, 0 = none, and the activations of one microbatch in each stage; none: 1 for all stages of a rank
  // together.
  int64_t activation_cap = 0;
  std::vector<int64_t> activations;
  uint64_t seed = 1;
  // Multiplies how much is tried.
  int effort = 1;
};

struct SynthesizedSchedule {
  LoadedSchedule loaded;
  // Everything except the schedule's own report, which is in `loaded`.
  SynthesisReport report;
};

// InvalidArgument names the flag that is wrong.
absl::StatusOr<SynthesizedSchedule> SynthesizeSchedule(const SynthesisRequest& request);

// Lines that say how good the schedule is.
std::string SynthesisText(const SynthesisReport& report);

}  // namespace weft

#endif  // WEFT_CLI_SCHEDULE_SCHEDULE_SYNTHESIS_H_
