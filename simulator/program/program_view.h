// A program flattened for the engine: per template the entries of every stream, with steps joined to runs, waits as
// indices and memory as changes. Immutable; one view serves any number of simulations.
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

// Bytes per BufferClass, in device memory.
using ClassSizes = std::array<int64_t, kBufferClasses>;

// Collectives that slow a step down, at most: loads are 0, 1 and 2 (rule P3).
inline constexpr int kLoads = 3;

// What a step costs at each load.
using LoadTimes = std::array<Time, kLoads>;

// Step `step` of segment `segment` as an action of `kind` runs it, on a device of kind `device` at full speed.
struct StepUse {
  int segment = 0;
  int step = 0;
  ActionKind kind = ACTION_UNSPECIFIED;
  int device = 0;
  // Of the action, where the device joins steps to launches; else null. Lives as long as the view.
  const std::vector<StepRange>* ranges = nullptr;
};

// Costs do not fall with the load, and are all 0 if one is; those of copies do not depend on it.
using StepCostsFn = std::function<absl::StatusOr<LoadTimes>(const StepUse& use)>;

// The same on all devices at any load.
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
  // What it runs together with (TemplateView::ranges); null: nothing. The first step costs what all of them take, the
  // others nothing.
  const StepRange* range = nullptr;
  // By load.
  std::array<int64_t, kLoads> cost_ps = {};
};

// Steps of one action on one stream that nothing can come between: only the first may wait for steps of other streams,
// only the last may be waited for. The engine treats them as one event. A collective is a run by itself.
struct Run {
  // By load: the sum of its steps' costs.
  std::array<int64_t, kLoads> cost_ps = {};
  // In TemplateView::steps.
  Range steps;
  // In TemplateView::run_waits.
  Range waits;
  // The step's own index relative to Entry::named_base if others wait for it, else -1.
  int32_t signal = -1;
  // The last step of the action on this stream that is not detached, unless what it takes to finish another stream's
  // implies it.
  bool is_tail = false;
  // In TemplateView::collectives, -1 = it is none. Its time depends on who takes part.
  int32_t collective = -1;
};

// A run waits for a named step of its action, an index relative to Entry::named_base.
struct RunWait {
  int32_t named = 0;
  IdleReason reason = IdleReason::kHostCopy;
};

// Waits for object `object` of the same rank. What is counted is how often the object was finished; an entry of
// repetition k waits until the count is k + 1 - distance, or 1 - distance if the object is not of the body.
struct Wait {
  int32_t object = 0;
  int32_t distance = 0;
  bool body = false;
  // It only keeps a queue in order (rule P6); it is none of the action's own dependencies.
  bool ordering = false;
  IdleReason reason = IdleReason::kHostCopy;
};

// One action on one stream, or the transfers of one group on it (rule P4): then `action` is the first of them.
struct Entry {
  int32_t action = 0;
  ListKind list = ListKind::kBody;
  // Empty for transfers.
  Range runs;
  Range waits;
  int32_t named_base = 0;
  // Object that counts the tails of this stream, -1 where the action's completion itself does.
  int32_t tail_object = -1;
  // Of a queue: object that counts how often the entry's steps have ended, -1 if nothing asks for it.
  int32_t end_object = -1;
  // Transfers: in TemplateView::channels; of a group: in TemplateView::groups instead.
  int32_t channel = -1;
  int32_t group = -1;
};

struct StreamView {
  StreamKey key;
  // In TemplateView::entries: prologue, body, epilogue.
  std::array<Range, 3> entries;
  std::string name;
};

// A transfer of a group.
struct GroupMember {
  int32_t action = 0;
  int32_t channel = 0;
  // In TemplateView::streams.
  int32_t stream = 0;
};

// Transfers that start together (rule P4).
struct GroupView {
  // In TemplateView::group_members.
  Range members;
  // In TemplateView::group_streams: the streams that they are on.
  Range streams;
};

struct MemoryChange {
  BufferClass buffer_class = BUFFER_CLASS_UNSPECIFIED;
  int64_t bytes = 0;
};

struct ActionView {
  const Action* action = nullptr;
  ListKind list = ListKind::kBody;
  // Streams on which the action has steps that are not detached: it is finished when the last of each is. With more
  // than one, `tail_objects` count them.
  int32_t tails = 0;
  Range tail_objects;
  // Object that counts the action's starts; -1 where its steps are on one stream, whose start is the action's.
  int32_t start_object = -1;
  // Microbatches whose activations begin to be held at its start, and end to be at its finish. Of a wide forward all
  // are held until the last of its backwards: `held_object` counts these.
  int32_t holds = 0;
  int32_t unholds = 0;
  int32_t held_object = -1;
  // One of its dependencies is a RECV.
  bool awaits_recv = false;
  // In TemplateView::memory: buffers that come to life when the action starts, and that die when it is finished.
  Range allocates;
  Range frees;
};

struct TemplateView {
  const Template* proto = nullptr;
  // Kind of the devices that its ranks are on.
  int32_t device = 0;
  // In list order: prologue, body, epilogue. The object with index i < actions.size() is the completion of action i,
  // the others are named steps, tails and starts.
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
  // Of actions with joined steps, each list once.
  std::vector<std::shared_ptr<const std::vector<StepRange>>> ranges;
  // Expanded steps of the prologue, one repetition of the body, the epilogue.
  std::array<int64_t, 3> step_count = {};
  ClassSizes persistent = {};
};

struct ProgramView {
  const Program* program = nullptr;
  // One for each template and kind of devices that ranks of it are on: templates as in the program, kinds ascending.
  std::vector<TemplateView> templates;
  // Index of each rank's view.
  std::vector<int32_t> template_of_rank;
  // Of each rank's device, in millionths; empty = all are at full speed. Costs of compute steps are those at full
  // speed.
  std::vector<int64_t> speed_of_rank;
  // Some step costs more under load.
  bool slows = false;
};

struct ProgramViewOptions {
  // Join steps to runs. Off, every step is a run by itself, as needed where ranks take turns between steps.
  bool join_steps = true;
  // With the actions that are done again where a norm was too large (rule P15); off, without them.
  bool exceeded = false;
  // Sums of gradients have a communicator for each stage, as some frameworks do, instead of one for all (rule P3).
  bool communicators_by_stage = false;
  // By kind of devices: whether steps are joined to launches there (proto/util/step_runs.h); empty = nowhere.
  std::vector<bool> joins_on_device = {};
  // Kind of each rank's device, as `StepUse::device` says; empty = all alike, kind 0.
  std::vector<int32_t> device_of_rank = {};
  // As ProgramView has it.
  std::vector<int64_t> speed_of_rank = {};
};

// `program` must have passed VerifyProgram and must outlive the view. Errors are those of `costs`; Internal, naming
// the step, if they fall with the load; and InvalidArgument, naming template and action, for what no verified program
// holds: an action without attached steps, a wait for an unknown action.
absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepCostsFn& costs,
                                             const ProgramViewOptions& options);
absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepDurationFn& duration,
                                             const ProgramViewOptions& options);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_PROGRAM_VIEW_H_
