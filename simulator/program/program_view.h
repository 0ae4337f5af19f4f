// A program flattened for the engine: for each template the entries of every stream, with steps joined to runs, waits
// as indices and memory as changes. Immutable; one view serves any number of simulations.
#ifndef WEFT_SIMULATOR_PROGRAM_PROGRAM_VIEW_H_
#define WEFT_SIMULATOR_PROGRAM_PROGRAM_VIEW_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/util/step_runs.h"
#include "proto/util/units.h"
#include "simulator/network/collective_call.h"
#include "simulator/program/idle_reason.h"
#include "simulator/program/stream_key.h"

namespace weft::sim {

inline constexpr int kBufferClasses = BufferClass_ARRAYSIZE;

// Bytes of device memory for each BufferClass.
using ClassSizes = std::array<int64_t, kBufferClasses>;

// Number of loads: at most two collectives slow a step down, so loads are 0, 1 and 2 (rule P3).
inline constexpr int kLoads = 3;

// Cost of a step at each load.
using LoadTimes = std::array<Time, kLoads>;

// A request for the cost of step `step` of segment `segment`: an action of kind `kind` runs the step on a device of
// kind `device` at full speed.
struct StepUse {
  int segment = 0;
  int step = 0;
  ActionKind kind = ACTION_UNSPECIFIED;
  int device = 0;
  // The joined steps of the action if the device joins steps to launches, else null. They live as long as the view.
  const std::vector<StepRange>* ranges = nullptr;
};

// Returns the costs of a step. Costs must not fall with the load, and if one of them is 0, all must be 0. The costs of
// copies must not depend on the load.
using StepCostsFn = std::function<absl::StatusOr<LoadTimes>(const StepUse& use)>;

// Returns a cost that is the same on all devices and at any load.
using StepDurationFn = std::function<absl::StatusOr<Time>(int segment, int step, ActionKind kind)>;

enum class ListKind : uint8_t { kPrologue, kBody, kEpilogue };

// Indices [begin, end) of one of the arrays of TemplateView.
struct Range {
  int32_t begin = 0;
  int32_t end = 0;

