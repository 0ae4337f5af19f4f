#include "executor/interpreter/device_run.h"

#include <algorithm>
#include <optional>

#include "proto/util/status.h"

namespace weft::exec {

absl::StatusOr<std::unique_ptr<DeviceRun>> DeviceRun::Create(const PreparedProgram& program, ComputeDevice& device,
                                                             StepResults& results, EventRecorder& recorder) {
  std::unique_ptr<DeviceRun> run(new DeviceRun(program, results, recorder, device));
  WEFT_ASSIGN_OR_RETURN(run->streams_, DeviceStreams::Create(program, device));
  WEFT_ASSIGN_OR_RETURN(run->figures_, FigureCopies::Create(program, device, DeviceStreams::kSlots));
  return run;
}

absl::Status DeviceRun::Begin(ActionList list, int64_t first, int64_t traced) {
  list_ = list;
  enqueued_ = over_ = first;
  streams_of_list_ = 0;
  for (const PreparedStream& stream : program_.streams) streams_of_list_ += !stream.steps[list].empty();
  std::fill(std::begin(through_), std::end(through_), 0);
  return times_.Reserve(std::min(traced, DeviceStreams::kSlots) * program_.steps_of_list[list]);
}

absl::Status DeviceRun::BeginStep(PreparedStep& step, bool timed) {
  WEFT_RETURN_IF_ERROR(streams_->Await(step));
  if (!timed) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(step.begun, times_.Begin((*streams_)[step.stream]));
  return absl::OkStatus();
}

absl::Status DeviceRun::EndStep(int action, int step, int64_t repetition, bool timed) {
  const PreparedStep& prepared = program_.actions[action].steps[step];
  const int stream = (*streams_)[prepared.stream];
  if (timed) {
    const RecordedEvent event = {.repetition = repetition,
                                 .action = program_.actions[action].action->id(),
                                 .step = step,
                                 .stream = prepared.stream};
    WEFT_RETURN_IF_ERROR(times_.End(prepared.begun, stream, event));
  }
  // The figures are copied before work that runs after the step can overwrite them.
  if (prepared.figures != 0) {
    WEFT_RETURN_IF_ERROR(figures_->Enqueue(prepared.figures, action, repetition, stream));
  }
  return streams_->Ended(prepared, repetition);
}

absl::Status DeviceRun::EndRepetition(size_t stream, int64_t repetition) {
  WEFT_RETURN_IF_ERROR(streams_->EndRepetition(stream, repetition));
  // Every stream enqueues the repetitions in order. So a repetition is complete once the last of its streams has
  // enqueued it, and the repetitions become complete in order.
  int& through = through_[repetition % DeviceStreams::kSlots];
  if (++through == streams_of_list_) {
    through = 0;
    ++enqueued_;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceRun::TakeFigures() {
  return figures_->TakeOver([this](uint8_t which, int action, int64_t repetition, const Figures& figures) {
    return results_.Take(which, program_.actions[action], repetition, figures);
  });
}

absl::StatusOr<bool> DeviceRun::Collect() {
  WEFT_ASSIGN_OR_RETURN(bool any, TakeFigures());
  while (over_ < enqueued_) {
    WEFT_ASSIGN_OR_RETURN(const std::optional<int64_t> end_ns, streams_->Over(list_, over_));
    if (!end_ns.has_value()) break;
    // The copies of that repetition's figures are over too.
    WEFT_RETURN_IF_ERROR(TakeFigures().status());
    WEFT_RETURN_IF_ERROR(times_.Read(over_, recorder_));
    if (list_ == kBodyList) results_.Over(over_, *end_ns);
    ++over_;
    any = true;
  }
  return any;
}

absl::Status DeviceRun::MarkProgress() {
  WEFT_ASSIGN_OR_RETURN(progress_mark_, streams_->Progress());
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceRun::MadeProgress() {
  WEFT_ASSIGN_OR_RETURN(const int64_t progress, streams_->Progress());
  return progress > progress_mark_;
}

}  // namespace weft::exec
