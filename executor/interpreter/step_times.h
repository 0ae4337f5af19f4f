// Begin and end times of the steps on an asynchronous device, for the trace. Timed events surround each step and are
// read when its repetition is over. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_STEP_TIMES_H_
#define WEFT_EXECUTOR_INTERPRETER_STEP_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/device.h"
#include "executor/interpreter/event_recorder.h"
#include "proto/util/status.h"

namespace weft::exec {

class StepTimes {
 public:
  explicit StepTimes(ComputeDevice& device) : device_(device) {}

  // Makes events for this many steps whose times have not been read.
  absl::Status Reserve(int64_t steps) {
    while (static_cast<int64_t>(free_.size()) < 2 * steps) {
      WEFT_ASSIGN_OR_RETURN(const int event, device_.NewEvent(/*timed=*/true));
      free_.push_back(event);
    }
    return absl::OkStatus();
  }
  // Called before a step is enqueued on the stream. Returns the number that End needs.
  absl::StatusOr<int> Begin(int stream) {
    if (free_.empty()) WEFT_RETURN_IF_ERROR(Reserve(1));
    const int event = free_.back();
    WEFT_RETURN_IF_ERROR(device_.Record(event, stream));
    free_.pop_back();
    return event;
  }
  // Called when the step is enqueued; its times are not known yet.
  absl::Status End(int begin, int stream, const RecordedEvent& step) {
    WEFT_ASSIGN_OR_RETURN(const int end, Begin(stream));
    open_.push_back({step, begin, end});
    return absl::OkStatus();
  }
  // Called when everything up to this repetition is over. Puts its steps into `recorder`, in the order of enqueuing.
  absl::Status Read(int64_t repetition, EventRecorder& recorder) {
    size_t kept = 0;
    for (Open& open : open_) {
      if (open.step.repetition > repetition) {
        open_[kept++] = open;
        continue;
      }
      WEFT_ASSIGN_OR_RETURN(open.step.start_ns, device_.TimeOf(open.begin));
      WEFT_ASSIGN_OR_RETURN(open.step.end_ns, device_.TimeOf(open.end));
      open.step.ready_ns = open.step.start_ns;
      open.step.finish_ns = open.step.end_ns;
      recorder.Record(open.step);
      free_.push_back(open.begin);
      free_.push_back(open.end);
    }
    open_.resize(kept);
    return absl::OkStatus();
  }

 private:
  struct Open {
    RecordedEvent step;
    int begin = -1;
    int end = -1;
  };

  ComputeDevice& device_;
  std::vector<int> free_;
  std::vector<Open> open_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_STEP_TIMES_H_
