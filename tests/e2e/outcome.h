// The results of training a tiny model under a plan, and comparisons between the results of two plans.
#ifndef WEFT_TESTS_E2E_OUTCOME_H_
#define WEFT_TESTS_E2E_OUTCOME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/run/run.h"
#include "proto/program.pb.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/e2e/tiny_unet.h"

namespace weft {

// Path of the text to train on. The first call writes the file.
std::string TinyTextPath();

// Trains in this process and collects all weights.
absl::StatusOr<exec::RunResult> Train(const Program& program, exec::RunOptions options = {});
absl::StatusOr<exec::RunResult> Train(const TinyPlan& plan, exec::RunOptions options = {});

// Losses and gradient norms by iteration; weights by tensor, as bytes.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::byte>> weights;
};

Outcome OutcomeOf(const exec::RunResult& result);

// Trains as Train does and returns the outcome.
absl::StatusOr<Outcome> TrainTiny(const TinyPlan& plan, exec::RunOptions options = {});

// Path of the images on which a U-Net trains. The first call writes the file.
std::string TinyImagePath();
absl::StatusOr<Outcome> TrainUnet(const UnetPlan& plan, exec::RunOptions options = {});

// Checks that the outcomes are equal bit for bit.
void ExpectSame(const Outcome& a, const Outcome& b, const std::string& what);
// Checks that losses are within `tolerance` and norms within ten times `tolerance`.
void ExpectClose(const Outcome& a, const Outcome& b, const std::string& what, double tolerance = 1e-5);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_OUTCOME_H_
