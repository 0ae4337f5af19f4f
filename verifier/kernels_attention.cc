// Checks of attention as kernels of its own, and of dropout with and without a mask.
#include "verifier/step_check.h"

namespace weft::verify {

// Whether `v` holds scores or something like them: [rows, heads * sequence], rows in whole sequences.
bool StepCheck::Pairs(const Value& v, int64_t rows) {
  const int64_t heads = attributes().heads(), sequence = attributes().sequence();
  Require(sequence >= 1 && sequence <= Limits::kExtent && rows % std::max<int64_t>(1, sequence) == 0, "sequence",
          sequence, "a divisor of the rows");
  Require(heads >= 1 && heads <= Limits::kExtent, "heads", heads, "at least 1");
  if (!ok_) return false;
  Shape(v, {rows, heads * sequence});
  return ok_;
}

// Columns of q, of which `v` is one with k and v, or without kv_heads k or v alone; 0 with a finding.
int64_t StepCheck::QueryColumns(const Value& v) {
  const A& a = attributes();
  const bool fused = a.kv_heads() == 0;
  const int64_t own = fused ? a.heads() : a.kv_heads(), parts = fused ? 3 : 1;
  Require(a.heads() >= 1 && a.heads() <= Limits::kExtent, "heads", a.heads(), "at least 1");
  Require(own >= 1 && a.heads() % std::max<int64_t>(1, own) == 0, "kv_heads", a.kv_heads(), "0, or a divisor of heads");
  Require(fused || !a.qkv_by_head(), "qkv_by_head", 1, "false where q, k and v are inputs of their own");
  if (!ok_ || !Rank(v, 2)) return 0;
  if (v.shape(1) % parts != 0 || v.shape(1) / parts % own != 0) {
    Bad("P2.kernel", "columns of ", Text(v), " must be a multiple of ", parts, " x ", own, " heads");
    return 0;
  }
  return v.shape(1) / parts / own * a.heads();
}

void StepCheck::AttentionOps() {
  const Kernel kernel = step_.kernel();
  const A& a = attributes();
  const bool grouped = a.kv_heads() != 0;
  switch (kernel) {
    case ATTENTION_SOFTMAX:
    case ATTENTION_SOFTMAX_BACKWARD: {
      const bool forward = kernel == ATTENTION_SOFTMAX;
      if (forward) {
        Attributes({A::kHeadsFieldNumber, A::kSequenceFieldNumber, A::kCausalFieldNumber, A::kWindowFieldNumber});
        Require(a.window() == 0 || (a.window() > 0 && a.causal()), "window", a.window(), "0, or positive with causal");
      } else {
        Attributes({A::kHeadsFieldNumber, A::kSequenceFieldNumber});
      }
      const int in = forward ? 1 : 2;
      if (!Arity(in, in, 1, 1)) return;
      AllFloating();
      if (!Rank(In(0), 2) || !Pairs(In(0), In(0).shape(0))) return;
      if (!forward) SameShape(In(1), In(0));
      return SameShape(Out(0), In(0));
    }
    case ATTENTION_SCORES:
    case ATTENTION_SCORES_BACKWARD: {
      Attributes({A::kHeadsFieldNumber, A::kKvHeadsFieldNumber, A::kSequenceFieldNumber, A::kScaleFieldNumber,
                  A::kQkvByHeadFieldNumber});
      const int first = kernel == ATTENTION_SCORES ? 0 : 1, parts = grouped ? 2 : 1, in = first + parts;
      const int out = first == 0 ? 1 : parts;
      if (!Arity(in, in, out, out)) return;
      AllFloating();
      const int64_t columns = QueryColumns(In(in - 1));
      if (columns == 0) return;
      const int64_t rows = In(in - 1).shape(0);
      if (grouped) Shape(In(first), {rows, columns});
      if (!Pairs(first == 0 ? Out(0) : In(0), rows) || first == 0) return;
      for (int i = 0; i < parts; ++i) SameShape(Out(i), In(first + i));
      return;
    }
    default: {  // ATTENTION_VALUES: p, qkv or v; ATTENTION_VALUES_BACKWARD: do, p, qkv or v.
      Attributes({A::kHeadsFieldNumber, A::kKvHeadsFieldNumber, A::kSequenceFieldNumber, A::kQkvByHeadFieldNumber});
      const bool forward = kernel == ATTENTION_VALUES;
      const int in = forward ? 2 : 3;
      if (!Arity(in, in, in - 1, in - 1)) return;
      AllFloating();
      const int64_t columns = QueryColumns(In(in - 1));
      if (columns == 0) return;
      const int64_t rows = In(in - 1).shape(0);
      Shape(forward ? Out(0) : In(0), {rows, columns});
      if (!Pairs(In(in - 2), rows) || forward) return;
      SameShape(Out(0), In(1));
      SameShape(Out(1), In(2));
    }
  }
}

// DROPOUT and DROPOUT_MASK.
void StepCheck::DropoutKernel() {
  const A& a = attributes();
  const bool masks = step_.kernel() == DROPOUT_MASK;
  Attributes({A::kDropoutFieldNumber, A::kDropoutSiteFieldNumber, A::kMicrobatchOffsetFieldNumber,
              A::kOfBackwardFieldNumber, A::kColumnShiftFieldNumber, A::kRowShiftFieldNumber,
              A::kWholeColumnsFieldNumber, A::kSequenceFieldNumber, A::kHeadsFieldNumber});
  if (!Arity(1, 1, masks ? 2 : 1, masks ? 2 : 1)) return;
  Floating(In(0));
  Floating(Out(0));
  if (masks) {
    Is(Out(1), {UINT8});
    SameShape(Out(1), In(0));
  }
  Dropout();
  SameShape(Out(0), In(0));
  if (!Rank(In(0), 2)) return;
  const bool shifted = Has(A::kRowShiftFieldNumber);
  const int64_t image = program_.image_size();
  if (a.heads() != 0) {
    Require(!shifted, "row_shift", 1, "absent with heads: they have whole sequences");
    if (!Pairs(In(0), In(0).shape(0))) return;
    Require(image > 0 || a.sequence() == program_.recipe().sequence_length(), "sequence", a.sequence(),
            "with heads the recipe's");
  } else if (image > 0 && !shifted) {
    // OfMicrobatches compares it with the rows.
    Require(a.sequence() >= 1, "sequence", a.sequence(), "the rows of one sample at the step's level");
  } else {
    Require(
        shifted ? a.sequence() >= 1 && Rows() % std::max<int64_t>(1, a.sequence()) == 0 : a.sequence() == 0, "sequence",
        a.sequence(),
        "set with row_shift or in a model of images only, with row_shift a divisor of the rows of the rank's samples");
  }
  // With heads they are what is counted.
  const int64_t columns = a.heads() != 0 ? a.heads() : In(0).shape(1);
  WholeColumns(columns);
  Within(a.column_shift(), "column_shift", columns, std::max(columns, a.whole_columns()));
  // Elements are counted per sample.
  if (shifted) {
    Within(a.row_shift(), "row_shift", In(0).shape(0), Rows());
  } else {
    OfMicrobatches(In(0));
  }
}

void StepCheck::DropoutByMask() {
  Attributes({A::kDropoutFieldNumber});
  if (!Arity(2, 2, 1, 1)) return;
  Floating(In(0));
  Is(In(1), {UINT8});
  Floating(Out(0));
  Dropout();
  SameShape(In(1), In(0));
  SameShape(Out(0), In(0));
}

}  // namespace weft::verify
