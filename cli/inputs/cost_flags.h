// The flags that choose how a program is costed, shared by all commands that simulate.
#ifndef WEFT_CLI_INPUTS_COST_FLAGS_H_
#define WEFT_CLI_INPUTS_COST_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cli/common/flags.h"
#include "cli/inputs/costed_program.h"

namespace weft {

class CostFlags {
 public:
  // Adds --network, --cost and its times, --runtime, --runs, --seed, --fold and --exceeded. Their values go to
  // `request`. `flags` and `request` must outlive this object.
  CostFlags(Flags* flags, CostRequest* request);
  CostFlags(const CostFlags&) = delete;
  CostFlags& operator=(const CostFlags&) = delete;

  // Call this after the flags are parsed. Returns a UsageError if they contradict each other.
  absl::Status Finish();

 private:
  absl::Status SetUnitCosts();

  Flags* flags_;
  CostRequest* request_;
  std::string fold_ = "auto";
  // Nanoseconds, which are thousandths of the flags' microseconds.
  int64_t forward_ns_, backward_ns_, weight_ns_, pair_ns_;
};

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_COST_FLAGS_H_
