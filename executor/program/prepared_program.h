// A rank's template with everything looked up: streams, views, partners, dependencies as indices. Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_PREPARED_PROGRAM_H_
#define WEFT_EXECUTOR_PROGRAM_PREPARED_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/collective/collective.h"
#include "executor/interface/backend.h"
#include "executor/interface/transport.h"
#include "executor/program/arena.h"
#include "executor/program/printed_figures.h"
#include "proto/program.pb.h"

namespace weft::exec {

enum ActionList { kPrologueList = 0, kBodyList = 1, kEpilogueList = 2 };

struct PreparedStep {
  // Null for communication that is an action.
  const Step* step = nullptr;
  // Index into PreparedProgram.streams.
  int stream = 0;
  // On a communicator's stream.
  std::unique_ptr<PreparedCollective> collective;
  // Whether a step on another stream may wait for it.
  bool awaited = false;
  // What it completes: bits of Figure.
  uint8_t figures = 0;
  absl::Span<const TensorView> inputs;
  absl::Span<const TensorView> outputs;
  // Earlier steps of the segment on other streams; those on its own stream are over anyway.
  std::vector<int> deps;
  // Of the first microbatch that it is for, and sequences of all of them (docs/kernels.md).
  int64_t global_microbatch = 0;
  // The same within its optimizer step: not the same number in an asynchronous program (rule P14).
  int64_t microbatch_of_step = 0;
  int64_t sequences = 1;
  // At the rank's coordinates (rule P8).
  int64_t column_shift = 0;
  int64_t row_shift = 0;
  int64_t first_element = 0;
  bool writes_norm = true;
  // On an asynchronous device (step_waits.h): the number of its event, -1 if no step of another stream waits for it;
  // and the events that it waits for.
  int event = -1;
  std::vector<int> waits;
  // By wait: so many repetitions ago. Of several for one step the least, as its stream is in order.
  std::vector<int64_t> wait_distances;
  // Times that it has ended; on an asynchronous device: that it has been enqueued.
  int64_t done = 0;
  // The timed event at its beginning (step_times.h).
  int begun = -1;
  // The first of a run (step_runs.h): what runs all of it, at its turn. The others of the run have nothing left to do.
  StepRun* run = nullptr;
  bool in_run = false;
};

struct PreparedDependency {
  int action = 0;
  int64_t distance = 0;
  // The action's detached steps too.
  bool detached = false;
};

struct PreparedAction {
  const Action* action = nullptr;
  ActionList list = kBodyList;
  std::vector<PreparedDependency> deps;
  std::vector<PreparedStep> steps;
  // The last step on each of its streams that is not detached; the action is finished when all of them are done.
  std::vector<int> last_steps;
  // The last detached step on each of its streams.
  std::vector<int> last_detached;
  // Repetitions in which it is finished.
  int64_t finished = 0;
  // Whether an action on another stream may wait for it.
  bool awaited = false;
  // One of its dependencies is a RECV.
  bool awaits_recv = false;
  // In a message-driven program: when it was finished last.
  int64_t finished_ns = 0;
  // SEND, RECV: the buffer, the partner, and the group that it starts with, -1 = by itself.
  bool sends = false;
  void* data = nullptr;
  int64_t bytes = 0;
  int peer = -1;
  int channel = 0;
  int group = -1;
  StepContext context;
};

struct StreamStep {
  int action = 0;
  int step = 0;
  // First step of its action on this stream: the action's dependencies are asked for here.
  bool first = false;
  // The step is one of the action's last_steps.
  bool last = false;
  // First steps in a queue of a message-driven program (rule P6): what stands before it in both queues has ended when
  // the other queue is at this position, in this repetition (0) or at least in the one before (-1). Position -1: at any
  // time.
  int other_position = -1;
  int other_repetition = 0;
};

enum class StreamType { kCompute, kCopy, kTransfers, kCollective };

struct PreparedStream {
  StreamType type = StreamType::kCompute;
  std::string name;
  // Of an asynchronous device. The two queues of a message-driven program share one, as others may (stream_fold.h).
  int device_stream = -1;
  // Of kCollective.
  std::unique_ptr<Communicator> communicator;
  // By ActionList.
  std::vector<StreamStep> steps[3];
};

// Transfers that start together: neighbours in the list, so neighbours on each of their streams.
struct PreparedGroup {
  ActionList list = kBodyList;
  std::vector<int> actions;
  // By action: its stream. And each of them once.
  std::vector<int> stream_of;
  std::vector<int> streams;
};

struct PreparedProgram {
  const Template* rank_template = nullptr;
  int64_t data_coordinate = 0;
  // Rule P9: sequences of a microbatch, how many of them are this rank's, and which is the first.
  int64_t microbatch_sequences = 1;
  int64_t own_sequences = 1;
  int64_t first_own_sequence = 0;
  // Prologue, body, epilogue.
  std::vector<PreparedAction> actions;
  // compute, d2h, h2d, then the others in order of first use. In a message-driven program `compute` is the queue of the
  // forwards and of what is in both queues, and backward_queue that of the backwards; otherwise that is -1.
  std::vector<PreparedStream> streams;
  int backward_queue = -1;
  std::vector<PreparedGroup> groups;
  int64_t steps_of_list[3] = {0, 0, 0};
  // Events of PreparedStep.event.
  int step_events = 0;
  // Where the steps with `figures` leave them.
  Figures figures;
  // Loss scaling (rule P11): a fixed scale, 0 = none.
  double fixed_loss_scale = 0;
  // What PreparedStep's spans point into.
  std::vector<TensorView> views;
};

// Of the endpoint's rank. `program` and the arena's device must outlive the result. Errors name the action.
absl::StatusOr<std::unique_ptr<PreparedProgram>> PrepareProgram(const Program& program, Endpoint& endpoint,
                                                                const Arena& arena);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PREPARED_PROGRAM_H_
