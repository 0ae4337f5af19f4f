#include "kernels/rules.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/groups.h"
#include "proto/util/mesh.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"

namespace weft::kernels {

ProgramFacts::ProgramFacts(const Program& p, absl::Span<const std::string> known_algorithms)
    : program(p), algorithms(known_algorithms) {
  data = std::max<int64_t>(1, AxisSize("data"));
  samples = std::max<int64_t>(1, p.recipe().microbatch_sequences()) / std::max<int64_t>(1, AxisSize("z"));
}

int64_t ProgramFacts::AxisSize(absl::string_view name) const {
  for (const MeshAxis& axis : program.mesh().axes()) {
    if (axis.name() == name) return axis.size();
  }
  return 0;
}

int64_t StepView::RowsOfMicrobatch() const {
  int64_t rows = facts_->program.recipe().sequence_length();
  switch (row_.microbatch.rows_of_sample) {
    case Microbatch::RowsOfSample::kRecipe:
      break;
    case Microbatch::RowsOfSample::kSequence:
      rows = attributes().sequence();
      break;
    case Microbatch::RowsOfSample::kSequenceOrRecipe:
      if (attributes().sequence() > 0) rows = attributes().sequence();
      break;
    case Microbatch::RowsOfSample::kOne:
      rows = 1;
      break;
  }
  const int64_t samples = facts_->samples;
  return rows < 1 || rows > kExtent / std::max<int64_t>(1, samples) ? 0 : samples * rows;
}

void StepView::RequireWholeMicrobatches(const StepTensor& tensor) const {
  const int64_t rows = RowsOfMicrobatch();
  if (rows > 0 && tensor.shape[0] % rows == 0) return;
  Bad("P2.kernel", "value ", Text(tensor), " must have the rows of whole microbatches, a multiple of ", rows);
}

int64_t StepView::Largest(const Shift& shift, const char* name) const {
  int64_t largest = 0;
  std::vector<std::string> seen;
  for (const ShiftTerm& term : shift.terms()) {
    const int64_t size = alone() ? 1 : facts_->AxisSize(term.axis());  // Without a program, the axes are unknown.
    const bool twice = std::find(seen.begin(), seen.end(), term.axis()) != seen.end();
    seen.push_back(term.axis());
    if (size == 0 || twice || term.stride() < 1 || term.stride() > kExtent) {
      Bad("P2.shift", name, " has a term of axis '", term.axis(), "' with stride ", term.stride(),
          "; terms must name axes of the mesh, each once, with strides in [1, ", kExtent, "]");
      return 0;
    }
    largest += (size - 1) * term.stride();  // Each product is below 2^20 x 2^31.
  }
  return largest;
}

void StepView::RequireWithin(const Shift& shift, const char* name, int64_t extent, int64_t whole) const {
  const int64_t largest = Largest(shift, name);
  if (largest <= whole - extent) return;
  Bad("P2.shift", name, " is up to ", largest, ": a part of size ", extent,
      " that begins there ends beyond the whole, whose size is ", whole);
}

namespace {

void RequireWholeColumns(const StepView& s, int64_t part) {
  const int64_t whole = s.attributes().whole_columns();
  s.Require(whole == 0 || (whole >= part && whole <= kExtent), "whole_columns", whole,
            "0, or at least the columns of the part");
}

}  // namespace

bool WindowIsCausal(const StepView& s) {
  return s.attributes().window() == 0 || (s.attributes().window() > 0 && s.attributes().causal());
}

bool IsRecipeSequence(const StepView& s) {
  return s.alone() || s.attributes().sequence() == s.facts().program.recipe().sequence_length();
}

bool KvHeadsDivideHeads(const StepView& s) {
  const int64_t kv = s.attributes().kv_heads();
  return kv == 0 || (kv >= 1 && s.attributes().heads() % kv == 0);
}

bool ByHeadIsFused(const StepView& s) { return !s.attributes().qkv_by_head() || s.attributes().kv_heads() == 0; }

bool RampFitsFactor(const StepView& s) {
  const StepAttributes& a = s.attributes();
  return std::isfinite(a.ramp_low()) && std::isfinite(a.ramp_high()) &&
         (a.factor() == 0 ? a.ramp_low() == 0 && a.ramp_high() == 0 && a.ramp_positions() == 0
                          : a.ramp_low() < a.ramp_high());
}

bool NoScaleBesideInput(const StepView& s) { return s.inputs() < 2; }

void CheckTf32(const StepView& s) {
  const bool tf32 = s.attributes().tf32(), single = s.in(0).dtype == FP32 && s.in(1).dtype == FP32;
  if (s.alone()) {
    if (tf32 && !single) s.Bad("P2.attribute", "rounds to TF32, but its factors are not both stored in fp32");
    return;
  }
  const DType compute = s.facts().program.precision().compute();
  if (tf32 == (single && compute == TF32)) return;
  s.Bad("P2.attribute", tf32 ? "rounds to TF32" : "does not round to TF32", ", but its factors are ",
        DTypeName(s.in(0).dtype), " and ", DTypeName(s.in(1).dtype), ", and precision.compute is ", DTypeName(compute));
}

void TableHoldsVocabulary(const StepView& s) {
  const StepTensor& table = s.step().kernel() == EMBEDDING ? s.in(1) : s.out(0);
  // If the table is split, the parts of all ranks together must have a row for every token.
  const int64_t rows = s.Largest(s.attributes().column_shift(), "column_shift") + s[Symbol::V];
  if (rows >= s.facts().program.vocabulary()) return;
  s.Bad("P2.kernel", "table ", StepView::Text(table), " has fewer rows than the vocabulary of ",
        s.facts().program.vocabulary());
}

void PositionsFit(const StepView& s) {
  // If the rows are a part that begins at a shift, they need not be whole sequences.
  const bool shifted = s.attributes().has_row_shift();
  // Without a program, the rows of a microbatch are unknown. `all` is then 0, which every sequence divides.
  const int64_t rows = s[Symbol::rows], sequence = s.attributes().sequence();
  const int64_t all = !shifted ? rows : s.alone() ? 0 : s.RowsOfMicrobatch();
  if (shifted) s.RequireWithin(s.attributes().row_shift(), "row_shift", rows, s.alone() ? rows : all);
  s.Require(sequence >= 1 && sequence <= s[Symbol::M] && all % std::max<int64_t>(1, sequence) == 0, "sequence",
            sequence, "a divisor of the rows and at most the rows of the table");
}

void VocabularyIsThePrograms(const StepView& s) {
  const bool part = s.step().kernel() == CROSS_ENTROPY_PARTIAL;
  const int64_t columns = s.Largest(s.attributes().column_shift(), "column_shift") + s[Symbol::V];
  const int64_t vocabulary = s.attributes().vocabulary();
  // Without a program, the columns on other ranks are unknown. So if the logits are split over ranks, `vocabulary` may
  // be larger than this rank's columns.
  const bool fits = vocabulary <= columns || (s.alone() && s.attributes().has_column_shift());
  s.Require(fits && (s.alone() || vocabulary == s.facts().program.vocabulary()), "vocabulary", vocabulary,
            part ? "the program's, and at most the columns of all parts"
                 : "the program's, and at most the columns of the logits");
}

void AttentionPlace(const StepView& s) {
  const StepAttributes& a = s.attributes();
  if (a.dropout() > 0) {
    s.RequireWholeMicrobatches(s.in(s.step().kernel() == ATTENTION ? 0 : 1));
    const int64_t sequence = s.facts().program.recipe().sequence_length();
    // In a model of images, `sequence` may differ from the recipe's: levels of lower resolution have fewer positions.
    if (s.facts().program.image_size() == 0 && a.sequence() != sequence) {
      s.Bad("P2.kernel", "with dropout, sequence must be the recipe's, ", sequence, "; it is ", a.sequence());
    }
  }
  RequireWholeColumns(s, a.heads());
  s.RequireWithin(a.column_shift(), "column_shift", a.heads(), std::max(a.heads(), a.whole_columns()));
}

void DropoutPlace(const StepView& s) {
  const StepAttributes& a = s.attributes();
  const bool shifted = a.has_row_shift();
  const StepTensor& x = s.in(0);
  const int64_t rows = s[Symbol::rows], sequence = a.sequence();
  const int64_t image = s.alone() ? 0 : s.facts().program.image_size();
  if (a.heads() != 0) {
    s.Require(!shifted, "row_shift", 1, "absent with heads: they have whole sequences");
    s.Require(sequence >= 1 && sequence <= kExtent && rows % std::max<int64_t>(1, sequence) == 0, "sequence", sequence,
              "a divisor of the rows");
    s.Require(a.heads() >= 1 && a.heads() <= kExtent, "heads", a.heads(), "at least 1");
    if (!s.ok()) return;
    s.RequireShape(x, {rows, a.heads() * sequence});
    if (!s.ok() || s.alone()) return;
    s.Require(image > 0 || sequence == s.facts().program.recipe().sequence_length(), "sequence", sequence,
              "the recipe's sequence_length, because heads is set");
  } else if (s.alone()) {
    return s.Require(sequence >= 0, "sequence", sequence, "at least 0");
  } else if (image > 0 && !shifted) {
    // RequireWholeMicrobatches below checks that `sequence` fits the rows.
    s.Require(sequence >= 1, "sequence", sequence, "the rows of one sample at the step's level");
  } else {
    s.Require(shifted ? sequence >= 1 && s.RowsOfMicrobatch() % std::max<int64_t>(1, sequence) == 0 : sequence == 0,
              "sequence", sequence,
              "0 unless row_shift is set or the model is of images; with row_shift a divisor of the rows of the rank's "
              "samples");
  }
  // With heads, the columns of a part are counted in heads.
  const int64_t columns = a.heads() != 0 ? a.heads() : s[Symbol::d];
  RequireWholeColumns(s, columns);
  s.RequireWithin(a.column_shift(), "column_shift", columns, std::max(columns, a.whole_columns()));
  // Dropout numbers the elements of each sample, so the rows must be whole microbatches, or a part that begins at a
  // shift.
  if (shifted) {
    s.RequireWithin(a.row_shift(), "row_shift", rows, s.RowsOfMicrobatch());
  } else {
    s.RequireWholeMicrobatches(x);
  }
}

void Masking(const StepView& s) {
  const StepAttributes& a = s.attributes();
  if (a.masked() == 0) {
    s.Require(a.mask_token() == 0, "mask_token", a.mask_token(), "0 where nothing is masked");
    s.Require(a.vocabulary() == 0, "vocabulary", a.vocabulary(), "0 where nothing is masked");
    return;
  }
  const int64_t sequence = s.alone() ? s[Symbol::rows] : s.facts().program.recipe().sequence_length();
  const int64_t vocabulary = s.alone() ? a.vocabulary() : s.facts().program.vocabulary();
  s.Require(a.masked() >= 1 && a.masked() <= sequence, "masked", a.masked(), "from 1 to the length of a sequence");
  s.Require(a.vocabulary() == vocabulary, "vocabulary", a.vocabulary(),
            "the program's, from which random tokens are taken");
  s.Require(a.mask_token() >= 0 && a.mask_token() < vocabulary, "mask_token", a.mask_token(), "below the vocabulary");
}

void SamplesAreImages(const StepView& s) {
  if (s.facts().program.image_size() == 0) s.Bad("P2.kernel", "loads images, but the program's samples are tokens");
}

void WholeImages(const StepView& s) {
  if (s[Symbol::rows] % s[Symbol::positions] == 0) return;
  // `x` is the operand whose shape sets the symbol `rows`.
  const Kernel kernel = s.step().kernel();
  const StepTensor& x = kernel == CONV2D || kernel == UPSAMPLE ? s.in(0)
                        : kernel == CONV2D_BACKWARD_WEIGHT     ? s.in(1)
                                                               : s.out(0);
  s.Bad("P2.kernel", "value ", StepView::Text(x), " must have the rows of whole images, a multiple of ",
        s[Symbol::positions]);
}

void FilterIsSquare(const StepView& s) {
  const StepTensor& weight = s.step().kernel() == CONV2D_BACKWARD_WEIGHT ? s.out(0) : s.in(1);
  const int64_t outputs = s[Symbol::n], channels = s[Symbol::k], side = s.attributes().kernel_size();
  if (side == 1 && weight.shape.size() == 3) return s.RequireShape(weight, {outputs, channels, 1});
  s.RequireShape(weight, {outputs, channels, side, side});
}

void CheckColumnRange(const StepView& s) {
  // The groups' blocks of rows are put side by side; `all` is the total number of columns.
  const int64_t first = s.attributes().first_column(), all = s[Symbol::blocks] * s[Symbol::d];
  s.Require(first >= 0 && first <= all - s[Symbol::n], "first_column", first,
            "such that the output's columns are among the input's");
  if (first < 0 || first > all) return;
  s.RequireWithin(s.attributes().column_shift(), "column_shift", s[Symbol::n], all - first);
}

void AxesAreCountedOnce(const StepView& s) {
  std::vector<std::string> seen;
  for (const std::string& name : s.attributes().counted_once()) {
    const bool known = s.facts().AxisSize(name) != 0;
    if (!known || std::find(seen.begin(), seen.end(), name) != seen.end()) {
      s.Bad("P2.attribute", "counted_once names axis '", name, "'",
            known ? " twice" : ", which the mesh does not have");
    }
    seen.push_back(name);
  }
}

void OptimizerIsTheRecipes(const StepView& s) {
  const StepAttributes& a = s.attributes();
  const Recipe& recipe = s.facts().program.recipe();
  const Kernel kernel = s.step().kernel();
  const auto same = [&](const char* field, double given, bool stated, double wanted) {
    if (!stated || given == wanted) return;
    s.Bad("P11.recipe", field, " is ", given, ", but recipe.", recipe.has_sgd() ? "sgd." : "adamw.", field, " is ",
          wanted);
  };
  // The weight decays that the recipe allows: 0 for vectors, the optimizer's own, and overrides for patterns of names.
  std::vector<double> decays = {0};
  if (recipe.has_sgd()) {
    if (kernel != SGD_STEP) return s.Bad("P11.recipe", "is ", Kernel_Name(kernel), ", but the recipe has sgd");
    same("momentum", a.momentum(), true, recipe.sgd().momentum());
    decays.push_back(recipe.sgd().weight_decay());
  } else if (recipe.has_adamw()) {
    if (kernel != ADAMW) return s.Bad("P11.recipe", "is ", Kernel_Name(kernel), ", but the recipe has adamw");
    same("beta1", a.beta1(), recipe.adamw().has_beta1(), recipe.adamw().beta1());
    same("beta2", a.beta2(), recipe.adamw().has_beta2(), recipe.adamw().beta2());
    same("epsilon", a.epsilon(), recipe.adamw().has_epsilon(), recipe.adamw().epsilon());
    if (!recipe.adamw().has_weight_decay()) return;
    decays.push_back(recipe.adamw().weight_decay());
    for (const DecayOverride& of_names : recipe.adamw().overrides()) decays.push_back(of_names.weight_decay());
  } else {
    return;
  }
  if (std::find(decays.begin(), decays.end(), a.weight_decay()) == decays.end()) {
    s.Bad("P11.recipe", "weight_decay is ", a.weight_decay(), ", which the recipe has for no tensor");
  }
}

// Compares the rounding with the recipe. The verifier also checks, for each action that runs the segment, that the
// tensor and its elements are right (P11.round).
void RoundingIsTheRecipes(const StepView& s) {
  const StepAttributes& a = s.attributes();
  const int states = s.step().kernel() == ADAMW ? 3 : a.momentum() != 0 ? 2 : 1;
  const DType param = s.outputs() > states ? s.out(states).dtype : DTYPE_UNSPECIFIED;
  const bool halves = param == BF16 || param == FP16, given = a.rounding_site() > 0;
  // Without a program, the recipe is unknown.
  const WeightRounding rounding = !s.alone() ? s.facts().program.recipe().weight_rounding()
                                  : given    ? STOCHASTIC
                                             : NEAREST;
  const bool wanted = rounding == STOCHASTIC && halves;
  if (wanted != given) {
    return s.Bad("P11.round", "rounding_site is ", a.rounding_site(),
                 wanted ? "; it must be positive" : "; it must be 0", ": recipe.weight_rounding is ",
                 WeightRounding_Name(rounding),
                 halves ? " and the weights that compute reads are in half precision"
                        : " and there are no weights in half precision");
  }
  if (!wanted) {
    return s.Require(a.first_element() == 0, "first_element", a.first_element(), "0 without rounding_site");
  }
  if (s.out(0).dtype != FP32) s.Bad("P2.kernel", "value ", StepView::Text(s.out(0)), " must be fp32");
  // The gradient and the states must not be fp64: with one of them in fp64, the step would compute in fp64, where no
  // rounding is stochastic.
  for (int k = 0; k <= states && k < s.inputs(); ++k) {
    if (s.in(k).dtype == FP64)
      s.Bad("P2.kernel", "value ", StepView::Text(s.in(k)), " must not be fp64 with rounding_site");
  }
  s.Require(a.first_element() >= 0, "first_element", a.first_element(), "at least 0");
}

void GroupIsSound(const StepView& s) {
  const Collective& collective = s.step().collective();
  const Program& program = s.facts().program;
  const Kernel kernel = s.step().kernel();
  const std::string fault = GroupFault(program.mesh(), collective.group());
  if (!fault.empty()) return s.Bad("P8.group", fault);
  if (collective.purpose() == PURPOSE_UNSPECIFIED) s.Bad("P4.collective", "has no purpose");
  const absl::Span<const std::string> known = s.facts().algorithms;
  if (collective.algorithm().empty()) {
    s.Bad("P10.algorithm", "names no algorithm");
  } else if (!known.empty() && std::find(known.begin(), known.end(), collective.algorithm()) == known.end()) {
    s.Bad("P10.algorithm", "algorithm ", Quoted(collective.algorithm()), " is unknown",
          NameHelp(collective.algorithm(), known));
  }
  const int64_t size = GroupSize(program.mesh(), collective.group());
  for (int i = 0; i < s.inputs(); ++i) {
    const StepTensor &x = s.in(i), &y = s.out(i);
    if (kernel != GROUP_REDUCE_SCATTER || x.dtype == EXACT192) {
      if (y.dtype != x.dtype) s.Bad("P2.kernel", "value ", StepView::Text(y), " must be ", DTypeName(x.dtype));
    }
    // The callers have checked that values lie within their operands, so ElementCount has a result.
    const int64_t from = *ElementCount(x.shape), to = *ElementCount(y.shape);
    const int64_t gathers = kernel == GROUP_ALL_GATHER ? size : 1, scatters = kernel == GROUP_REDUCE_SCATTER ? size : 1;
    if (to % gathers != 0 || from % scatters != 0 || to / gathers != from / scatters) {
      s.Bad("P4.shape", "of ", size, " members, ", StepView::Text(x), " and ", StepView::Text(y),
            kernel == GROUP_ALL_REDUCE   ? " must have the same number of elements"
            : kernel == GROUP_ALL_GATHER ? ": the second must have as many elements as the group has members times "
                                           "those of the first"
                                         : ": the first must have as many elements as the group has members times "
                                           "those of the second");
    }
  }
}

}  // namespace weft::kernels
