// Models around one or a few ops, as IR text.
#ifndef WEFT_TESTS_E2E_DIFFERENTIATE_CASES_H_
#define WEFT_TESTS_E2E_DIFFERENTIATE_CASES_H_

#include <string>
#include <vector>

namespace weft {

struct DifferentiateCase {
  std::string name;
  // Types of the parameters %p1, %p2, ...: "4x4xf64".
  std::vector<std::string> parameters;
  // Computes %y: tensor<6x4xf64> from %x: tensor<6x4xf64>, in layers 1 ({L}) to `layers` ({L2}, {L3}). With several
  // layers the text also has the weft.parameter ops.
  std::string body;
  int layers = 1;
};

// Cases for every differentiable op.
std::vector<DifferentiateCase> DifferentiateCases();

// Models whose values are read by later stages than the next one, with one stage per layer.
std::vector<DifferentiateCase> SkipCases();

// The model around a case: embedding, the op in its own layer, head, loss. Replaces {L} by the layer.
std::string ModelText(const DifferentiateCase& c, const std::string& accumulation);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_DIFFERENTIATE_CASES_H_
