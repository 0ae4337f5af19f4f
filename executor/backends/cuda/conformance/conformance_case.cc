#include "executor/backends/cuda/conformance/conformance_case.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "google/protobuf/message.h"
#include "kernels/sample.h"

namespace weft::exec::cuda {

using CaseFunction = ConformanceCase(CaseMaker& make);

#define CASE(kernel, function) CaseFunction function;
#include "executor/backends/cuda/conformance/cases.def"
#undef CASE

namespace {

Tensor Random(CaseMaker& make, const kernels::SampleTensor& like) {
  // In round 5, values go beyond the range of exp.
  if (like.dtype != UINT8) return make.Normal(like.dtype, like.shape, make.round == 5 ? 30 : 2);
  Tensor mask(UINT8, like.shape);
  for (int64_t i = 0; i < mask.size(); ++i) mask.data<uint8_t>()[i] = make.Coin() ? 1 : 0;
  return mask;
}

// Ends the process with an error that names the kernel if a case cannot be made from the kernel's row alone. That is so
// if an operand holds integers, whose values have a meaning. It is also so if an operand is optional or repeated,
// because the positions of later operands then vary.
void CheckNeedsNoCase(const kernels::KernelRow& row) {
  const auto plain = [](const kernels::OperandSpec& operand) {
    return operand.ints == kernels::Ints::kNone && operand.presence == kernels::Presence::kRequired &&
           (operand.alias == nullptr || *operand.alias != '\0');
  };
  if (std::all_of(row.inputs.begin(), row.inputs.end(), plain) &&
      std::all_of(row.outputs.begin(), row.outputs.end(), plain)) {
    return;
  }
  std::fprintf(stderr, "%s needs a case in conformance/cases.def\n", Kernel_Name(row.kernel).c_str());
  std::abort();
}

// Makes a case from the kernel's row (kernels/row.h) alone. Draws the sizes, the data, the flags and whether outputs
// are in place.
ConformanceCase RowCase(CaseMaker& make, const kernels::KernelRow& row) {
  CheckNeedsNoCase(row);
  const bool by_sample = std::any_of(row.attributes.begin(), row.attributes.end(),
                                     [](const auto& rule) { return rule.attribute == kernels::Symbol::sequence; });
  const int64_t sequence = make.Between(1, 9);
  const int64_t rows = !by_sample ? make.Rows() : make.round == 8 ? 0 : make.Between(1, 4) * sequence;
  kernels::Sample sample = kernels::MakeSample(
      row,
      {.rows = rows, .d = make.Columns(), .vocabulary = 1, .sequence = sequence, .head_size = 1, .dtype = make.dtype});
  ConformanceCase c;
  c.step = std::move(sample.step);
  for (const kernels::AttributeRule& rule : row.attributes) {
    const kernels::Attribute& attribute = kernels::kAttributes[static_cast<int>(rule.attribute)];
    if (attribute.kind != kernels::AttributeKind::kBool) continue;
    StepAttributes* a = c.step.mutable_attributes();
    a->GetReflection()->SetBool(a, a->GetDescriptor()->FindFieldByNumber(attribute.number), make.Coin());
  }
  for (const kernels::SampleTensor& tensor : sample.in) c.in.push_back(Random(make, tensor));
  for (const kernels::SampleTensor& tensor : sample.out) c.out.push_back(Random(make, tensor));
  for (int o = 0; o < static_cast<int>(row.outputs.size()); ++o) {
    const kernels::OperandSpec& output = row.outputs[o];
    if (output.update == kernels::Update::kAccumulates) c.step.set_accumulate(make.Coin());
    if (output.alias == nullptr || make.Coin()) continue;
    for (int i = 0; i < static_cast<int>(row.inputs.size()); ++i) {
      if (absl::string_view(row.inputs[i].name) == output.alias) c.in_place = {{o, i}};
    }
  }
  return c;
}

}  // namespace

ConformanceCase MakeCase(CaseMaker& make, Kernel kernel) {
  switch (kernel) {
#define CASE(name, function) \
  case name:                 \
    return function(make);
#include "executor/backends/cuda/conformance/cases.def"
#undef CASE
    default:
      return RowCase(make, kernels::RowOf(kernel));
  }
}

}  // namespace weft::exec::cuda
