#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/graph_view.h"
#include "kernels/rows.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/field_check.h"

namespace weft::kernels {
namespace {

// Checks the weights of a convolution. They must be a square filter with an odd side, or have the shape [outputs,
// inputs, 1].
absl::Status FilterShape(OpView& op, int input) {
  const auto& shape = op.inputs[input]->parameter->shape();
  const int64_t in = op[Symbol::k];
  const bool square = shape.size() == 4 && shape[2] == shape[3] && shape[2] % 2 == 1 && shape[2] <= kLargestSide;
  if (!(square || (shape.size() == 3 && shape[2] == 1)) || shape[1] != in) {
    return op.BadShape(input, absl::StrCat("shape [outputs, ", in, ", k, k] with an odd k, or [outputs, ", in, ", 1]"));
  }
  op.Set(Symbol::n, shape[0]);
  return absl::OkStatus();
}

// Checks the inputs of attention: one input with q, k and v side by side, or three inputs.
absl::Status AttentionHeads(OpView& op, int) {
  const int64_t in = op.inputs[0]->columns, heads = op.attributes().heads(), kv_heads = op.attributes().kv_heads();
  const std::string path = op.path + ".attributes.kv_heads";
  if (op.inputs.size() == 1) {
    if (in % 3 != 0 || in / 3 % heads != 0) {
      return op.BadShape(0, absl::StrCat("a multiple of 3 * heads = ", 3 * heads, " columns (q, k and v)"));
    }
    if (kv_heads != 0) return BadField(path, kv_heads, "0 unless k and v are separate inputs");
    op.Set(Symbol::d, in / 3);
    return absl::OkStatus();
  }
  if (op.inputs.size() == 2) {
    return absl::InvalidArgumentError(absl::StrCat(op.path, ".inputs has 2 names; attention takes 1 or 3"));
  }
  if (in % heads != 0) return op.BadShape(0, absl::StrCat("a multiple of heads = ", heads, " columns"));
  if (kv_heads < 1 || heads % kv_heads != 0) {
    return BadField(path, kv_heads, absl::StrCat("a divisor of heads = ", heads));
  }
  for (int i : {1, 2}) {
    const int64_t wanted = in / heads * kv_heads;
    if (op.inputs[i]->columns != wanted) {
      return op.BadShape(i, absl::StrCat(wanted, " columns: kv_heads times q's head size"));
    }
  }
  op.Set(Symbol::d, in);
  if (!op.attributes().qkv_by_head()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(op.path, ".attributes.qkv_by_head must be false where q, k and v are separate inputs"));
}

absl::Status PositionsCover(OpView& op, int input) {
  const GraphParameter& table = *op.inputs[input]->parameter;
  if (table.shape_size() != 2) return op.BadShape(input, "shape [positions, columns]");
  const int64_t most = op.graph.maximum_positions();
  op.Set(Symbol::columns, table.shape(1));
  if (most != 0 && table.shape(0) >= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model_graph.maximum_positions = ", most, " must be from 1 to ",
                                                 table.shape(0), ", the rows of ", Quoted(table.name()), ", which ",
                                                 op.path, " reads"));
}

absl::Status WindowIsCausal(const OpView& op) {
  if (op.attributes().window() == 0 || op.attributes().causal()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(op.path, ".attributes.window = ", op.attributes().window(), " needs causal: true"));
}

// Checks dynamic_positions and the fields of the ramp (ramp_low, ramp_high, ramp_positions). A ramp needs a factor, and
// excludes dynamic_positions.
absl::Status RampFits(const OpView& op) {
  const std::string path = op.path + ".attributes";
  const OpAttributes& a = op.attributes();
  const bool dynamic = a.dynamic_positions() > 0;
  if (dynamic && (!(a.factor() >= 1) || a.head_size() == 2)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".dynamic_positions = ", a.dynamic_positions(),
                                                   " needs a factor of at least 1 and a head_size above 2; they are ",
                                                   a.factor(), " and ", a.head_size()));
  }
  const bool ramp = a.ramp_low() != 0 || a.ramp_high() != 0 || a.ramp_positions() != 0;
  if (dynamic || a.factor() == 0) {
    if (!ramp) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ramp_low, ramp_high and ramp_positions need a factor, and no dynamic_positions"));
  }
  if (a.ramp_low() < a.ramp_high()) return absl::OkStatus();
  return BadField(path + ".ramp_low", a.ramp_low(), absl::StrCat("below ramp_high = ", a.ramp_high()));
}

