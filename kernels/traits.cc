#include "kernels/traits.h"

#include <algorithm>

namespace weft::kernels {
namespace {

template <typename Operands>
const OperandSpec* At(const Operands& operands, const StepAttributes& a, int index) {
  int at = 0;
  for (const OperandSpec& operand : operands) {
    if (!IsThere(operand, a)) continue;
    if (at++ == index || operand.presence == Presence::kRepeated) return &operand;
  }
  return nullptr;
}

const OperandSpec* OutputSpec(const Step& step, int o) {
  const KernelRow* row = FindRow(step.kernel());
  return row == nullptr ? nullptr : At(row->outputs, step.attributes(), o);
}

bool IsOf(Kernel kernel, Family family) {
  const KernelRow* row = FindRow(kernel);
  return row != nullptr && row->family == family;
}

}  // namespace

bool IsCollective(Kernel kernel) { return IsOf(kernel, Family::kCollective); }
bool IsLoss(Kernel kernel) { return IsOf(kernel, Family::kLoss); }
bool IsOptimizer(Kernel kernel) { return IsOf(kernel, Family::kOptimizer); }

bool MayReadMicrobatch(Kernel kernel) {
  const KernelRow* row = FindRow(kernel);
  return row != nullptr && row->microbatch.reads != Microbatch::Reads::kNo;
}

bool HasConditionalOperands(Kernel kernel) {
  const KernelRow* row = FindRow(kernel);
  if (row == nullptr) return false;
  const auto conditional = [](const OperandSpec& operand) { return operand.when.attribute != Symbol::kNone; };
  return std::any_of(row->inputs.begin(), row->inputs.end(), conditional) ||
         std::any_of(row->outputs.begin(), row->outputs.end(), conditional);
}

bool ReadsMicrobatch(const Step& step) {
  const KernelRow* row = FindRow(step.kernel());
  if (row == nullptr || row->microbatch.reads == Microbatch::Reads::kNo) return false;
  return row->microbatch.reads == Microbatch::Reads::kYes || step.attributes().dropout() > 0;
}

int64_t RowsOfSample(const Program& program, const Step& step) {
  const KernelRow* row = FindRow(step.kernel());
  const int64_t sequence = step.attributes().sequence();
  switch (row == nullptr ? Microbatch::RowsOfSample::kRecipe : row->microbatch.rows_of_sample) {
    case Microbatch::RowsOfSample::kRecipe:
      break;
    case Microbatch::RowsOfSample::kSequence:
      return sequence;
    case Microbatch::RowsOfSample::kSequenceOrRecipe:
      if (sequence > 0) return sequence;
      break;
    case Microbatch::RowsOfSample::kOne:
      return 1;
  }
  return program.recipe().sequence_length();
}

const Value* RowsValue(const Segment& segment, const Step& step) {
  const KernelRow* row = FindRow(step.kernel());
  const auto& list = row != nullptr && row->microbatch.of_input ? step.inputs() : step.outputs();
  return list.empty() ? nullptr : &segment.values(list[0]);
}

bool AddsToOutput(const Step& step, int o) {
  const OperandSpec* spec = OutputSpec(step, o);
  if (spec == nullptr) return false;
  return spec->update == Update::kAdds || (spec->update == Update::kAccumulates && step.accumulate());
}

bool WritesPartOfOutput(const Step& step, int o) {
  const OperandSpec* spec = OutputSpec(step, o);
  return spec != nullptr && spec->update == Update::kPart;
}

const OperandSpec* InputSpec(const Step& step, int i) {
  const KernelRow* row = FindRow(step.kernel());
  return row == nullptr ? nullptr : At(row->inputs, step.attributes(), i);
}

int FindInput(const Step& step, absl::string_view name) {
  const KernelRow* row = FindRow(step.kernel());
  if (row == nullptr) return -1;
  int i = 0;  // Only the last operand may be repeated.
  for (const OperandSpec& operand : row->inputs) {
    if (!IsThere(operand, step.attributes())) continue;
    if (i == step.inputs_size()) break;
    if (operand.name[0] == name.front() && name == operand.name) return i;  // Most names differ in the first letter.
    ++i;
  }
  return -1;
}

int OptimizerStates(const Step& step) {
  int states = 0;
  while (const OperandSpec* spec = OutputSpec(step, states)) {
    if (!spec->in_place) break;
    ++states;
  }
  return states;
}

}  // namespace weft::kernels
