#include "ir/checks.h"

#include <algorithm>

#include "ir/interfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

namespace weft::ir {

namespace {

mlir::Type ElementOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType(); }

}  // namespace

std::string ShapeText(llvm::ArrayRef<int64_t> shape) {
  if (shape.empty()) return "a scalar";
  return llvm::join(llvm::map_range(shape, [](int64_t extent) { return std::to_string(extent); }), "x");
}

mlir::LogicalResult Expect(mlir::Operation* op, bool allowed, llvm::StringRef id, const llvm::Twine& message) {
  if (allowed) return mlir::success();
  return op->emitOpError() << "[" << id << "] " << message;
}

std::string NearestDivisors(int64_t extent, int64_t size) {
  int64_t below = 1, above = extent;
  for (int64_t d = 1; d <= extent / d; ++d) {
    if (extent % d != 0) continue;
    for (int64_t divisor : {d, extent / d}) {
      if (divisor < size) below = std::max(below, divisor);
      if (divisor > size) above = std::min(above, divisor);
    }
  }
  if (above <= size || above == below) return std::to_string(below);
  return std::to_string(below) + " or " + std::to_string(above);
}

mlir::LogicalResult ExpectShape(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                                llvm::ArrayRef<int64_t> shape) {
  if (!value || ShapeOf(value) == shape) return mlir::success();
  return op->emitOpError() << "[" << id << "] " << what << " must be " << ShapeText(shape) << ", got "
                           << ShapeText(ShapeOf(value));
}

mlir::LogicalResult ExpectType(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what, mlir::Value value,
                               mlir::Type type) {
  if (!value || value.getType() == type) return mlir::success();
  return op->emitOpError() << "[" << id << "] " << what << " must be of type " << type << ", got " << value.getType();
}

mlir::Type StatisticsType(mlir::Value value) {
  mlir::Type element = ElementOf(value);
  return element.isF64() ? element : mlir::Float32Type::get(value.getContext());
}

mlir::LogicalResult ExpectStatistics(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what,
                                     mlir::Value statistics, mlir::Value value) {
  mlir::Type element = ElementOf(statistics);
  if (element == StatisticsType(value)) return mlir::success();
  return op->emitOpError() << "[" << id << "] " << what << " must hold " << StatisticsType(value) << ", got "
                           << element;
}

int64_t AttentionVolume(mlir::Value out, int64_t sequence) {
  return SaturatingMultiply(SaturatingMultiply(Dim(out, 0), Dim(out, 1)), sequence);
}

// Returns twice the part that the mask hides. Query i of a sequence of S rows attends to min(i + 1, W) keys. All
// queries of the sequence together attend to W (2S - W + 1) / 2 keys. Without a window, W = S, which gives S (S + 1) /
// 2.
int64_t HiddenAttentionVolume(mlir::Value out, int64_t sequence, int64_t window) {
  const int64_t width = window > 0 && window < sequence ? window : sequence;
  const int64_t rest = sequence - width;
  // Twice the hidden pairs of a sequence are 2 S^2 - W (2S - W + 1) = S (S - 1) + (S - W) (S - W + 1). The first term
  // is S - 1 for each row. The second term is added once for each sequence.
  const int64_t causal = AttentionVolume(out, sequence - 1);
  if (rest == 0) return causal;
  const int64_t sequences = Dim(out, 0) / std::max<int64_t>(1, sequence);
  const int64_t beyond = SaturatingMultiply(SaturatingMultiply(rest, rest + 1), Dim(out, 1));
  return SaturatingAdd(causal, SaturatingMultiply(beyond, sequences));
}

mlir::LogicalResult VerifyHeads(mlir::Operation* op, llvm::StringRef id, mlir::Value q, mlir::ValueRange kv,
                                int64_t heads, int64_t kv_heads) {
  if (kv.empty()) {
    return Expect(op, kv_heads == 0, id, "kv_heads is " + llvm::Twine(kv_heads) + "; it needs k and v as operands");
  }
  if (kv.size() != 2) return op->emitOpError() << "[" << id << "] must take qkv, or q, k and v";
  if (heads <= 0 || kv_heads <= 0 || heads % kv_heads != 0 || Dim(q, 1) % heads != 0) {
    return op->emitOpError() << "[" << id << "] heads = " << heads << " must divide q's " << Dim(q, 1)
                             << " columns, and kv_heads = " << kv_heads << " must divide heads";
  }
  const int64_t columns = Dim(q, 1) / heads * kv_heads;
  if (mlir::failed(ExpectShape(op, id, "k (rows x kv_heads * head size)", kv[0], {Dim(q, 0), columns}))) {
    return mlir::failure();
  }
  return ExpectShape(op, id, "v (like k)", kv[1], {Dim(q, 0), columns});
}

mlir::LogicalResult CheckShift(mlir::Operation* op, llvm::StringRef id, llvm::StringRef what,
                               mlir::DictionaryAttr shift) {
  if (!shift) return mlir::success();
  for (mlir::NamedAttribute term : shift) {
    auto stride = mlir::dyn_cast<mlir::IntegerAttr>(term.getValue());
    if (stride && stride.getType().isSignlessInteger(64) && stride.getInt() > 0) continue;
    return op->emitOpError() << "[" << id << "] " << what
                             << " must map axes to positive strides, as in {x = 24 : i64}, "
                             << "got " << shift;
  }
  return mlir::success();
}

}  // namespace weft::ir
