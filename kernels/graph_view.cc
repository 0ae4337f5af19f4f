#include "kernels/graph_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/field_check.h"

namespace weft::kernels {
namespace {

std::string ShapeOf(const GraphParameter& parameter) {
  return absl::StrCat("[", absl::StrJoin(parameter.shape(), ", "), "]");
}

const char* NameOf(Symbol s) {
  for (const internal::Name& name : internal::kNames) {
    if (name.symbol == s) return name.text;
  }
  return "?";
}

// Returns the symbol for the number of rows in an activation's shape: `rows` for [rows, d] and for [4*rows, d],
// `samples` for [samples, d].
Symbol RowSymbol(const Shape& shape) {
  return shape.dims[0].terms[0].factors[shape.dims[0].terms[0].factors.size() - 1].symbol;
}

}  // namespace

absl::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kTokens:
      return "the ids of a tokens op";
    case Kind::kTargets:
      return "the ids of a targets op";
    case Kind::kTimes:
      return "the times of a timesteps op";
    case Kind::kActivation:
      return "an activation";
    case Kind::kLoss:
      return "a loss";
    case Kind::kParameter:
      return "a parameter";
  }
  return "?";
}

absl::Status OpView::BadShape(int input, absl::string_view expected) const {
  const Named& named = *inputs[static_cast<size_t>(input)];
  return absl::InvalidArgumentError(absl::StrCat(path, ".inputs[", input, "] = ", Quoted(op.inputs(input)), " has ",
                                                 named.kind == Kind::kParameter
                                                     ? absl::StrCat("shape ", ShapeOf(*named.parameter))
                                                     : absl::StrCat(named.columns, " columns"),
                                                 "; it must have ", expected));
}

absl::Status OpView::BadSide(int input, absl::string_view expected) const {
  const int64_t side = inputs[static_cast<size_t>(input)]->side;
  return absl::InvalidArgumentError(absl::StrCat(path, ".inputs[", input, "] = ", Quoted(op.inputs(input)), " has ",
                                                 side, " x ", side, " positions per sample; it must have ", expected));
}

absl::Status OpView::CheckAttributes() const {
  const std::string where = path + ".attributes";
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  const auto* reflection = attributes().GetReflection();
  reflection->ListFields(attributes(), &fields);
  for (const auto* field : fields) {
    const bool known = std::any_of(row.attributes.begin(), row.attributes.end(),
                                   [&](const GraphAttribute& attribute) { return attribute.name == field->name(); });
    if (known) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, ".", field->name(), " is no attribute of ", row.kind,
        row.attributes.empty() ? "; it has none"
                               : absl::StrCat("; known: ", absl::StrJoin(row.attributes, ", ",
                                                                         [](std::string* s, const GraphAttribute& one) {
                                                                           absl::StrAppend(s, one.name);
                                                                         }))));
  }
  for (const GraphAttribute& attribute : row.attributes) {
    const auto* field = OpAttributes::descriptor()->FindFieldByName(attribute.name);
    const std::string at = absl::StrCat(where, ".", attribute.name);
    const auto integer = [&] { return reflection->GetInt64(attributes(), field); };
    const auto real = [&] { return reflection->GetDouble(attributes(), field); };
    switch (attribute.range) {
      case GraphAttribute::Range::kAny:
        break;
      case GraphAttribute::Range::kInt:
      case GraphAttribute::Range::kEven:
        WEFT_RETURN_IF_ERROR(CheckWithin(at, integer(), attribute.low, attribute.high));
        if (attribute.range == GraphAttribute::Range::kEven && integer() % 2 != 0) {
          return BadField(at, integer(), "even");
        }
        break;
      case GraphAttribute::Range::kPositive:
        WEFT_RETURN_IF_ERROR(CheckPositive(at, real()));
        break;
      case GraphAttribute::Range::kNotNegative:
        WEFT_RETURN_IF_ERROR(CheckNotNegative(at, real()));
        break;
      case GraphAttribute::Range::kProbability:
        WEFT_RETURN_IF_ERROR(CheckProbability(at, real()));
        break;
      case GraphAttribute::Range::kFinite:
        WEFT_RETURN_IF_ERROR(CheckFinite(at, real()));
        break;
      case GraphAttribute::Range::kAboveOne:
        WEFT_RETURN_IF_ERROR(CheckFinite(at, real()));
        if (!(real() > 1)) return BadField(at, real(), "above 1");
        break;
    }
  }
  return row.check_attributes == nullptr ? absl::OkStatus() : row.check_attributes(*this);
}

