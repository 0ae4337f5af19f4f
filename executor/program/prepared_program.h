// A rank's template with everything looked up: streams, views, partners, and dependencies as indices. Internal to the
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
  // Set for a step on a communicator's stream.
  std::unique_ptr<PreparedCollective> collective;
  // True if a step on another stream may wait for this one.
  bool awaited = false;
  // The figures that the step completes: bits of Figure.
  uint8_t figures = 0;
  absl::Span<const TensorView> inputs;
  absl::Span<const TensorView> outputs;
  // Earlier steps of the segment that this step waits for, only those on other streams. Earlier steps on its own stream
  // are over anyway.
  std::vector<int> deps;
  // Number of the first microbatch that the step works on; `sequences` counts the sequences of all its microbatches
  // (docs/kernels.md).
  int64_t global_microbatch = 0;
  // The same microbatch, counted within its optimizer step. The numbers differ in an asynchronous program (rule P14).
  int64_t microbatch_of_step = 0;
  int64_t sequences = 1;
  // column_shift, row_shift and first_element at the rank's coordinates (rule P8).
  int64_t column_shift = 0;
  int64_t row_shift = 0;
  int64_t first_element = 0;
  bool writes_norm = true;
  // On an asynchronous device (step_waits.h): the number of the step's event, -1 if no step of another stream waits for
  // it; and the events that the step waits for.
  int event = -1;
  std::vector<int> waits;
  // By wait: how many repetitions before this one the awaited step belongs to. If a step is awaited at several
  // distances, only the smallest counts, because its stream is in order.
  std::vector<int64_t> wait_distances;
  // How often the step has ended; on an asynchronous device, how often it has been enqueued.
  int64_t done = 0;
  // The timed event at the step's beginning (step_times.h).
  int begun = -1;
  // Set for the first step of a run: several steps that a backend may execute as one launch (step_runs.h). At the first
  // step's turn, all steps of the run are executed. The other steps of the run have `in_run` set and nothing left to
  // do.
  StepRun* run = nullptr;
  bool in_run = false;
};

struct PreparedDependency {
  int action = 0;
  int64_t distance = 0;
  // True if the dependency includes the action's detached steps.
  bool detached = false;
};

struct PreparedAction {
  const Action* action = nullptr;
  ActionList list = kBodyList;
  std::vector<PreparedDependency> deps;
  std::vector<PreparedStep> steps;
  // The action's last step on each stream that is not detached. The action is finished when all of these are done.
  std::vector<int> last_steps;
  // The action's last detached step on each stream.
  std::vector<int> last_detached;
  // Number of repetitions in which the action is finished.
  int64_t finished = 0;
  // True if an action on another stream may wait for this one.
  bool awaited = false;
  // True if one of its dependencies is a RECV.
  bool awaits_recv = false;
  // The time at which the action was last finished; only set for message-driven programs.
  int64_t finished_ns = 0;
  // SEND, RECV: the buffer, the partner, and the group that the transfer starts with, -1 = it starts by itself.
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
  // True for the first step of its action on this stream, where the action's dependencies are checked.
  bool first = false;
  // True if the step is one of the action's last_steps.
  bool last = false;
  // For the first step of an action in a queue of a message-driven program (rule P6): the step waits until the other
  // queue has reached `other_position` in this repetition (other_repetition 0) or in the previous one (-1). Then
  // everything before the step in both queues has ended. Position -1 = no wait.
  int other_position = -1;
  int other_repetition = 0;
};

enum class StreamType { kCompute, kCopy, kTransfers, kCollective };

struct PreparedStream {
  StreamType type = StreamType::kCompute;
  std::string name;
  // Stream of an asynchronous device. The two queues of a message-driven program share one device stream; other streams
  // may also share one (stream_fold.h).
  int device_stream = -1;
  // Set for kCollective.
  std::unique_ptr<Communicator> communicator;
  // The steps on this stream, by ActionList.
  std::vector<StreamStep> steps[3];
};

// Transfers that start together. They are neighbors in the list, and therefore on each of their streams.
struct PreparedGroup {
  ActionList list = kBodyList;
  std::vector<int> actions;
  // `stream_of` has the stream of each action, `streams` has each stream once.
  std::vector<int> stream_of;
  std::vector<int> streams;
};

struct PreparedProgram {
  const Template* rank_template = nullptr;
  int64_t data_coordinate = 0;
  // Rule P9: the number of sequences in a microbatch, how many of them this rank computes, and the index of the first
  // that it computes.
  int64_t microbatch_sequences = 1;
  int64_t own_sequences = 1;
  int64_t first_own_sequence = 0;
  // The actions of prologue, body and epilogue, in this order.
  std::vector<PreparedAction> actions;
  // compute, d2h, h2d, then the others in order of first use. In a message-driven program, `compute` is the queue of
  // the forwards and of the actions in both queues, and `backward_queue` is the queue of the backwards; otherwise
  // `backward_queue` is -1.
  std::vector<PreparedStream> streams;
  int backward_queue = -1;
  std::vector<PreparedGroup> groups;
  int64_t steps_of_list[3] = {0, 0, 0};
  // Number of events that steps record; PreparedStep.event is below it.
  int step_events = 0;
  // Where the figures for the run's report are in the arena. Steps with `figures` complete them.
  Figures figures;
  // A fixed loss scale (rule P11); 0 = none.
  double fixed_loss_scale = 0;
  // Holds the views that the spans of PreparedStep point into.
  std::vector<TensorView> views;
};

// Prepares the program for the endpoint's rank. `program` and the arena's device must outlive the result. Errors name
// the action.
absl::StatusOr<std::unique_ptr<PreparedProgram>> PrepareProgram(const Program& program, Endpoint& endpoint,
                                                                const Arena& arena);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PREPARED_PROGRAM_H_
