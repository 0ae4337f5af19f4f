// Cases of attention, fused and as separate ops: one tensor or three, grouped heads, masks, windows, dropout.
#include <cmath>

#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

struct Sizes {
  int64_t sequences, sequence, heads, kv_heads, width;
  // True if q, k and v are separate tensors.
  bool grouped;

  int64_t rows() const { return sequences * sequence; }
  int64_t columns() const { return heads * width; }
};

// Draws sequences shorter and longer than a tile of the kernels. Head widths are below and above the number of columns
// that the kernels handle at a time.
Sizes Draw(CaseMaker& make, Step& step) {
  static constexpr int64_t kSequences[] = {1, 5, 32, 33, 70, 64, 16};
  static constexpr int64_t kWidths[] = {1, 8, 33, 130, 64, 32, 17, 120};
  Sizes s;
  s.sequences = make.round == 8 ? 0 : make.Between(1, 2);
  s.sequence = kSequences[make.round % 7];
  s.width = kWidths[make.round * 3 % 8];
  s.grouped = make.Coin();
  s.kv_heads = make.Between(1, 2);
  s.heads = s.grouped ? s.kv_heads * make.Between(1, 2) : s.kv_heads;
  StepAttributes* a = step.mutable_attributes();
  a->set_heads(s.heads);
  a->set_sequence(s.sequence);
  if (s.grouped) a->set_kv_heads(s.kv_heads);
  if (!s.grouped) a->set_qkv_by_head(make.Coin());
  return s;
}

// Draws sizes for the kernels that take scores of pairs of tokens. These kernels do not read how q, k and v are stored,
// so the function clears those attributes.
Sizes DrawPairs(CaseMaker& make, Step& step) {
  const Sizes s = Draw(make, step);
  step.mutable_attributes()->clear_kv_heads();
  step.mutable_attributes()->clear_qkv_by_head();
  return s;
}

void SetMask(CaseMaker& make, const Sizes& s, Step& step) {
  StepAttributes* a = step.mutable_attributes();
  a->set_causal(make.Coin());
  if (a->causal() && make.Coin()) a->set_window(make.Between(1, s.sequence));
}

void SetScale(const Sizes& s, Step& step) {
  step.mutable_attributes()->set_scale(1 / std::sqrt(static_cast<double>(s.width)));
}

void SetDropout(CaseMaker& make, const Sizes& s, ConformanceCase& c) {
  if (!make.Coin()) return;
  StepAttributes* a = c.step.mutable_attributes();
  a->set_dropout(0.3);
  a->set_dropout_site(static_cast<uint32_t>(make.Between(0, 9)));
  c.context.seed = make.random();
  c.context.first_sample = make.Between(0, int64_t{1} << 40);
  if (make.Coin()) {
    a->set_whole_columns(s.heads + 3);
    c.context.column_shift = 2;
  }
  if (make.Coin()) {
    c.context.own_sequences = 1;
    c.context.sample_stride = 5;
  }
}

// Returns the tensors that hold q, k and v: one tensor or three.
std::vector<Tensor> Qkv(CaseMaker& make, const Sizes& s) {
  if (!s.grouped) return {make.Normal({s.rows(), 3 * s.columns()})};
  return {make.Normal({s.rows(), s.columns()}), make.Normal({s.rows(), s.kv_heads * s.width}),
          make.Normal({s.rows(), s.kv_heads * s.width})};
}

void AddAll(std::vector<Tensor>& to, const std::vector<Tensor>& tensors) {
  to.insert(to.end(), tensors.begin(), tensors.end());
}

// Returns one operand: q if `query`, else k or v. If one tensor holds all three, returns that tensor.
Tensor Operand(CaseMaker& make, const Sizes& s, bool query) {
  if (!s.grouped) return make.Normal({s.rows(), 3 * s.columns()});
  return make.Normal({s.rows(), query ? s.columns() : s.kv_heads * s.width});
}

