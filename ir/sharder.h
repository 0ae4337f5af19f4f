// Turns the ops of a whole graph into ops on a rank's parts (docs/tensor_parallelism.md). The sharder knows where the
// parts of each value are, cuts the weights, and inserts collectives. The pass weft-shard calls it.
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

// The part of a value that a rank has. Rows are cut over z: the rank has the rows of its z coordinate.
struct PartLayout {
  // The axis that cuts the columns, even if its size is 1. It is y in layout A and x in layout B.
  ShardAxis columns = ShardAxis::kY;
  // The columns consist of `runs` equal runs (q, k and v, for example). Each run is cut separately.
  int64_t runs = 1;
  // True with sequence parallelism: the rows of the rank's z coordinate are cut further over x, and the rank has only
  // the part of its x coordinate.
  bool rows_over_x = false;
  // True for token ids and statistics of rows: the rank has all columns, whichever axis `columns` names.
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

// How a parameter is distributed over the ranks.
struct TensorParts {
  mlir::RankedTensorType whole;
  // The dimensions that are cut, in ascending order. Axes of size 1 are left out.
  std::vector<TensorCut> cuts;
  // The type of the part that remains after the cuts.
  mlir::RankedTensorType block;
  // True if the block is also cut over z. The rank then has a range of the block's elements.
  bool range_over_z = false;
  // True if ranks on x compute gradients of different rows.
  bool partial_over_x = false;
  bool seen = false;

  // The type of a rank's range, if the elements of the block are divided into `parts` ranges.
  mlir::RankedTensorType range(int64_t parts) const;
};

class Sharder {
 public:
  // `tensors` are the uncut types of the logical tensors, by index.
  Sharder(const TensorParallel& sizes, const std::vector<mlir::RankedTensorType>& tensors, mlir::MLIRContext* context);

  // --- Functions for the pass ---
  //
  // Makes `op` the current op. Ops that are built are inserted before it and get its layer and, if they have none, its
  // name.
  void Begin(mlir::Operation* op);
  void End();
  const std::vector<TensorParts>& tensors() const { return tensors_; }
  // Requests that the columns of a value come in `runs` runs.
  void WantRuns(mlir::Value whole, int64_t runs);

  // --- Functions for the sharding rules of ops ---
  mlir::OpBuilder& builder() { return builder_; }
  int64_t size(ShardAxis axis) const { return sizes_.size(axis); }
  const std::string& algorithm() const { return sizes_.algorithm; }
  int64_t sequence() const { return sizes_.sequence; }
  // True if the rows of values of layout A are split over x, in addition to z.
  bool splits_rows() const { return sizes_.sequence_parallel && sizes_.x > 1; }
  // Returns layout A, the layout of the residual stream.
  PartLayout residual() const;
  int64_t WantedRuns(mlir::Value whole) const;

  // True if `whole` is a parameter.
  static bool IsParameter(mlir::Value whole) { return static_cast<bool>(whole.getDefiningOp<ParameterOp>()); }
  // Part returns the rank's part of a value that an earlier op has made. LayoutOf returns the layout of this part.
  mlir::Value Part(mlir::Value whole) const { return parts_.lookup(whole).first; }
  PartLayout LayoutOf(mlir::Value whole) const { return parts_.lookup(whole).second; }
  void SetPart(mlir::Value whole, mlir::Value part, PartLayout layout) { parts_[whole] = {part, layout}; }

  // The type of a rank's part of a value of this type. The first dimension is rows, the last one columns. Emits an
  // error at the op if something does not divide.
  mlir::FailureOr<mlir::RankedTensorType> PartType(mlir::RankedTensorType whole, const PartLayout& layout);
  // Returns `extent` / size of the axis. `what` names the counted things in the error, as in "heads".
  mlir::FailureOr<int64_t> Divide(int64_t extent, ShardAxis axis, llvm::StringRef what);

