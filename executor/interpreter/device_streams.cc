#include "executor/interpreter/device_streams.h"

#include <algorithm>
#include <utility>

#include "proto/util/status.h"

namespace weft::exec {

absl::StatusOr<std::unique_ptr<DeviceStreams>> DeviceStreams::Create(const PreparedProgram& program,
                                                                     ComputeDevice& device) {
  std::unique_ptr<DeviceStreams> result(new DeviceStreams(program, device));
  const size_t streams = program.streams.size();
  result->sequence_.assign(streams, 0);
  result->covered_.assign(streams * streams, 0);
  result->newest_.assign(streams, nullptr);
  result->joins_.assign(streams, -1);
  const bool chosen = program.backward_queue >= 0;
  result->events_.resize(program.step_events);
  for (const PreparedAction& action : program.actions) {
    for (const PreparedStep& step : action.steps) {
      if (step.event < 0) continue;
      StepEvent& event = result->events_[step.event];
      event.stream = step.stream;
      for (StepRecord& record : event.records) {
        WEFT_ASSIGN_OR_RETURN(record.event, device.NewEvent(/*timed=*/chosen));
      }
    }
  }
  for (size_t i = 0; i < streams * kSlots; ++i) {
    WEFT_ASSIGN_OR_RETURN(const int event, device.NewEvent(/*timed=*/true));
    result->ends_.push_back(event);
  }
  for (const PreparedGroup& group : program.groups) {
    if (group.streams.size() < 2) continue;
    for (const int stream : group.streams) {
      if (result->joins_[stream] >= 0) continue;
      WEFT_ASSIGN_OR_RETURN(result->joins_[stream], device.NewEvent(/*timed=*/false));
    }
  }
  if (chosen) {
    WEFT_ASSIGN_OR_RETURN(result->chosen_, device.NewEvent(/*timed=*/false));
  }
  return result;
}

absl::Status DeviceStreams::Await(const PreparedStep& step) {
  if (step.waits.empty()) return absl::OkStatus();
  // For each awaited stream, finds the latest record to wait for.
  for (size_t i = 0; i < step.waits.size(); ++i) {
    const StepRecord* record = Find(step.waits[i], step.done - step.wait_distances[i]);
    if (record == nullptr) continue;
    const StepRecord*& newest = newest_[events_[step.waits[i]].stream];
    if (newest == nullptr || newest->sequence < record->sequence) newest = record;
  }
  for (const int wait : step.waits) {
    const int stream = events_[wait].stream;
    const StepRecord* record = std::exchange(newest_[stream], nullptr);
    if (record == nullptr) continue;
    int64_t& covered = Covered(step.stream, stream);
    if (record->sequence <= covered) continue;
    covered = record->sequence;
    WEFT_RETURN_IF_ERROR(device_.Wait((*this)[step.stream], record->event));
  }
  return absl::OkStatus();
}

absl::Status DeviceStreams::Ended(const PreparedStep& step, int64_t repetition) {
  if (step.event < 0) return absl::OkStatus();
  StepRecord& record = events_[step.event].records[repetition % kSlots];
  record.repetition = repetition;
  record.sequence = ++sequence_[step.stream];
  return device_.Record(record.event, (*this)[step.stream]);
}

absl::Status DeviceStreams::Join(absl::Span<const int> streams) {
  if (streams.size() < 2) return absl::OkStatus();
  for (const int stream : streams) WEFT_RETURN_IF_ERROR(device_.Record(joins_[stream], (*this)[stream]));
  for (const int waiting : streams) {
    for (const int awaited : streams) {
      if (awaited == waiting) continue;
      Covered(waiting, awaited) = sequence_[awaited];
      WEFT_RETURN_IF_ERROR(device_.Wait((*this)[waiting], joins_[awaited]));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceStreams::EndRepetition(size_t stream, int64_t repetition) {
  return device_.Record(ends_[stream * kSlots + repetition % kSlots], (*this)[stream]);
}

absl::StatusOr<std::optional<int64_t>> DeviceStreams::Over(ActionList list, int64_t repetition) {
  const int64_t slot = repetition % kSlots;
  for (const bool times : {false, true}) {
    int64_t latest = 0;
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      if (program_.streams[i].steps[list].empty()) continue;
      const int event = ends_[i * kSlots + slot];
      if (times) {
        WEFT_ASSIGN_OR_RETURN(const int64_t time, device_.TimeOf(event));
        latest = std::max(latest, time);
        continue;
      }
      WEFT_ASSIGN_OR_RETURN(const bool over, device_.Finished(event));
      if (!over) return std::optional<int64_t>();
    }
    if (times) return std::optional<int64_t>(latest);
  }
  return std::optional<int64_t>();
}

absl::Status DeviceStreams::EndChosen() { return device_.Record(chosen_, (*this)[0]); }

absl::StatusOr<bool> DeviceStreams::StepOver(const PreparedStep& step, int64_t repetition, int64_t* latest) {
  const StepRecord* record = step.event < 0 ? nullptr : Find(step.event, repetition);
  if (record == nullptr) return true;
  WEFT_ASSIGN_OR_RETURN(const bool over, device_.Finished(record->event));
  if (!over) return false;
  WEFT_ASSIGN_OR_RETURN(const int64_t time, device_.TimeOf(record->event));
  *latest = std::max(*latest, time);
  return true;
}

absl::StatusOr<std::optional<int64_t>> DeviceStreams::Arrival(const PreparedAction& action, int64_t repetition) {
  int64_t latest = -1;
  for (const PreparedDependency& dep : action.deps) {
    const PreparedAction& target = program_.actions[dep.action];
    if (target.list != action.list || repetition < dep.distance) continue;
    for (const std::vector<int>* steps : {&target.last_steps, dep.detached ? &target.last_detached : nullptr}) {
      if (steps == nullptr) continue;
      for (const int step : *steps) {
        WEFT_ASSIGN_OR_RETURN(const bool over, StepOver(target.steps[step], repetition - dep.distance, &latest));
        if (!over) return std::optional<int64_t>();
      }
    }
  }
  return std::optional<int64_t>(latest);
}

absl::StatusOr<std::optional<DeviceStreams::Unfinished>> DeviceStreams::FindUnfinished(ActionList list,
                                                                                       int64_t repetition) {
  std::optional<Unfinished> first;
  for (size_t i = 0; i < program_.actions.size(); ++i) {
    for (const PreparedStep& step : program_.actions[i].steps) {
      if (step.event < 0) continue;
      for (const StepRecord& record : events_[step.event].records) {
        if (record.repetition < 0 || (first.has_value() && first->repetition <= record.repetition)) continue;
        WEFT_ASSIGN_OR_RETURN(const bool over, device_.Finished(record.event));
        if (!over) first = {static_cast<int>(i), record.repetition};
      }
    }
  }
  if (first.has_value()) return first;
  // A step that no other stream waits for has no event of its own. It is known to be over when the event at the end of
  // its stream's repetition is.
  for (size_t i = 0; i < program_.streams.size(); ++i) {
    const std::vector<StreamStep>& steps = program_.streams[i].steps[list];
    if (steps.empty()) continue;
    WEFT_ASSIGN_OR_RETURN(const bool over, device_.Finished(ends_[i * kSlots + repetition % kSlots]));
    if (!over) return Unfinished{steps.back().action, repetition};
  }
  return first;
}

absl::StatusOr<int64_t> DeviceStreams::Progress() {
  int64_t progress = 0;
  for (const StepEvent& event : events_) {
    for (const StepRecord& record : event.records) {
      if (record.repetition < 0) continue;
      WEFT_ASSIGN_OR_RETURN(const bool over, device_.Finished(record.event));
      progress += over;
    }
  }
  return progress;
}

}  // namespace weft::exec
