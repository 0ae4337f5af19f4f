// What a tiny model's training comes to under a plan, and how close that is to another plan's.
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

// Where the text to train on is; written at the first call.
std::string TinyTextPath();

// In this process, all weights collected.
absl::StatusOr<exec::RunResult> Train(const Program& program, exec::RunOptions options = {});
absl::StatusOr<exec::RunResult> Train(const TinyPlan& plan, exec::RunOptions options = {});

// Weights by tensor, as bytes.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::byte>> weights;
};

Outcome OutcomeOf(const exec::RunResult& result);

// Of Train.
absl::StatusOr<Outcome> TrainTiny(const TinyPlan& plan, exec::RunOptions options = {});

// The same for a U-Net, on images that are written at the first call.
std::string TinyImagePath();
absl::StatusOr<Outcome> TrainUnet(const UnetPlan& plan, exec::RunOptions options = {});

// Bit for bit.
void ExpectSame(const Outcome& a, const Outcome& b, const std::string& what);
// Within `tolerance` of the losses, ten times that of the norms.
void ExpectClose(const Outcome& a, const Outcome& b, const std::string& what, double tolerance = 1e-5);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_OUTCOME_H_
