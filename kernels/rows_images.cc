// Kernels that only models of images use, and the collectives of a segment.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr AttributeRule kSequence = Divides("sequence", "rows", "a divisor of the rows");
constexpr AttributeRule kPixels = Holds("sequence", IsRecipeSequence, "recipe.sequence_length");
constexpr AttributeRule kSteps = Try(1000, Within("diffusion_steps", 1, 1 << 20, "in [1, 2^20]"));
constexpr AttributeRule kHeight = Try(kOfSizes, Within("height", 1, kSide, "in [1, 2^15]")),
                        kWidth = Try(kOfSizes, Within("width", 1, kSide, "in [1, 2^15]"));
constexpr Microbatch kOfImages = {
    .reads = Microbatch::Reads::kYes, .rows_of_sample = Microbatch::RowsOfSample::kSequence, .whole = true};

constexpr KernelRow kRows[] = {
    {.kernel = LOAD_TIMESTEPS,
     .outputs = {Int32(Ints::kTimes, {"t", "[rows]"})},
     .attributes = {kSteps},
     .microbatch = {.reads = Microbatch::Reads::kYes, .rows_of_sample = Microbatch::RowsOfSample::kOne, .whole = true},
     .family = Family::kLoad},
    {.kernel = LOAD_NOISY_IMAGE,
     .outputs = {{"x", "[rows,channels]"}},
     .attributes = {kPixels, kSteps, Any("cosine_schedule")},
     .microbatch = kOfImages,
     .family = Family::kLoad,
     .rules = {{"images", SamplesAreImages, true}}},
    {.kernel = LOAD_NOISE,
     .outputs = {{"noise", "[rows,channels]"}},
     .attributes = {kPixels},
     .microbatch = kOfImages,
     .family = Family::kLoad,
     .rules = {{"images", SamplesAreImages, true}}},
    {.kernel = TIMESTEP_EMBEDDING,
     .inputs = {Int32(Ints::kTimes, {"t", "[rows]"})},
     .outputs = {{"y", "[rows,d]"}},
     .attributes = {Try(1, Above("timestep_scale", 0, "positive"))}},
    {.kernel = CONCAT_COLUMNS, .inputs = {{"a", "[rows,m]"}, {"b", "[rows,n]"}}, .outputs = {{"y", "[rows,m+n]"}}},
    {.kernel = SLICE_COLUMNS,
     .inputs = {Moves("[rows/blocks,n]", {"x", "[rows,d]"})},
     .outputs = {{"y", "[rows/blocks,n]"}},
     .attributes = {Any("first_column"), OrZero(Divides("groups", "rows", "0, or a divisor of the input's rows")),
                    Any("column_shift")},
     .rules = {{"columns_are_there", ColumnsAreThere}}},
    {.kernel = UPSAMPLE,
     .inputs = {{"x", "[rows,d]"}},
     .outputs = {{"y", "[4*rows,d]"}},
     .attributes = {kHeight, kWidth},
     .rules = {{"whole_images", WholeImages}}},
    {.kernel = UPSAMPLE_BACKWARD,
     .inputs = {{"dy", "[4*rows,d]"}},
     .outputs = {{"dx", "@[rows,d]"}},
     .attributes = {kHeight, kWidth},
     .rules = {{"whole_images", WholeImages}}},
    {.kernel = ADD_PER_SAMPLE,
     .inputs = {{"x", "[rows,d]"}, {"e", "[rows/sequence,d]"}},
     .outputs = {{"y", "=x"}},
     .attributes = {kSequence}},
    {.kernel = SUM_PER_SAMPLE,
     .inputs = {{"dy", "[rows,d]"}},
     .outputs = {{"de", "[rows/sequence,d]"}},
     .attributes = {kSequence}},
    {.kernel = SCALE_SHIFT,
     .inputs = {{"x", "[rows,d]"}, {"e", "[rows/sequence,2*d]"}},
     .outputs = {{"y", "=x"}},
     .attributes = {kSequence}},
    {.kernel = SCALE_SHIFT_BACKWARD,
     .inputs = {{"dy", "[rows,d]"}, {"e", "[rows/sequence,2*d]"}},
     .outputs = {{"dx", "=dy"}},
     .attributes = {kSequence}},
    {.kernel = SCALE_SHIFT_BACKWARD_SAMPLE,
     .inputs = {{"dy", "[rows,d]"}, {"x", "=dy"}},
     .outputs = {{"de", "[rows/sequence,2*d]"}},
     .attributes = {kSequence}},
    {.kernel = SQUARED_ERROR,
     .inputs = {{"prediction", "[rows,n]"}, {"target", "=prediction"}},
     .outputs = {Part({"losses", "[losses]", kFp64})},
     .attributes = {Any("sequence"), Try(1e-3, From("loss_weight", 0, "at least 0"))},
     .microbatch = {.reads = Microbatch::Reads::kYes,
                    .rows_of_sample = Microbatch::RowsOfSample::kSequence,
                    .of_input = true,
                    .whole = true},
     .family = Family::kLoss},
    {.kernel = SQUARED_ERROR_BACKWARD,
     .inputs = {{"prediction", "[rows,n]"}, {"target", "=prediction"}, Scalar(Optional({"scale", "[3]", kFp64}))},
     .outputs = {{"dprediction", "=prediction"}},
     .attributes = {Try(1e-3, From("loss_weight", 0, "at least 0"))}},
};

constexpr KernelRow kCollectives[] = {
    {.kernel = GROUP_ALL_REDUCE,
     .inputs = {Repeated({"x", "...", kFloatOrExact})},
     .outputs = {Repeated(MayBe("", {"y", "...", kFloatOrExact}))},
     .stream = Stream::kCollective,
     .family = Family::kCollective,
     .rules = {{"group", GroupIsSound, true}}},
    {.kernel = GROUP_ALL_GATHER,
     .inputs = {Repeated({"x", "...", kFloatOrExact})},
     .outputs = {Repeated({"y", "...", kFloatOrExact})},
     .stream = Stream::kCollective,
     .family = Family::kCollective,
     .rules = {{"group", GroupIsSound, true}}},
    {.kernel = GROUP_REDUCE_SCATTER,
     .inputs = {Repeated({"x", "...", kFloatOrExact})},
     .outputs = {Repeated(Acc({"y", "...", kFloatOrExact}))},
     .stream = Stream::kCollective,
     .family = Family::kCollective,
     .rules = {{"group", GroupIsSound, true}}},
};

}  // namespace

const absl::Span<const KernelRow> kImageRows = kRows;
const absl::Span<const KernelRow> kSplitRows = kCollectives;

}  // namespace weft::kernels
