// Chooses which layers of each stage the backward recomputes, and which of these layers are recomputed together.
#ifndef WEFT_COMPILER_BACKWARD_RECOMPUTE_GROUPS_H_
#define WEFT_COMPILER_BACKWARD_RECOMPUTE_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/backward/build_segments.h"
#include "ir/graph_ops.h"
#include "llvm/ADT/ArrayRef.h"

namespace weft {

struct RecomputeChoice {
  // none, full, selective, layers, every, interval or axonn.
  std::string mode = "none";
  // For `layers`: the layers to recompute.
  std::vector<int32_t> layers;
  // For `every`: in each stage, the first layer and then every `every`-th layer are recomputed. The layer of the loss
  // does not count.
  int32_t every = 1;
  // For `interval`: number of layers that are recomputed together, from the input of the first one.
  int32_t interval = 1;
};

// AxoNN's interval: the factor of `stage_layers` that is nearest to the square root of `all_layers`; the smaller of two
// that are equally near (Singh and Bhatele 2021, arXiv:2110.13005, sec. IV-B). 1 if the stage has no layer.
int32_t AxonnInterval(int64_t stage_layers, int64_t all_layers);

// Fills StageContent.recomputed and StageContent.recomputes_probabilities. The layer of the loss is recomputed only if
// `layers` names it. Errors are emitted at `graph`.
mlir::LogicalResult ChooseRecompute(ir::GraphOp graph, const RecomputeChoice& choice,
                                    llvm::MutableArrayRef<StageContent> stages);

}  // namespace weft

#endif  // WEFT_COMPILER_BACKWARD_RECOMPUTE_GROUPS_H_
