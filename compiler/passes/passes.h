// Passes of the graph level: from a model's forward to the segments of every stage. passes.td describes the passes.
// Each pass has a test in tests/lit/compiler.
#ifndef WEFT_COMPILER_PASSES_PASSES_H_
#define WEFT_COMPILER_PASSES_PASSES_H_

#include <memory>
#include <string>

#include "ir/graph_ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace weft {

#define GEN_PASS_DECL
#include "compiler/passes/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/passes/passes.h.inc"

}  // namespace weft

#endif  // WEFT_COMPILER_PASSES_PASSES_H_
