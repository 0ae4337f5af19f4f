// The work of a rank that is enqueued on an asynchronous device and not over. The interpreter continues as soon as a
// step is enqueued. This class does what is needed to enqueue a step. It collects results when the device has produced
// them: figures, times, and repetitions that are over. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_DEVICE_RUN_H_
#define WEFT_EXECUTOR_INTERPRETER_DEVICE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/interface/device.h"
#include "executor/interpreter/device_streams.h"
#include "executor/interpreter/event_recorder.h"
#include "executor/interpreter/figure_copies.h"
#include "executor/interpreter/step_results.h"
#include "executor/interpreter/step_times.h"
#include "executor/program/prepared_program.h"

namespace weft::exec {

class DeviceRun {
 public:
  // All arguments must outlive the result.
  static absl::StatusOr<std::unique_ptr<DeviceRun>> Create(const PreparedProgram& program, ComputeDevice& device,
                                                           StepResults& results, EventRecorder& recorder);

  // Begins to run repetitions of a list from `first` on; `traced` of them are timed. Nothing may be under way.
  absl::Status Begin(ActionList list, int64_t first, int64_t traced);

  // Called before and after a step is enqueued. `timed`: the times of the step are recorded.
  absl::Status BeginStep(PreparedStep& step, bool timed);
  absl::Status EndStep(int action, int step, int64_t repetition, bool timed);
  // Makes each stream of a group of transfers wait for the others (rule P4).
  absl::Status Join(absl::Span<const int> streams) { return streams_->Join(streams); }
  // Called when the last step of a program stream in a repetition has been enqueued, or left out.
  absl::Status EndRepetition(size_t stream, int64_t repetition);

  // Collects what is over: figures go to the results, times to the recorder. Returns whether anything was over.
  absl::StatusOr<bool> Collect();
  // Repetitions below this are over.
  int64_t over() const { return over_; }
  bool all_over() const { return over_ == enqueued_; }
  // Repetitions below this may begin.
  int64_t allowed() const { return over_ + DeviceStreams::kRunAhead; }

  DeviceStreams& streams() { return *streams_; }
  absl::StatusOr<double> LossScaleNow() const { return figures_->LossScaleNow(); }

  // For a wait without progress: call `MarkProgress` half way through; `MadeProgress` then returns whether the device
  // has made progress since. Both ask the device about every event.
  absl::Status MarkProgress();
  absl::StatusOr<bool> MadeProgress();
  absl::StatusOr<std::optional<DeviceStreams::Unfinished>> FindUnfinished() {
    return streams_->FindUnfinished(list_, over_);
  }

 private:
  DeviceRun(const PreparedProgram& program, StepResults& results, EventRecorder& recorder, ComputeDevice& device)
      : program_(program), results_(results), recorder_(recorder), times_(device) {}
  absl::StatusOr<bool> TakeFigures();

  const PreparedProgram& program_;
  StepResults& results_;
  EventRecorder& recorder_;
  std::unique_ptr<DeviceStreams> streams_;
  std::unique_ptr<FigureCopies> figures_;
  StepTimes times_;
  ActionList list_ = kBodyList;
  // `streams_of_list_` counts the program streams that have steps in the list. `through_[slot]` counts those that have
  // enqueued all of the repetition in this slot.
  int streams_of_list_ = 0;
  int through_[DeviceStreams::kSlots] = {};
  // All streams have enqueued the repetitions below `enqueued_`; the repetitions below `over_` are over.
  int64_t enqueued_ = 0;
  int64_t over_ = 0;
  int64_t progress_mark_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_DEVICE_RUN_H_
