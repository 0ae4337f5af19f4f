#include "cli/run/run_options.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/results/trace_file.h"
#include "cli/run/predict.h"
#include "cli/run/stop_signals.h"
#include "executor/faults/fault_report.h"
#include "executor/interface/tuning_options.h"
#include "proto/util/status.h"

namespace weft {

absl::StatusOr<exec::RunOptions> OptionsOf(const Flags& flags, const RunFlags& f, const exec::BackendEntry& backend) {
  // This cannot fail: CheckRunFlags has parsed the value before.
  const exec::TuningOptions tuning = *exec::ParseTuningOptions(f.tuning);
  if (tuning.mode != exec::TuningOptions::Mode::kOff && backend.name != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--tuning is '", f.tuning, "', but backend ",
                                                   std::string(backend.name), " has nothing to tune; allowed: off"));
  }
  exec::RunOptions options;
  options.backend = &backend;
  options.tuning = f.tuning;
  options.steps = f.steps;
  options.threads_per_rank = static_cast<int>(f.threads);
  options.slots = static_cast<int>(f.slots);
  options.timeout = std::chrono::nanoseconds(static_cast<int64_t>(f.timeout * 1e9));
  options.eval_every = f.eval_every;
  options.eval_batches = f.eval_batches;
  options.checkpoint = {.directory = f.checkpoint, .keep = f.keep, .timeout = options.timeout};
  options.checkpoint_every = f.checkpoint_every;
  options.resume = f.resume;
  if (flags.Given("resume-step")) options.resume_step = f.resume_step;
  options.weights = f.weights;
  options.save_weights = f.save_weights;
  options.trace_repetitions = f.trace.empty() ? 0 : f.trace_steps;
  options.stop = &stop_requested;
  options.check_replicas = f.check_replicas;
  if (f.fault_report.empty()) {
    options.fault_report = exec::DefaultFaultFile(f.checkpoint, f.trace);
  } else if (f.fault_report != "none") {
    options.fault_report = f.fault_report;
  }
  return options;
}

absl::StatusOr<exec::PredictedTimes> PredictTimes(const Program& program, const RunFlags& f) {
  Prediction prediction;
  if (f.predicted.empty()) {
    WEFT_ASSIGN_OR_RETURN(prediction, PredictRun(program, f.cluster));
  } else {
    absl::StatusOr<Trace> trace = ReadTrace(f.predicted);
    if (!trace.ok()) {
      return absl::Status(trace.status().code(), absl::StrCat("--predicted: ", trace.status().message()));
    }
    prediction.trace = *std::move(trace);
  }
  if (!prediction.trace.has_value()) return exec::PredictedTimes();
  absl::StatusOr<exec::PredictedTimes> times = exec::PredictedTimes::Make(program, *prediction.trace);
  if (times.ok()) return times;
  return absl::Status(times.status().code(), absl::StrCat("--predicted=", f.predicted, ": ", times.status().message()));
}

}  // namespace weft
