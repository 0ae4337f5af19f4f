// Compiles a candidate plan and finds its program, the memory that each rank needs, and the time of an iteration.
#ifndef WEFT_PLANNER_EVALUATE_H_
#define WEFT_PLANNER_EVALUATE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/segments/segment_set.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/runtime.pb.h"
#include "proto/trace.pb.h"

namespace weft::planner {

// A plan to be judged. Everything in it is borrowed.
struct Candidate {
  // Leaves no choice open for the compiler (compiler/compile.h).
  const PlanInputs& inputs;
  // Durations of steps, as CostsOf(inputs) returns them; null = CostsOf is called.
  const StepCost* cost = nullptr;
  // Also compile the evaluation program, whose arenas count too.
  bool evaluation = false;
  // Apply plan.post_validation.
  bool post_validate = true;
  // Prove and simulate the program. If false, only the program and its arenas are known.
  bool simulate = true;
  // The network and the runtime that the time is for; null = weft's own executor.
  std::string network = "analytic";
  const Runtime* runtime = nullptr;
  // Also trace one iteration.
  bool trace = false;
  // If the fullest rank needs more bytes than this, the program is neither proven nor simulated.
  int64_t most_bytes = std::numeric_limits<int64_t>::max();
};

struct Evaluation {
  // Proven if the candidate was simulated. If the program does not fit, its does_not_fit field is still not set.
  Program program;
  std::vector<int32_t> layers_per_stage;
  // By pipe rank, the bytes of the fullest rank: its device arena or, under a runtime, all that the framework takes
  // besides the reserve of the device.
  std::vector<int64_t> rank_bytes;
  // Whether every rank fits the device that it is placed on.
  bool fits = true;
  // Empty if the candidate was not simulated.
  SimulationReport report;
  // NotFound if no trace was asked for, ResourceExhausted if the program is too large to be traced.
  absl::StatusOr<Trace> trace = absl::NotFoundError("no trace was asked for");
};

// Compiles, proves and simulates a candidate. Fails as the compiler, the verifier and the simulator do.
absl::StatusOr<Evaluation> Evaluate(const Candidate& candidate);

// Bytes that a rank may use on a device of the cluster; INT64_MAX if the device states no memory size.
int64_t UsableBytes(const Device& device);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_EVALUATE_H_
