// What verifiers of ops share. Every message begins with the id of the rule that is broken.
#ifndef WEFT_IR_CHECKS_H_
#define WEFT_IR_CHECKS_H_

#include <cstdint>
#include <string>

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace weft::ir {

// "4x8"
std::string ShapeText(llvm::ArrayRef<int64_t> shape);

// The divisors of `extent` next to `size`: "2 or 4".
std::string NearestDivisors(int64_t extent, int64_t size);

// "[id] what must be 4x8, got 4x9".
mlir::LogicalResult ExpectShape(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                                llvm::ArrayRef<int64_t> shape);

// "[id] what must be of type tensor<4xf32>, got tensor<4xbf16>"; nothing to check if `value` is null.
mlir::LogicalResult ExpectType(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                               mlir::Type type);

// The type of statistics (mean, rstd, log-sum-exp) of `value`: f64 if it is f64, else f32.
mlir::Type StatisticsType(mlir::Value value);
// "[id] what must hold f32, got bf16": `statistics` must have StatisticsType(value).
mlir::LogicalResult ExpectStatistics(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what,
                                     mlir::Value statistics, mlir::Value value);

// "[id] what must be positive and finite, got -1" if `allowed` does not hold.
mlir::LogicalResult Expect(mlir::Operation* op, bool allowed, llvm::StringRef id, const llvm::Twine& message);

// "[id] what must map axes x, y, z or data to positive strides": nothing to check if `shift` is null.
mlir::LogicalResult CheckShift(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what,
                               mlir::DictionaryAttr shift);

// Shape of a value that is a ranked tensor.
inline llvm::ArrayRef<int64_t> ShapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline int64_t Dim(mlir::Value value, unsigned index) { return ShapeOf(value)[index]; }

// rows * sequence * d of attention's output, the unit of its flops: 4 of it forward, 10 backward.
int64_t AttentionVolume(mlir::Value out, int64_t sequence);
// Twice the part of it that a causal mask hides, and a window of `window` > 0 keys.
int64_t HiddenAttentionVolume(mlir::Value out, int64_t sequence, int64_t window);

// With `kv` = k and v: `q` has `heads` heads, k and v `kv_heads` of the same size, a divisor of `heads`. Without:
// `kv_heads` is 0.
mlir::LogicalResult VerifyHeads(mlir::Operation* op, llvm::StringRef id, mlir::Value q, mlir::ValueRange kv,
                                int64_t heads, int64_t kv_heads);

}  // namespace weft::ir

#endif  // WEFT_IR_CHECKS_H_
