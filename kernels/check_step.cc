// Checks one step against its row: counts, attributes, types, shapes, rows, aliases.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "kernels/step_view.h"
#include "kernels/traits.h"
#include "proto/util/units.h"

namespace weft::kernels {
namespace {

constexpr DType kFloats[] = {FP32, FP64, BF16, FP16};
constexpr DType kSums[] = {FP32, FP64, BF16, FP16, EXACT192};

absl::Span<const DType> DTypesOf(Types types, DType first) {
  static constexpr DType kFp64[] = {FP64}, kNorms[] = {FP64, EXACT192}, kExact[] = {EXACT192}, kInt32[] = {INT32},
                         kUint8[] = {UINT8};
  switch (types) {
    case Types::kFloat:
    case Types::kSum:
      return kFloats;
    case Types::kStatistics:
      return absl::MakeConstSpan(kFloats, 2);
    case Types::kFp64:
      return kFp64;
    case Types::kNorms:
      return kNorms;
    case Types::kExact:
      return kExact;
    case Types::kFloatOrExact:
      return kSums;
    case Types::kAddend:
      return first == EXACT192 ? absl::MakeConstSpan(kExact) : absl::MakeConstSpan(kFloats);
    case Types::kInt32:
      return kInt32;
    case Types::kUint8:
      return kUint8;
    case Types::kFp8:
      break;
  }
  return {};
}

// Finds the row's operand for each of the `given` operands of a step, and the least and the most operands that the row
// takes.
template <typename Operands>
void FindPresent(const Operands& operands, const StepAttributes& a, int given,
                 absl::InlinedVector<const OperandSpec*, 8>* present, int* least, int* most) {
  *least = *most = 0;
  for (const OperandSpec& operand : operands) {
    if (!IsThere(operand, a)) continue;
    ++*most;
    *least += operand.presence != Presence::kOptional;
    if (static_cast<int>(present->size()) < given) present->push_back(&operand);
    while (operand.presence == Presence::kRepeated && static_cast<int>(present->size()) < given) {
      present->push_back(&operand);
    }
    if (operand.presence == Presence::kRepeated) *most = std::max(*most, given);
  }
}

std::string Range(int least, int most) {
  return least == most ? absl::StrCat(least) : absl::StrCat(least, " to ", most);
}

int64_t EndOf(const StepTensor& t) { return t.offset + ElementCount(t.shape).value_or(0) * DTypeBytes(t.dtype); }

bool Overlap(const StepTensor& a, const StepTensor& b) {
  return a.place == b.place && a.offset < EndOf(b) && b.offset < EndOf(a);
}

}  // namespace

std::string StepView::Text(const StepTensor& t) {
  return absl::StrCat("'", t.name, "' ", DTypeName(t.dtype), " [", absl::StrJoin(t.shape, ","), "]");
}

bool StepView::CheckCount() {
  int in_least, in_most, out_least, out_most;
  FindPresent(row_.inputs, attributes(), inputs(), &inputs_, &in_least, &in_most);
  FindPresent(row_.outputs, attributes(), outputs(), &outputs_, &out_least, &out_most);
  if (row_.family == Family::kCollective) {
    if (inputs() >= 1 && inputs() == outputs()) return true;
    Bad("P2.kernel", "has ", inputs(), " inputs and ", outputs(),
        " outputs; it must have the same number of both, at least one");
    return false;
  }
  if (inputs() >= in_least && inputs() <= in_most && outputs() >= out_least && outputs() <= out_most) return true;
  // `why` names the first attribute that decides how many operands there are.
  std::string why;
  for (const auto& operands : {absl::MakeConstSpan(row_.inputs.begin(), row_.inputs.size()),
                               absl::MakeConstSpan(row_.outputs.begin(), row_.outputs.size())}) {
    for (const OperandSpec& operand : operands) {
      if (operand.when.attribute == Symbol::kNone || !why.empty()) continue;
      const Attribute& attribute = kAttributes[static_cast<int>(operand.when.attribute)];
      why = absl::StrCat("; ", attribute.name, " is ",
                         attribute.integer != nullptr ? absl::StrCat(attribute.integer(attributes()))
                                                      : absl::StrCat(attribute.real(attributes())));
    }
  }
  Bad("P2.kernel", "has ", inputs(), " inputs and ", outputs(), " outputs, takes ", Range(in_least, in_most), " and ",
      Range(out_least, out_most), why);
  return false;
}

// Returns true if the step may have set an attribute that its kernel does not read, and false if it certainly has not.
// Reading the serialized attributes is far quicker than asking each field whether it is set.
bool StepView::MaySetOthers() const {
  constexpr size_t kMax = 512;
  uint8_t bytes[kMax];
  const size_t size = attributes().ByteSizeLong();
  if (size > kMax || !attributes().SerializePartialToArray(bytes, static_cast<int>(kMax))) return true;
  google::protobuf::io::CodedInputStream stream(bytes, static_cast<int>(size));
  const bool microbatch = row_.microbatch.reads != Microbatch::Reads::kNo;
  while (const uint32_t tag = stream.ReadTag()) {
    const int number = google::protobuf::internal::WireFormatLite::GetTagFieldNumber(tag);
    bool known = microbatch && (number == StepAttributes::kMicrobatchOffsetFieldNumber ||
                                number == StepAttributes::kOfBackwardFieldNumber);
    for (const AttributeRule& rule : row_.attributes) {
      known = known || kAttributes[static_cast<int>(rule.attribute)].number == number;
    }
    if (!known || !google::protobuf::internal::WireFormatLite::SkipField(&stream, tag)) return true;
  }
  return !stream.ConsumedEntireMessage();
}

void StepView::CheckAttributes() {
  if (step_.has_attributes() && MaySetOthers()) {
    std::vector<const google::protobuf::FieldDescriptor*> set;
    attributes().GetReflection()->ListFields(attributes(), &set);
    const bool microbatch = row_.microbatch.reads != Microbatch::Reads::kNo;
    for (const auto* field : set) {
      bool known = microbatch && (field->number() == StepAttributes::kMicrobatchOffsetFieldNumber ||
                                  field->number() == StepAttributes::kOfBackwardFieldNumber);
      for (const AttributeRule& rule : row_.attributes) {
        known = known || kAttributes[static_cast<int>(rule.attribute)].number == field->number();
      }
      if (!known) Bad("P2.attribute", "does not read attribute ", field->name(), ", which is set");
    }
  }
}

void StepView::CheckNumber(const AttributeRule& rule) {
  if (rule.must == nullptr) return;
  const Attribute& attribute = kAttributes[static_cast<int>(rule.attribute)];
  const auto check = [&](auto given) {
    const double x = static_cast<double>(given);
    if (rule.or_zero && given == 0) return;
    bool ok = (rule.above_low ? x > rule.low : x >= rule.low) && (rule.below_high ? x < rule.high : x <= rule.high);
    if (rule.odd || rule.even) ok = ok && (static_cast<int64_t>(given) % 2 != 0) == rule.odd;
    if (ok && rule.holds != nullptr) ok = rule.holds(*this);
    Require(ok, attribute.name, given, rule.must);
    if (!ok) wrong_ |= Bit(rule.attribute);
  };
  if (attribute.integer != nullptr) {
    check(attribute.integer(attributes()));
  } else if (attribute.real != nullptr) {
    check(attribute.real(attributes()));
  } else if (rule.holds != nullptr && !rule.holds(*this)) {
    wrong_ |= Bit(rule.attribute);
  }
}

void StepView::CheckRelation(const AttributeRule& rule) {
  if (rule.relation == Relation::kNone || (wrong_ & Bit(rule.attribute)) != 0 || !Known(rule.of)) return;
  const Attribute& attribute = kAttributes[static_cast<int>(rule.attribute)];
  const int64_t x = attribute.integer(attributes()), of = (*this)[rule.of];
  if (rule.or_zero && x == 0) return;
  bool ok = true;
  switch (rule.relation) {
    case Relation::kDivides:
      ok = x != 0 && of % x == 0;
      break;
    case Relation::kMultipleOf:
      ok = of != 0 && x % of == 0;
      break;
    case Relation::kBelow:
      ok = x < of;
      break;
    case Relation::kAtLeast:
      ok = x >= of;
      break;
    case Relation::kAtMost:
      ok = x <= of;
      break;
    case Relation::kNone:
      break;
  }
  Require(ok, attribute.name, x, rule.must);
}

// Sets the symbols whose values do not depend on the tensors.
void StepView::Prepare() {
  for (const AttributeRule& rule : row_.attributes) {
    const Attribute& attribute = kAttributes[static_cast<int>(rule.attribute)];
    if (attribute.kind == AttributeKind::kInt && (wrong_ & Bit(rule.attribute)) == 0) {
      SetKnown(rule.attribute, attribute.integer(attributes()));
    }
  }
  if (Known(Symbol::height) && Known(Symbol::width))
    SetKnown(Symbol::positions, attributes().height() * attributes().width());
  if (Known(Symbol::positions) && Known(Symbol::stride)) {
    SetKnown(Symbol::out_positions, ((attributes().height() - 1) / attributes().stride() + 1) *
                                        ((attributes().width() - 1) / attributes().stride() + 1));
  }
  SetKnown(Symbol::statistics, attributes().root_mean_square() ? 1 : 2);
  if (Known(Symbol::groups)) SetKnown(Symbol::blocks, std::max<int64_t>(1, attributes().groups()));
  if (alone()) return;
  SetKnown(Symbol::losses, facts_->program.microbatches() * facts_->data);
  // In a model of tokens `channels` stays unknown, and SamplesAreImages reports steps that load images.
  if (facts_->program.image_size() > 0) SetKnown(Symbol::channels, facts_->program.image_channels());
}

void StepView::CheckTypes(const OperandSpec& operand, const StepTensor& tensor) {
  const DType first = in_.empty() ? tensor.dtype : in_[0].dtype;
  const absl::Span<const DType> allowed = DTypesOf(operand.types, first);
  if (std::find(allowed.begin(), allowed.end(), tensor.dtype) != allowed.end()) return;
  Bad("P2.kernel", "value ", Text(tensor), " must be ",
      absl::StrJoin(allowed, " or ", [](std::string* s, DType t) { absl::StrAppend(s, std::string(DTypeName(t))); }));
}

void StepView::CheckAliases() {
  const auto input_of = [&](const OperandSpec& operand, int o) {
    if (operand.alias == nullptr) return -1;
    if (operand.alias[0] == 0) return o;
    for (int i = 0; i < inputs(); ++i) {
      if (absl::string_view(inputs_[i]->name) == operand.alias) return i;
    }
    return -1;
  };
  for (int o = 0; o < outputs(); ++o) {
    const int at = outputs_[o]->in_place ? input_of(*outputs_[o], o) : -1;
    if (at < 0) continue;
    const StepTensor &x = in_[at], &y = out_[o];
    if (x.place != y.place || x.offset != y.offset || x.dtype != y.dtype) {
      Bad("P2.alias", "output ", o, " '", y.name, "' must be input ", at, " '", x.name, "' (in place)");
    }
  }
  if (!ok_) return;
  for (int o = 0; o < outputs(); ++o) {
    for (int i = 0; i < inputs(); ++i) {
      if (!Overlap(in_[i], out_[o])) continue;
      if (i == input_of(*outputs_[o], o) && in_[i].offset == out_[o].offset && in_[i].dtype == out_[o].dtype) continue;
      Bad("P2.alias", "output '", out_[o].name, "' shares bytes with input '", in_[i].name, "'");
    }
    for (int p = 0; p < o; ++p) {
      if (Overlap(out_[p], out_[o])) {
        Bad("P2.alias", "outputs '", out_[p].name, "' and '", out_[o].name, "' share bytes");
      }
    }
  }
}

void StepView::Check() {
  CheckAttributes();
  if (!CheckCount()) return;
  for (const AttributeRule& rule : row_.attributes) CheckNumber(rule);
  Prepare();
  for (int i = 0; i < inputs(); ++i) CheckTypes(*inputs_[i], in_[i]);
  for (int i = 0; i < outputs(); ++i) CheckTypes(*outputs_[i], out_[i]);
  CheckShapes();
  for (const AttributeRule& rule : row_.attributes) CheckRelation(rule);
  if (ok_ && row_.microbatch.whole && !alone()) {
    RequireWholeMicrobatches(row_.microbatch.of_input ? in_[0] : out_[0]);
  }
  for (const Rule& rule : row_.rules) {
    if (ok_ && !(alone() && rule.of_program)) rule.check(*this);
  }
  bool accumulates = false;
  for (const OperandSpec& operand : row_.outputs) accumulates = accumulates || operand.update == Update::kAccumulates;
  if (step_.accumulate() && !accumulates) Bad("P2.attribute", "accumulate is set, which this kernel does not support");
  if (ok_ && !out_.empty() && out_[0].place >= 0) CheckAliases();
}

void TensorsOf(const Segment& segment, const Step& step, absl::InlinedVector<StepTensor, 12>* tensors) {
  for (const auto* list : {&step.inputs(), &step.outputs()}) {
    for (const int v : *list) {
      const weft::Value& value = segment.values(v);
      tensors->push_back({value.name(), value.dtype(), absl::MakeConstSpan(value.shape().data(), value.shape_size()),
                          value.operand(), value.offset()});
    }
  }
}

void CheckStep(const ProgramFacts& facts, const Segment& segment, int index, Report report) {
  const Step& step = segment.steps(index);
  const KernelRow* row = FindRow(step.kernel());
  const auto add = [&](const char* rule, const std::string& message) {
    report(rule, absl::StrCat("segment '", segment.name(), "', step ", index, " '", step.name(), "' (",
                              Kernel_Name(step.kernel()), "): ", message));
  };
  const bool collective = row != nullptr && row->stream == Stream::kCollective;
  if ((step.stream() == COLLECTIVE) != collective || step.has_collective() != collective) {
    return add(
        "P3.collective",
        absl::StrCat("is on stream ", StreamKind_Name(step.stream()), step.has_collective() ? " and has" : " without",
                     " a collective; steps of GROUP kernels, and only these, must be on COLLECTIVE and have one"));
  }
  if (row == nullptr) return add("P2.kernel", "names no kernel");
  absl::InlinedVector<StepTensor, 12> tensors;
  TensorsOf(segment, step, &tensors);
  const auto all = absl::MakeConstSpan(tensors);
  StepView(*row, step, all.subspan(0, step.inputs_size()), all.subspan(step.inputs_size()), &facts, add).Check();
}

}  // namespace weft::kernels
