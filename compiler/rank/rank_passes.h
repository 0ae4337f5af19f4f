// Passes of the rank level: from signatures of segments to ordered actions on planned buffers. rank_passes.td describes
// the passes. Each pass has a test in tests/lit/compiler.
#ifndef WEFT_COMPILER_RANK_RANK_PASSES_H_
#define WEFT_COMPILER_RANK_RANK_PASSES_H_

#include <memory>

#include "ir/rank_ops.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace weft {

#define GEN_PASS_DECL
#include "compiler/rank/rank_passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/rank/rank_passes.h.inc"

// Adds all rank passes, in order. `quick_arenas` is the option `quick` of weft-plan-memory.
void AddRankPasses(mlir::OpPassManager& programs, bool quick_arenas = false);

}  // namespace weft

#endif  // WEFT_COMPILER_RANK_RANK_PASSES_H_
