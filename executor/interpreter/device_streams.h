// A rank's program on the streams of an asynchronous device: one for each of its own, with events where a step waits
// for another stream. Nothing here waits on the host. Internal to the interpreter.
//
//   compute  F0 ─ record a ─ F1 ─ wait b ─ B0         Work waits for work that was enqueued before it only, so the
//   recv     ─ R1 ─ record b ─ wait a ─ R2            device may pick its streams in any order.
#ifndef WEFT_EXECUTOR_INTERPRETER_DEVICE_STREAMS_H_
#define WEFT_EXECUTOR_INTERPRETER_DEVICE_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/interface/device.h"
#include "executor/program/prepared_program.h"

namespace weft::exec {

class DeviceStreams {
 public:
  // So many repetitions may be enqueued and not over, and one more begun when the oldest is.
  static constexpr int64_t kRunAhead = 2;
  // What is kept by repetition: no two under way share a slot.
  static constexpr int64_t kSlots = kRunAhead + 1;

  static absl::StatusOr<std::unique_ptr<DeviceStreams>> Create(const PreparedProgram& program, ComputeDevice& device);

  ComputeDevice& device() const { return device_; }
  // The device's number for a program stream.
  int operator[](size_t stream) const { return program_.streams[stream].device_stream; }

  // Holds the step's stream back for what the step waits for, in the repetitions that it waits for: a later one that is
  // enqueued already may wait for another rank that waits for this step. Nothing is enqueued for waits that an earlier
  // one of the same stream on the same stream covers.
  absl::Status Await(const PreparedStep& step);
  // The step is enqueued. Where others may wait for it, they do from here.
  absl::Status Ended(const PreparedStep& step, int64_t repetition);
  // Where `done` counts it already.
  absl::Status Ended(const PreparedStep& step) { return Ended(step, step.done - 1); }
  // Rule P4: each of the group's streams is held back for what is enqueued on the others.
  absl::Status Join(absl::Span<const int> streams);
  // The last step that the program stream has in a repetition is enqueued.
  absl::Status EndRepetition(size_t stream, int64_t repetition);
  // When all that a list has in a repetition, whose last steps are enqueued, was over; nothing if it is not.
  absl::StatusOr<std::optional<int64_t>> Over(ActionList list, int64_t repetition);

  // Rule P6. Marks where the chosen action ends on the compute stream.
  absl::Status EndChosen();
  // Whether the compute stream has come to the mark.
  absl::StatusOr<bool> Idle() { return device_.Finished(chosen_); }
  // When the last of what an action in `repetition` depends on was over, -1 if it depends on nothing; nothing if some
  // of it is not over.
  absl::StatusOr<std::optional<int64_t>> Arrival(const PreparedAction& action, int64_t repetition);

  // An action that is enqueued and not over; `repetition` of the list is the earliest that is not. Asks the device
  // about every event: for when nothing goes on any more.
  struct Unfinished {
    int action = -1;
    int64_t repetition = 0;
  };
  absl::StatusOr<std::optional<Unfinished>> FindUnfinished(ActionList list, int64_t repetition);
  // Grows as the device gets on; costs as much.
  absl::StatusOr<int64_t> Progress();

 private:
  struct StepRecord {
    int event = -1;
    // Of the list; -1 = never recorded.
    int64_t repetition = -1;
    // Of the stream's records, the one it stands for.
    int64_t sequence = 0;
  };
  // By slot: one of each repetition under way.
  struct StepEvent {
    int stream = 0;
    StepRecord records[kSlots];
  };

  DeviceStreams(const PreparedProgram& program, ComputeDevice& device) : program_(program), device_(device) {}
  int64_t& Covered(int waiting, int awaited) { return covered_[waiting * program_.streams.size() + awaited]; }
  // One of the step's dependencies on streams in general.
  absl::StatusOr<bool> StepOver(const PreparedStep& step, int64_t repetition, int64_t* latest);
  // Null if there is none, or it is over: its slot has been taken since.
  const StepRecord* Find(int event, int64_t repetition) const {
    if (repetition < 0) return nullptr;
    const StepRecord& record = events_[event].records[repetition % kSlots];
    return record.repetition == repetition ? &record : nullptr;
  }

  const PreparedProgram& program_;
  ComputeDevice& device_;
  // By PreparedStep.event.
  std::vector<StepEvent> events_;
  // Records of each program stream.
  std::vector<int64_t> sequence_;
  // By waiting and awaited program stream: the latest of its records that is waited for already.
  std::vector<int64_t> covered_;
  // By program stream, within Await: what to wait for.
  std::vector<const StepRecord*> newest_;
  // By program stream and slot: events at the end of a repetition.
  std::vector<int> ends_;
  // By program stream, for groups.
  std::vector<int> joins_;
  int chosen_ = -1;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_DEVICE_STREAMS_H_
