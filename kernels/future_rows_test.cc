// Shows that rows can describe kernels that are planned but do not exist yet: routing of tokens to experts, and
// products of 8-bit floats. The test is that these rows compile. program.proto lacks their kernels and attributes, so
// WEFT_LATER defines stand-ins.
#include <gtest/gtest.h>

#include <iterator>

#include "kernels/row.h"

namespace weft::kernels {
namespace {

using enum Types;
using enum Relation;

constexpr Kernel kLater = KERNEL_UNSPECIFIED;  // ROUTE, ROUTE_BACKWARD, PERMUTE, UNPERMUTE, GROUPED_MATMUL, ...
constexpr AttributeRule kTopK =
    Related(Within("top_k", 1, kExtent, "at least 1 and at most the experts"), kAtMost, "E");
constexpr OperandSpec kExpertsOf = Int32(Ints::kExperts, {"experts", "[rows,top_k]"});
constexpr OperandSpec kCountsOf = Int32(Ints::kCounts, {"counts", "[E]"});
constexpr OperandSpec kPlacesOf = Int32(Ints::kPlaces, {"places", "[rows,top_k]"});

constexpr KernelRow kRows[] = {
    // ROUTE: for each row, the top_k columns by score and their weights; for each expert, how many rows it gets.
    {.kernel = kLater,
     .inputs = {{"logits", "[rows,E]"}},
     .outputs = {{"weights", "[rows,top_k]", kStatistics}, kExpertsOf, kCountsOf},
     .attributes = {kTopK, Any("sigmoid"), Any("normalize")}},
    // ROUTE_BACKWARD: the derivative of ROUTE.
    {.kernel = kLater,
     .inputs = {{"dweights", "[rows,top_k]", kStatistics}, {"logits", "@[rows,E]"}, kExpertsOf},
     .outputs = {Acc({"dlogits", "=logits"})},
     .attributes = {kTopK, Any("sigmoid"), Any("normalize")}},
    // PERMUTE: the rows of x sorted by expert, and ascending within each expert. The first rows of the `capacity` rows
    // are in use; the sum of `counts` is their number.
    {.kernel = kLater,
     .inputs = {{"x", "[rows,d]"},
                Int32(Ints::kExperts, {"experts", "[rows,top_k]"}),
                Int32(Ints::kCounts, {"counts", "@[E]"})},
     .outputs = {Counted("counts", {"y", "[capacity,d]"}), kPlacesOf},
     .attributes = {kTopK, Any("drop")},
     .rules = {}},  // capacity_holds_rows: if `drop` is false, capacity >= rows * top_k.
    // UNPERMUTE: the weighted sum of a row's copies, ascending in top_k. Without weights it is PERMUTE's derivative.
    {.kernel = kLater,
     .inputs = {Counted("counts", {"y", "@[capacity,d]"}), Int32(Ints::kPlaces, {"places", "[rows,top_k]"}),
                Int32(Ints::kCounts, {"counts", "[E]"}), Optional({"weights", "[rows,top_k]", kStatistics})},
     .outputs = {Acc({"x", "[rows,d]"})},
     .attributes = {Any("top_k")}},
    // UNPERMUTE_BACKWARD: dy[place] = weight dx[row]; dweights = dx[row] . y[place]. Both are 0 for a copy that was
    // dropped.
    {.kernel = kLater,
     .inputs = {{"dx", "@[rows,d]"},
                Counted("counts", {"y", "@[capacity,d]"}),
                kPlacesOf,
                kCountsOf,
                {"weights", "[rows,top_k]", kStatistics}},
     .outputs = {Counted("counts", {"dy", "=y"}), {"dweights", "=weights", kStatistics}},
     .attributes = {Any("top_k")}},
    // GROUPED_MATMUL: y[r] = a[r] op(b[e]) for the rows r of expert e. The experts' rows are adjacent. Rows beyond the
    // sum of counts are neither read nor written.
    {.kernel = kLater,
     .inputs = {Counted("counts", {"a", "[capacity,k]"}), {"b", "[E,k,n]^transpose_b"}, kCountsOf},
     .outputs = {Acc(Counted("counts", {"y", "[capacity,n]"}))},
     .attributes = {Any("transpose_b")},
     .work = WorkKind::kProduct},  // 2 capacity k n, times the load that the compiler expects.
    // GROUPED_MATMUL_BACKWARD_WEIGHT: db[e] = sum of a[r]^T dy[r] over the rows of e, ascending.
    {.kernel = kLater,
     .inputs = {Counted("counts", {"a", "[capacity,k]"}), Counted("counts", {"dy", "[capacity,n]"}), kCountsOf},
     .outputs = {Acc({"db", "[E,k,n]^transpose_b", kSum})},
     .attributes = {Any("transpose_b")},
     .work = WorkKind::kProduct},
    // QUANTIZE: x / scale rounded to fp8, with one scale per block: scale = amax of the block / largest value of the
    // type.
    {.kernel = kLater,
     .inputs = {{"x", "[rows,d]"}},
     .outputs = {{"y", "=x", kFp8}, Scalar({"scale", "[rows/a_rows,d/a_columns]", kStatistics})},
     .attributes = {Divides("a_rows", "rows", "a divisor of the rows"),
                    Divides("a_columns", "d", "a divisor of the columns")}},
    // MATMUL_FP8: op(a · a_scale) op(b · b_scale) + bias. Scales are per block (1 x 128 or 128 x 128), per row, or one
    // for the whole matrix.
    {.kernel = kLater,
     .inputs = {{"a", "[m,k]^transpose_a", kFp8},
                {"b", "[k,n]^transpose_b", kFp8},
                Scalar({"a_scale", "[m/a_rows,k/a_columns]^transpose_a", kStatistics}),
                Scalar({"b_scale", "[k/b_rows,n/b_columns]^transpose_b", kStatistics}),
                Optional({"bias", "[n]"})},
     .outputs = {Acc({"y", "[m,n]"})},
     .attributes = {Any("transpose_a"), Any("transpose_b"), Divides("a_rows", "m", "a divisor of a's rows"),
                    Divides("a_columns", "k", "a divisor of the inner extent"),
                    Divides("b_rows", "k", "a divisor of the inner extent"),
                    Divides("b_columns", "n", "a divisor of the columns")},
     .work = WorkKind::kProduct},
};

TEST(FutureRowsTest, RowsAreExpressible) {
  EXPECT_EQ(std::size(kRows), 9u);
  for (const KernelRow& row : kRows) {
    EXPECT_FALSE(row.inputs.empty());
    EXPECT_FALSE(row.outputs.empty());
  }
}

}  // namespace
}  // namespace weft::kernels
