// The position of each stream of a rank's program, and which steps may run next (rules P2, P4, P6). Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_STREAM_HEADS_H_
#define WEFT_EXECUTOR_INTERPRETER_STREAM_HEADS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "executor/program/prepared_program.h"

namespace weft::exec {

// The stream's head is the step at `position` of `repetition`.
struct StreamState {
  int64_t repetition = 0;
  size_t position = 0;
  // True if everything that the head waits for is over. If the head is a transfer, it has been posted.
  bool active = false;
  // True if the head waits only for a compute slot.
  bool ready = false;
  int64_t ready_ns = 0;
};

class StreamHeads {
 public:
  explicit StreamHeads(const PreparedProgram& program) : program_(program), states_(program.streams.size()) {}

  // Puts all streams at the beginning of a list, in its repetition `first`. `body_repetitions` repetitions of the body
  // are over.
  void Begin(ActionList list, int64_t first, int64_t body_repetitions);
  // Repetitions below this may begin.
  void SetAllowedEnd(int64_t end) { allowed_ = end; }
  int64_t allowed() const { return allowed_; }

  ActionList list() const { return list_; }
  size_t size() const { return states_.size(); }
  StreamState& operator[](size_t stream) { return states_[stream]; }
  const StreamState& operator[](size_t stream) const { return states_[stream]; }
  // The stream's next step. The stream must have steps in this list.
  const StreamStep& Head(size_t stream) const { return Steps(stream)[states_[stream].position]; }
  void Next(size_t stream);

  // True if the head waits for nothing any more (rule P2); false if there is no head.
  bool Ready(size_t stream) const;
  bool DependenciesSatisfied(const PreparedAction& action, int64_t repetition) const;
  // The group of transfers that heads the stream, or -1.
  int GroupAtHead(size_t stream) const;

  // Rule P6, for message-driven programs: whether the head of a queue is ready, and when its dependencies were
  // finished. A head that waited for a RECV comes after one that did not.
  struct QueueHead {
    bool ready = false;
    std::pair<bool, int64_t> arrival = {false, -1};
  };
  QueueHead HeadOf(int queue) const;
  // Chooses the queue that runs next and returns its stream; -1 if no head is ready.
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
