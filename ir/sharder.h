// What the ops of a whole graph use to become ops on a rank's parts (docs/tensor_parallelism.md): where the parts of
// their operands are, how weights are cut, and the collectives in between. The pass weft-shard drives it.
#ifndef WEFT_IR_SHARDER_H_
#define WEFT_IR_SHARDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/graph_ops.h"
#include "ir/tensor_parallel.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::ir {

// Which part of a value a rank has. Rows are those of its coordinate on z.
struct PartLayout {
  // Layout A: columns are cut over y. Layout B: over x. Also where that axis has size 1.
  ShardAxis columns = ShardAxis::kY;
  // Columns are so many equal runs, each of which is cut.
  int64_t runs = 1;
  // Sequence parallelism: of these rows the part of the coordinate on x.
  bool rows_over_x = false;
  // Token ids and statistics of rows: all columns, whatever `columns` says.
  bool whole_columns = false;
};

// A dimension of a parameter that an axis cuts.
struct TensorCut {
  int32_t dimension = 0;
  ShardAxis axis = ShardAxis::kX;
  int64_t runs = 1;
  bool operator==(const TensorCut& other) const {
    return dimension == other.dimension && axis == other.axis && runs == other.runs;
  }
};

// How a parameter lies on the ranks.
struct TensorParts {
  mlir::RankedTensorType whole;
  // By dimension; axes of size 1 are left out.
  std::vector<TensorCut> cuts;
  // What the cuts leave.
  mlir::RankedTensorType block;
  // The block is further cut over z: the rank has a range of its elements.
  bool range_over_z = false;
  // Ranks on x compute gradients of different rows.
  bool partial_over_x = false;
  bool seen = false;

  // Of which rank, cut so many times.
  mlir::RankedTensorType range(int64_t parts) const;
};

class Sharder {
 public:
  // `tensors` are the whole types of the logical tensors, by index.
  Sharder(const TensorParallel& sizes, const std::vector<mlir::RankedTensorType>& tensors, mlir::MLIRContext* context);

  // --- For the pass ---
  // Begins with an op: what is built stands in front of it and gets its layer and, where it has none, its name.
  void Begin(mlir::Operation* op);
  void End();
  const std::vector<TensorParts>& tensors() const { return tensors_; }
  // Says of how many runs the columns of a value are to be.
  void WantRuns(mlir::Value whole, int64_t runs);

  // --- For ops ---
  mlir::OpBuilder& builder() { return builder_; }
  int64_t size(ShardAxis axis) const { return sizes_.size(axis); }
  const std::string& algorithm() const { return sizes_.algorithm; }
  int64_t sequence() const { return sizes_.sequence; }
  // Whether the values of layout A are split by rows over x instead of by columns.
  bool splits_rows() const { return sizes_.sequence_parallel && sizes_.x > 1; }
  // Layout A.
  PartLayout residual() const;
  int64_t WantedRuns(mlir::Value whole) const;

  // Whether `whole` is a parameter.
  static bool IsParameter(mlir::Value whole) { return static_cast<bool>(whole.getDefiningOp<ParameterOp>()); }
  // The part of a value that an earlier op has made, and where it is.
  mlir::Value Part(mlir::Value whole) const { return parts_.lookup(whole).first; }
  PartLayout LayoutOf(mlir::Value whole) const { return parts_.lookup(whole).second; }
  void SetPart(mlir::Value whole, mlir::Value part, PartLayout layout) { parts_[whole] = {part, layout}; }

  // Type of the part of a value of this type; the last dimension are columns, the first rows. Emits an error at the op
  // if something does not divide.
  mlir::FailureOr<mlir::RankedTensorType> PartType(mlir::RankedTensorType whole, const PartLayout& layout);
  // `extent` / size of the axis. `what` is what is counted, as in "heads".
  mlir::FailureOr<int64_t> Divide(int64_t extent, ShardAxis axis, llvm::StringRef what);

