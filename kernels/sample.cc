#include "kernels/sample.h"

#include <algorithm>
#include <map>

#include "google/protobuf/descriptor.h"
#include "kernels/traits.h"
#include "proto/util/units.h"

namespace weft::kernels {
namespace {

class Maker {
 public:
  static constexpr int64_t kSide = 16;

  Maker(const KernelRow& row, const SampleSizes& sizes) : row_(row), sizes_(sizes) {
    const int64_t heads = row.work == WorkKind::kAttention ? std::max<int64_t>(1, sizes.d / sizes.head_size)
                                                           : sizes.d / std::max<int64_t>(1, sizes.sequence);
    extents_ = {{Symbol::rows, sizes.rows},
                {Symbol::m, sizes.rows},
                {Symbol::d, sizes.d},
                {Symbol::k, sizes.d},
                {Symbol::n, sizes.d},
                {Symbol::V, sizes.vocabulary},
                {Symbol::M, sizes.sequence},
                {Symbol::sequence, sizes.sequence},
                {Symbol::T, sizes.tensors},
                {Symbol::losses, 8},
                {Symbol::heads, heads},
                {Symbol::h, sizes.d / std::max<int64_t>(1, heads)},
                {Symbol::head_size, sizes.head_size},
                {Symbol::vocabulary, sizes.vocabulary},
                {Symbol::statistics, 2},
                {Symbol::parts, 2},
                {Symbol::groups, 16},
                {Symbol::blocks, 1},
                {Symbol::height, kSide},
                {Symbol::width, kSide},
                {Symbol::positions, kSide * kSide},
                {Symbol::out_positions, kSide * kSide},
                {Symbol::kernel_size, 3},
                {Symbol::whole_columns, 2 * sizes.d},
                {Symbol::channels, 3}};
  }

  Sample Run() {
    Sample sample;
    sample.step.set_name(Kernel_Name(row_.kernel));
    sample.step.set_kernel(row_.kernel);
    for (const AttributeRule& rule : row_.attributes) SetAttribute(rule, sample.step.mutable_attributes());
    if (sample.step.attributes().ByteSizeLong() == 0) sample.step.clear_attributes();
    for (const OperandSpec& operand : row_.outputs) {
      if (operand.update == Update::kAccumulates && operand.types == Types::kSum) sample.step.set_accumulate(true);
    }
    for (const OperandSpec& operand : row_.inputs) Shaped(operand);
    for (const OperandSpec& operand : row_.inputs) Add(operand, sample.step.attributes(), 1, &sample.in, &sample.bytes);
    for (const OperandSpec& operand : row_.outputs) {
      const bool twice = operand.update == Update::kAdds || sample.step.accumulate();
      Add(operand, sample.step.attributes(), twice ? 2 : 1, &sample.out, &sample.bytes);
    }
    if (row_.work == WorkKind::kAttention) {
      sample.flops = 2.0 * row_.products * static_cast<double>(sizes_.rows) * static_cast<double>(sizes_.d) *
                     static_cast<double>(sizes_.sequence);
    }
    return sample;
  }

 private:
  void SetAttribute(const AttributeRule& rule, StepAttributes* attributes) {
    const Attribute& attribute = kAttributes[static_cast<int>(rule.attribute)];
    const auto* field = StepAttributes::descriptor()->FindFieldByNumber(attribute.number);
    const auto* reflection = attributes->GetReflection();
    const bool of_sizes = rule.sample == kFromSampleExtents || rule.attribute == Symbol::sequence ||
                          rule.attribute == Symbol::head_size ||
                          (rule.attribute == Symbol::heads && rule.must != nullptr);
    const double value = of_sizes ? static_cast<double>(extents_[rule.attribute]) : rule.sample;
    if (value == 0) return;
    if (attribute.kind == AttributeKind::kBool) reflection->SetBool(attributes, field, true);
    if (attribute.kind == AttributeKind::kDouble) reflection->SetDouble(attributes, field, value);
    if (attribute.kind != AttributeKind::kInt) return;
    if (field->cpp_type() == field->CPPTYPE_INT64) reflection->SetInt64(attributes, field, static_cast<int64_t>(value));
    if (field->cpp_type() == field->CPPTYPE_INT32) reflection->SetInt32(attributes, field, static_cast<int32_t>(value));
  }

  std::vector<int64_t> Shaped(const Shape& shape) {
    std::vector<int64_t> result;
    if (shape.kind == Shape::Kind::kAny) return {sizes_.rows, sizes_.d};
    if (shape.kind == Shape::Kind::kLike) return shapes_[shape.like];
    for (const Dim& dim : shape.dims) {
      int64_t sum = 0;
      for (const Term& term : dim.terms) {
        int64_t value = 1;
        for (const Factor& factor : term.factors) {
          const int64_t x = factor.symbol == Symbol::kNone ? factor.number : extents_[factor.symbol];
          value = factor.divides ? value / std::max<int64_t>(1, x) : value * x;
        }
        sum += value;
      }
      result.push_back(sum);
    }
    return result;
  }
  std::vector<int64_t> Shaped(const OperandSpec& operand) { return shapes_[operand.name] = Shaped(operand.shape); }

  void Add(const OperandSpec& operand, const StepAttributes& attributes, double times, std::vector<SampleTensor>* to,
           double* bytes) {
    if (operand.presence == Presence::kOptional || !IsThere(operand, attributes)) return;
    SampleTensor tensor = {DTypeOf(operand), Shaped(operand)};
    const std::vector<int64_t> moved = operand.moved.kind == Shape::Kind::kAny ? tensor.shape : Shaped(operand.moved);
    *bytes += times * static_cast<double>(ElementCount(moved).value_or(0) * DTypeBytes(tensor.dtype));
    to->push_back(std::move(tensor));
  }

  DType DTypeOf(const OperandSpec& operand) const {
    switch (operand.types) {
      case Types::kSum:
      case Types::kStatistics:
        return FP32;
      case Types::kFp64:
      case Types::kNorms:
        return FP64;
      case Types::kExact:
        return EXACT192;
      case Types::kInt32:
        return INT32;
      case Types::kUint8:
        return UINT8;
      default:
        return sizes_.dtype;
    }
  }

  const KernelRow& row_;
  const SampleSizes& sizes_;
  std::map<Symbol, int64_t> extents_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

}  // namespace

Sample MakeSample(const KernelRow& row, const SampleSizes& sizes) { return Maker(row, sizes).Run(); }

}  // namespace weft::kernels
