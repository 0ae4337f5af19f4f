// Evaluates a candidate plan: compiles it and finds the memory that each rank needs and the time of an iteration.
#ifndef WEFT_PLANNER_EVALUATE_H_
#define WEFT_PLANNER_EVALUATE_H_

#include <cstdint>
#include <limits>
#include <optional>
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

// A plan to evaluate. The caller must keep everything that it refers to alive.
struct Candidate {
  // The plan and the other inputs. The plan must leave no choice open for the compiler (compiler/compile.h).
  const PlanInputs& inputs;
  // Durations of steps, as CostsOf(inputs) returns them. If null, Evaluate calls CostsOf itself.
  const StepCost* cost = nullptr;
  // If true, also compiles the evaluation program, whose arenas count too.
  bool evaluation = false;
  // If true, applies plan.post_validation.
  bool post_validate = true;
  // If true, proves and simulates the program. If false, only the program and its arenas are known.
  bool simulate = true;
  // The network model and the runtime for the simulation; null = weft's own executor.
  std::string network = "analytic";
  const Runtime* runtime = nullptr;
  // If true, also traces one iteration.
  bool trace = false;
  // If the fullest rank needs more bytes than this, the program is neither proven nor simulated.
  int64_t most_bytes = std::numeric_limits<int64_t>::max();
};

struct Evaluation {
  // The program. It is proven if the candidate was simulated. Its does_not_fit field is not set, even if it does not
  // fit.
  Program program;
  std::vector<int32_t> layers_per_stage;
  // For each pipe rank, the bytes of the fullest of its ranks: its device arena or, under a runtime, all that the
  // framework takes besides the reserve of the device.
  std::vector<int64_t> rank_bytes;
  // Whether every rank fits the device that it is placed on.
  bool fits = true;
  // Empty if the candidate was not simulated.
  SimulationReport report;
  // NotFound if no trace was asked for, ResourceExhausted if the program is too large to be traced.
  absl::StatusOr<Trace> trace = absl::NotFoundError("no trace was asked for");
  // The program whose steps the trace has, if the runtime runs another one than `program`.
  std::optional<Program> as_run = std::nullopt;
};

// Compiles, proves and simulates a candidate. Fails as the compiler, the verifier and the simulator do.
absl::StatusOr<Evaluation> Evaluate(const Candidate& candidate);

// Bytes that a rank may use on a device of the cluster; INT64_MAX if the device states no memory size.
int64_t UsableBytes(const Device& device);

// The pipe rank of the ranks of a template.
int64_t PipeRankOf(const Template& t);

// By pipe rank: bytes that each of its ranks may use on its device, at most 2^60.
absl::StatusOr<std::vector<int64_t>> UsableBytesOfPipeRanks(const PlanInputs& inputs);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_EVALUATE_H_
