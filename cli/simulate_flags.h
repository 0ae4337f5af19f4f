// The command line of weft simulate.
#ifndef WEFT_CLI_SIMULATE_FLAGS_H_
#define WEFT_CLI_SIMULATE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cli/flags.h"
#include "cli/inputs.h"
#include "simulator/simulate.h"
#include "simulator/what_if.h"

namespace weft {

// What a command line asks for.
struct SimulateRequest {
  // A program file; empty: one that is compiled from `input`.
  std::string program;
  InputFlags input;
  // Its `cost` is empty unless it was given: what is best is known once the cluster is.
  SimulateOptions options;
  std::vector<WhatIfChanges> what_if;
  // Name or file.
  std::string runtime = "weft";
  std::string format = "text";
  std::string trace;
  std::optional<double> tokens;
  bool verbose = false;
  bool require_fit = false;
};

// Flags whose values go to a SimulateRequest, and what is checked of them together.
class SimulateFlags {
 public:
  // Values go to `request`, which must outlive the flags.
  explicit SimulateFlags(SimulateRequest* request);
  SimulateFlags(const SimulateFlags&) = delete;
  SimulateFlags& operator=(const SimulateFlags&) = delete;

  // UsageError if the command line cannot be understood or contradicts itself. Nothing is checked with --help.
  absl::Status Parse(absl::Span<const std::string> args);

  bool help_wanted() const { return flags_.help_wanted(); }
  std::string Help() const { return flags_.Help(); }

 private:
  void AddCostFlags();
  void AddOutputFlags();
  absl::Status CheckInput() const;
  absl::Status SetUnitCosts();

  SimulateRequest* request_;
  Flags flags_;
  int64_t repetitions_ = 1;
  std::string fold_ = "auto";
  // Nanoseconds: thousandths of a microsecond.
  int64_t forward_ns_, backward_ns_, weight_ns_, pair_ns_;
};

}  // namespace weft

#endif  // WEFT_CLI_SIMULATE_FLAGS_H_
