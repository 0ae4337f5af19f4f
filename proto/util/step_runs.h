// Finds steps that a GPU's executor runs as one launch, or as fewer launches than there are steps. The executor asks
// for prepared programs, and predictions ask for programs as they are.
//
// There are two kinds. At the end of an optimizer step, every tensor has several steps, most of them too small to fill
// a device: steps of one key (RunKey) that touch no data of each other are one launch. Within a microbatch, a step
// joins the one before if it would read again what that has in registers. A norm shares a launch with the ADD of the
// residual stream beside it, which comes before the norm in the forward pass and after it in the backward pass.
// Gradients of weights of norms and of biases, which are sums over rows, go with the step that makes the rows.
#ifndef WEFT_PROTO_UTIL_STEP_RUNS_H_
#define WEFT_PROTO_UTIL_STEP_RUNS_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft {

// Bytes [begin, end) of some memory, as elements of a type. Addresses of different memories do not meet.
struct StepTouch {
  uint64_t begin = 0, end = 0;
  DType dtype = DTYPE_UNSPECIFIED;

  bool Meets(const StepTouch& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(const StepTouch&, const StepTouch&) = default;
};

// A step of an action, as far as it matters for runs.
struct PlacedStep {
  // Null for communication, which is in no run.
  const Step* step = nullptr;
  // Whole tensors, in the order of the step's inputs and outputs.
  std::vector<StepTouch> inputs, outputs;
  // `waits`: the step waits for a step of another stream. `awaited`: a step of another stream, or the host, waits for
  // it.
  bool waits = false, awaited = false;
};

// Neighboring steps of an action that run as one piece of work, at the turn of the first one.
struct StepRange {
  int first = 0;
  int count = 0;
  // The launches in their order. Each lists the numbers of its steps in the action, ascending; several steps run as
  // one.
  std::vector<std::vector<int>> launches;

  friend auto operator<=>(const StepRange&, const StepRange&) = default;
};

// True if an action's runs are runs of updates, because the action is not of a microbatch. Otherwise they are runs of
// norms.
bool RunsUpdates(ActionKind kind);

// The properties that steps of one launch share, as numbers. Empty for a step that never shares a launch.
using RunKeyNumbers = absl::InlinedVector<uint64_t, 16>;
RunKeyNumbers RunKey(const PlacedStep& use);

// Finds the longest ranges of neighbors on the compute stream in which some launch has two steps or more. Within a
// range, only the first step may wait for another stream, and another stream may wait only for the last. A step is in
// the earliest launch of its key after all launches that it must not pass: launches that touch what it writes, or write
// what it touches.
std::vector<StepRange> FindUpdateRuns(absl::Span<const PlacedStep> steps);

// Finds these runs:
// - An ADD and the norm after it that reads its sum.
// - The backward of a norm and the ADD of its result. The gradients of the norm's weights may stand between them, and
//   the BIAS_GRADIENT of the sum after them. All are one launch. If rows are too short or too long for that
//   (step_runs.cc), the gradients of the weights run first, and the one of the bias is not in the run.
// - GELU_BACKWARD and the BIAS_GRADIENT of its result.
// - Neighboring EXACT_ACCUMULATE steps of one key: the gradients of one op.
std::vector<StepRange> FindNormRuns(absl::Span<const PlacedStep> steps);

// Finds runs of updates or of norms, as RunsUpdates says.
std::vector<StepRange> FindStepRuns(ActionKind kind, absl::Span<const PlacedStep> steps);

// The steps of an action, as the program states them; none for communication. Addresses are offsets in the arenas of
// device and host. Steps that share no launch, whatever they touch, have no tensors. Indices are in range (P2).
std::vector<PlacedStep> PlacedStepsOf(const Program& program, const Template& of, const Action& action);

// The range that contains `step`; null if there is none. `ranges` ascend.
const StepRange* RangeOf(absl::Span<const StepRange> ranges, int step);

// A launch as one step: the step with the most bytes (the first of several), with the work of all. If the kernels
// differ, a tensor that one step makes or reads does not count again when a later step reads it.
Step AsOneStep(const Segment& segment, absl::Span<const int> launch);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_STEP_RUNS_H_
