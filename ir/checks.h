// Helpers that verifiers of ops share. Every message begins with the id of the broken rule.
#ifndef WEFT_IR_CHECKS_H_
#define WEFT_IR_CHECKS_H_

#include <cstdint>
#include <string>

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace weft::ir {

// Returns the shape as text, as in "4x8".
std::string ShapeText(llvm::ArrayRef<int64_t> shape);

// Returns the divisors of `extent` that are nearest to `size`, as text: "2 or 4".
std::string NearestDivisors(int64_t extent, int64_t size);

// Checks the shape of `value`. The error is "[id] what must be 4x8, got 4x9".
mlir::LogicalResult ExpectShape(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                                llvm::ArrayRef<int64_t> shape);

// Checks the type of `value`, if it is not null. The error is "[id] what must be of type tensor<4xf32>, got
// tensor<4xbf16>".
mlir::LogicalResult ExpectType(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                               mlir::Type type);

// The type of statistics (mean, rstd, log-sum-exp) of `value`: f64 if it is f64, else f32.
mlir::Type StatisticsType(mlir::Value value);
// Checks that `statistics` has StatisticsType(value). The error is "[id] what must hold f32, got bf16".
mlir::LogicalResult ExpectStatistics(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what,
                                     mlir::Value statistics, mlir::Value value);

// Returns the error "[id] message", such as "[id] what must be positive and finite, got -1", if `allowed` is false.
mlir::LogicalResult Expect(mlir::Operation* op, bool allowed, llvm::StringRef id, const llvm::Twine& message);

// Checks `shift`, if it is not null. The error is "[id] what must map axes to positive strides, as in {x = 24 : i64}".
mlir::LogicalResult CheckShift(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what,
                               mlir::DictionaryAttr shift);

// Shape of a value that is a ranked tensor.
inline llvm::ArrayRef<int64_t> ShapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline int64_t Dim(mlir::Value value, unsigned index) { return ShapeOf(value)[index]; }

// Returns rows * sequence * d for an output of attention with d columns. Attention takes 4 times this number of flops
// in the forward and 10 times this number in the backward.
int64_t AttentionVolume(mlir::Value out, int64_t sequence);
// Returns twice the part of AttentionVolume that a causal mask hides. If `window` > 0, the mask also hides all but the
// last `window` keys of each query.
int64_t HiddenAttentionVolume(mlir::Value out, int64_t sequence, int64_t window);

// Checks the heads of q, k and v. If `kv` holds k and v, `q` must have `heads` heads, and k and v `kv_heads` heads of
// the same size; `kv_heads` must divide `heads`. If `kv` is empty, `kv_heads` must be 0.
mlir::LogicalResult VerifyHeads(mlir::Operation* op, llvm::StringRef id, mlir::Value q, mlir::ValueRange kv,
                                int64_t heads, int64_t kv_heads);

}  // namespace weft::ir

#endif  // WEFT_IR_CHECKS_H_
