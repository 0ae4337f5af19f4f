// Table rows of the norm kernels: norms over rows and over groups of columns, with all columns on one rank or with
// columns that are split over ranks.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr AttributeRule kEpsilon = Try(1e-5, From("epsilon", 0, "at least 0"));
constexpr AttributeRule kGroups = Try(kFromSampleExtents, Divides("groups", "d", "a divisor of the columns"));
constexpr AttributeRule kSequence = Divides("sequence", "rows", "a divisor of the rows");
constexpr OperandSpec kMean = {"mean", "[rows]", kStatistics}, kRstd = {"rstd", "[rows]", kStatistics};
constexpr OperandSpec kGroupMean = {"mean", "[rows/sequence,groups]", kStatistics},
                      kGroupRstd = {"rstd", "[rows/sequence,groups]", kStatistics};
constexpr OperandSpec kPartMean = Unless("root_mean_square", kMean);

constexpr KernelRow kRows[] = {
    {.kernel = LAYER_NORM,
     .inputs = {{"x", "[rows,d]"}, {"gamma", "[d]"}, {"beta", "[d]"}},
     .outputs = {{"y", "[rows,d]"}, kMean, kRstd},
     .attributes = {kEpsilon},
     .calibrated = true,
     .result = "y = (x - mean)·rstd·gamma + beta, rstd = 1/√(variance + epsilon), with the biased variance of the row; "
               "mean and rstd are FP32 or FP64"},
    {.kernel = LAYER_NORM_BACKWARD,
     .inputs = {{"dy", "[rows,d]"}, {"x", "@[rows,d]"}, {"gamma", "[d]"}, kMean, kRstd},
     .outputs = {Acc({"dx", "[rows,d]"})},
     .attributes = {Any("epsilon")},
     .calibrated = true},
    {.kernel = LAYER_NORM_BACKWARD_WEIGHT,
     .inputs = {{"dy", "[rows,d]"}, {"x", "@[rows,d]"}, kMean, kRstd},
     .outputs = {Acc({"dgamma", "[d]", kSum}), Acc({"dbeta", "[d]", kSum})},
     .attributes = {Any("epsilon")},
     .calibrated = true,
     .result = "`accumulate` applies to both"},
    {.kernel = RMS_NORM,
     .inputs = {{"x", "[rows,d]"}, {"gamma", "[d]"}},
     .outputs = {{"y", "[rows,d]"}, kRstd},
     .attributes = {kEpsilon},
     .calibrated = true,
     .result = "y = x·rstd·gamma, rstd = 1/√(mean(x²) + epsilon); rstd is FP32 or FP64"},
    {.kernel = RMS_NORM_BACKWARD,
     .inputs = {{"dy", "[rows,d]"}, {"x", "@[rows,d]"}, {"gamma", "[d]"}, kRstd},
     .outputs = {Acc({"dx", "[rows,d]"})},
     .calibrated = true},
    {.kernel = RMS_NORM_BACKWARD_WEIGHT,
     .inputs = {{"dy", "[rows,d]"}, {"x", "@[rows,d]"}, kRstd},
     .outputs = {Acc({"dgamma", "[d]", kSum})},
     .calibrated = true},
    {.kernel = GROUP_NORM,
     .inputs = {{"x", "[rows,d]"}, {"gamma", "[d]"}, {"beta", "[d]"}},
     .outputs = {{"y", "=x"}, kGroupMean, kGroupRstd},
     .attributes = {kGroups, kSequence, kEpsilon},
     .result = "as LAYER_NORM, with the mean and the biased variance of each run of d/groups columns over all rows of "
               "a sample"},
    {.kernel = GROUP_NORM_BACKWARD,
     .inputs = {{"dy", "=x"}, {"x", "@[rows,d]"}, {"gamma", "[d]"}, kGroupMean, kGroupRstd},
     .outputs = {Acc({"dx", "=x"})},
     .attributes = {kGroups, kSequence}},
    {.kernel = GROUP_NORM_BACKWARD_WEIGHT,
     .inputs = {{"dy", "=x"}, {"x", "@[rows,d]"}, kGroupMean, kGroupRstd},
     .outputs = {Acc({"dgamma", "[d]", kSum}), Acc({"dbeta", "[d]", kSum})},
     .attributes = {kGroups, kSequence},
     .result = "`accumulate` applies to both"},
    {.kernel = NORM_PARTIAL,
     .inputs = {{"x", "[rows,n]"}},
     .outputs = {{"partial", "[rows,statistics]", kStatistics}},
     .attributes = {Any("root_mean_square")},
     .result =
         "the mean of a row and the sum of squared differences from it; with root_mean_square the sum of squares"},
    {.kernel = NORM_COMBINE,
     .inputs = {{"partials", "[parts*rows,statistics]", kStatistics}},
     .outputs = {Unless("root_mean_square", {"mean", "@[rows]", kStatistics}), {"rstd", "@[rows]", kStatistics}},
     .attributes = {kEpsilon,
                    Try(kFromSampleExtents,
                        Related(Within("whole_columns", 1, kExtent, "a multiple of the number of parts"), kMultipleOf,
                                "parts")),
                    Any("root_mean_square")},
     .result = "mean and rstd of whole rows, from the results of NORM_PARTIAL for their g equal parts, in order; with "
               "root_mean_square only rstd"},
    {.kernel = NORM_APPLY,
     .inputs = {{"x", "[rows,n]"}, {"gamma", "[n]"}, Unless("root_mean_square", {"beta", "[n]"}), kPartMean, kRstd},
     .outputs = {{"y", "=x"}},
     .attributes = {Any("root_mean_square")},
     .result = "(x - mean)·rstd·gamma + beta; with root_mean_square x·rstd·gamma"},
    {.kernel = NORM_BACKWARD_PARTIAL,
     .inputs = {{"dy", "=x"}, {"x", "@[rows,n]"}, {"gamma", "[n]"}, kPartMean, kRstd},
     .outputs = {{"sums", "[rows,statistics]", kStatistics}},
     .attributes = {Any("root_mean_square")},
     .result = "Σ dy·gamma and Σ dy·gamma·x̂ of a row, x̂ = (x - mean)·rstd; with root_mean_square only the second, "
               "x̂ = x·rstd"},
    {.kernel = NORM_BACKWARD_APPLY,
     .inputs = {{"dy", "=x"},
                {"x", "@[rows,n]"},
                {"gamma", "[n]"},
                kPartMean,
                kRstd,
                {"sums", "[rows,statistics]", kStatistics}},
     .outputs = {Acc({"dx", "=x"})},
     .attributes = {Try(kFromSampleExtents,
                        Related(Within("whole_columns", 1, kExtent, "at least the columns of the part"), kAtLeast,
                                "n")),
                    Any("root_mean_square")},
     .result = "as the norm's own backward, from the sums over whole rows"},
};

}  // namespace

const absl::Span<const KernelRow> kNormRows = kRows;

}  // namespace weft::kernels
