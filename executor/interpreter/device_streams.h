// A rank's program on the streams of an asynchronous device, with events where a step waits for another stream. Nothing
// here waits on the host. Internal to the interpreter.
//
//   compute  F0 ─ record a ─ F1 ─ wait b ─ B0         Work waits only for work that was enqueued before it, so the
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
  // At most this many repetitions may be enqueued and not over. The next one may begin when the oldest is over.
  static constexpr int64_t kRunAhead = 2;
  // Number of slots for data that is kept per repetition. No two repetitions under way share a slot.
  static constexpr int64_t kSlots = kRunAhead + 1;

  static absl::StatusOr<std::unique_ptr<DeviceStreams>> Create(const PreparedProgram& program, ComputeDevice& device);

  ComputeDevice& device() const { return device_; }
  // The device's number for a program stream.
  int operator[](size_t stream) const { return program_.streams[stream].device_stream; }

  // Makes the step's stream wait for the steps that this step depends on. It waits for each in the repetition that the
  // dependency names, not for a later one that is enqueued already: that one may wait for another rank, which waits for
  // this step. Enqueues no wait that an earlier wait of this stream for the same other stream covers.
  absl::Status Await(const PreparedStep& step);
  // Called when the step is enqueued. Steps that wait for this one wait for the event that is recorded here.
  absl::Status Ended(const PreparedStep& step, int64_t repetition);
  // Like Ended above, for a step that PreparedStep::done already counts.
  absl::Status Ended(const PreparedStep& step) { return Ended(step, step.done - 1); }
  // Rule P4: makes each of the group's streams wait for everything enqueued on the others.
  absl::Status Join(absl::Span<const int> streams);
  // Called when the last step of the program stream in a repetition is enqueued.
  absl::Status EndRepetition(size_t stream, int64_t repetition);
  // Time at which all work of the list in `repetition` was over; nothing if some of it is not over yet. The last steps
  // of the repetition must have been enqueued.
  absl::StatusOr<std::optional<int64_t>> Over(ActionList list, int64_t repetition);

  // Rule P6: marks the end of the chosen action on the compute stream.
  absl::Status EndChosen();
  // True if the compute stream has reached the mark.
  absl::StatusOr<bool> Idle() { return device_.Finished(chosen_); }
  // Time at which the last dependency of an action in `repetition` was over, -1 if it depends on nothing; nothing if
  // some dependency is not over yet.
  absl::StatusOr<std::optional<int64_t>> Arrival(const PreparedAction& action, int64_t repetition);

  // An action that is enqueued and not over. The argument `repetition` of FindUnfinished is the earliest repetition of
  // the list that is not over. FindUnfinished asks the device about every event, so it is only for a run without
  // progress.
  struct Unfinished {
    int action = -1;
    int64_t repetition = 0;
  };
  absl::StatusOr<std::optional<Unfinished>> FindUnfinished(ActionList list, int64_t repetition);
  // Grows as the device makes progress, as long as nothing more is enqueued. As expensive as FindUnfinished.
  absl::StatusOr<int64_t> Progress();

 private:
  struct StepRecord {
    int event = -1;
    // Repetition of the list; -1 = never recorded.
    int64_t repetition = -1;
    // Number of the record among its stream's records.
    int64_t sequence = 0;
  };
  // The event of a step. It has one record per slot, so one for each repetition under way.
  struct StepEvent {
    int stream = 0;
    StepRecord records[kSlots];
  };

  DeviceStreams(const PreparedProgram& program, ComputeDevice& device) : program_(program), device_(device) {}
  int64_t& Covered(int waiting, int awaited) { return covered_[waiting * program_.streams.size() + awaited]; }
  // True if the step is over in `repetition` or has no record of it. Raises `latest` to the time at which the step was
  // over.
  absl::StatusOr<bool> StepOver(const PreparedStep& step, int64_t repetition, int64_t* latest);
  // Null if there is no record, or if the step is over and its slot has been reused since.
  const StepRecord* Find(int event, int64_t repetition) const {
    if (repetition < 0) return nullptr;
    const StepRecord& record = events_[event].records[repetition % kSlots];
    return record.repetition == repetition ? &record : nullptr;
  }

  const PreparedProgram& program_;
  ComputeDevice& device_;
  // By PreparedStep.event.
  std::vector<StepEvent> events_;
  // By program stream: the number of its records so far.
  std::vector<int64_t> sequence_;
  // By pair of program streams (waiting, awaited): the number of the awaited stream's latest record that the waiting
  // stream already waits for.
  std::vector<int64_t> covered_;
  // By program stream, within Await: the latest record to wait for.
  std::vector<const StepRecord*> newest_;
  // By program stream and slot: events at the end of a repetition.
  std::vector<int> ends_;
  // By program stream: the event that Join records.
  std::vector<int> joins_;
  int chosen_ = -1;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_DEVICE_STREAMS_H_
