// Table rows of the kernels for models of images, of SLICE_COLUMNS, and of the collectives that are steps of a segment
// (GROUP_*).
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr AttributeRule kSequence = Divides("sequence", "rows", "a divisor of the rows");
constexpr AttributeRule kPixels = Holds("sequence", IsRecipeSequence, "recipe.sequence_length");
constexpr AttributeRule kSteps = Try(1000, Within("diffusion_steps", 1, 1 << 20, "in [1, 2^20]"));
constexpr AttributeRule kHeight = Try(kFromSampleExtents, Within("height", 1, kSide, "in [1, 2^15]")),
                        kWidth = Try(kFromSampleExtents, Within("width", 1, kSide, "in [1, 2^15]"));
constexpr Microbatch kOfImages = {
    .reads = Microbatch::Reads::kYes, .rows_of_sample = Microbatch::RowsOfSample::kSequence, .whole = true};

constexpr KernelRow kRows[] = {
    {.kernel = LOAD_TIMESTEPS,
     .outputs = {Int32(Ints::kTimes, {"t", "[rows]"})},
     .attributes = {kSteps},
     .microbatch = {.reads = Microbatch::Reads::kYes, .rows_of_sample = Microbatch::RowsOfSample::kOne, .whole = true},
     .family = Family::kLoad,
     .result = "noise level of each sample"},
    {.kernel = LOAD_NOISY_IMAGE,
     .outputs = {{"x", "[rows,channels]"}},
     .attributes = {kPixels, kSteps, Any("cosine_schedule")},
     .microbatch = kOfImages,
     .family = Family::kLoad,
     .rules = {{"images", SamplesAreImages, true}},
     .result = "√ᾱ(t)·image + √(1-ᾱ(t))·noise, in fp64, rounded once"},
    {.kernel = LOAD_NOISE,
     .outputs = {{"noise", "[rows,channels]"}},
     .attributes = {kPixels},
     .microbatch = kOfImages,
     .family = Family::kLoad,
     .rules = {{"images", SamplesAreImages, true}},
     .result = "the noise"},
    {.kernel = TIMESTEP_EMBEDDING,
     .inputs = {Int32(Ints::kTimes, {"t", "[rows]"})},
     .outputs = {{"y", "[rows,d]"}},
     .attributes = {Try(1, Above("timestep_scale", 0, "positive"))},
     .result = "with h = ⌊d/2⌋ and f(j) = 10000^(-j/h): cos(t·scale·f(j)) in column j, sin in column h + j, 0 in an "
               "odd last one; in fp64"},
    {.kernel = CONCAT_COLUMNS,
     .inputs = {{"a", "[rows,m]"}, {"b", "[rows,n]"}},
     .outputs = {{"y", "[rows,m+n]"}},
     .result = "columns of a, then of b"},
    {.kernel = SLICE_COLUMNS,
     .inputs = {Moves("[rows/blocks,n]", {"x", "[rows,d]"})},
     .outputs = {{"y", "[rows/blocks,n]"}},
     .attributes = {Any("first_column"), OrZero(Divides("groups", "rows", "0, or a divisor of the input's rows")),
                    Any("column_shift")},
     .rules = {{"columns_are_there", CheckColumnRange}},
     .result = "puts the g blocks of rows of x side by side, [rows,g·m], and takes n columns from first_column + "
               "column_shift on. An all-gather over g ranks leaves their columns as such blocks"},
    {.kernel = UPSAMPLE,
     .inputs = {{"x", "[rows,d]"}},
     .outputs = {{"y", "[4*rows,d]"}},
     .attributes = {kHeight, kWidth},
     .rules = {{"whole_images", WholeImages}},
     .result = "y at (i,j) = x at (⌊i/2⌋,⌊j/2⌋)"},
    {.kernel = UPSAMPLE_BACKWARD,
     .inputs = {{"dy", "[4*rows,d]"}},
     .outputs = {{"dx", "@[rows,d]"}},
     .attributes = {kHeight, kWidth},
     .rules = {{"whole_images", WholeImages}},
     .result = "sums of four: upper left, upper right, lower left, lower right"},
    {.kernel = ADD_PER_SAMPLE,
     .inputs = {{"x", "[rows,d]"}, {"e", "[rows/sequence,d]"}},
     .outputs = {{"y", "=x"}},
     .attributes = {kSequence},
     .result = "x + the sample's row of e"},
    {.kernel = SUM_PER_SAMPLE,
     .inputs = {{"dy", "[rows,d]"}},
     .outputs = {{"de", "[rows/sequence,d]"}},
     .attributes = {kSequence},
     .result = "sums over the rows of a sample, ascending"},
    {.kernel = SCALE_SHIFT,
     .inputs = {{"x", "[rows,d]"}, {"e", "[rows/sequence,2*d]"}},
     .outputs = {{"y", "=x"}},
     .attributes = {kSequence},
     .result = "x·(1 + e[:d]) + e[d:]"},
    {.kernel = SCALE_SHIFT_BACKWARD,
     .inputs = {{"dy", "[rows,d]"}, {"e", "[rows/sequence,2*d]"}},
     .outputs = {{"dx", "=dy"}},
     .attributes = {kSequence},
     .result = "dy·(1 + e[:d])"},
    {.kernel = SCALE_SHIFT_BACKWARD_SAMPLE,
     .inputs = {{"dy", "[rows,d]"}, {"x", "=dy"}},
     .outputs = {{"de", "[rows/sequence,2*d]"}},
     .attributes = {kSequence},
     .result = "Σ dy·x and Σ dy over the rows of a sample, ascending"},
    {.kernel = SQUARED_ERROR,
     .inputs = {{"prediction", "[rows,n]"}, {"target", "=prediction"}},
     .outputs = {Part({"losses", "[losses]", kFp64})},
     .attributes = {Any("sequence"), Try(1e-3, From("loss_weight", 0, "at least 0"))},
     .microbatch = {.reads = Microbatch::Reads::kYes,
                    .rows_of_sample = Microbatch::RowsOfSample::kSequence,
                    .of_input = true,
                    .whole = true},
     .family = Family::kLoss,
     .result = "losses[g] = loss_weight × Σ (prediction - target)², in fp64, over the columns of a row, then over "
               "rows; other elements are left as they are"},
    {.kernel = SQUARED_ERROR_BACKWARD,
     .inputs = {{"prediction", "[rows,n]"}, {"target", "=prediction"}, Scalar(Optional({"scale", "[3]", kFp64}))},
     .outputs = {{"dprediction", "=prediction"}},
     .attributes = {Try(1e-3, From("loss_weight", 0, "at least 0"))},
     .result = "2·loss_weight·(prediction - target), with `scale` as CROSS_ENTROPY_BACKWARD"},
};