  // The part of an operand that is read by ranks of `axis` that each make a part of its gradient, with all rows of the
  // rank's z: products that read the same value share what that takes.
  mlir::Value FanOut(mlir::Value whole, ShardAxis axis);
  // Completes `partial`, a sum over `axis`, into a value of layout `to`, which may take a part of its rows.
  mlir::Value Sum(mlir::Value partial, ShardAxis axis, const PartLayout& to);
  // Whether an axis of more than one rank cuts the columns.
  bool IsCut(const PartLayout& layout) const { return !layout.whole_columns && size(layout.columns) > 1; }
  // Whether parts in these layouts are the same part.
  bool SameLayout(const PartLayout& a, const PartLayout& b) const;
  // Where the columns are cut, they must be so of this many runs.
  mlir::LogicalResult ExpectRuns(const PartLayout& layout, int64_t runs, llvm::StringRef what);

  // sharder_columns.cc. All columns of a value, from the parts of all ranks that cut them; its own part is as it was.
  mlir::FailureOr<mlir::Value> WholeColumns(mlir::Value whole);
  // The part of columns that are whole which a coordinate on `axis` has.
  mlir::FailureOr<mlir::Value> TakeColumns(mlir::Value columns, ShardAxis axis);
  // From now on the columns of the value's part are those of a coordinate on `axis`.
  mlir::LogicalResult MoveColumns(mlir::Value whole, ShardAxis axis);

  // All members' inputs one after the other, in their own dimension 0.
  mlir::Value Gather(mlir::Value part, ShardAxis axis, llvm::StringRef name);

  // The block of a parameter that the rank computes with; `cuts` are of this use, and must be those of all others.
  // `of_split_rows`: what is computed with it are rows that are split over x.
  mlir::FailureOr<mlir::Value> Parameter(mlir::Value whole, llvm::ArrayRef<TensorCut> cuts, bool of_split_rows = false);

  // Over which axis an earlier use of a parameter had this dimension cut.
  std::optional<ShardAxis> AxisOfEarlierUse(mlir::Value parameter, int32_t dimension) const;

  // What the rank has of a tensor.
  mlir::RankedTensorType PartOf(const TensorParts& tensor) const;

  // {x = stride}; null if the axis has size 1.
  mlir::DictionaryAttr Shift(ShardAxis axis, int64_t stride);
  // {x = array<i64>}
  mlir::DictionaryAttr Over(ShardAxis axis);
  // Names an op after the current one.
  template <typename Op>
  Op Named(Op made, const llvm::Twine& suffix) {
    made->setAttr(kNameAttr, builder_.getStringAttr(name_ + suffix));
    return made;
  }
  mlir::Location loc() const { return op_->getLoc(); }
  // Emits at the current op: "[shard_c1] 'h.0.attn': ".
  mlir::InFlightDiagnostic Error(llvm::StringRef id);

 private:
  TensorParallel sizes_;
  std::vector<TensorParts> tensors_;
  mlir::OpBuilder builder_;
  mlir::Operation* op_ = nullptr;
  // What stood in front of it.
  mlir::Operation* before_ = nullptr;
  std::string name_;
  llvm::DenseMap<mlir::Value, std::pair<mlir::Value, PartLayout>> parts_;
  llvm::DenseMap<mlir::Value, int64_t> wanted_runs_;
  // By value, axis and layer.
  std::map<std::tuple<void*, ShardAxis, int64_t>, mlir::Value> fans_;
};

// A norm of rows: layer_norm, or with no beta and no mean a root mean square norm. `statistics` are the results.
mlir::LogicalResult ShardNorm(Sharder& sharder, mlir::Operation* op, mlir::Value x, mlir::Value gamma, mlir::Value beta,
                              mlir::FloatAttr epsilon);

// image_sharding.cc. Over which axis the columns are cut of what a row for each sample is to be added to or to scale;
// none if it is not, or not yet, known.
std::optional<ShardAxis> ColumnsOfPartner(Sharder& sharder, mlir::Value rows_of_samples);

}  // namespace weft::ir

#endif  // WEFT_IR_SHARDER_H_
