// Cuts the layers of a model into stages if the ranks are on several kinds of devices (Cluster.other_devices).
#ifndef WEFT_COMPILER_MIXED_CUT_H_
#define WEFT_COMPILER_MIXED_CUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/rank_kinds.h"
#include "compiler/segments/segment_set.h"
#include "proto/model_graph.pb.h"

namespace weft {

// The kinds of the plan's ranks. No kinds if cluster.device alone decides the cut: if all ranks are on devices like it.
absl::StatusOr<RankKinds> MixedKindsOf(const PlanInputs& inputs);

// The costs of steps on each kind: compute steps by `inputs.cost` and the device, at its speed; collectives by the
// cluster's links. `inputs` and `kinds` must outlive the functions. Fails as CostsOf does (lower_program.h).
absl::StatusOr<std::vector<StepCost>> CostsOnKinds(const PlanInputs& inputs, const RankKinds& kinds);

// Returns the layers of each stage: those with which the slowest stage is as fast as possible, by the costs of each
// stage on the slowest device that holds it (balanced_partition.h). If the devices of several kinds have room for the
// states of all stages under some cuts, one of these wins. The room of a stage is its share of its ranks' memory
// (RoomOfStages). Its states are parameters, gradients and optimizer states, divided by x, y, z and ZeRO.
//
// `costs` are those of all layers of `model` on each kind. `inputs` may have a model with other layers.
absl::StatusOr<std::vector<int32_t>> CutOverKinds(const PlanInputs& inputs, const ModelGraph& model,
                                                  const RankKinds& kinds, std::vector<KindCosts> costs);

// Measures the layers of `inputs.model` on each kind and cuts them. Returns an empty list if the cut does not depend on
// the kinds: the plan states its partition, there is one stage, or cluster.device alone decides.
absl::StatusOr<std::vector<int32_t>> MeasureAndCutOverKinds(const PlanInputs& inputs);

}  // namespace weft

#endif  // WEFT_COMPILER_MIXED_CUT_H_
