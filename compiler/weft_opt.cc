// A tool for tests of passes: reads IR, runs passes, and prints IR.
//
//   weft-opt --weft-partition-stages=stages=2 --weft-build-segments model.mlir
#include "compiler/passes/passes.h"
#include "compiler/rank/rank_passes.h"
#include "ir/rank_ops.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  registry.insert<weft::ir::WeftDialect>();
  weft::registerWeftGraphPasses();
  weft::registerWeftRankPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "weft optimizer driver\n", registry));
}
