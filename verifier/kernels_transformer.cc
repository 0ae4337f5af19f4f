// Checks of attention, of the kernels of Llama-like transformers and of masked tokens.
#include <cmath>

#include "verifier/step_check.h"

namespace weft::verify {

void StepCheck::Load() {
  Attributes({A::kMicrobatchOffsetFieldNumber, A::kOfBackwardFieldNumber, A::kMaskedFieldNumber,
              A::kMaskTokenFieldNumber, A::kVocabularyFieldNumber});
  if (!Arity(0, 0, 1, 1)) return;
  Is(Out(0), {INT32});
  if (Rank(Out(0), 1)) OfMicrobatches(Out(0));
  const A& a = attributes();
  if (a.masked() == 0) {
    Require(a.mask_token() == 0, "mask_token", static_cast<double>(a.mask_token()), "0 where nothing is masked");
    Require(a.vocabulary() == 0, "vocabulary", static_cast<double>(a.vocabulary()), "0 where nothing is masked");
    return;
  }
  Require(a.masked() >= 1 && a.masked() <= program_.recipe().sequence_length(), "masked",
          static_cast<double>(a.masked()), "from 1 to the length of a sequence");
  Require(a.vocabulary() == program_.vocabulary(), "vocabulary", static_cast<double>(a.vocabulary()),
          "the program's, from which random tokens are taken");
  Require(a.mask_token() >= 0 && a.mask_token() < program_.vocabulary(), "mask_token",
          static_cast<double>(a.mask_token()), "below the vocabulary");
}

void StepCheck::Attention() {
  const bool forward = step_.kernel() == ATTENTION;
  Attributes({A::kHeadsFieldNumber, A::kSequenceFieldNumber, A::kCausalFieldNumber, A::kScaleFieldNumber,
              A::kDropoutFieldNumber, A::kDropoutSiteFieldNumber, A::kMicrobatchOffsetFieldNumber,
              A::kOfBackwardFieldNumber, A::kKvHeadsFieldNumber, A::kWindowFieldNumber, A::kColumnShiftFieldNumber,
              A::kWholeColumnsFieldNumber, A::kQkvByHeadFieldNumber});
  // One fused input, or three.
  const bool fused = inputs() == (forward ? 1 : 4);
  if (!fused && !(forward ? Arity(3, 3, 2, 2) : Arity(6, 6, 3, 3))) return;
  if (fused && !(forward ? Arity(1, 1, 2, 2) : Arity(4, 4, 1, 1))) return;
  AllFloating();
  const int first = forward ? 0 : 1;
  const Value& q = In(first);
  if (!Rank(q, 2)) return;
  const int64_t rows = q.shape(0), d = q.shape(1) / (fused ? 3 : 1);
  const int64_t heads = attributes().heads(), sequence = attributes().sequence(), window = attributes().window();
  const int64_t kv_heads = attributes().kv_heads();
  if (fused && q.shape(1) % 3 != 0) Bad("P2.kernel", "columns of ", Text(q), " must be a multiple of 3");
  Require(heads >= 1 && d % std::max<int64_t>(1, heads) == 0, "heads", heads, "a divisor of the columns of q");
  if (fused) {
    Require(kv_heads == 0, "kv_heads", kv_heads, "0 unless k and v are inputs of their own");
  } else {
    Require(kv_heads >= 1 && heads % std::max<int64_t>(1, kv_heads) == 0, "kv_heads", kv_heads, "a divisor of heads");
    if (!ok_) return;
    Shape(In(first + 1), {rows, d / heads * kv_heads});
    Shape(In(first + 2), {rows, d / heads * kv_heads});
  }
  Require(window == 0 || (window > 0 && attributes().causal()), "window", window, "0, or positive with causal");
  Require(sequence >= 1 && rows % std::max<int64_t>(1, sequence) == 0, "sequence", sequence, "a divisor of the rows");
  Dropout();
  Require(fused || !attributes().qkv_by_head(), "qkv_by_head", 1, "false where q, k and v are inputs of their own");
  if (attributes().dropout() > 0) {
    OfMicrobatches(q);
    // Of images, positions are fewer at lower levels.
    if (program_.image_size() == 0 && sequence != program_.recipe().sequence_length()) {
      Bad("P2.kernel", "with dropout, sequence must be the recipe's, ", program_.recipe().sequence_length(), "; it is ",
          sequence);
    }
  }
  WholeColumns(heads);
  Within(attributes().column_shift(), "column_shift", heads, std::max(heads, attributes().whole_columns()));
  const Value& o = forward ? Out(0) : In(inputs() - 2);
  const Value& lse = forward ? Out(1) : In(inputs() - 1);
  Shape(o, {rows, d});
  Shape(lse, {rows, heads});
  Wide(lse);
  if (!forward) {
    Shape(In(0), {rows, d});
    for (int i = 0; i < outputs(); ++i) SameShape(Out(i), In(first + i));
  }
}

void StepCheck::RmsNorm() {
  const Kernel kernel = step_.kernel();
  if (kernel == RMS_NORM) {
    Attributes({A::kEpsilonFieldNumber});
    if (!Arity(2, 2, 2, 2)) return;
  } else {
    Attributes({});
    const int in = kernel == RMS_NORM_BACKWARD ? 4 : 3;
    if (!Arity(in, in, 1, 1)) return;
  }
  AllFloating();
  const Value& x = In(kernel == RMS_NORM ? 0 : 1);
  if (!Rank(x, 2)) return;
  const int64_t rows = x.shape(0), d = x.shape(1);
  const Value& rstd = kernel == RMS_NORM ? Out(1) : In(inputs() - 1);
  Shape(rstd, {rows});
  Wide(rstd);
  if (kernel == RMS_NORM) {
    Require(attributes().epsilon() >= 0, "epsilon", attributes().epsilon(), "at least 0");
    Shape(In(1), {d});
    Shape(Out(0), {rows, d});
    return;
  }
  Shape(In(0), {rows, d});
  if (kernel == RMS_NORM_BACKWARD) {
    Shape(In(2), {d});
    Shape(Out(0), {rows, d});
  } else {
    Shape(Out(0), {d});
  }
}

void StepCheck::Rope() {
  const A& a = attributes();
  Attributes({A::kSequenceFieldNumber, A::kHeadSizeFieldNumber, A::kBaseFieldNumber, A::kFactorFieldNumber,
              A::kRampLowFieldNumber, A::kRampHighFieldNumber, A::kRampPositionsFieldNumber, A::kMagnitudeFieldNumber,
              A::kInverseFieldNumber});
  if (!Arity(1, 1, 1, 1)) return;
  AllFloating();
  SameShape(Out(0), In(0));
  if (!Rank(In(0), 2)) return;
  const int64_t head_size = a.head_size(), sequence = a.sequence();
  Require(head_size >= 2 && head_size % 2 == 0 && In(0).shape(1) % std::max<int64_t>(1, head_size) == 0, "head_size",
          static_cast<double>(head_size), "even and a divisor of the columns");
  Require(sequence >= 1 && In(0).shape(0) % std::max<int64_t>(1, sequence) == 0, "sequence",
          static_cast<double>(sequence), "a divisor of the rows");
  Require(a.base() > 1 && std::isfinite(a.base()), "base", a.base(), "above 1 and finite");
  Require(a.magnitude() > 0 && std::isfinite(a.magnitude()), "magnitude", a.magnitude(), "positive and finite");
  Require(a.factor() >= 0 && std::isfinite(a.factor()), "factor", a.factor(), "at least 0 and finite");
  Require(a.ramp_positions() >= 0 && std::isfinite(a.ramp_positions()), "ramp_positions", a.ramp_positions(),
          "at least 0 and finite");
  Require(std::isfinite(a.ramp_low()) && std::isfinite(a.ramp_high()) &&
              (a.factor() == 0 ? a.ramp_low() == 0 && a.ramp_high() == 0 && a.ramp_positions() == 0
                               : a.ramp_low() < a.ramp_high()),
          "ramp_low", a.ramp_low(), "below ramp_high; with factor 0 all that scales must be 0");
}

void StepCheck::Swiglu() {
  const bool forward = step_.kernel() == SWIGLU;
  Attributes({});
  if (!(forward ? Arity(2, 2, 1, 1) : Arity(3, 3, 2, 2))) return;
  AllFloating();
  for (int i = 1; i < inputs(); ++i) SameShape(In(i), In(0));
  for (int i = 0; i < outputs(); ++i) SameShape(Out(i), In(0));
}

}  // namespace weft::verify
