// Models around one op or a few, as text.
#ifndef WEFT_TESTS_E2E_DIFFERENTIATE_CASES_H_
#define WEFT_TESTS_E2E_DIFFERENTIATE_CASES_H_

#include <string>
#include <vector>

namespace weft {

struct DifferentiateCase {
  std::string name;
  // Of its parameters %p1, %p2, ...: "4x4xf64".
  std::vector<std::string> parameters;
  // Makes %y: tensor<6x4xf64> of %x: tensor<6x4xf64>, in layer 1 ({L}) to `layers` ({L2}, {L3}). With several
  // layers it has the weft.parameter ops too.
  std::string body;
  int layers = 1;
};

// Of every differentiable op.
std::vector<DifferentiateCase> DifferentiateCases();

// Values that stages further on read, in one stage per layer.
std::vector<DifferentiateCase> SkipCases();

// The model around a case: embedding, the op in a layer of its own, head, loss. Replaces L by the layer.
std::string ModelText(const DifferentiateCase& c, const std::string& accumulation);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_DIFFERENTIATE_CASES_H_
