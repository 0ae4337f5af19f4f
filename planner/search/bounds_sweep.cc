// Compares the bounds of many random plans with simulations, and prints a summary:
//
//   bazel run -c opt //planner/search:bounds_sweep -- 1 10000
//   bazel run -c opt //planner/search:bounds_sweep -- 1 1 17
//
// The exit status is 1 if a bound is above what is simulated.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "planner/search/bounds_sweep_testing.h"

namespace weft::planner {
namespace {

void PrintQuantiles(const std::string& name, const std::vector<double>& values) {
  std::cout << absl::StrFormat("%s: median %.4f, 90 %% %.4f, 10 %% %.4f (%d)\n", name, Quantile(values, 0.5),
                               Quantile(values, 0.9), Quantile(values, 0.1), values.size());
}

int Main(absl::Span<const std::string> args) {
  std::vector<int64_t> numbers;
  bool is_valid = !args.empty() && args.size() <= 3;
  for (const std::string& arg : args) is_valid &= absl::SimpleAtoi(arg, &numbers.emplace_back()) && numbers.back() >= 0;
  if (!is_valid) {
    std::cerr
        << "usage: bounds_sweep SEED [CANDIDATES [PROBLEM]]\n"
           "Bounds and simulates 1000 random plans, or CANDIDATES of them. With PROBLEM, begins with this problem\n"
           "of the seed and prints every plan: bounds_sweep 1 1 17 repeats problem 17 of seed 1.\n";
    return 2;
  }
  SweepOptions options{.seed = static_cast<uint64_t>(numbers[0])};
  if (numbers.size() > 1) options.candidates = numbers[1];
  if (numbers.size() > 2) options.first_problem = numbers[2];
  options.verbose = numbers.size() > 2;
  const SweepResult result = SweepBounds(options);
  for (const std::string& line : result.lines) std::cout << line << "\n";
  for (const std::string& violation : result.violations) std::cout << "VIOLATION " << violation << "\n";
  std::cout << absl::StrFormat(
      "%d problems (%d refused), %d plans without a bound, %d candidates: %d simulated, %d unfit, "
      "%d refused\n",
      result.problems, result.refused_problems, result.refused_bounds, result.candidates, result.simulated,
      result.unfit, result.refused);
  for (const auto& [reason, count] : result.refusals) std::cout << "  refused " << count << ": " << reason << "\n";
  PrintQuantiles("|estimate error|", result.estimate_errors);
  PrintQuantiles("gap of bounds", result.bound_gaps);
  PrintQuantiles("gap of bytes", result.memory_gaps);
  PrintQuantiles("Spearman", result.spearman);
  std::cout << result.violations.size() << " violations\n";
  return result.violations.empty() ? 0 : 1;
}

}  // namespace
}  // namespace weft::planner

int main(int argc, char** argv) { return weft::planner::Main(std::vector<std::string>(argv + 1, argv + argc)); }
