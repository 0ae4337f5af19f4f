// Notes for the user: on settings of a recipe or plan that are valid but have no effect, and on values that the
// compiler chose for fields that are not set.
#ifndef WEFT_COMPILER_INPUTS_PLAN_NOTES_H_
#define WEFT_COMPILER_INPUTS_PLAN_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// Adds a note for each of these: products in fp32 by default on a device that is faster in fp16, a warm-up longer than
// the training, ZeRO over one replica, a recompute interval longer than every stage, offload buckets that hold all
// states of a rank, more layers to offload than any stage has. `recipe` and `plan` are as the user gave them. `program`
// is compiled from them, with its states in host memory. `layers_per_stage` is its partition; empty if unknown.
void AddPlanNotes(const Recipe& recipe, const Plan& plan, const Program& program, const Device& device,
                  const std::vector<int32_t>& layers_per_stage, std::vector<std::string>* notes);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_PLAN_NOTES_H_
