// Where each stream of a rank's program stands, and what may run next (rules P2, P4, P6). Internal to the interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_STREAM_HEADS_H_
#define WEFT_EXECUTOR_INTERPRETER_STREAM_HEADS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "executor/program/prepared_program.h"

namespace weft::exec {

// The step at `position` of `repetition` is the stream's head.
struct StreamState {
  int64_t repetition = 0;
  size_t position = 0;
  // The head's waits are over; for a transfer, it has been posted.
  bool active = false;
  // The head waits for nothing but a compute slot.
  bool ready = false;
  int64_t ready_ns = 0;
};

class StreamHeads {
 public:
  explicit StreamHeads(const PreparedProgram& program) : program_(program), states_(program.streams.size()) {}

  // All streams at the beginning of a list, in its repetition `first`; `body_repetitions` of the body are over.
  void Begin(ActionList list, int64_t first, int64_t body_repetitions);
  // Repetitions below this may begin.
  void Allow(int64_t end) { allowed_ = end; }
  int64_t allowed() const { return allowed_; }

  ActionList list() const { return list_; }
  size_t size() const { return states_.size(); }
  StreamState& operator[](size_t stream) { return states_[stream]; }
  const StreamState& operator[](size_t stream) const { return states_[stream]; }
  // Of a stream that has steps in this list.
  const StreamStep& Head(size_t stream) const { return Steps(stream)[states_[stream].position]; }
  void Next(size_t stream);

  // Whether the head waits for nothing any more (rule P2); false if there is none.
  bool Ready(size_t stream) const;
  bool DependenciesSatisfied(const PreparedAction& action, int64_t repetition) const;
  // The group of transfers that heads the stream, or -1.
  int GroupAtHead(size_t stream) const;

  // Rule P6, of a message-driven program: whether the head of a queue waits for nothing, and when what it waited for
  // was finished (a head that waited for a RECV goes behind one that did not).
  struct QueueHead {
    bool ready = false;
    std::pair<bool, int64_t> arrival = {false, -1};
  };
  QueueHead HeadOf(int queue) const;
  // Which of the two queues runs next, as a stream; -1 if no head is ready.
  int ChooseQueue(ComputeOrder order, const QueueHead& forward, const QueueHead& backward) const;

 private:
  const std::vector<StreamStep>& Steps(size_t stream) const { return program_.streams[stream].steps[list_]; }
  bool Satisfied(const PreparedAction& action, const PreparedDependency& dep, int64_t repetition) const;
  bool QueueReady(int queue, int other) const;

  const PreparedProgram& program_;
  std::vector<StreamState> states_;
  ActionList list_ = kBodyList;
  int64_t allowed_ = 0;
  int64_t body_repetitions_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_STREAM_HEADS_H_
