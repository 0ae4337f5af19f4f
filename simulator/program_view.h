// A program flattened for the engine: per template the entries of every stream, with steps joined to runs, waits as
// indices and memory as changes. Immutable; one view serves any number of simulations.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/units.h"

namespace weft {

inline constexpr int kBufferClasses = BufferClass_ARRAYSIZE;

// Bytes per BufferClass, in device memory.
using ClassSizes = std::array<int64_t, kBufferClasses>;

// Duration of step `step` of segment `segment` when an action of `kind` runs it.
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
  int64_t duration_ps = 0;
};

// Steps of one action on one stream that nothing can come between: only the first may wait for steps of other streams,
// only the last may be waited for. The engine treats them as one event.
struct Run {
  int64_t duration_ps = 0;
  // In TemplateView::steps.
  Range steps;
  // Named steps of the action to wait for: indices in TemplateView::run_waits, each relative to Entry::named_base.
  Range waits;
  // The step's own index relative to Entry::named_base if other streams wait for it, else -1.
  int32_t signal = -1;
  // The last step of the action on this stream that is not detached.
  bool is_tail = false;
};

// Waits for object `object` of the same rank. What is counted is how often the object was finished; an entry of
// repetition k waits until the count is k + 1 - distance, or 1 - distance if the object is not of the body.
struct Wait {
  int32_t object = 0;
  int32_t distance = 0;
  bool body = false;
};

// One action on one stream.
struct Entry {
  int32_t action = 0;
  ListKind list = ListKind::kBody;
  // Of compute, d2h and h2d streams; empty for transfers and collectives.
  Range runs;
  Range waits;
  int32_t named_base = 0;
  // Object that counts the tails of this stream, -1 where the action's completion itself does.
  int32_t tail_object = -1;
};

enum class StreamClass : uint8_t { kCompute, kD2h, kH2d, kSend, kRecv, kCollective };

struct StreamView {
  StreamClass kind = StreamClass::kCompute;
  // In TemplateView::entries: prologue, body, epilogue.
  std::array<Range, 3> entries;
  // Transfers: the peer's coordinate on each axis of the mesh, -1 = the rank's own.
  std::vector<int64_t> peer;
  int32_t lane = 0;
  Direction direction = DIRECTION_UNSPECIFIED;
  // Collectives: the coordinates that take part on each axis of the mesh, empty = the rank's own, {-1} = all.
  std::vector<std::vector<int64_t>> group;
  Purpose purpose = PURPOSE_UNSPECIFIED;
  // E.g. "compute", "send pipe=1 towards_loss lane 0", "all_reduce data gradient_sync".
  std::string name;
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
  // In TemplateView::memory: buffers that come to life when the action starts, and that die when it is finished.
  Range allocates;
  Range frees;
};

struct TemplateView {
  const Template* proto = nullptr;
  // In list order: prologue, body, epilogue. The object with index i < actions.size() is the completion of action i,
  // the others are named steps, tails and starts.
  std::vector<ActionView> actions;
  int32_t objects = 0;
  int32_t body_actions = 0;
  std::vector<StreamView> streams;
  std::vector<Entry> entries;
  std::vector<Run> runs;
  std::vector<int32_t> run_waits;
  std::vector<StepRef> steps;
  std::vector<Wait> waits;
  std::vector<MemoryChange> memory;
  // Expanded steps of the prologue, one repetition of the body, the epilogue.
  std::array<int64_t, 3> step_count = {};
  ClassSizes persistent = {};
};

struct ProgramView {
  const Program* program = nullptr;
  std::vector<TemplateView> templates;
  // Index of each rank's template.
  std::vector<int32_t> template_of_rank;
};

struct ProgramViewOptions {
  // Join steps to runs. Off, every step is a run by itself, as needed where ranks take turns between steps.
  bool join_steps = true;
};

// `program` must have passed VerifyProgram and must outlive the view. Errors are those of `duration`, and
// InvalidArgument, naming template and action, for what no verified program holds: an action without attached steps,
// a wait for an unknown action.
absl::StatusOr<ProgramView> BuildProgramView(const Program& program, const StepDurationFn& duration,
                                             const ProgramViewOptions& options);

}  // namespace weft

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_H_
