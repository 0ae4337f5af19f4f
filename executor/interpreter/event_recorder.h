// The measured events of one rank. They are kept as they happen, without allocation, and turned into a trace at the
// end.
#ifndef WEFT_EXECUTOR_INTERPRETER_EVENT_RECORDER_H_
#define WEFT_EXECUTOR_INTERPRETER_EVENT_RECORDER_H_

#include <cstdint>
#include <vector>

#include "executor/program/prepared_program.h"
#include "proto/trace.pb.h"

namespace weft::exec {

struct RecordedEvent {
  int64_t repetition;
  int32_t action;
  int32_t step;
  int32_t stream;
  int64_t ready_ns = 0, start_ns = 0, end_ns = 0, finish_ns = 0;
};

class EventRecorder {
 public:
  // Reserves memory for this many more events.
  void Reserve(int64_t events) { events_.reserve(events_.size() + events); }
  void Record(const RecordedEvent& event) { events_.push_back(event); }

  // `epoch_ns` is the zero of the trace's clock. Streams without an event are left out.
  RankTrace Trace(const PreparedProgram& program, int rank, int64_t epoch_ns) const {
    RankTrace trace;
    trace.set_rank(rank);
    trace.set_template_name(program.rank_template->name());
    std::vector<int> number(program.streams.size(), -1);
    const auto ps = [&](int64_t ns) { return (ns - epoch_ns) * 1000; };
    for (const RecordedEvent& event : events_) {
      if (number[event.stream] < 0) {
        number[event.stream] = trace.streams_size();
        trace.add_streams(program.streams[event.stream].name);
      }
      TraceEvent* out = trace.add_events();
      out->set_repetition(static_cast<int32_t>(event.repetition));
      out->set_action(event.action);
      out->set_step(event.step);
      out->set_stream(number[event.stream]);
      out->set_ready_ps(ps(event.ready_ns));
      out->set_start_ps(ps(event.start_ns));
      out->set_end_ps(ps(event.end_ns));
      out->set_finish_ps(ps(event.finish_ns));
    }
    return trace;
  }

 private:
  std::vector<RecordedEvent> events_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_EVENT_RECORDER_H_
