// Table rows of the kernels for matrix products, convolutions and biases.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr const char* kOfSide = "in [1, 2^15]";
constexpr Few<AttributeRule, 12> kConvolution = {Try(kFromSampleExtents, Within("height", 1, kSide, kOfSide)),
                                                 Try(kFromSampleExtents, Within("width", 1, kSide, kOfSide)),
                                                 Try(3, Odd(Within("kernel_size", 1, kSide, "odd, in [1, 2^15]"))),
                                                 Try(1, Within("stride", 1, kSide, kOfSide))};
constexpr const char* kFilter = "[n,k,s,s] or, with s = 1, [n,k,1]";

constexpr KernelRow kRows[] = {
    {.kernel = MATMUL,
     .inputs = {{"a", "[m,k]^transpose_a"}, {"b", "[k,n]^transpose_b"}, Optional({"bias", "[n]"})},
     .outputs = {Acc({"y", "[m,n]"})},
     .attributes = {Any("transpose_a"), Any("transpose_b"), Any("tf32")},
     .work = WorkKind::kProduct,
     .calibrated = true,
     .rules = {{"tf32", CheckTf32}},
     .result = "op(a) op(b) + bias; a is [m,k] or [k,m] if transposed, b is [k,n] or [n,k]; *Products in TF32* below"},
    {.kernel = BIAS_GRADIENT,
     .inputs = {{"dy", "[rows,n]"}},
     .outputs = {Acc({"db", "[n]", kSum})},
     .calibrated = true,
     .result = "column sums"},
    {.kernel = BIAS_ADD,
     .inputs = {{"x", "[rows,n]"}, {"bias", "[n]"}},
     .outputs = {MayBe("x", {"y", "=x"})},
     .result = "x + bias in every row"},
    {.kernel = CONV2D,
     .inputs = {{"x", "[rows,k]"},
                ByRule(kFilter, {"weight", "[n,k,kernel_size,kernel_size]"}),
                Optional({"bias", "[n]"})},
     .outputs = {{"y", "[rows/positions*out_positions,n]"}},
     .attributes = kConvolution,
     .work = WorkKind::kConvolution,
     .rules = {{"whole_images", WholeImages}, {"filter", FilterIsSquare}},
     .result = "y at (i,j) = bias + Σ over (p,q), channel c of weight[·,c,p,q] · x at (i·stride + p - ⌊s/2⌋, j·stride "
               "+ q - ⌊s/2⌋), zeros outside; ⌈height/stride⌉ × ⌈width/stride⌉ positions"},
    {.kernel = CONV2D_BACKWARD,
     .inputs = {{"dy", "[rows/positions*out_positions,n]"},
                ByRule(kFilter, {"weight", "[n,k,kernel_size,kernel_size]"})},
     .outputs = {Acc({"dx", "@[rows,k]"})},
     .attributes = kConvolution,
     .work = WorkKind::kConvolution,
     .rules = {{"whole_images", WholeImages}, {"filter", FilterIsSquare}}},
    {.kernel = CONV2D_BACKWARD_WEIGHT,
     .inputs = {{"dy", "[rows/positions*out_positions,n]"}, {"x", "@[rows,k]"}},
     .outputs = {Acc(ByRule(kFilter, {"dweight", "[n,k,kernel_size,kernel_size]", kSum}))},
     .attributes = kConvolution,
     .work = WorkKind::kConvolution,
     .rules = {{"whole_images", WholeImages}, {"filter", FilterIsSquare}}},
};

}  // namespace

const absl::Span<const KernelRow> kProductRows = kRows;

}  // namespace weft::kernels
