// Which steps a GPU's executor runs as one launch, or as fewer than there are steps: the executor asks here of prepared
// programs, predictions of programs as they are.
//
// Two kinds. At the end of an optimizer step there are several steps for every tensor, most of them too small to fill a
// device: those of one key (RunKey) that touch nothing of each other are one launch. And within a microbatch, steps
// that would read again what the one before has in registers: a norm takes the ADD of the residual stream beside it
// along, before it in the forward pass, behind it in the backward; gradients of weights of norms and of biases, which
// are sums over rows, go with what makes the rows.
#ifndef WEFT_PROTO_UTIL_STEP_RUNS_H_
#define WEFT_PROTO_UTIL_STEP_RUNS_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft {

// Bytes [begin, end) of some memory as elements of a type. Addresses of different memories do not meet.
struct StepTouch {
  uint64_t begin = 0, end = 0;
  DType dtype = DTYPE_UNSPECIFIED;

  bool Meets(const StepTouch& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(const StepTouch&, const StepTouch&) = default;
};

// A step of an action as far as runs are concerned.
struct PlacedStep {
  // Null: communication, which is in no run.
  const Step* step = nullptr;
  // In the order of its inputs and outputs, whole tensors.
  std::vector<StepTouch> inputs, outputs;
  // For a step of another stream; and the other way around: a step of another stream, or the host, for it.
  bool waits = false, awaited = false;
};

// Neighbours of an action that run as one piece of work, at the turn of the first.
struct StepRange {
  int first = 0;
  int count = 0;
  // Launches in their order: steps of the action by number, ascending in each; several of them are one.
  std::vector<std::vector<int>> launches;

  friend auto operator<=>(const StepRange&, const StepRange&) = default;
};

// Whether an action's runs are those of updates: it is not of a microbatch. Otherwise they are those of norms.
bool RunsUpdates(ActionKind kind);

// What steps of one launch have in common, number by number; none: a step of this kernel is never in one with others.
using RunKeyNumbers = absl::InlinedVector<uint64_t, 16>;
RunKeyNumbers RunKey(const PlacedStep& use);

// The longest neighbourhoods on the compute stream in which some launch has two steps or more, none of whose steps but
// the first waits for another stream, and none but the last is waited for by one. A step is in the earliest launch of
// its key behind all launches that it must not pass: of those that touch what it writes, or write what it touches.
std::vector<StepRange> FindUpdateRuns(absl::Span<const PlacedStep> steps);

// ADD and the norm behind it that reads its sum; the backward of a norm and the ADD of its result, with the gradients
// of the norm's weights between them or not, and the BIAS_GRADIENT of the sum behind them or not: one launch, or, of
// rows that are too short or too long for it (step_runs.cc), the gradients of the weights first, without that of the
// bias. GELU_BACKWARD and the BIAS_GRADIENT of its result. Neighbouring EXACT_ACCUMULATE of one key: gradients of one
// op.
std::vector<StepRange> FindNormRuns(absl::Span<const PlacedStep> steps);

// By RunsUpdates.
std::vector<StepRange> FindStepRuns(ActionKind kind, absl::Span<const PlacedStep> steps);

// The steps of an action as the program says them, none of communication: addresses are offsets in the arenas of device
// and host. Steps that are in no launch with others, whatever they touch, have no tensors. Indices are in range (P2).
std::vector<PlacedStep> PlacedStepsOf(const Program& program, const Template& of, const Action& action);

// The range that a step is in; null: none. `ranges` ascend.
const StepRange* RangeOf(absl::Span<const StepRange> ranges, int step);

// A launch as one step: that of its steps with most bytes, the first of such, with the work of all. Of different
// kernels, what one of them makes or reads and another one behind it reads is not read again.
Step AsOneStep(const Segment& segment, absl::Span<const int> launch);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_STEP_RUNS_H_