// Checks the attributes for masking. They must be equal in all ops that load tokens or targets.
absl::Status MaskedAlike(const OpView& op) {
  const std::string path = op.path + ".attributes";
  const OpAttributes& a = op.attributes();
  if (!(a.masked_fraction() >= 0 && a.masked_fraction() <= 1)) {
    return BadField(path + ".masked_fraction", a.masked_fraction(), "from 0 (off) to 1");
  }
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".mask_token", a.mask_token(), 0, op.graph.vocabulary() - 1));
  if (a.masked_fraction() == 0 && a.mask_token() != 0) {
    return BadField(path + ".mask_token", a.mask_token(), "0 where masked_fraction is 0");
  }
  for (const GraphOp& other : op.graph.ops()) {
    if (&other == &op.op) break;
    if (other.kind() != "tokens" && other.kind() != "targets") continue;
    if (other.attributes().masked_fraction() == a.masked_fraction() &&
        other.attributes().mask_token() == a.mask_token()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(path, ": masked_fraction and mask_token must be those of ",
                                                   Quoted(other.name()), ", ", other.attributes().masked_fraction(),
                                                   " and ", other.attributes().mask_token()));
  }
  return absl::OkStatus();
}

using Range = GraphAttribute::Range;
constexpr GraphOperand X(const char* name, Shape shape) { return {.name = name, .shape = shape}; }
constexpr GraphOperand W(const char* name, Shape shape) {
  return {.name = name, .kind = Kind::kParameter, .shape = shape};
}
constexpr GraphOperand Optional(GraphOperand o) { return o.optional = true, o; }
constexpr GraphOperand ExpectedText(const char* what, GraphOperand o) { return o.expected_text = what, o; }
constexpr GraphOperand Doc(const char* shape, GraphOperand o) { return o.doc_shape = shape, o; }
constexpr GraphOperand ByRule(absl::Status (*rule)(OpView&, int), GraphOperand o) { return o.rule = rule, o; }
constexpr GraphOperand kLoss = {.name = "loss", .kind = Kind::kLoss, .shape = "[rows,d]"};
constexpr GraphAttribute Int(const char* name, int64_t low, int64_t high = kMaxInt32) {
  return {.name = name, .range = Range::kInt, .low = low, .high = high};
}
constexpr GraphAttribute kDropout = {"dropout", Range::kProbability};
constexpr GraphAttribute kEpsilon = {"epsilon", Range::kPositive};
constexpr GraphAttribute kSteps = Int("diffusion_steps", 1, int64_t{1} << 20);

