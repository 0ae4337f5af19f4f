// Kernels of ops whose sums, rows or columns are split over ranks, and the collectives of a segment (docs/kernels.md).
#include "proto/util/groups.h"
#include "proto/util/suggest.h"
#include "verifier/step_check.h"

namespace weft::verify {

int64_t StepCheck::Largest(const Shift& shift, const char* name) {
  int64_t largest = 0;
  std::vector<std::string> seen;
  for (const ShiftTerm& term : shift.terms()) {
    int64_t size = 0;
    for (const MeshAxis& axis : program_.mesh().axes()) {
      if (axis.name() == term.axis()) size = axis.size();
    }
    const bool twice = std::find(seen.begin(), seen.end(), term.axis()) != seen.end();
    seen.push_back(term.axis());
    if (size == 0 || twice || term.stride() < 1 || term.stride() > Limits::kExtent) {
      Bad("P2.shift", name, " has a term of axis '", term.axis(), "' with stride ", term.stride(),
          "; terms name axes of the mesh, each once, with strides in [1, ", Limits::kExtent, "]");
      return 0;
    }
    largest += (size - 1) * term.stride();  // Below 2^20 x 2^31 each.
  }
  return largest;
}

void StepCheck::Within(const Shift& shift, const char* name, int64_t extent, int64_t whole) {
  const int64_t largest = Largest(shift, name);
  if (largest <= whole - extent) return;
  Bad("P2.shift", name, " is up to ", largest, ": a part of ", extent, " that begins there leaves the whole of ",
      whole);
}

void StepCheck::WholeColumns(int64_t part) {
  const int64_t whole = attributes().whole_columns();
  Require(whole == 0 || (whole >= part && whole <= Limits::kExtent), "whole_columns", static_cast<double>(whole),
          "0, or at least the columns of the part");
}

void StepCheck::Collectives() {
  const Kernel kernel = step_.kernel();
  Attributes({});
  if (inputs() < 1 || inputs() != outputs()) {
    return Bad("P2.kernel", "has ", inputs(), " inputs and ", outputs(),
               " outputs, takes as many of both, at least one");
  }
  const Collective& collective = step_.collective();
  const std::string fault = GroupFault(program_.mesh(), collective.group());
  if (!fault.empty()) return Bad("P8.group", fault);
  if (collective.purpose() == PURPOSE_UNSPECIFIED) Bad("P4.collective", "has no purpose");
  const std::vector<std::string>& known = options_.algorithms;
  if (collective.algorithm().empty()) {
    Bad("P10.algorithm", "names no algorithm");
  } else if (!known.empty() && std::find(known.begin(), known.end(), collective.algorithm()) == known.end()) {
    Bad("P10.algorithm", "algorithm ", Quoted(collective.algorithm()), " is unknown",
        NameHelp(collective.algorithm(), known));
  }
  const int64_t size = GroupSize(program_, collective.group());
  for (int i = 0; i < inputs(); ++i) {
    const Value &x = In(i), &y = Out(i);
    Is(x, {FP32, FP64, BF16, FP16, EXACT192});
    if (kernel == GROUP_REDUCE_SCATTER && x.dtype() != EXACT192) {
      Is(y, {FP32, FP64, BF16, FP16, EXACT192});
    } else {
      Is(y, {x.dtype()});
    }
    // Both below 2^50, size at most 2^20.
    const int64_t from = *ElementCount(x.shape()), to = *ElementCount(y.shape());
    const int64_t gathers = kernel == GROUP_ALL_GATHER ? size : 1, scatters = kernel == GROUP_REDUCE_SCATTER ? size : 1;
    if (to % gathers != 0 || from % scatters != 0 || to / gathers != from / scatters) {
      Bad("P4.shape", "of ", size, " members, ", Text(x), " and ", Text(y),
          kernel == GROUP_ALL_REDUCE   ? " must have as many elements"
          : kernel == GROUP_ALL_GATHER ? ": the second must have as many elements as the group has members times those "
                                         "of the first"
                                       : ": the first must have as many elements as the group has members times those "
                                         "of the second");
    }
  }
}

void StepCheck::CrossEntropyParts() {
  const A& a = attributes();
  const bool partial = step_.kernel() == CROSS_ENTROPY_PARTIAL;
  if (partial) {
    Attributes({A::kVocabularyFieldNumber, A::kColumnShiftFieldNumber});
    if (!Arity(2, 2, 1, 1)) return;
    Floating(In(0));
    Is(In(1), {INT32});
    Wide(Out(0));
    if (!Rank(In(0), 2)) return;
    const int64_t rows = In(0).shape(0), columns = Largest(a.column_shift(), "column_shift") + In(0).shape(1);
    Shape(In(1), {rows});
    Shape(Out(0), {rows, 2});
    Require(a.vocabulary() == program_.vocabulary() && a.vocabulary() <= columns, "vocabulary",
            static_cast<double>(a.vocabulary()), "the program's, and at most the columns of all parts");
    return;
  }
  Attributes({A::kLossWeightFieldNumber, A::kMicrobatchOffsetFieldNumber, A::kOfBackwardFieldNumber});
  if (!Arity(2, 2, 2, 2)) return;
  Wide(In(0));
  Is(In(1), {INT32});
  Wide(Out(0));
  Is(Out(1), {FP64});
  if (!Rank(In(0), 2) || !Rank(In(1), 1)) return;
  const int64_t rows = In(1).shape(0);
  Shape(In(0), {In(0).shape(0), 2});
  if (In(0).shape(0) % rows != 0) Bad("P2.kernel", "value ", Text(In(0)), " must have a multiple of ", rows, " rows");
  Shape(Out(0), {rows});
  int64_t data = 1;
  for (const MeshAxis& axis : program_.mesh().axes()) {
    if (axis.name() == "data") data = axis.size();
  }
  Shape(Out(1), {program_.microbatches() * data});
  Require(a.loss_weight() >= 0, "loss_weight", a.loss_weight(), "at least 0");
}

void StepCheck::NormParts() {
  const A& a = attributes();
  const bool rms = a.root_mean_square();
  const int64_t statistics = rms ? 1 : 2;
  const auto columns = [&](const Value& v, int64_t n) { Shape(v, {n}); };
  switch (step_.kernel()) {
    case NORM_PARTIAL:
      Attributes({A::kRootMeanSquareFieldNumber});
      if (!Arity(1, 1, 1, 1)) return;
      Floating(In(0));
      Wide(Out(0));
      if (Rank(In(0), 2)) Shape(Out(0), {In(0).shape(0), statistics});
      return;
    case NORM_COMBINE: {
      Attributes({A::kEpsilonFieldNumber, A::kWholeColumnsFieldNumber, A::kRootMeanSquareFieldNumber});
      if (!Arity(1, 1, rms ? 1 : 2, rms ? 1 : 2)) return;
      Wide(In(0));
      for (int o = 0; o < outputs(); ++o) Wide(Out(o));
      if (!Rank(In(0), 2) || !Rank(Out(0), 1)) return;
      const int64_t rows = Out(0).shape(0), parts = In(0).shape(0) / rows;
      Shape(In(0), {std::max<int64_t>(1, parts) * rows, statistics});
      if (!rms) Shape(Out(1), {rows});
      Require(a.epsilon() >= 0, "epsilon", a.epsilon(), "at least 0");
      Require(a.whole_columns() >= 1 && a.whole_columns() <= Limits::kExtent &&
                  a.whole_columns() % std::max<int64_t>(1, parts) == 0,
              "whole_columns", static_cast<double>(a.whole_columns()), "a multiple of the number of parts");
      return;
    }
    case NORM_APPLY: {
      Attributes({A::kRootMeanSquareFieldNumber});
      const int in = rms ? 3 : 5;
      if (!Arity(in, in, 1, 1)) return;
      AllFloating();
      if (!Rank(In(0), 2)) return;
      const int64_t rows = In(0).shape(0), n = In(0).shape(1);
      columns(In(1), n);
      if (!rms) columns(In(2), n);
      for (int i = rms ? 2 : 3; i < in; ++i) {
        Shape(In(i), {rows});
        Wide(In(i));
      }
      SameShape(Out(0), In(0));
      return;
    }
    default: {  // NORM_BACKWARD_PARTIAL, NORM_BACKWARD_APPLY: dy, x, gamma, (mean,) rstd and maybe sums.
      const bool apply = step_.kernel() == NORM_BACKWARD_APPLY;
      if (apply) {
        Attributes({A::kWholeColumnsFieldNumber, A::kRootMeanSquareFieldNumber});
      } else {
        Attributes({A::kRootMeanSquareFieldNumber});
      }
      const int rstd = rms ? 3 : 4, in = rstd + 1 + (apply ? 1 : 0);
      if (!Arity(in, in, 1, 1)) return;
      AllFloating();
      if (!Rank(In(1), 2)) return;
      const int64_t rows = In(1).shape(0), n = In(1).shape(1);
      SameShape(In(0), In(1));
      columns(In(2), n);
      for (int i = 3; i <= rstd; ++i) {
        Shape(In(i), {rows});
        Wide(In(i));
      }
      const Value& sums = apply ? In(rstd + 1) : Out(0);
      Shape(sums, {rows, statistics});
      Wide(sums);
      if (!apply) return;
      SameShape(Out(0), In(1));
      Require(a.whole_columns() >= n && a.whole_columns() <= Limits::kExtent, "whole_columns",
              static_cast<double>(a.whole_columns()), "at least the columns of the part");
    }
  }
}

void StepCheck::SquaredNorm() {
  const A& a = attributes();
  Attributes({A::kSlotFieldNumber, A::kCountedOnceFieldNumber});
  if (!Arity(1, 1, 1, 1)) return;
  Floating(In(0));
  Is(Out(0), {FP64, EXACT192});
  if (!Rank(Out(0), 1)) return;
  Require(a.slot() >= 0 && a.slot() < Out(0).shape(0), "slot", static_cast<double>(a.slot()),
          "an element of the norms");
  std::vector<std::string> seen;
  for (const std::string& name : a.counted_once()) {
    const bool known = std::any_of(program_.mesh().axes().begin(), program_.mesh().axes().end(),
                                   [&](const MeshAxis& axis) { return axis.name() == name; });
    if (!known || std::find(seen.begin(), seen.end(), name) != seen.end()) {
      Bad("P2.attribute", "counted_once names axis '", name, "'", known ? " twice" : ", which the mesh does not have");
    }
    seen.push_back(name);
  }
}

}  // namespace weft::verify
