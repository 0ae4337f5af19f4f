// Kernels in which no element depends on its neighbors.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr KernelRow kRows[] = {
    {.kernel = ADD,
     .inputs = {{"a", "...", kAddend}, {"b", "=a", kAddend}},
     .outputs = {Acc(MayBe("a", {"y", "=a", kAddend}))},
     .calibrated = true},
    {.kernel = CAST,
     .inputs = {{"x", "..."}},
     .outputs = {{"y", "=x"}},
     .stream = Stream::kComputeOrCopy,
     .calibrated = true},
    {.kernel = FILL, .outputs = {{"y", "...", kFloatOrExact}}, .attributes = {Any("value")}, .calibrated = true},
    {.kernel = SCALE,
     .inputs = {Scalar({"norm", "[2]", kFp64}), {"x", "...", kSum}},
     .outputs = {MayBe("x", {"y", "=x", kSum})},
     .calibrated = true},
    {.kernel = GELU,
     .inputs = {{"x", "..."}},
     .outputs = {{"y", "=x"}},
     .attributes = {Try(1, Any("tanh_approximation"))},
     .calibrated = true,
     .pointwise = true,
     .graph_kind = "gelu"},
    {.kernel = GELU_BACKWARD,
     .inputs = {{"dy", "..."}, {"x", "=dy"}},
     .outputs = {{"dx", "=dy"}},
     .attributes = {Try(1, Any("tanh_approximation"))},
     .calibrated = true,
     .pointwise = true},
    {.kernel = SILU, .inputs = {{"x", "..."}}, .outputs = {{"y", "=x"}}, .pointwise = true, .graph_kind = "silu"},
    {.kernel = SILU_BACKWARD, .inputs = {{"dy", "..."}, {"x", "=dy"}}, .outputs = {{"dx", "=dy"}}, .pointwise = true},
    {.kernel = SWIGLU,
     .inputs = {{"gate", "..."}, {"up", "=gate"}},
     .outputs = {{"y", "=gate"}},
     .calibrated = true,
     .pointwise = true,
     .graph_kind = "swiglu"},
    {.kernel = SWIGLU_BACKWARD,
     .inputs = {{"dy", "..."}, {"gate", "=dy"}, {"up", "=dy"}},
     .outputs = {{"dgate", "=dy"}, {"dup", "=dy"}},
     .calibrated = true,
     .pointwise = true},
    {.kernel = RELU_SQUARED,
     .inputs = {{"x", "..."}},
     .outputs = {{"y", "=x"}},
     .pointwise = true,
     .graph_kind = "relu_squared",
     .result = "max(x, 0)²"},
    {.kernel = RELU_SQUARED_BACKWARD,
     .inputs = {{"dy", "..."}, {"x", "=dy"}},
     .outputs = {{"dx", "=dy"}},
     .pointwise = true,
     .result = "2 max(x, 0) dy"},
    {.kernel = EXACT_ACCUMULATE,
     .inputs = {{"x", "..."}},
     .outputs = {Adds({"acc", "=x", kExact})},
     .calibrated = true},
    {.kernel = EXACT_ROUND, .inputs = {{"acc", "...", kExact}}, .outputs = {{"y", "=acc", kSum}}, .calibrated = true},
};

}  // namespace

const absl::Span<const KernelRow> kPointwiseRows = kRows;

}  // namespace weft::kernels
