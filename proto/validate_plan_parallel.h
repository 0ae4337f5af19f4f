// Plan fields that cut one microbatch or one copy of the model over ranks: mesh axes x, y, z, sequence parallelism,
// ZeRO, and what goes with them (overlap, offload).
#ifndef WEFT_PROTO_VALIDATE_PLAN_PARALLEL_H_
#define WEFT_PROTO_VALIDATE_PLAN_PARALLEL_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"

namespace weft {

// Ranges, and how these fields agree with the mesh, which is valid.
absl::Status ValidateParallelism(const Plan& plan);

// A field that the contract has and nothing builds yet. Who builds it deletes its line of the table.
struct UnbuiltField {
  const char* field;    // With its value: "plan.zero.stage = 1".
  const char* instead;  // What works.
  bool (*given)(const Plan& plan);
  const char* example;  // Text proto of a plan that has it, for the test.
};
absl::Span<const UnbuiltField> UnbuiltFields();

// Refuses the first of them that the plan gives.
absl::Status RefuseUnbuilt(const Plan& plan);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_PLAN_PARALLEL_H_
