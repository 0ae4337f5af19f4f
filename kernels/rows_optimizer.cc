// The end of an optimizer step: norms, the loss scale, updates.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr OperandSpec kNorm = Scalar({"norm", "[2]", kFp64}), kScale = Scalar({"scale", "[3]", kFp64});
constexpr OperandSpec kParam = Optional({"param", "=grad"});
// The bounds that plans have too. With a smaller or larger factor, gradients are zeros or infinities in any type.
constexpr double kLeastLossScale = 0x1p-60, kLargestLossScale = 0x1p60;
constexpr AttributeRule kDecay = From("weight_decay", 0, "at least 0");

constexpr OperandSpec State(const char* name) { return {name, "=grad", kSum}; }

constexpr KernelRow kRows[] = {
    {.kernel = SQUARED_NORM,
     .inputs = {{"x", "...", kSum}},
     .outputs = {Part({"norms", "[T]", kNorms})},
     .attributes = {Related(From("slot", 0, "an element of the norms"), kBelow, "T"), Any("counted_once")},
     .calibrated = true,
     .rules = {{"counted_once", AxesAreCountedOnce, true}}},
    {.kernel = NORM_TOTAL,
     .inputs = {{"norms", "[T]", kNorms}, Optional(kScale)},
     .outputs = {{"norm", "[2]", kFp64}},
     .attributes = {Try(1, From("clip_norm", 0, "at least 0")),
                    OrZero(Within("loss_scale", kLeastLossScale, kLargestLossScale, "0 or from 2^-60 to 2^60")),
                    OrZero(Holds("loss_scale", NoScaleBesideInput, "0 with the input scale"))},
     .calibrated = true},
    {.kernel = UPDATE_LOSS_SCALE,
     .inputs = {kNorm, kScale},
     .outputs = {InPlace("scale", {"scale", "[3]", kFp64})},
     .attributes = {Try(1024, Within("loss_scale", 1, kLargestLossScale,
                                     "from 1 to 2^60, as all values of a dynamic scale are")),
                    Try(2000, From("growth_interval", 1, "at least 1"))}},
    {.kernel = ADAMW,
     .inputs = {{"grad", "...", kSum}, State("w"), State("m"), State("v"), Optional(kNorm), Optional(kScale)},
     .outputs = {InPlace("w", State("w")), InPlace("m", State("m")), InPlace("v", State("v")), kParam},
     .attributes = {Try(0.9, Below("beta1", 1, "in [0, 1)")), Try(0.95, Below("beta2", 1, "in [0, 1)")),
                    Try(1e-8, From("epsilon", 0, "at least 0")), Try(0.1, kDecay), Any("rounding_site"),
                    Any("first_element")},
     .family = Family::kOptimizer,
     .calibrated = true,
     .rules = {{"recipe", OptimizerIsTheRecipes, true}, {"rounding", RoundingIsTheRecipes, true}}},
    {.kernel = SGD_STEP,
     .inputs =
         {{"grad", "...", kSum}, State("w"), If("momentum", State("momentum")), Optional(kNorm), Optional(kScale)},
     .outputs = {InPlace("w", State("w")), If("momentum", InPlace("momentum", State("momentum"))), kParam},
     .attributes = {From("momentum", 0, "at least 0"), kDecay, Any("rounding_site"), Any("first_element")},
     .family = Family::kOptimizer,
     .calibrated = true,
     .rules = {{"recipe", OptimizerIsTheRecipes, true}, {"rounding", RoundingIsTheRecipes, true}}},
};

}  // namespace

const absl::Span<const KernelRow> kOptimizerRows = kRows;

}  // namespace weft::kernels