int64_t OpView::Value(const Dim& dim) const {
  int64_t sum = 0;
  for (const Term& term : dim.terms) {
    int64_t value = 1;
    for (const Factor& factor : term.factors)
      value *= factor.symbol == Symbol::kNone ? factor.number : (*this)[factor.symbol];
    sum += value;
  }
  return sum;
}

// Returns true if `extent` fits `dim`, and gives the unknown factor of `dim`, if there is one, its value. If the extent
// is not a multiple of the known factors, sets `multiple` to the text of their product.
bool OpView::Bind(const Dim& dim, int64_t extent, std::string* multiple) {
  const Factor* unknown = nullptr;
  int64_t known = 1;
  for (const Factor& factor : dim.terms[0].factors) {
    if (dim.terms.size() == 1 && factor.symbol != Symbol::kNone && !Known(factor.symbol)) {
      unknown = &factor;
    } else {
      known *= factor.symbol == Symbol::kNone ? factor.number : (*this)[factor.symbol];
    }
  }
  if (unknown == nullptr) return extent == Value(dim);
  if (extent % known == 0) {
    Set(unknown->symbol, extent / known);
    return true;
  }
  for (const Factor& factor : dim.terms[0].factors) {
    if (&factor == unknown) continue;
    absl::StrAppend(multiple, multiple->empty() ? "" : " * ",
                    factor.symbol == Symbol::kNone ? absl::StrCat(factor.number) : NameOf(factor.symbol));
  }
  absl::StrAppend(multiple, " = ", known);
  return false;
}

// Returns the expected shape for a message: "shape [8, n]", "8 columns".
std::string OpView::Expected(const GraphOperand& operand, bool swap) const {
  if (operand.expected_text != nullptr) return operand.expected_text;
  const auto text = [&](const Dim& dim) -> std::string {
    const Factor& factor = dim.terms[0].factors[0];
    if (dim.terms.size() == 1 && dim.terms[0].factors.size() == 1 && factor.symbol != Symbol::kNone) {
      if (factor.symbol == Symbol::vocabulary) return absl::StrCat("model_graph.vocabulary = ", graph.vocabulary());
      if (!Known(factor.symbol)) return NameOf(factor.symbol);
    }
    return absl::StrCat(Value(dim));
  };
  const Few<Dim, 4>& dims = operand.shape.dims;
  if (operand.kind != Kind::kParameter) {
    const Term& term = dims[1].terms[0];
    const bool bare = term.factors.size() == 1 && term.factors[0].symbol != Symbol::vocabulary;
    const bool twice = term.factors.size() == 2 && term.factors[0].number == 2;
    return absl::StrCat(text(dims[1]), " columns",
                        bare    ? ", like the first"
                        : twice ? ", twice those of the first"
                                : "");
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < dims.size(); ++i) texts.push_back(text(dims[swap ? dims.size() - 1 - i : i]));
  return absl::StrCat("shape [", absl::StrJoin(texts, ", "), "]");
}

