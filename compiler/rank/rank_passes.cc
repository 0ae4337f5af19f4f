#include "compiler/rank/rank_passes.h"

namespace weft {

void AddRankPasses(mlir::OpPassManager& programs, bool quick_arenas) {
  programs.addPass(createApplySchedule());
  programs.addPass(createInsertTransfers());
  programs.addPass(createSynchronizeGradients());
  programs.addPass(createPlaceReceives());
  programs.addPass(createPlanMemory({.quick = quick_arenas}));
}

}  // namespace weft
