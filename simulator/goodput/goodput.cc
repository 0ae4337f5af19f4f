#include "simulator/goodput/goodput.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/state_part.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units_text.h"
#include "simulator/goodput/drawn_run.h"
#include "simulator/goodput/fault_model.h"
#include "simulator/network/placement.h"

namespace weft::sim {
namespace {

constexpr double kDay = 86400;
constexpr double kYear = 365 * kDay;
// Maximum number of interruptions in all drawn runs together. Drawing them takes a few seconds.
constexpr double kMaxInterruptions = 1e8;

FaultModel MakeModel(const Reliability& reliability, double devices, double nodes, double checkpoint_seconds) {
  FaultModel model;
  model.seconds_between_failures =
      kYear / (devices * reliability.failures_per_device_year() + nodes * reliability.failures_per_node_year());
  model.restart_seconds = reliability.restart_seconds() + checkpoint_seconds;
  if (reliability.has_background_stop_seconds()) {
    model.stop_seconds = reliability.background_stop_seconds();
    model.write_seconds = checkpoint_seconds;
  } else {
    model.stop_seconds = checkpoint_seconds;
  }
  if (reliability.has_spare_nodes()) {
    model.spare_nodes = reliability.spare_nodes();
    model.repair_seconds = reliability.repair_seconds();
  }
  return model;
}

absl::Status AddDrawnRuns(const FaultModel& model, const GoodputOptions& options, GoodputReport& goodput) {
  const double seconds = static_cast<double>(options.days) * kDay;
  const double interruptions = kDrawnRuns * seconds / model.seconds_between_failures;
  if (interruptions > kMaxInterruptions) {
    const double most = static_cast<double>(options.days) * kMaxInterruptions / interruptions;
    return absl::ResourceExhaustedError(
        absl::StrCat("days = ", options.days, " are too many to draw ", kDrawnRuns, " runs with an interruption every ",
                     SecondsText(model.seconds_between_failures), "; at most ", static_cast<int64_t>(most)));
  }
  std::vector<double> useful(kDrawnRuns);
  double sum = 0;
  for (int run = 0; run < kDrawnRuns; ++run) {
    const Draw draw = Draw(static_cast<uint64_t>(options.seed)).At(static_cast<uint64_t>(run));
    useful[run] = DrawRun(model, goodput.interval_seconds(), seconds, draw).useful;
    sum += useful[run];
  }
  std::sort(useful.begin(), useful.end());
  goodput.set_days(static_cast<double>(options.days));
  goodput.set_runs(kDrawnRuns);
  goodput.set_seed(options.seed);
  goodput.set_useful_p10(useful[kDrawnRuns / 10 - 1]);
  goodput.set_useful_p50(useful[kDrawnRuns / 2 - 1]);
  goodput.set_useful_p90(useful[kDrawnRuns * 9 / 10 - 1]);
  goodput.set_useful_mean(sum / kDrawnRuns);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReliability(const Cluster& cluster) {
  if (!cluster.has_reliability()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cluster ", Quoted(cluster.name()),
                     " does not state how often jobs are interrupted; set cluster.reliability.failures_per_node_year "
                     "or failures_per_device_year, and checkpoint_bytes_per_second"));
  }
  return absl::OkStatus();
}

absl::StatusOr<GoodputReport> PredictGoodput(const Program& program, const Cluster& cluster,
                                             const SimulationReport& report, const GoodputOptions& options) {
  WEFT_RETURN_IF_ERROR(CheckReliability(cluster));
  if (report.steps_per_repetition() > 0) {
    return absl::InvalidArgumentError(
        "an asynchronous program saves no checkpoint before its end, so an interruption loses the whole run");
  }
  WEFT_ASSIGN_OR_RETURN(const RankPlacement placement, RankPlacement::Make(report.ranks(), cluster));
  const Reliability& reliability = cluster.reliability();
  GoodputReport goodput;
  goodput.set_checkpoint_bytes(CheckpointBytes(program));
  goodput.set_checkpoint_seconds(static_cast<double>(goodput.checkpoint_bytes()) /
                                 reliability.checkpoint_bytes_per_second());
  const FaultModel model = MakeModel(reliability, static_cast<double>(report.ranks()),
                                     static_cast<double>(placement.nodes().size()), goodput.checkpoint_seconds());
  goodput.set_seconds_between_failures(model.seconds_between_failures);
  const double step = report.iteration_seconds();
  goodput.set_steps_between_checkpoints(BestStepsBetweenCheckpoints(model, step));
  goodput.set_interval_seconds(static_cast<double>(goodput.steps_between_checkpoints()) * step);
  const TimeShares shares = SharesOfTime(model, goodput.interval_seconds());
  if (shares.useful < 1e-6) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job would be interrupted every ", SecondsText(model.seconds_between_failures),
        ", too often to train: a step takes ", SecondsText(step), ", saving a checkpoint ",
        SecondsText(goodput.checkpoint_seconds()), ", starting again ", SecondsText(model.restart_seconds)));
  }
  goodput.set_useful(shares.useful);
  goodput.set_saving(shares.saving);
  goodput.set_repeated(shares.repeated);
  goodput.set_restarting(shares.restarting);
  goodput.set_waiting(shares.waiting);
  goodput.set_tokens_per_second(report.tokens_per_second() * shares.useful);
  if (options.days > 0) WEFT_RETURN_IF_ERROR(AddDrawnRuns(model, options, goodput));
  return goodput;
}

}  // namespace weft::sim
