// Properties of kernels that other code needs. They are derived from the rows of the kernels.
#ifndef WEFT_KERNELS_TRAITS_H_
#define WEFT_KERNELS_TRAITS_H_

#include "absl/strings/string_view.h"
#include "kernels/row.h"
#include "proto/program.pb.h"

namespace weft::kernels {

// Returns true if steps with these attributes have the operand. If the operand is optional, they may have it.
inline bool IsThere(const OperandSpec& operand, const StepAttributes& attributes) {
  if (operand.when.attribute == Symbol::kNone) return true;
  const Attribute& attribute = kAttributes[static_cast<int>(operand.when.attribute)];
  const bool set = attribute.integer != nullptr ? attribute.integer(attributes) != 0 : attribute.real(attributes) != 0;
  return set == operand.when.set;
}

bool IsCollective(Kernel kernel);
// True if the kernel computes losses, one for each microbatch.
bool IsLoss(Kernel kernel);
bool IsOptimizer(Kernel kernel);

// ReadsMicrobatch: true if the step depends on which microbatch it belongs to. MayReadMicrobatch: true if steps of the
// kernel can depend on it.
bool ReadsMicrobatch(const Step& step);
bool MayReadMicrobatch(Kernel kernel);
// True if an attribute decides whether a step has one of its operands.
bool HasConditionalOperands(Kernel kernel);
// Returns the number of rows per sample in a step that reads its microbatch; at least 1 in a valid program.
int64_t RowsOfSample(const Program& program, const Step& step);
// Returns the value that has the rows of the step's samples; null if the step has no such value.
const Value* RowsValue(const Segment& segment, const Step& step);

// AddsToOutput: true if the step adds to the old content of output `o`. WritesPartOfOutput: true if it writes only one
// element of the output.
bool AddsToOutput(const Step& step, int o);
bool WritesPartOfOutput(const Step& step, int o);

// InputSpec returns the row's operand for input `i` of a step; null if there is none. FindInput returns the index of
// the step's input that the row calls `name`; -1 if the step has none.
const OperandSpec* InputSpec(const Step& step, int i);
int FindInput(const Step& step, absl::string_view name);
// Returns how many of an optimizer's outputs persist from iteration to iteration: the weight and its moments. They are
// also inputs 1, 2, ...
int OptimizerStates(const Step& step);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_TRAITS_H_
