// Arity, shapes, dtypes and attributes of every kernel, as docs/kernels.md states them (rule P2.kernel), and that no
// step writes what it reads except where that page says "in place" (P2.alias).
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "verifier/step_check.h"

namespace weft::verify {

void StepCheck::Matmul() {
  Attributes({A::kTransposeAFieldNumber, A::kTransposeBFieldNumber, A::kTf32FieldNumber});
  if (!Arity(2, 3, 1, 1)) return;
  AllFloating();
  if (!Rank(In(0), 2) || !Rank(In(1), 2)) return;
  const bool ta = attributes().transpose_a(), tb = attributes().transpose_b();
  const int64_t m = In(0).shape(ta ? 1 : 0), k = In(0).shape(ta ? 0 : 1), n = In(1).shape(tb ? 0 : 1);
  if (tb) {
    Shape(In(1), {n, k});
  } else {
    Shape(In(1), {k, n});
  }
  Shape(Out(0), {m, n});
  if (inputs() == 3) Shape(In(2), {n});
  const bool single = In(0).dtype() == FP32 && In(1).dtype() == FP32;
  if (attributes().tf32() == (single && program_.precision().compute() == TF32)) return;
  Bad("P2.attribute", attributes().tf32() ? "rounds to TF32" : "does not round to TF32", ", but its factors are ",
      DTypeName(In(0).dtype()), " and ", DTypeName(In(1).dtype()), ", and precision.compute is ",
      DTypeName(program_.precision().compute()));
}

void StepCheck::Embedding() {
  Attributes({A::kColumnShiftFieldNumber});
  if (!Arity(2, 2, 1, 1)) return;
  const bool forward = step_.kernel() == EMBEDDING;
  const Value& table = forward ? In(1) : Out(0);
  const Value& y = forward ? Out(0) : In(1);
  Is(In(0), {INT32});
  Floating(table);
  Floating(y);
  if (!Rank(In(0), 1) || !Rank(table, 2)) return;
  Shape(y, {In(0).shape(0), table.shape(1)});
  // Of a split table the parts of all ranks together have a row for every token.
  const int64_t rows = Largest(attributes().column_shift(), "column_shift") + table.shape(0);
  if (rows < program_.vocabulary()) {
    Bad("P2.kernel", "table ", Text(table), " has fewer rows than the vocabulary of ", program_.vocabulary());
  }
}

void StepCheck::PositionEmbedding() {
  const A& a = attributes();
  Attributes({A::kSequenceFieldNumber, A::kRowShiftFieldNumber});
  if (!Arity(1, 1, 1, 1)) return;
  AllFloating();
  const bool forward = step_.kernel() == POSITION_EMBEDDING;
  const Value& table = forward ? In(0) : Out(0);
  const Value& y = forward ? Out(0) : In(0);
  if (!Rank(table, 2) || !Rank(y, 2)) return;
  Shape(y, {y.shape(0), table.shape(1)});
  // Rows that begin at a shift need not be whole sequences.
  const bool shifted = Has(A::kRowShiftFieldNumber);
  if (shifted) Within(a.row_shift(), "row_shift", y.shape(0), Rows());
  Require(a.sequence() >= 1 && a.sequence() <= table.shape(0) &&
              (shifted ? Rows() : y.shape(0)) % std::max<int64_t>(1, a.sequence()) == 0,
          "sequence", static_cast<double>(a.sequence()), "a divisor of the rows and at most the rows of the table");
}

void StepCheck::LayerNorm() {
  const Kernel kernel = step_.kernel();
  Attributes({A::kEpsilonFieldNumber});
  if (kernel == LAYER_NORM) {
    if (!Arity(3, 3, 3, 3)) return;
  } else if (kernel == LAYER_NORM_BACKWARD) {
    if (!Arity(5, 5, 1, 1)) return;
  } else if (!Arity(4, 4, 2, 2)) {
    return;
  }
  AllFloating();
  const Value& x = In(kernel == LAYER_NORM ? 0 : 1);
  if (!Rank(x, 2)) return;
  const int64_t rows = x.shape(0), d = x.shape(1);
  if (kernel == LAYER_NORM) {
    Require(attributes().epsilon() >= 0, "epsilon", attributes().epsilon(), "at least 0");
    Shape(In(1), {d});
    Shape(In(2), {d});
    Shape(Out(0), {rows, d});
    Shape(Out(1), {rows});
    Shape(Out(2), {rows});
    Wide(Out(1));
    Wide(Out(2));
    return;
  }
  Shape(In(0), {rows, d});
  const int mean = kernel == LAYER_NORM_BACKWARD ? 3 : 2;
  if (kernel == LAYER_NORM_BACKWARD) Shape(In(2), {d});
  Shape(In(mean), {rows});
  Shape(In(mean + 1), {rows});
  Wide(In(mean));
  Wide(In(mean + 1));
  if (kernel == LAYER_NORM_BACKWARD) {
    Shape(Out(0), {rows, d});
  } else {
    Shape(Out(0), {d});
    Shape(Out(1), {d});
  }
}

void StepCheck::CrossEntropy() {
  const bool forward = step_.kernel() == CROSS_ENTROPY;
  if (step_.kernel() == CROSS_ENTROPY) {
    Attributes({A::kVocabularyFieldNumber, A::kLossWeightFieldNumber, A::kMicrobatchOffsetFieldNumber,
                A::kOfBackwardFieldNumber});
  } else {
    Attributes({A::kVocabularyFieldNumber, A::kLossWeightFieldNumber, A::kColumnShiftFieldNumber});
  }
  if (!(forward ? Arity(2, 2, 2, 2) : Arity(3, 4, 1, 1))) return;
  if (!forward && inputs() == 4) ScaleState(In(3));
  const Value& logits = In(0);
  const Value& targets = In(forward ? 1 : 2);
  const Value& lse = forward ? Out(0) : In(1);
  Floating(logits);
  Is(targets, {INT32});
  Wide(lse);
  if (!Rank(logits, 2)) return;
  Shape(targets, {logits.shape(0)});
  Shape(lse, {logits.shape(0)});
  // Targets lie in [-1, vocabulary).
  const int64_t columns = Largest(attributes().column_shift(), "column_shift") + logits.shape(1);
  Require(attributes().vocabulary() == program_.vocabulary() && attributes().vocabulary() <= columns, "vocabulary",
          static_cast<double>(attributes().vocabulary()), "the program's, and at most the columns of the logits");
  Require(attributes().loss_weight() >= 0, "loss_weight", attributes().loss_weight(), "at least 0");
  if (!forward) {
    Floating(Out(0));
    SameShape(Out(0), logits);
    return;
  }
  int64_t data = 1;
  for (const MeshAxis& axis : program_.mesh().axes()) {
    if (axis.name() == "data") data = axis.size();
  }
  Is(Out(1), {FP64});
  Shape(Out(1), {program_.microbatches() * data});
}

// What is set is what is written: looking through that is far quicker than asking for each field whether it is set.
// True also where it is not clear.
bool StepCheck::MaySetOthers(std::initializer_list<int> allowed) const {
  constexpr size_t kMost = 512;
  uint8_t bytes[kMost];
  const size_t size = attributes().ByteSizeLong();
  if (size > kMost || !attributes().SerializePartialToArray(bytes, static_cast<int>(kMost))) return true;
  google::protobuf::io::CodedInputStream stream(bytes, static_cast<int>(size));
  while (const uint32_t tag = stream.ReadTag()) {
    const int number = google::protobuf::internal::WireFormatLite::GetTagFieldNumber(tag);
    if (std::find(allowed.begin(), allowed.end(), number) == allowed.end()) return true;
    if (!google::protobuf::internal::WireFormatLite::SkipField(&stream, tag)) return true;
  }
  return !stream.ConsumedEntireMessage();
}

void StepCheck::Attributes(std::initializer_list<int> allowed) {
  if (!step_.has_attributes() || !MaySetOthers(allowed)) return;
  std::vector<const google::protobuf::FieldDescriptor*> set;
  attributes().GetReflection()->ListFields(attributes(), &set);
  for (const auto* field : set) {
    if (std::find(allowed.begin(), allowed.end(), field->number()) == allowed.end()) {
      Bad("P2.attribute", "does not read attribute ", field->name(), ", which is set");
    }
  }
}

void StepCheck::Kernels() {
  switch (step_.kernel()) {
    case LOAD_TOKENS:
    case LOAD_TARGETS:
      return Load();
    case EMBEDDING:
    case EMBEDDING_BACKWARD:
      return Embedding();
    case POSITION_EMBEDDING:
    case POSITION_EMBEDDING_BACKWARD:
      return PositionEmbedding();
    case ADD:
      Attributes({});
      if (!Arity(2, 2, 1, 1)) return;
      if (In(0).dtype() == EXACT192) {
        Is(In(1), {EXACT192});
        Is(Out(0), {EXACT192});
      } else {
        AllFloating();
      }
      SameShape(In(1), In(0));
      SameShape(Out(0), In(0));
      return;
    case MATMUL:
      return Matmul();
    case BIAS_GRADIENT:
      Attributes({});
      if (!Arity(1, 1, 1, 1)) return;
      AllFloating();
      if (Rank(In(0), 2)) Shape(Out(0), {In(0).shape(1)});
      return;
    case LAYER_NORM:
    case LAYER_NORM_BACKWARD:
    case LAYER_NORM_BACKWARD_WEIGHT:
      return LayerNorm();
    case GELU:
    case GELU_BACKWARD: {
      Attributes({A::kTanhApproximationFieldNumber});
      const int in = step_.kernel() == GELU ? 1 : 2;
      if (!Arity(in, in, 1, 1)) return;
      AllFloating();
      if (in == 2) SameShape(In(1), In(0));
      SameShape(Out(0), In(0));
      return;
    }
    case RMS_NORM:
    case RMS_NORM_BACKWARD:
    case RMS_NORM_BACKWARD_WEIGHT:
      return RmsNorm();
    case ROPE:
      return Rope();
    case SWIGLU:
    case SWIGLU_BACKWARD:
      return Swiglu();
    case ATTENTION:
    case ATTENTION_BACKWARD:
      return Attention();
    case ATTENTION_SCORES:
    case ATTENTION_SCORES_BACKWARD:
    case ATTENTION_SOFTMAX:
    case ATTENTION_SOFTMAX_BACKWARD:
    case ATTENTION_VALUES:
    case ATTENTION_VALUES_BACKWARD:
      return AttentionOps();
    case DROPOUT:
    case DROPOUT_MASK:
      return DropoutKernel();
    case DROPOUT_BY_MASK:
      return DropoutByMask();
    case CROSS_ENTROPY:
    case CROSS_ENTROPY_BACKWARD:
      return CrossEntropy();
    case CAST:
      Attributes({});
      if (!Arity(1, 1, 1, 1)) return;
      AllFloating();
      SameShape(Out(0), In(0));
      return;
    case FILL:
      Attributes({A::kValueFieldNumber});
      if (!Arity(0, 0, 1, 1)) return;
      Is(Out(0), {FP32, FP64, BF16, FP16, EXACT192});
      return;
    case EXACT_ACCUMULATE:
    case EXACT_ROUND: {
      Attributes({});
      if (!Arity(1, 1, 1, 1)) return;
      const bool round = step_.kernel() == EXACT_ROUND;
      Is(round ? In(0) : Out(0), {EXACT192});
      Floating(round ? Out(0) : In(0));
      SameShape(Out(0), In(0));
      return;
    }
    case SQUARED_NORM:
      return SquaredNorm();
    case NORM_TOTAL:
      return NormTotal();
    case UPDATE_LOSS_SCALE:
      return UpdateLossScale();
    case GROUP_ALL_REDUCE:
    case GROUP_ALL_GATHER:
    case GROUP_REDUCE_SCATTER:
      return Collectives();
    case BIAS_ADD:
      Attributes({});
      if (!Arity(2, 2, 1, 1)) return;
      AllFloating();
      if (!Rank(In(0), 2)) return;
      Shape(In(1), {In(0).shape(1)});
      SameShape(Out(0), In(0));
      return;
    case CROSS_ENTROPY_PARTIAL:
    case CROSS_ENTROPY_COMBINE:
      return CrossEntropyParts();
    case NORM_PARTIAL:
    case NORM_COMBINE:
    case NORM_APPLY:
    case NORM_BACKWARD_PARTIAL:
    case NORM_BACKWARD_APPLY:
      return NormParts();
    case SCALE:
      return ScaleKernel();
    case ADAMW:
    case SGD_STEP:
      return Optimizer();
    default:
      if (!ImageKernels()) Bad("P2.kernel", "names no kernel");
  }
}

void StepCheck::Aliases() {
  const auto overlap = [&](const Value& a, const Value& b) {
    return a.operand() == b.operand() && a.offset() < EndOf(b) && b.offset() < EndOf(a);
  };
  const auto in_place = [&](int i, int o) {
    switch (step_.kernel()) {
      case ADD:
        return i == 0 && In(0).offset() == Out(0).offset() && In(0).dtype() == Out(0).dtype();
      case ATTENTION_SOFTMAX:
      case ATTENTION_SOFTMAX_BACKWARD:
      case BIAS_ADD:
        return i == 0 && In(0).offset() == Out(0).offset() && In(0).dtype() == Out(0).dtype();
      case GROUP_ALL_REDUCE:
        return i == o && In(i).offset() == Out(o).offset();  // Of the same dtype and size.
      case UPDATE_LOSS_SCALE:
        return i == 1;  // Proven to be the same range.
      case SCALE:
        return i == 1 && In(1).offset() == Out(0).offset() && In(1).dtype() == Out(0).dtype();
      case ADAMW:
      case SGD_STEP:
        return i == o + 1;  // Proven to be the same range.
      default:
        return false;
    }
  };
  for (int o = 0; o < outputs(); ++o) {
    for (int i = 0; i < inputs(); ++i) {
      if (overlap(In(i), Out(o)) && !in_place(i, o)) {
        Bad("P2.alias", "output '", Out(o).name(), "' shares bytes with input '", In(i).name(), "'");
      }
    }
    for (int p = 0; p < o; ++p) {
      if (overlap(Out(p), Out(o))) {
        Bad("P2.alias", "outputs '", Out(p).name(), "' and '", Out(o).name(), "' share bytes");
      }
    }
  }
}

void StepCheck::Run() {
  const bool collective = IsCollective(step_.kernel());
  if ((step_.stream() == COLLECTIVE) != collective || step_.has_collective() != collective) {
    Bad("P3.collective", "is on stream ", StreamKind_Name(step_.stream()),
        step_.has_collective() ? " and has" : " without",
        " a collective; steps of GROUP kernels, and only these, are on COLLECTIVE and have one");
    return;
  }
  Kernels();
  switch (step_.kernel()) {
    case EMBEDDING_BACKWARD:
    case POSITION_EMBEDDING_BACKWARD:
    case ADD:
    case MATMUL:
    case BIAS_GRADIENT:
    case LAYER_NORM_BACKWARD:
    case RMS_NORM_BACKWARD:
    case RMS_NORM_BACKWARD_WEIGHT:
    case LAYER_NORM_BACKWARD_WEIGHT:
    case NORM_BACKWARD_APPLY:
    case GROUP_REDUCE_SCATTER:
    case CONV2D_BACKWARD:
    case CONV2D_BACKWARD_WEIGHT:
    case GROUP_NORM_BACKWARD:
    case GROUP_NORM_BACKWARD_WEIGHT:
      break;
    default:
      if (step_.accumulate()) Bad("P2.attribute", "accumulate is set, which this kernel does not honour");
  }
  if (ok_) Aliases();
}

void CheckStep(const Program& program, const VerifyOptions& options, const Segment& segment, int step,
               Findings* findings) {
  StepCheck(program, options, segment, step, findings).Run();
}

}  // namespace weft::verify
