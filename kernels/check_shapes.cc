// Checks the shapes of a step's operands against the shapes in its row, and binds the extents that the row's shapes
// name.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "kernels/step_view.h"

namespace weft::kernels {
namespace {

std::optional<int64_t> Times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace

const StepTensor* StepView::Find(const char* operand) const {
  for (int i = 0; i < inputs(); ++i) {
    if (absl::string_view(inputs_[i]->name) == operand) return &in_[i];
  }
  for (int i = 0; i < outputs(); ++i) {
    if (absl::string_view(outputs_[i]->name) == operand) return &out_[i];
  }
  return nullptr;
}

void StepView::RequireShape(const StepTensor& tensor, std::initializer_list<int64_t> want) const {
  if (std::equal(tensor.shape.begin(), tensor.shape.end(), want.begin(), want.end())) return;
  Bad("P2.kernel", "value ", Text(tensor), " must have shape [", absl::StrJoin(want, ","), "]");
}

// Returns nullopt if a factor is unknown or a division leaves a remainder, and -1 if the product overflows.
std::optional<int64_t> StepView::Value(const Term& term, const Factor* without) const {
  int64_t value = 1;
  for (const Factor& factor : term.factors) {
    if (&factor == without) continue;
    if (factor.symbol != Symbol::kNone && !Known(factor.symbol)) return std::nullopt;
    const int64_t x = factor.symbol == Symbol::kNone ? factor.number : (*this)[factor.symbol];
    if (factor.divides) {
      if (x == 0 || value % x != 0) return std::nullopt;
      value /= x;
    } else {
      const std::optional<int64_t> product = Times(value, x);
      if (!product) return -1;
      value = *product;
    }
  }
  return value;
}

bool StepView::IsVariable(Symbol s) const {
  if (s == Symbol::kNone || Known(s)) return false;
  // For a step without a program, the program's figures are variables too.
  return s >= Symbol::kVariables || (alone() && (s == Symbol::losses || s == Symbol::channels));
}

const Factor* StepView::Unbound(const Dim& dim) const {
  if (dim.terms.size() != 1) return nullptr;
  const Factor* unbound = nullptr;
  for (const Factor& factor : dim.terms[0].factors) {
    if (!factor.divides && IsVariable(factor.symbol)) unbound = &factor;
  }
  return unbound;
}

bool StepView::Bind(const Term& term, const Factor& unbound, size_t dimension, const StepTensor& tensor) {
  const std::optional<int64_t> known = Value(term, &unbound);
  if (!known) return false;  // Another check reports this.
  const int64_t extent = tensor.shape[dimension];
  if (*known >= 1 && extent % *known == 0) {
    SetKnown(unbound.symbol, extent / *known);
    return true;
  }
  if (term.factors.size() == 2 && dimension == 0) {
    Bad("P2.kernel", "value ", Text(tensor), " must have a multiple of ", *known, " rows");
    return false;
  }
  std::string factors;
  for (const Factor& factor : term.factors) {
    if (&factor == &unbound) continue;
    absl::StrAppend(&factors, factors.empty() ? "" : " x ",
                    factor.symbol == Symbol::kNone ? factor.number : (*this)[factor.symbol],
                    factor.symbol == Symbol::heads || factor.symbol == Symbol::kv_heads ? " heads" : "");
  }
  Bad("P2.kernel", dimension == 0 ? "rows" : "columns", " of ", Text(tensor), " must be a multiple of ", factors);
  return false;
}

bool StepView::HasVariable(const Shape& shape) const {
  for (const Dim& dim : shape.dims) {
    for (const Term& term : dim.terms) {
      if (std::any_of(term.factors.begin(), term.factors.end(),
                      [&](const Factor& f) { return IsVariable(f.symbol); })) {
        return true;
      }
    }
  }
  return false;
}

void StepView::CheckShape(const OperandSpec& operand, const StepTensor& tensor) {
  const Shape& shape = operand.shape;
  if (shape.kind == Shape::Kind::kAny || operand.by_rule) return;
  if (shape.kind == Shape::Kind::kLike) {
    const StepTensor& other = *Find(shape.like);
    if (tensor.shape != other.shape) {
      Bad("P2.kernel", "value ", Text(tensor), " must have the shape of ", Text(other));
    }
    return;
  }
  const size_t rank = shape.dims.size();
  const bool swap =
      shape.swapped_by != Symbol::kNone && kAttributes[static_cast<int>(shape.swapped_by)].integer(attributes()) != 0;
  if (tensor.shape.size() != rank && HasVariable(shape)) {
    return Bad("P2.kernel", "value ", Text(tensor), " must have ", rank, rank == 1 ? " dimension" : " dimensions");
  }
  Few<int64_t, 4> want;
  for (size_t i = 0; i < rank; ++i) {
    const Dim& dim = shape.dims[swap && i + 2 >= rank ? 2 * rank - 3 - i : i];
    if (dim.name != Symbol::kNone) {
      if (!Known(dim.name)) {
        if (!IsVariable(dim.name)) return;  // Another check reports this.
        SetKnown(dim.name, tensor.shape[i]);
      }
      want.Add((*this)[dim.name]);
      continue;
    }
    if (const Factor* unbound = Unbound(dim); unbound != nullptr) {
      if (!Bind(dim.terms[0], *unbound, i, tensor)) return;
      want.Add(tensor.shape[i]);
      continue;
    }
    int64_t sum = 0;
    for (const Term& term : dim.terms) {
      const std::optional<int64_t> value = Value(term);
      if (!value) return;  // Another check reports this.
      sum += *value;
    }
    want.Add(sum);
  }
  if (std::equal(tensor.shape.begin(), tensor.shape.end(), want.begin(), want.end())) return;
  Bad("P2.kernel", "value ", Text(tensor), " must have shape [", absl::StrJoin(want, ","), "]");
}

void StepView::CheckShapes() {
  for (const bool first : {true, false}) {
    for (int i = 0; i < inputs(); ++i) {
      if (inputs_[i]->shape.first == first) CheckShape(*inputs_[i], in_[i]);
    }
    for (int i = 0; i < outputs(); ++i) {
      if (outputs_[i]->shape.first == first) CheckShape(*outputs_[i], out_[i]);
    }
  }
}

const Extents* StepView::BindExtents() {
  if (!CheckCount()) return nullptr;
  for (const AttributeRule& rule : row_.attributes) CheckNumber(rule);
  Prepare();
  CheckShapes();
  return ok_ ? &values_ : nullptr;
}

Extents ExtentsOf(const Segment& segment, const Step& step) {
  const KernelRow* row = FindRow(step.kernel());
  if (row == nullptr) return {};
  absl::InlinedVector<StepTensor, 12> tensors;
  TensorsOf(segment, step, &tensors);
  const auto all = absl::MakeConstSpan(tensors);
  StepView view(*row, step, all.subspan(0, step.inputs_size()), all.subspan(step.inputs_size()), nullptr,
                [](const char*, const std::string&) {});
  const Extents* extents = view.BindExtents();
  return extents != nullptr ? *extents : Extents{};
}

}  // namespace weft::kernels