  bool empty() const { return begin == end; }
};

struct StepRef {
  int32_t step = 0;
  // The joined steps that this step is part of (TemplateView::ranges); null = none. The first of the joined steps has
  // the cost of all of them, the others cost nothing.
  const StepRange* range = nullptr;
  // Cost by load.
  std::array<int64_t, kLoads> cost_ps = {};
};

// Consecutive steps of one action on one stream that no other step can separate. Only the first may wait for steps of
// other streams, and other steps may wait only for the last. The engine treats a run as one event. A collective is a
// run by itself.
struct Run {
  // Sum of the costs of its steps, by load.
  std::array<int64_t, kLoads> cost_ps = {};
  // Range in TemplateView::steps.
  Range steps;
  // Range in TemplateView::run_waits.
  Range waits;
  // Index, relative to Entry::named_base, of the last step if other steps or actions wait for it, else -1.
  int32_t signal = -1;
  // True if the run ends with the action's last attached step on this stream (a "tail"). False also if the last
  // attached step of another stream cannot finish earlier anyway.
  bool is_tail = false;
  // Index in TemplateView::collectives, -1 = not a collective. Its time depends on the ranks that take part.
  int32_t collective = -1;
};

// A run's wait for a named step of its action, i.e. a step that others wait for. `named` is relative to
// Entry::named_base.
struct RunWait {
  int32_t named = 0;
  IdleReason reason = IdleReason::kHostCopy;
};

// A wait for object `object` of the same rank. An object is something that finishes, such as an action; the engine
// counts how often it has finished. An entry of repetition k waits until the count is k + 1 - distance, or 1 - distance
// if the object is not in the body.
struct Wait {
  int32_t object = 0;
  int32_t distance = 0;
  bool body = false;
  // True if the wait only keeps a queue in order (rule P6) and is not one of the action's own dependencies.
  bool ordering = false;
  IdleReason reason = IdleReason::kHostCopy;
};

// One action on one stream, or all transfers of one group on it (rule P4). For a group, `action` is its first transfer.
struct Entry {
  int32_t action = 0;
  ListKind list = ListKind::kBody;
  // Range in TemplateView::runs; empty for transfers.
  Range runs;
  Range waits;
  int32_t named_base = 0;
  // Object that counts how often the action's tail on this stream has finished; -1 = the action's own object does.
  int32_t tail_object = -1;
  // For a queue: object that counts how often the entry's steps have ended, -1 if nothing needs it.
  int32_t end_object = -1;
  // For a transfer: index in TemplateView::channels. For a group: index in TemplateView::groups instead.
  int32_t channel = -1;
  int32_t group = -1;
};

struct StreamView {
  StreamKey key;
  // Ranges in TemplateView::entries: prologue, body, epilogue.
  std::array<Range, 3> entries;
  std::string name;
};

// A transfer of a group.
struct GroupMember {
  int32_t action = 0;
  int32_t channel = 0;
  // Index in TemplateView::streams.
  int32_t stream = 0;
};

// Transfers that start together (rule P4).
struct GroupView {
  // Range in TemplateView::group_members.
  Range members;
  // Range in TemplateView::group_streams: the streams of the members.
  Range streams;
};

struct MemoryChange {
  BufferClass buffer_class = BUFFER_CLASS_UNSPECIFIED;
  int64_t bytes = 0;
};

struct ActionView {
  const Action* action = nullptr;
  ListKind list = ListKind::kBody;
  // Number of streams whose last attached step must be finished for the action to be finished. If there are several,
  // `tail_objects` count these steps.
  int32_t tails = 0;
  Range tail_objects;
  // Object that counts the action's starts; -1 if its steps are on one stream, since the action then starts when they
  // do.
  int32_t start_object = -1;
  // `holds`: number of microbatches whose activations are held from the start of this action on. `unholds`: number
  // whose activations are held until the action finishes. All microbatches of a wide forward are held until the last of
  // its backwards; `held_object` counts these backwards.
  int32_t holds = 0;
  int32_t unholds = 0;
  int32_t held_object = -1;
  // True if a dependency of the action is a RECV.
  bool awaits_recv = false;
  // Ranges in TemplateView::memory: buffers that become live when the action starts, and buffers that die when it is
  // finished.
  Range allocates;
  Range frees;
};

struct TemplateView {
  const Template* proto = nullptr;
  // Kind of the devices that the ranks of this view are on.
  int32_t device = 0;
  // Actions in list order: prologue, body, epilogue. The object with index i < actions.size() is the completion of
  // action i. The other objects are named steps, tails and starts.
  std::vector<ActionView> actions;
  int32_t objects = 0;
  int32_t body_actions = 0;
  std::vector<StreamView> streams;
  std::vector<Entry> entries;
  std::vector<Run> runs;
  std::vector<RunWait> run_waits;
  std::vector<StepRef> steps;
  std::vector<CollectiveCall> collectives;
  std::vector<Wait> waits;
  std::vector<ChannelView> channels;
  std::vector<GroupView> groups;
  std::vector<GroupMember> group_members;
  std::vector<int32_t> group_streams;
  std::vector<MemoryChange> memory;
  // Lists of joined steps, each list once.
  std::vector<std::shared_ptr<const std::vector<StepRange>>> ranges;
  // Number of steps that a rank runs in the prologue, in one repetition of the body, and in the epilogue.
  std::array<int64_t, 3> step_count = {};
  ClassSizes persistent = {};
};

struct ProgramView {
  const Program* program = nullptr;
  // One view for each template and each kind of devices that its ranks are on: templates as in the program, kinds
  // ascending.
  std::vector<TemplateView> templates;
  // Index of each rank's view.
  std::vector<int32_t> template_of_rank;
  // Speed of each rank's device, in millionths; empty = all are at full speed. Costs of compute steps are stated for
  // full speed.
  std::vector<int64_t> speed_of_rank;
  // True if some step costs more under load.
  bool slows = false;
};

struct ProgramViewOptions {
  // Join steps to runs. If false, every step is a run by itself, because ranks that share compute slots (rule P3) may
  // take turns after every step.
  bool join_steps = true;
  // Include the actions that are done again if a norm was too large (rule P15).
  bool exceeded = false;
  // Give sums of gradients a communicator for each stage, as some frameworks do, instead of one for all (rule P3).
  bool communicators_by_stage = false;
  // For each kind of devices, whether steps are joined to launches (proto/util/step_runs.h); empty = nowhere.
  std::vector<bool> joins_on_device = {};
  // Kind of each rank's device, as in `StepUse::device`; empty = all on kind 0.
  std::vector<int32_t> device_of_rank = {};
  // The speed of each rank's device, as in ProgramView::speed_of_rank.
  std::vector<int64_t> speed_of_rank = {};
};

// Builds the view of `program`, which must have passed VerifyProgram and must outlive the view. Errors:
//   - errors of `costs`;
//   - Internal, naming the step, if costs fall with the load;
//   - InvalidArgument, naming template and action, for what no verified program has: an action without attached steps,
//     or a wait for an unknown action.
absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepCostsFn& costs,
                                             const ProgramViewOptions& options);
absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepDurationFn& duration,
                                             const ProgramViewOptions& options);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_PROGRAM_VIEW_H_
