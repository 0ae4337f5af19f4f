// The class that implements import_graph.h. Only the import uses this header.
#ifndef WEFT_COMPILER_GRAPH_GRAPH_IMPORTER_H_
#define WEFT_COMPILER_GRAPH_GRAPH_IMPORTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/import_graph.h"
#include "kernels/graph_row.h"
#include "kernels/row.h"
#include "mlir/IR/Builders.h"

namespace weft {

// Imports one model graph. Its functions are in import_graph.cc (settings, tensors, the whole graph) and import_ops.cc
// (one op).
class GraphImporter {
 public:
  GraphImporter(mlir::MLIRContext* context, const ModelGraph& graph, const Recipe& recipe, const ImportOptions& options)
      : context_(context), graph_(graph), recipe_(recipe), options_(options), builder_(context) {}

  absl::StatusOr<ImportedGraph> Run();

 private:
  absl::Status CheckSettings();
  absl::Status AddTensors();
  // The following functions are in import_ops.cc.
  absl::Status AddOp(const GraphOp& op);
  absl::Status CheckCounts(const GraphOp& op, const kernels::GraphRow& row);
  absl::StatusOr<mlir::Value> Result(const GraphOp& op, const kernels::GraphRow& row);
  // Makes an op from its table rows: the row of the graph op and the row of its kernel state the operands, results and
  // attributes.
  absl::StatusOr<mlir::Value> RowOp(const GraphOp& op, const kernels::GraphRow& row);
  absl::Status AddAttributes(const GraphOp& op, const kernels::KernelRow& kernel, int64_t sequence,
                             mlir::OperationState& state);
  // Import ops that a row alone does not describe completely.
  absl::StatusOr<mlir::Value> Load(const GraphOp& op);
  absl::StatusOr<mlir::Value> Matmul(const GraphOp& op);
  absl::StatusOr<mlir::Value> Attention(const GraphOp& op);
  absl::StatusOr<mlir::Value> Rope(const GraphOp& op);
  absl::StatusOr<mlir::Value> Dropout(const GraphOp& op);
  absl::StatusOr<mlir::Value> Conv2d(const GraphOp& op);
  absl::StatusOr<mlir::Value> CrossEntropy(const GraphOp& op);
  absl::StatusOr<mlir::Value> SquaredError(const GraphOp& op);
  // Side of the square of positions that one sample has in `value`.
  absl::StatusOr<mlir::IntegerAttr> Side(mlir::Value value);

  template <typename... Parts>
  absl::Status Bad(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat("model graph: ", where_, parts...));
  }

  // Input `index` of `op`: an earlier op's output, or one more use of a parameter. It must have `rank` dimensions.
  absl::StatusOr<mlir::Value> Input(const GraphOp& op, int index, int rank);

  const GraphParameter* FindParameter(const std::string& name) const {
    auto found = parameters_.find(name);
    return found == parameters_.end() ? nullptr : &graph_.parameters(found->second);
  }

  mlir::RankedTensorType Activation(int64_t columns) { return Activation(rows_, columns); }
  mlir::RankedTensorType Activation(int64_t rows, int64_t columns) {
    return mlir::RankedTensorType::get({rows, columns}, compute_);
  }
  // Number of rows that one sample has in an activation: the tokens of a sequence, or the positions of an image at the
  // activation's resolution.
  int64_t RowsOfSample(mlir::Value value) const { return Dim(value, 0) / sequences_; }
  static int64_t Dim(mlir::Value value, unsigned index) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getDimSize(index);
  }
  mlir::Location LocationOf(const GraphOp& op) { return mlir::NameLoc::get(builder_.getStringAttr(op.name())); }
  mlir::IntegerAttr I64(int64_t value) { return builder_.getI64IntegerAttr(value); }
  mlir::FloatAttr F64(double value) { return builder_.getF64FloatAttr(value); }
  double DropoutProbability() const { return !options_.evaluation && recipe_.has_dropout() ? recipe_.dropout() : 0.0; }

  mlir::MLIRContext* context_;
  const ModelGraph& graph_;
  const Recipe& recipe_;
  const ImportOptions& options_;
  mlir::OpBuilder builder_;
  // Prefix of messages, such as "op 'h.0.mlp': ".
  std::string where_;
  // Samples per microbatch, and rows of a microbatch at full resolution.
  int64_t sequences_ = 0;
  int64_t rows_ = 0;
  int64_t batches_ = 0;
  mlir::Type compute_;
  mlir::Type params_;
  mlir::Type statistics_;
  // The vector of losses so far. Each op that writes a loss reads the current vector and returns the next one.
  mlir::Value losses_;
  std::map<std::string, mlir::Value> values_;
  std::map<std::string, int> parameters_;
  std::vector<LogicalTensor> tensors_;
  int32_t sites_ = 0;
  // Trace name and layer of the op that is being imported.
  std::string name_;
  int32_t layer_ = 0;
};

}  // namespace weft

#endif  // WEFT_COMPILER_GRAPH_GRAPH_IMPORTER_H_
