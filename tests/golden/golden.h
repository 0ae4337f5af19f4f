// Reads the golden files that make_gpt2_golden.py writes (README.md).
#ifndef WEFT_TESTS_GOLDEN_GOLDEN_H_
#define WEFT_TESTS_GOLDEN_GOLDEN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

// Elements [first, last) of a tensor.
struct GoldenRange {
  std::string tensor;
  int64_t first = 0;
  int64_t last = 0;
};

// Elements of tensors in row-major order, by the tensor's name.
using GoldenTensors = std::map<std::string, std::vector<double>>;

struct Golden {
  // Numbers in golden.json by name, e.g. "seed", "learning_rate", "loss_fp64".
  std::map<std::string, double> numbers;
  std::vector<double> losses_fp32, grad_norms_fp32, losses_fp64, grad_norms_fp64;
  std::vector<GoldenRange> zero_gradients;
  GoldenTensors initial, gradients, final;
};

absl::StatusOr<Golden> LoadGolden(const std::string& folder);

// One case that make_pipedream_golden.py writes.
struct DelayedGolden {
  std::map<std::string, double> numbers;
  std::vector<double> losses;
  GoldenTensors final;
};

// `name` is for example "pipedream_2bw_4".
absl::StatusOr<DelayedGolden> LoadDelayedGolden(const std::string& folder, const std::string& name);

// ||a - b|| / ||b|| over the elements of this tensor that are in no range of `left_out`.
double RelativeDistance(const std::string& tensor, const std::vector<double>& a, const std::vector<double>& b,
                        const std::vector<GoldenRange>& left_out);

}  // namespace weft

#endif  // WEFT_TESTS_GOLDEN_GOLDEN_H_