absl::Status OpView::CheckShape(int input, const GraphOperand& operand) {
  const Named& named = *inputs[input];
  if (operand.rule != nullptr) return operand.rule(*this, input);
  if (operand.shape.kind != Shape::Kind::kDims) return absl::OkStatus();
  const Few<Dim, 4>& dims = operand.shape.dims;
  std::string multiple;
  if (operand.kind == Kind::kParameter) {
    const auto& shape = named.parameter->shape();
    const bool swap = operand.shape.swapped_by != Symbol::kNone && attributes().transpose_b();
    // This text is made before Bind gives values to unknown names, so that the message shows these names.
    const std::string expected = Expected(operand, swap);
    bool ok = shape.size() == static_cast<int>(dims.size());
    for (size_t i = 0; ok && i < dims.size(); ++i) {
      ok = Bind(dims[swap ? dims.size() - 1 - i : i], shape[static_cast<int>(i)], &multiple);
    }
    return ok ? absl::OkStatus() : BadShape(input, expected);
  }
  const std::string expected = Expected(operand, false);
  if (Bind(dims[1], named.columns, &multiple)) return absl::OkStatus();
  return BadShape(input, multiple.empty() ? expected : absl::StrCat("a multiple of ", multiple, " columns"));
}

absl::Status OpView::Infer(Named* output) {
  Set(Symbol::vocabulary, graph.vocabulary());
  Set(Symbol::channels, graph.image_channels());
  for (const GraphAttribute& attribute : row.attributes) {
    if (attribute.range != GraphAttribute::Range::kInt && attribute.range != GraphAttribute::Range::kEven) continue;
    for (const internal::Name& name : internal::kNames) {
      if (absl::string_view(name.text) == attribute.name) {
        Set(name.symbol, attributes().GetReflection()->GetInt64(
                             attributes(), OpAttributes::descriptor()->FindFieldByName(attribute.name)));
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    WEFT_RETURN_IF_ERROR(CheckShape(static_cast<int>(i), row.inputs[i]));
  }
  for (const GraphAttribute& attribute : row.attributes) {
    if (attribute.divides == Symbol::kNone) continue;
    const int64_t x = attributes().GetReflection()->GetInt64(
        attributes(), OpAttributes::descriptor()->FindFieldByName(attribute.name));
    if ((*this)[attribute.divides] % x != 0) {
      return BadField(absl::StrCat(path, ".attributes.", attribute.name), x,
                      absl::StrCat("a divisor of the ", (*this)[attribute.divides], " columns"));
    }
  }
  if (output->kind == Kind::kActivation) output->columns = Value(row.output.shape.dims[1]);
  if (graph.image_size() == 0 || (output->kind != Kind::kActivation && output->kind != Kind::kLoss))
    return absl::OkStatus();
  // Checks the sides of images: each input must have as many positions as the first input, or one row per sample.
  int64_t first = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Named& named = *inputs[i];
    if (named.kind != Kind::kActivation) continue;
    if (i == 0) first = named.side;
    if (row.inputs[i].shape.kind != Shape::Kind::kDims) {
      if (named.side != first)
        return BadSide(static_cast<int>(i), absl::StrCat(first, " x ", first, ", like the first"));
      continue;
    }
    if (RowSymbol(row.inputs[i].shape) == Symbol::samples) {
      if (named.side != 1) return BadSide(static_cast<int>(i), "one row per sample");
    } else if (named.side != first) {
      return BadSide(static_cast<int>(i), absl::StrCat(first, " x ", first, ", like the first"));
    }
  }
  switch (RowSymbol(row.output.shape)) {
    case Symbol::pixels:
      output->side = graph.image_size();
      break;
    case Symbol::samples:
      output->side = 1;
      break;
    case Symbol::out_positions:
      output->side = (first - 1) / std::max<int64_t>(1, attributes().stride()) + 1;
      break;
    default:  // Dim 0 is 4*rows or rows.
      output->side = row.output.shape.dims[0].terms[0].factors.size() > 1 ? 2 * first : first;
  }
  if (output->side > kLargestSide) return BadSide(0, absl::StrCat("at most ", kLargestSide / 2));
  return absl::OkStatus();
}

}  // namespace weft::kernels