Tensor Pairs(CaseMaker& make, DType dtype, const Sizes& s) {
  return make.Normal(dtype, {s.rows(), s.heads * s.sequence});
}

// Returns the type of the scores. Beside bf16 or fp16 factors it is sometimes fp32, a mixture that no library
// multiplies.
DType PairsType(CaseMaker& make) { return make.dtype == FP64 || make.Coin() ? make.dtype : FP32; }

}  // namespace

ConformanceCase AttentionCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION);
  const Sizes s = Draw(make, c.step);
  SetMask(make, s, c.step);
  SetScale(s, c.step);
  SetDropout(make, s, c);
  c.in = Qkv(make, s);
  c.out.emplace_back(make.dtype, std::vector<int64_t>{s.rows(), s.columns()});
  c.out.emplace_back(make.statistics(), std::vector<int64_t>{s.rows(), s.heads});
  return c;
}

ConformanceCase AttentionBackwardCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION_BACKWARD);
  const Sizes s = Draw(make, c.step);
  SetMask(make, s, c.step);
  SetScale(s, c.step);
  SetDropout(make, s, c);
  c.in = {make.Normal({s.rows(), s.columns()})};
  c.out = Qkv(make, s);
  AddAll(c.in, c.out);
  // o and lse may be arbitrary: the formulas hold for any values.
  c.in.push_back(make.Normal({s.rows(), s.columns()}));
  c.in.push_back(make.Normal(make.statistics(), {s.rows(), s.heads}, 0.5, 3));
  return c;
}

ConformanceCase AttentionScoresCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION_SCORES);
  const Sizes s = Draw(make, c.step);
  SetScale(s, c.step);
  c.in = {Operand(make, s, true)};
  if (s.grouped) c.in.push_back(Operand(make, s, false));
  c.out = {Pairs(make, PairsType(make), s)};
  return c;
}

ConformanceCase AttentionScoresBackwardCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION_SCORES_BACKWARD);
  const Sizes s = Draw(make, c.step);
  SetScale(s, c.step);
  c.out = {Operand(make, s, true)};
  if (s.grouped) c.out.push_back(Operand(make, s, false));
  c.in = {Pairs(make, PairsType(make), s)};
  AddAll(c.in, c.out);
  return c;
}

ConformanceCase AttentionSoftmaxCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION_SOFTMAX);
  const Sizes s = DrawPairs(make, c.step);
  SetMask(make, s, c.step);
  c.in = {make.Normal({s.rows(), s.heads * s.sequence}, 3)};
  c.out.emplace_back(make.dtype, std::vector<int64_t>{s.rows(), s.heads * s.sequence});
  if (make.Coin()) c.in_place = {{0, 0}};
  return c;
}

ConformanceCase AttentionSoftmaxBackwardCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION_SOFTMAX_BACKWARD);
  const Sizes s = DrawPairs(make, c.step);
  c.in = {Pairs(make, make.dtype, s), Pairs(make, make.dtype, s)};
  c.out.emplace_back(make.dtype, std::vector<int64_t>{s.rows(), s.heads * s.sequence});
  if (make.Coin()) c.in_place = {{0, 0}};
  return c;
}

ConformanceCase AttentionValuesCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION_VALUES);
  const Sizes s = Draw(make, c.step);
  c.in = {Pairs(make, PairsType(make), s), Operand(make, s, false)};
  c.out.emplace_back(make.dtype, std::vector<int64_t>{s.rows(), s.columns()});
  return c;
}

ConformanceCase AttentionValuesBackwardCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(ATTENTION_VALUES_BACKWARD);
  const Sizes s = Draw(make, c.step);
  const DType pairs = PairsType(make);
  c.in = {make.Normal({s.rows(), s.columns()}), Pairs(make, pairs, s), Operand(make, s, false)};
  c.out = {Pairs(make, pairs, s), Operand(make, s, false)};
  return c;
}

}  // namespace weft::exec::cuda
