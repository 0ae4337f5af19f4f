// The axes of the mesh over which the ops of a model are split (docs/tensor_parallelism.md).
#ifndef WEFT_IR_TENSOR_PARALLEL_H_
#define WEFT_IR_TENSOR_PARALLEL_H_

#include <cstdint>
#include <string>

#include "llvm/ADT/StringRef.h"

namespace weft::ir {

enum class ShardAxis : int8_t { kX, kY, kZ };
llvm::StringRef NameOf(ShardAxis axis);
// Returns the other axis of x and y.
inline ShardAxis OtherAxis(ShardAxis axis) { return axis == ShardAxis::kX ? ShardAxis::kY : ShardAxis::kX; }

// Sizes of the axes, and settings for the collectives in segments.
struct TensorParallel {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
  // Splits rows over x between tensor-parallel products. Has an effect only if x > 1. Requires y = 1.
  bool sequence_parallel = false;
  std::string algorithm = "ring";
  // Rows of a sequence.
  int64_t sequence = 0;

  int64_t size(ShardAxis axis) const { return axis == ShardAxis::kX ? x : axis == ShardAxis::kY ? y : z; }
};

}  // namespace weft::ir

#endif  // WEFT_IR_TENSOR_PARALLEL_H_
