// Pipelines with uneven stages, as training runs have them. docs/synthesis.md quotes the figures of synthesis for these
// cases. They were fixed before the first measurement: do not tune them to a result.
#ifndef WEFT_SCHEDULES_SYNTHESIS_UNEVEN_CASES_TESTING_H_
#define WEFT_SCHEDULES_SYNTHESIS_UNEVEN_CASES_TESTING_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "schedules/synthesis/problem.h"

namespace weft {

struct UnevenCase {
  std::string name;
  SynthesisProblem problem;
};

// Returns 30 cases. Times are in units of about 1/1000 of an average stage's forward.
std::vector<UnevenCase> UnevenCases();

// Returns a random small problem for comparisons with exact methods: up to `ranks` ranks and `microbatches`
// microbatches, with small integer times, with and without cap, transfers and halves; one stage per rank, or two.
SynthesisProblem RandomSmallProblem(std::mt19937_64& random, int ranks, int microbatches);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_UNEVEN_CASES_TESTING_H_
