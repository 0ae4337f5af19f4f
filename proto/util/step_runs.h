// Finds neighboring steps that the executor runs on a GPU in fewer launches than there are steps. The executor calls
// this for prepared programs. Predictions call it for programs as the compiler makes them.
//
// There are two kinds. At the end of an optimizer step, every tensor has several steps, most of them too small to fill
// a device. Steps with the same key (RunKey) that touch no data of each other share a launch. Within a microbatch, a
// step joins the step before it if it would read data that this step still has in registers. A norm shares a launch
// with the neighboring ADD of the residual stream, which precedes the norm in the forward pass and follows it in the
// backward pass. Gradients of norm weights and of biases are sums over rows. They join the step that makes the rows.
#ifndef WEFT_PROTO_UTIL_STEP_RUNS_H_
#define WEFT_PROTO_UTIL_STEP_RUNS_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft {

// Bytes [begin, end) of some memory, as elements of a type. Ranges in different memories never overlap.
struct StepTouch {
  uint64_t begin = 0, end = 0;
  DType dtype = DTYPE_UNSPECIFIED;

  bool Meets(const StepTouch& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(const StepTouch&, const StepTouch&) = default;
};

// The properties of an action's step that decide which steps run together.
struct PlacedStep {
  // Null for communication, which never runs together with other steps.
  const Step* step = nullptr;
  // The whole tensors of the step's inputs and outputs, in their order.
  std::vector<StepTouch> inputs, outputs;
  // `waits`: the step waits for a step of another stream. `awaited`: a step of another stream, or the host, waits for
  // it.
  bool waits = false, awaited = false;
};

// Neighboring steps of an action that run as one unit. The unit starts when its first step is due.
struct StepRange {
  int first = 0;
  int count = 0;
  // The launches in their order. Each launch lists the numbers of its steps in the action, ascending. A launch with
  // several steps runs them as one.
  std::vector<std::vector<int>> launches;

  friend auto operator<=>(const StepRange&, const StepRange&) = default;
};

// True if FindUpdateRuns applies to the action, because it belongs to no microbatch. Otherwise FindNormRuns applies.
bool RunsUpdates(ActionKind kind);

// A key made of numbers. Steps with equal keys may share a launch. The key is empty for a step that never shares one.
using RunKeyNumbers = absl::InlinedVector<uint64_t, 16>;
RunKeyNumbers RunKey(const PlacedStep& use);

// Finds the longest ranges of neighbors on the compute stream in which some launch has two steps or more. Within a
// range, only the first step may wait for another stream, and another stream may wait only for the last step. A step
// must run after every launch that touches what it writes, or that writes what it touches. It joins the earliest launch
// of its key that comes after these.
std::vector<StepRange> FindUpdateRuns(absl::Span<const PlacedStep> steps);

// Finds these runs:
// - An ADD and the norm after it that reads its sum.
// - The backward of a norm and the ADD of its result. The gradients of the norm's weights may stand between them, and
//   the BIAS_GRADIENT of the sum after them. All of these share one launch. If rows are too short or too long for that
//   (step_runs.cc), the gradients of the weights run first, and the BIAS_GRADIENT is not in the run.
// - GELU_BACKWARD and the BIAS_GRADIENT of its result.
// - Neighboring EXACT_ACCUMULATE steps of one key: the gradients of one op.
std::vector<StepRange> FindNormRuns(absl::Span<const PlacedStep> steps);

// Calls FindUpdateRuns if RunsUpdates(kind), otherwise FindNormRuns.
std::vector<StepRange> FindStepRuns(ActionKind kind, absl::Span<const PlacedStep> steps);

// Returns the steps of an action, with their tensors as the program places them; none for communication. Addresses are
// offsets in the arenas of device and host. Steps that can never share a launch have no tensors. Indices must be in
// range (P2).
std::vector<PlacedStep> PlacedStepsOf(const Program& program, const Template& of, const Action& action);

// The range that contains `step`; null if there is none. `ranges` ascend.
const StepRange* RangeOf(absl::Span<const StepRange> ranges, int step);

// Returns one step that stands for a whole launch. It is the step with the most bytes (the first of several), with the
// work of all steps. If the kernels differ, a tensor that one step makes or reads is not counted again when a later
// step reads it.
Step AsOneStep(const Segment& segment, absl::Span<const int> launch);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_STEP_RUNS_H_