constexpr GraphRow kRows[] = {
    {.kind = "tokens",
     .output = {.name = "ids", .kind = Kind::kTokens},
     .attributes = {{"masked_fraction"}, {"mask_token"}},
     .samples = Samples::kTokens,
     .kernel = LOAD_TOKENS,
     .check_attributes = MaskedAlike},
    {.kind = "targets",
     .output = {.name = "ids", .kind = Kind::kTargets},
     .attributes = {{"masked_fraction"}, {"mask_token"}},
     .samples = Samples::kTokens,
     .kernel = LOAD_TARGETS,
     .check_attributes = MaskedAlike},
    {.kind = "embedding",
     .inputs = {{.name = "ids", .kind = Kind::kTokens}, W("table", "[vocabulary,columns]")},
     .output = X("y", "[rows,columns]"),
     .samples = Samples::kTokens,
     .kernel = EMBEDDING},
    {.kind = "position_embedding",
     .inputs = {ByRule(PositionsCover, W("table", "[M,columns]"))},
     .output = X("y", "[rows,columns]"),
     .samples = Samples::kTokens,
     .kernel = POSITION_EMBEDDING},
    {.kind = "type_embedding",
     .inputs = {ExpectedText("shape [types, columns]", W("table", "[M,columns]"))},
     .output = X("y", "[rows,columns]"),
     .samples = Samples::kTokens,
     .kernel = POSITION_EMBEDDING},
    {.kind = "add", .inputs = {X("a", "[rows,d]"), X("b", "[rows,d]")}, .output = X("y", "[rows,d]"), .kernel = ADD},
    {.kind = "matmul",
     .inputs = {X("x", "[rows,k]"), W("weight", "[k,n]^transpose_b"), Optional(W("bias", "[n]"))},
     .output = X("y", "[rows,n]"),
     .attributes = {{"transpose_b"}},
     .kernel = MATMUL},
    {.kind = "layer_norm",
     .inputs = {X("x", "[rows,d]"), W("gamma", "[d]"), W("beta", "[d]")},
     .output = X("y", "[rows,d]"),
     .attributes = {kEpsilon},
     .kernel = LAYER_NORM},
    {.kind = "rms_norm",
     .inputs = {X("x", "[rows,d]"), W("gamma", "[d]")},
     .output = X("y", "[rows,d]"),
     .attributes = {kEpsilon},
     .kernel = RMS_NORM},
    {.kind = "rope",
     .inputs = {X("x", "[rows,n*head_size]")},
     .output = X("y", "[rows,n*head_size]"),
     .attributes = {{"head_size", Range::kEven, 2, kMaxInt32},
                    {"base", Range::kAboveOne},
                    {"factor", Range::kNotNegative},
                    {"ramp_low", Range::kFinite},
                    {"ramp_high", Range::kFinite},
                    {"ramp_positions", Range::kNotNegative},
                    {"magnitude", Range::kNotNegative},
                    Int("dynamic_positions", 0)},
     .kernel = ROPE,
     .check_attributes = RampFits},
    {.kind = "attention",
     .inputs = {Doc("[rows,3·d] or [rows,d]", ByRule(AttentionHeads, X("qkv or q", "[rows,d]"))),
                Optional(Doc("[rows,d·kv_heads/heads]", X("k", "..."))),
                Optional(Doc("[rows,d·kv_heads/heads]", X("v", "...")))},
     .output = X("y", "[rows,d]"),
     .attributes = {Int("heads", 1),
                    {"causal"},
                    {"scale", Range::kNotNegative},
                    kDropout,
                    {"kv_heads"},
                    Int("window", 0),
                    {"qkv_by_head"}},
     .kernel = ATTENTION,
     .check_attributes = WindowIsCausal},
    {.kind = "dropout",
     .inputs = {X("x", "[rows,d]")},
     .output = X("y", "[rows,d]"),
     .attributes = {kDropout},
     .kernel = DROPOUT},
    {.kind = "cross_entropy",
     .inputs = {X("logits", "[rows,vocabulary]"), {.name = "targets", .kind = Kind::kTargets}},
     .output = kLoss,
     .samples = Samples::kTokens,
     .kernel = CROSS_ENTROPY},
    {.kind = "timesteps",
     .output = {.name = "times", .kind = Kind::kTimes},
     .attributes = {kSteps},
     .samples = Samples::kImages,
     .kernel = LOAD_TIMESTEPS},
    {.kind = "timestep_embedding",
     .inputs = {{.name = "times", .kind = Kind::kTimes}},
     .output = X("y", "[samples,columns]"),
     .attributes = {Int("columns", 2), {"timestep_scale", Range::kNotNegative}},
     .samples = Samples::kImages,
     .kernel = TIMESTEP_EMBEDDING},
    {.kind = "noisy_image",
     .output = X("x", "[pixels,channels]"),
     .attributes = {kSteps, {"cosine_schedule"}},
     .samples = Samples::kImages,
     .kernel = LOAD_NOISY_IMAGE},
    {.kind = "noise", .output = X("y", "[pixels,channels]"), .samples = Samples::kImages, .kernel = LOAD_NOISE},
    {.kind = "conv2d",
     .inputs = {X("x", "[rows,k]"), Doc("[n,k,s,s] or [n,k,1]", ByRule(FilterShape, W("weight", "..."))),
                Optional(W("bias", "[n]"))},
     .output = X("y", "[out_positions,n]"),
     .attributes = {Int("stride", 0, kLargestSide)},
     .samples = Samples::kImages,
     .kernel = CONV2D},
    {.kind = "group_norm",
     .inputs = {X("x", "[rows,d]"), W("gamma", "[d]"), W("beta", "[d]")},
     .output = X("y", "[rows,d]"),
     .attributes = {{"groups", Range::kInt, 1, kMaxInt32, Symbol::d}, kEpsilon},
     .samples = Samples::kImages,
     .kernel = GROUP_NORM},
    {.kind = "concat",
     .inputs = {X("a", "[rows,m]"), X("b", "[rows,n]")},
     .output = X("y", "[rows,m+n]"),
     .kernel = CONCAT_COLUMNS},
    {.kind = "upsample",
     .inputs = {X("x", "[rows,d]")},
     .output = X("y", "[4*rows,d]"),
     .samples = Samples::kImages,
     .kernel = UPSAMPLE},
    {.kind = "add_per_sample",
     .inputs = {X("x", "[rows,d]"), X("e", "[samples,d]")},
     .output = X("y", "[rows,d]"),
     .samples = Samples::kImages,
     .kernel = ADD_PER_SAMPLE},
    {.kind = "scale_shift",
     .inputs = {X("x", "[rows,d]"), X("e", "[samples,2*d]")},
     .output = X("y", "[rows,d]"),
     .samples = Samples::kImages,
     .kernel = SCALE_SHIFT},
    {.kind = "squared_error",
     .inputs = {X("prediction", "[rows,d]"), X("target", "[rows,d]")},
     .output = kLoss,
     .samples = Samples::kImages,
     .kernel = SQUARED_ERROR},
};