  // Makes an operand available to the ranks of `axis`, with all rows of their z coordinate. In the backward, each of
  // these ranks makes a part of the operand's gradient, and a collective sums the parts. Products of a layer that read
  // the same value share this collective.
  mlir::Value FanOut(mlir::Value whole, ShardAxis axis);
  // Sums `partial` over `axis`, and returns the result in layout `to`, which may have only a part of the rows.
  mlir::Value Sum(mlir::Value partial, ShardAxis axis, const PartLayout& to);
  // True if an axis of more than one rank cuts the columns.
  bool IsCut(const PartLayout& layout) const { return !layout.whole_columns && size(layout.columns) > 1; }
  // True if both layouts give a rank the same part of a value.
  bool SameLayout(const PartLayout& a, const PartLayout& b) const;
  // Checks that the columns, if they are cut, come in `runs` runs.
  mlir::LogicalResult ExpectRuns(const PartLayout& layout, int64_t runs, llvm::StringRef what);

  // The next three functions are in sharder_columns.cc. WholeColumns gathers all columns of a value from the ranks that
  // cut them. Gradients flow back only through the rank's own part, which enters the result without passing through the
  // gather.
  mlir::FailureOr<mlir::Value> WholeColumns(mlir::Value whole);
  // Returns the part of the (whole) columns that belongs to the rank's coordinate on `axis`.
  mlir::FailureOr<mlir::Value> TakeColumns(mlir::Value columns, ShardAxis axis);
  // Replaces the rank's part of a value by a part whose columns are cut over `axis`.
  mlir::LogicalResult MoveColumns(mlir::Value whole, ShardAxis axis);

  // Gathers the parts of all members of the group, one after the other in dimension 0.
  mlir::Value Gather(mlir::Value part, ShardAxis axis, llvm::StringRef name);

  // Returns the block of a parameter that the rank computes with. `cuts` are the cuts of this use; all uses of a
  // parameter must have the same cuts. `of_split_rows` is true if the rows that are computed with the block are split
  // over x.
  mlir::FailureOr<mlir::Value> Parameter(mlir::Value whole, llvm::ArrayRef<TensorCut> cuts, bool of_split_rows = false);

  // Returns the axis over which an earlier use of a parameter cut this dimension, if there was one.
  std::optional<ShardAxis> AxisOfEarlierUse(mlir::Value parameter, int32_t dimension) const;

  // The type of the rank's part of a tensor.
  mlir::RankedTensorType PartOf(const TensorParts& tensor) const;

  // Returns {x = stride} for axis x, likewise for y and z; null if the axis has size 1.
  mlir::DictionaryAttr Shift(ShardAxis axis, int64_t stride);
  // Returns {x = array<i64>} for axis x, likewise for y and z.
  mlir::DictionaryAttr Over(ShardAxis axis);
  // Names a new op: the current op's name with `suffix`.
  template <typename Op>
  Op Named(Op made, const llvm::Twine& suffix) {
    made->setAttr(kNameAttr, builder_.getStringAttr(name_ + suffix));
    return made;
  }
  mlir::Location loc() const { return op_->getLoc(); }
  // Emits an error at the current op: "[shard_c1] 'h.0.attn': ".
  mlir::InFlightDiagnostic Error(llvm::StringRef id);

 private:
  TensorParallel sizes_;
  std::vector<TensorParts> tensors_;
  mlir::OpBuilder builder_;
  mlir::Operation* op_ = nullptr;
  // The op that preceded the current op before the sharder inserted new ops between them; null if there was none.
  mlir::Operation* before_ = nullptr;
  std::string name_;
  llvm::DenseMap<mlir::Value, std::pair<mlir::Value, PartLayout>> parts_;
  llvm::DenseMap<mlir::Value, int64_t> wanted_runs_;
  // The results of FanOut, by value, axis and layer.
  std::map<std::tuple<void*, ShardAxis, int64_t>, mlir::Value> fans_;
};

// Shards a norm over rows: layer_norm, or, if `beta` is null, a root mean square norm.
mlir::LogicalResult ShardNorm(Sharder& sharder, mlir::Operation* op, mlir::Value x, mlir::Value gamma, mlir::Value beta,
                              mlir::FloatAttr epsilon);

// Defined in image_sharding.cc. `rows_of_samples` has one row per sample; such a row is added to another value, the
// partner, or scales it. Returns the axis that cuts the partner's columns, or nothing if there is no partner or its
// columns are not cut yet.
std::optional<ShardAxis> ColumnsOfPartner(Sharder& sharder, mlir::Value rows_of_samples);

}  // namespace weft::ir

#endif  // WEFT_IR_SHARDER_H_
