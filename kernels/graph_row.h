// The table of the ops of a model graph. Each row is one row of docs/model_graph.md.
#ifndef WEFT_KERNELS_GRAPH_ROW_H_
#define WEFT_KERNELS_GRAPH_ROW_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/shape.h"
#include "proto/model_graph.pb.h"
#include "proto/program.pb.h"

namespace weft::kernels {

class OpView;

// The largest side of an image or filter, and the largest stride.
inline constexpr int64_t kLargestSide = int64_t{1} << 12;
inline constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// The kind of thing that a name stands for. Activations are matrices [rows, columns].
enum class Kind : uint8_t { kTokens, kTargets, kTimes, kActivation, kLoss, kParameter };

// The kind of samples that the model must have for the op.
enum class Samples : uint8_t { kAny, kTokens, kImages };

// An operand of an op. In the `shape` of an activation, dim 0 is one of: rows (the rows of the first input), samples,
// pixels, 4*rows, out_positions; dim 1 is the number of columns. The `shape` of a parameter has all its dims.
struct GraphOperand {
  const char* name = nullptr;
  Kind kind = Kind::kActivation;
  Shape shape = {};
  bool optional = false;
  const char* expected_text = nullptr;                    // The expected shape in messages, if `shape` is not clear.
  absl::Status (*rule)(OpView& op, int input) = nullptr;  // Checks the input instead of `shape`.
  const char* doc_shape = nullptr;                        // The shape in docs/model_graph.md instead of `shape`.
};

struct GraphAttribute {
  enum class Range : uint8_t { kAny, kInt, kEven, kPositive, kNotNegative, kProbability, kFinite, kAboveOne };

  const char* name = nullptr;
  Range range = Range::kAny;
  int64_t low = 0, high = 0;
  Symbol divides = Symbol::kNone;
};

struct GraphRow {
  const char* kind = nullptr;
  Few<GraphOperand, 3> inputs = {};
  GraphOperand output = {};
  Few<GraphAttribute, 9> attributes = {};
  Samples samples = Samples::kAny;
  // The kernel of the op's step; KERNEL_UNSPECIFIED if the importer turns the op into several steps.
  Kernel kernel = KERNEL_UNSPECIFIED;
  absl::Status (*check_attributes)(const OpView& op) = nullptr;
};

absl::string_view KindName(Kind kind);
absl::Span<const GraphRow> GraphRows();
const GraphRow* FindGraphRow(absl::string_view kind);

// Checks a model graph, infers the shapes of all values, and refuses parameters and values that nothing reads.
absl::Status ValidateModelGraph(const ModelGraph& graph);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_GRAPH_ROW_H_
