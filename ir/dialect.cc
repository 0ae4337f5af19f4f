#include "ir/dialect.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

// This generated code needs the includes above.
#include "ir/dialect.cc.inc"
#include "ir/enums.cc.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/types.cc.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/attributes.cc.inc"

namespace weft::ir {

void WeftDialect::initialize() {
  registerTypesAndAttributes();
  registerStructureOps();
  registerForwardOps();
  registerBackwardOps();
  registerTransformerOps();
  registerPointwiseOps();
  registerAttentionOps();
  registerImageOps();
  registerOptimizerOps();
  registerCollectiveOps();
  registerSplitOps();
  registerRankOps();
}

void WeftDialect::registerTypesAndAttributes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/types.cc.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/attributes.cc.inc"
      >();
}

}  // namespace weft::ir
