// Imports a model graph as a module: one weft.tensor per parameter and one weft.graph with the forward of one
// microbatch.
//
// Activations and logits have the type precision.compute, parameters precision.params; the loss is fp64. Every dropout
// and attention op has the recipe's dropout probability. If it is 0, dropout ops are left out. Each op that may drop
// values has a site number, in model order; ops that are left out count too. Dimension 0 of a parameter with
// `vocabulary_rows` is padded to a multiple of 128 times the number of ranks that it is cut over.
//
// Weight decay applies to tensors with two or more dimensions, under SGD as under AdamW. The first override of AdamW
// whose pattern matches a tensor decides instead. A standard deviation in the recipe replaces the largest one of the
// graph, and the other normal tensors keep their ratio to it (GPT-2's residual projections are initialized smaller).
#ifndef WEFT_COMPILER_GRAPH_IMPORT_GRAPH_H_
#define WEFT_COMPILER_GRAPH_IMPORT_GRAPH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

inline constexpr int64_t kVocabularyAlignment = 128;

struct ImportOptions {
  Precision precision;
  AccumulationMode accumulation = IN_ORDER;
  // If true, the import leaves out dropout.
  bool evaluation = false;
  // Number of ranks that the vocabulary is cut over.
  int64_t vocabulary_shards = 1;
  // Iterations per repetition of an asynchronous program (rule P14); 0 = the program is synchronous.
  int32_t steps_per_repetition = 0;
  // The loss scale with its defaults resolved: dynamic if it has a growth interval, else fixed if `fixed` is not 0,
  // else none.
  LossScale loss_scale;
};

struct ImportedGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  // The model's tensors, in model order.
  std::vector<LogicalTensor> tensors;
};

// InvalidArgument names the op or parameter. `context` must have the dialect weft loaded.
absl::StatusOr<ImportedGraph> ImportGraph(mlir::MLIRContext* context, const ModelGraph& graph, const Recipe& recipe,
                                          const ImportOptions& options);

}  // namespace weft

#endif  // WEFT_COMPILER_GRAPH_IMPORT_GRAPH_H_