constexpr KernelRow kCollectives[] = {
    {.kernel = GROUP_ALL_REDUCE,
     .inputs = {Repeated({"x", "...", kFloatOrExact})},
     .outputs = {Repeated(MayBe("", {"y", "...", kFloatOrExact}))},
     .stream = Stream::kCollective,
     .family = Family::kCollective,
     .rules = {{"group", GroupIsSound, true}},
     .result = "y = the sum of the members' x (P10)"},
    {.kernel = GROUP_ALL_GATHER,
     .inputs = {Repeated({"x", "...", kFloatOrExact})},
     .outputs = {Repeated({"y", "...", kFloatOrExact})},
     .stream = Stream::kCollective,
     .family = Family::kCollective,
     .rules = {{"group", GroupIsSound, true}},
     .result = "the members' x one after the other: y has as many elements as the group has members times those of x"},
    {.kernel = GROUP_REDUCE_SCATTER,
     .inputs = {Repeated({"x", "...", kFloatOrExact})},
     .outputs = {Repeated(Acc({"y", "...", kFloatOrExact}))},
     .stream = Stream::kCollective,
     .family = Family::kCollective,
     .rules = {{"group", GroupIsSound, true}},
     .result = "the member's own range of the sum of the members' x, whose elements are cut into equal ranges in "
               "member order; y may be of another type than x, if x is not EXACT192; `accumulate` applies to all y"},
};

}  // namespace

const absl::Span<const KernelRow> kImageRows = kRows;
const absl::Span<const KernelRow> kSplitRows = kCollectives;

}  // namespace weft::kernels
