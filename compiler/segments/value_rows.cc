#include "compiler/segments/value_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/traits.h"
#include "proto/util/status.h"

namespace weft {
namespace {

// Finds out which values of a forward have a row per token.
class RowAnalysis {
 public:
  explicit RowAnalysis(const StageSegment& forward) : forward_(forward), segment_(forward.segment) {}

  absl::StatusOr<std::vector<Rows>> Run();

 private:
  absl::Status Visit(const Step& step);
  void SetAtSamePlace(int gathered);
  absl::StatusOr<Rows> OutputRows(const Step& step) const;
  Rows In(const Step& step, int i) const { return rows_[step.inputs(i)]; }
  absl::Status Error(const Step& step, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("segment '", segment_.name(), "', step '", step.name(), "': ", what,
                     ", so two microbatches cannot run at once; use a schedule without forward doubling"));
  }

  const StageSegment& forward_;
  const Segment& segment_;
  std::vector<Rows> rows_;
  // True for values that some step writes.
  std::vector<bool> written_;
};

// Returns true if dimension 0 of an operand counts rows of activations, or the rows m of a product.
bool CountsRows(const kernels::OperandSpec* operand, const Step& step) {
  if (operand != nullptr && operand->shape.kind == kernels::Shape::Kind::kLike) {
    operand = kernels::InputSpec(step, kernels::FindInput(step, operand->shape.like));
  }
  if (operand == nullptr || operand->shape.dims.empty()) return false;
  const kernels::Shape& shape = operand->shape;
  const bool swapped = shape.swapped_by == kernels::Symbol::transpose_a && step.attributes().transpose_a();
  for (const kernels::Term& term : shape.dims[swapped ? 1 : 0].terms) {
    for (const kernels::Factor& factor : term.factors) {
      if (factor.symbol == kernels::Symbol::rows || factor.symbol == kernels::Symbol::m) return true;
    }
  }
  return false;
}

absl::StatusOr<Rows> RowAnalysis::OutputRows(const Step& step) const {
  int per_token = 0, counting = 0;
  bool as_stated = true, any = false;
  for (int i = 0; i < step.inputs_size(); ++i) {
    const kernels::OperandSpec* operand = kernels::InputSpec(step, i);
    any = any || (operand != nullptr && operand->shape.kind == kernels::Shape::Kind::kAny);
    const bool counts = CountsRows(operand, step), tokens = In(step, i) == Rows::kPerToken;
    counting += counts;
    per_token += tokens;
    as_stated = as_stated && counts == tokens;
  }
  if (any) {  // The kernel works element by element.
    if (per_token != 0 && per_token != step.inputs_size())
      return Error(step, "combines a tensor that has a row per token with one that does not");
    return per_token > 0 ? Rows::kPerToken : Rows::kNone;
  }
  if (per_token == 0 && counting > 0) {
    if (kernels::MayReadMicrobatch(step.kernel())) return Error(step, "does not work on rows of tokens");
    return Rows::kNone;
  }
  const bool loss = kernels::IsLoss(step.kernel());
  if (as_stated && (loss || CountsRows(kernels::RowOf(step.kernel()).outputs.begin(), step))) return Rows::kPerToken;
  return Error(step, "mixes rows of different tokens");
}

absl::Status RowAnalysis::Visit(const Step& step) {
  WEFT_ASSIGN_OR_RETURN(Rows rows, OutputRows(step));
  for (int i = 0; i < step.outputs_size(); ++i) {
    // A loss kernel's last output holds the losses of the step's microbatches. Its rows stay unknown.
    if (kernels::IsLoss(step.kernel()) && i + 1 == step.outputs_size()) continue;
    Rows& known = rows_[step.outputs(i)];
    if (known != Rows::kUnknown && known != rows) {
      return Error(step, absl::StrCat("value '", segment_.values(step.outputs(i)).name(),
                                      "' has a row per token in one step and none in another"));
    }
    known = rows;
    if (step.kernel() == GROUP_ALL_GATHER) SetAtSamePlace(step.outputs(i));
  }
  return absl::OkStatus();
}

// If a gather pads its output, later steps read the output as another value at the same place, which no step writes
// (rule P8).
void RowAnalysis::SetAtSamePlace(int gathered) {
  const Value& value = segment_.values(gathered);
  for (int v = 0; v < segment_.values_size(); ++v) {
    const Value& other = segment_.values(v);
    const bool same = other.operand() == value.operand() && other.offset() == value.offset();
    if (same && !written_[v]) rows_[v] = rows_[gathered];
  }
}

absl::StatusOr<std::vector<Rows>> RowAnalysis::Run() {
  rows_.assign(segment_.values_size(), Rows::kUnknown);
  for (int i = 0; i < segment_.values_size(); ++i) {
    switch (forward_.operands[segment_.values(i).operand()].role) {
      case ir::Role::Input:
      case ir::Role::Output:
        rows_[i] = Rows::kPerToken;
        break;
      case ir::Role::Saved:
      case ir::Role::Workspace:
        break;
      default:
        rows_[i] = Rows::kNone;
    }
  }
  written_.assign(segment_.values_size(), false);
  for (const Step& step : segment_.steps()) {
    for (int v : step.outputs()) written_[v] = true;
  }
  for (const Step& step : segment_.steps()) WEFT_RETURN_IF_ERROR(Visit(step));
  return std::move(rows_);
}

}  // namespace

absl::StatusOr<std::vector<Rows>> RowsOfForward(const StageSegment& forward) { return RowAnalysis(forward).Run(); }

}  // namespace weft
