// The command line of weft simulate.
#ifndef WEFT_CLI_INPUTS_SIMULATE_FLAGS_H_
#define WEFT_CLI_INPUTS_SIMULATE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "cli/common/flags.h"
#include "cli/inputs/cost_flags.h"
#include "cli/inputs/costed_program.h"
#include "simulator/what_if.h"

namespace weft {

// The values of weft simulate's command line.
struct SimulateRequest : CostRequest {
  std::vector<sim::WhatIfChanges> what_if;
  std::string format = "text";
  std::string trace;
  std::optional<double> tokens;
  bool verbose = false;
  bool require_fit = false;
};

// Declares the flags of a SimulateRequest, and checks them together.
class SimulateFlags {
 public:
  // The values go to `request`, which must outlive this object.
  explicit SimulateFlags(SimulateRequest* request);
  SimulateFlags(const SimulateFlags&) = delete;
  SimulateFlags& operator=(const SimulateFlags&) = delete;

  // Returns a UsageError if the command line cannot be understood or contradicts itself. With --help, checks nothing.
  absl::Status Parse(absl::Span<const std::string> args);

  bool help_wanted() const { return flags_.help_wanted(); }
  std::string Help() const { return flags_.Help(); }

 private:
  void AddOutputFlags();
  absl::Status CheckInput() const;

  SimulateRequest* request_;
  Flags flags_;
  std::optional<CostFlags> cost_flags_;
  int64_t repetitions_ = 1;
  bool goodput_ = false;
  sim::GoodputOptions goodput_options_;
};

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_SIMULATE_FLAGS_H_
