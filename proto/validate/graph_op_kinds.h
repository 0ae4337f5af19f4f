// The kinds of ops of a model graph, as docs/model_graph.md lists them, and the values that their attributes may have.
#ifndef WEFT_PROTO_VALIDATE_GRAPH_OP_KINDS_H_
#define WEFT_PROTO_VALIDATE_GRAPH_OP_KINDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

// The largest side of images and of kernels of convolutions, and the largest stride.
inline constexpr int64_t kLargestSide = int64_t{1} << 12;

// The kinds of things that names stand for. Activations are matrices [rows, columns].
enum class Kind { kTokens, kTargets, kTimes, kMatrix, kLoss, kParameter };

absl::string_view KindName(Kind kind);

// The samples that an op needs to make sense.
enum class Samples { kAny, kTokens, kImages };

// One row of docs/model_graph.md.
struct OpKind {
  absl::string_view name;
  // Kinds of the inputs; the last `optional` of them may be left out.
  std::vector<Kind> inputs;
  int optional;
  Kind output;
  std::vector<absl::string_view> attributes;
  Samples samples = Samples::kAny;
};

const std::vector<OpKind>& OpKinds();

// Checks that attributes of `op` that its kind does not have are unset, and that the others make sense. `path` is the
// path of the op.
absl::Status CheckOpAttributes(const std::string& path, const ModelGraph& graph, const GraphOp& op, const OpKind& kind);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_GRAPH_OP_KINDS_H_
