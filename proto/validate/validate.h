// Checks specs before they are used: every field, and how the fields of one spec and of two specs agree.
//
// All errors are InvalidArgument and begin with the field: "recipe.lr.warmup_steps = -3 must be at least 0".
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// Fills the defaults of recipe.proto. Afterwards these fields are set: an optimizer with all its values, lr with peak
// and decay, clip_norm, microbatch_sequences, and steps. `dropout` and `init.normal` stay absent if the recipe does not
// give them, because their defaults come from the model (its config's initializer_range, or 0.02).
absl::Status ValidateAndResolve(Recipe* recipe);

// Fills the defaults of plan.proto. The defaults of `precision` depend on the device. If the device's bf16 peak is at
// least 1.5 times its fp32 peak, bf16 mixed precision is preferred, otherwise fp32. The defaults are the first
// supported combination, in this order, that agrees with the fields that are set. Afterwards `loss_scale` has `fixed`,
// or `initial` and `growth_interval`, or is absent (none). The registries of schedules and collectives check their
// names.
absl::Status ValidateAndResolve(Plan* plan, const Device& device);

// True if `status` refuses a combination of the fields of plan.precision, not a single field.
bool RefusesPrecision(const absl::Status& status);

absl::Status Validate(const Cluster& cluster);

// Returns the number of microbatches of one data replica in one optimizer step. `recipe` and `mesh` must be valid. If
// the global batch does not divide evenly, the error names the nearest batches that do.
absl::StatusOr<int64_t> MicrobatchesPerReplica(const Recipe& recipe, const Mesh& mesh);

// Checks that the model can take sequences of the recipe's length. The recipe and the graph must be valid.
absl::Status ValidateTogether(const Recipe& recipe, const ModelGraph& graph);

// Checks that the cluster has a device for each rank of the plan. The plan and the cluster must be valid.
absl::Status ValidateTogether(const Plan& plan, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_H_
