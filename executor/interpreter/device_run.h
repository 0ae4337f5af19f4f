// What an asynchronous device has been given of a rank's program and has not ended. The interpreter goes on as soon as
// a step is enqueued; here is what it must do to enqueue it, and what it learns when the device has got there: figures,
// times, repetitions that are over. Internal to the interpreter.
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
  // All outlive this.
  static absl::StatusOr<std::unique_ptr<DeviceRun>> Create(const PreparedProgram& program, ComputeDevice& device,
                                                           StepResults& results, EventRecorder& recorder);

  // Repetitions of a list from `first` on are to be enqueued; `traced` of them are timed. Nothing is under way.
  absl::Status Begin(ActionList list, int64_t first, int64_t traced);

  // Before a step is enqueued, and after. `timed`: its times are wanted.
  absl::Status BeginStep(PreparedStep& step, bool timed);
  absl::Status EndStep(int action, int step, int64_t repetition, bool timed);
  // The same for what is common to a group of transfers (rule P4).
  absl::Status Join(absl::Span<const int> streams) { return streams_->Join(streams); }
  // The last step of a program stream in a repetition has been enqueued, or left out.
  absl::Status EndRepetition(size_t stream, int64_t repetition);

  // Looks what is over: figures go to the results, times to the recorder. Whether anything was.
  absl::StatusOr<bool> Look();
  // Repetitions below this are over.
  int64_t over() const { return over_; }
  bool all_over() const { return over_ == enqueued_; }
  // Repetitions below this may begin.
  int64_t allowed() const { return over_ + DeviceStreams::kRunAhead; }

  DeviceStreams& streams() { return *streams_; }
  absl::StatusOr<double> LossScaleNow() const { return figures_->LossScaleNow(); }

  // Of a wait that has been quiet: `Pause` half way through, then whether the device has got on since. Asks it about
  // everything.
  absl::Status Pause();
  absl::StatusOr<bool> GotOn();
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
  // Program streams with steps in the list; and how many of them are through, by repetition's slot.
  int streams_of_list_ = 0;
  int through_[DeviceStreams::kSlots] = {};
  // Repetitions below these have been enqueued by all streams, and are over.
  int64_t enqueued_ = 0;
  int64_t over_ = 0;
  int64_t paused_at_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_DEVICE_RUN_H_
