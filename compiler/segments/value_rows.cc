#include "compiler/segments/value_rows.h"

#include <utility>

#include "absl/strings/str_cat.h"
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
  // By some step.
  std::vector<bool> written_;
};

absl::StatusOr<Rows> RowAnalysis::OutputRows(const Step& step) const {
  int per_token = 0;
  for (int i = 0; i < step.inputs_size(); ++i) per_token += In(step, i) == Rows::kPerToken;
  switch (step.kernel()) {
    case LOAD_TOKENS:
    case LOAD_TARGETS:
    case LOAD_TIMESTEPS:
    case LOAD_NOISY_IMAGE:
    case LOAD_NOISE:
      return Rows::kPerToken;
    case POSITION_EMBEDDING:
      if (per_token == 0) return Rows::kPerToken;
      return Error(step, "its table is made of tokens");
    case GELU:
    case CAST:
    case SWIGLU:
    case ADD:
    case GROUP_ALL_REDUCE:
    case GROUP_ALL_GATHER:
    case GROUP_REDUCE_SCATTER:
      if (per_token != 0 && per_token != step.inputs_size()) return Error(step, "adds a parameter to tokens by row");
      return per_token > 0 ? Rows::kPerToken : Rows::kNone;
    case MATMUL:
    case BIAS_ADD:
    case LAYER_NORM:
    case RMS_NORM:
    case GROUP_NORM:
    case CONV2D:
    case EMBEDDING: {
      if (per_token == 0 && step.kernel() != EMBEDDING) return Rows::kNone;
      const bool first_alone = per_token == 1 && In(step, 0) == Rows::kPerToken;
      if (first_alone && !step.attributes().transpose_a()) return Rows::kPerToken;
      return Error(step, "mixes tokens of different rows");
    }
    case NORM_APPLY: {
      // Of x, gamma, beta, mean, rstd; or x, gamma, rstd.
      const int parameters = step.attributes().root_mean_square() ? 1 : 2;
      bool ok = per_token == step.inputs_size() - parameters;
      for (int i = 1; i <= parameters && i < step.inputs_size(); ++i) ok = ok && In(step, i) == Rows::kNone;
      if (ok) return Rows::kPerToken;
      return Error(step, "mixes tokens of different rows");
    }
    case ATTENTION:
    case ATTENTION_SCORES:
    case ATTENTION_SOFTMAX:
    case ATTENTION_VALUES:
    case ROPE:
    case DROPOUT:
    case DROPOUT_MASK:
    case SILU:
    case UPSAMPLE:
    case TIMESTEP_EMBEDDING:
    case CONCAT_COLUMNS:
    case SLICE_COLUMNS:
    case ADD_PER_SAMPLE:
    case SCALE_SHIFT:
    case NORM_PARTIAL:
    case NORM_COMBINE:
      if (per_token == step.inputs_size()) return Rows::kPerToken;
      return Error(step, "is not applied to tokens");
    case CROSS_ENTROPY_PARTIAL:
    case CROSS_ENTROPY_COMBINE:
    case SQUARED_ERROR:
    case CROSS_ENTROPY:
      if (per_token == step.inputs_size()) return Rows::kPerToken;
      return Error(step, "has logits or targets without a row per token");
    default:
      return Error(step, absl::StrCat("no rule says what kernel ", Kernel_Name(step.kernel()), " does to rows"));
  }
}

absl::Status RowAnalysis::Visit(const Step& step) {
  WEFT_ASSIGN_OR_RETURN(Rows rows, OutputRows(step));
  for (int i = 0; i < step.outputs_size(); ++i) {
    // The losses of the step's microbatches.
    if (IsLoss(step.kernel()) && i + 1 == step.outputs_size()) continue;
    Rows& known = rows_[step.outputs(i)];
    if (known != Rows::kUnknown && known != rows) {
      return Error(step, absl::StrCat("value '", segment_.values(step.outputs(i)).name(),
                                      "' has a row per token at one time and none at another"));
    }
    known = rows;
    if (step.kernel() == GROUP_ALL_GATHER) SetAtSamePlace(step.outputs(i));
  }
  return absl::OkStatus();
}

// What is gathered with room behind it is read as a value of its own, which no step writes (rule P8).
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

bool IsLoss(Kernel kernel) {
  return kernel == CROSS_ENTROPY || kernel == CROSS_ENTROPY_COMBINE || kernel == SQUARED_ERROR;
}

}  // namespace weft