// Returns the graph op for a pointwise kernel: the same operands, as matrices, and the same attributes.
GraphRow PointwiseOp(const KernelRow& kernel) {
  GraphRow row = {.kind = kernel.graph_kind, .output = X("y", "[rows,d]"), .kernel = kernel.kernel};
  assert(kernel.inputs.size() <= std::size(row.inputs.items));
  for (const OperandSpec& input : kernel.inputs) row.inputs.Add(X(input.name, "[rows,d]"));
  for (const AttributeRule& rule : kernel.attributes) {
    // Only flags are translated so far: a number's range would have to be copied to the graph attribute as well.
    assert(kAttributes[static_cast<int>(rule.attribute)].kind == AttributeKind::kBool);
    row.attributes.Add({kAttributes[static_cast<int>(rule.attribute)].name});
  }
  return row;
}

}  // namespace

absl::Span<const GraphRow> GraphRows() {
  static const auto* rows = [] {
    auto* all = new std::vector<GraphRow>(std::begin(kRows), std::end(kRows));
    for (const KernelRow& kernel : kPointwiseRows) {
      if (kernel.graph_kind != nullptr) all->push_back(PointwiseOp(kernel));
    }
    return all;
  }();
  return *rows;
}

const GraphRow* FindGraphRow(absl::string_view kind) {
  for (const GraphRow& row : GraphRows()) {
    if (kind == row.kind) return &row;
  }
  return nullptr;
}

}  // namespace weft::kernels
