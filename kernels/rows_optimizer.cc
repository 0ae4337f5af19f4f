// Table rows of the kernels at the end of an optimizer step: norms, the loss scale, updates.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr OperandSpec kNorm = Scalar({"norm", "[2]", kFp64}), kScale = Scalar({"scale", "[3]", kFp64});
constexpr OperandSpec kParam = Optional({"param", "=grad"});
// Bounds of the loss scale; plans have the same bounds. With a scale outside them, gradients in FP16 are zeros or
// infinities.
constexpr double kMinLossScale = 0x1p-60, kLargestLossScale = 0x1p60;
constexpr AttributeRule kDecay = From("weight_decay", 0, "at least 0");

constexpr OperandSpec State(const char* name) { return {name, "=grad", kSum}; }

constexpr KernelRow kRows[] = {
    {.kernel = SQUARED_NORM,
     .inputs = {{"x", "...", kSum}},
     .outputs = {Part({"norms", "[T]", kNorms})},
     .attributes = {Related(From("slot", 0, "an element of the norms"), kBelow, "T"), Any("counted_once")},
     .calibrated = true,
     .rules = {{"counted_once", AxesAreCountedOnce, true}},
     .result = "norms[slot] = Σ x² in fp64; into EXACT192 the sum of the squares, each rounded to fp64 and then to the "
               "grid; 0 on a rank whose coordinate on an axis of counted_once is not 0"},
    {.kernel = NORM_TOTAL,
     .inputs = {{"norms", "[T]", kNorms}, Optional(kScale)},
     .outputs = {{"norm", "[2]", kFp64}},
     .attributes = {Try(1, From("clip_norm", 0, "at least 0")),
                    OrZero(Within("loss_scale", kMinLossScale, kLargestLossScale, "0 or from 2^-60 to 2^60")),
                    OrZero(Holds("loss_scale", NoScaleBesideInput, "0 if the kernel has the input scale"))},
     .calibrated = true,
     .result =
         "with S = scale[0], or loss_scale (from 2^-60 to 2^60), or 1: norm[0] = √(Σ norms) / S; norm[1] = min(1, "
         "clip/(norm[0]+1e-6)) / S, 1 / S if clip_norm is 0; with `scale`, if norm[0] is not finite, norm[1] = 0"},
    {.kernel = UPDATE_LOSS_SCALE,
     .inputs = {kNorm, kScale},
     .outputs = {InPlace("scale", {"scale", "[3]", kFp64})},
     .attributes = {Try(1024, Within("loss_scale", 1, kLargestLossScale,
                                     "from 1 to 2^60, as all values of a dynamic scale are")),
                    Try(2000, From("growth_interval", 1, "at least 1"))},
     .result = "in place, from (loss_scale, 0, 0) before the first step, loss_scale from 1 to 2^60: if norm[1] is 0, "
               "scale[0] is halved (to 1 at least), scale[1] = 0 and scale[2] grows by 1; otherwise scale[1] grows by "
               "1, and when it has reached growth_interval scale[0] is doubled (to 2^60 at most) and scale[1] = 0"},
    {.kernel = ADAMW,
     .inputs = {{"grad", "...", kSum}, State("w"), State("m"), State("v"), Optional(kNorm), Optional(kScale)},
     .outputs = {InPlace("w", State("w")), InPlace("m", State("m")), InPlace("v", State("v")), kParam},
     .attributes = {Try(0.9, Below("beta1", 1, "in [0, 1)")), Try(0.95, Below("beta2", 1, "in [0, 1)")),
                    Try(1e-8, From("epsilon", 0, "at least 0")), Try(0.1, kDecay), Any("rounding_site"),
                    Any("first_element")},
     .family = Family::kOptimizer,
     .calibrated = true,
     .rules = {{"recipe", OptimizerIsTheRecipes, true}, {"rounding", RoundingIsTheRecipes}},
     .result =
         "with `norm`, grad stands for grad × norm[1], as SCALE computes it in the compute type; with `scale`, "
         "if norm[1] is 0, w, m and v stay as they are (param is written all the same), and the step number is reduced "
         "by scale[2]; in place; t = step number from 1: w -= lr·wd·w; m = β₁m + (1-β₁)g; v = β₂v + (1-β₂)g²; "
         "w -= lr/(1-β₁ᵗ) · m / (√v/√(1-β₂ᵗ) + ε); param = w rounded (PyTorch's AdamW); with rounding_site > 0 "
         "param, and m and v of half precision, are rounded stochastically (*Stochastic rounding* below)"},
    {.kernel = SGD_STEP,
     .inputs =
         {{"grad", "...", kSum}, State("w"), If("momentum", State("momentum")), Optional(kNorm), Optional(kScale)},
     .outputs = {InPlace("w", State("w")), If("momentum", InPlace("momentum", State("momentum"))), kParam},
     .attributes = {From("momentum", 0, "at least 0"), kDecay, Any("rounding_site"), Any("first_element")},
     .family = Family::kOptimizer,
     .calibrated = true,
     .rules = {{"recipe", OptimizerIsTheRecipes, true}, {"rounding", RoundingIsTheRecipes}},
     .result = "`norm`, `scale` and rounding as ADAMW; g += wd·w; b = μb + g; w -= lr·b; in place"},
};

}  // namespace

const absl::Span<const KernelRow> kOptimizerRows = kRows;

}  // namespace weft::kernels
