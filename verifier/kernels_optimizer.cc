// The kernels at the end of an optimizer step against docs/kernels.md: the global norm, the loss scale, the updates.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verifier/step_check.h"

namespace weft::verify {
namespace {

// Those of a plan: gradients of the loss times less or more are zeros or infinities in any type.
constexpr double kLeastLossScale = 0x1p-60, kLargestLossScale = 0x1p60;

// What of an update is not as the recipe says, where that says something.
std::vector<std::string> UnlikeRecipe(const Step& step, const Recipe& recipe) {
  const StepAttributes& a = step.attributes();
  std::vector<std::string> problems;
  const auto same = [&](const char* field, double given, bool stated, double wanted) {
    if (!stated || given == wanted) return;
    problems.push_back(absl::StrCat(field, " is ", given, ", but recipe.", recipe.has_sgd() ? "sgd." : "adamw.", field,
                                    " is ", wanted));
  };
  // Vectors have none; patterns of names make exceptions.
  std::vector<double> decays = {0};
  if (recipe.has_sgd()) {
    if (step.kernel() != SGD_STEP) return {absl::StrCat("is ", Kernel_Name(step.kernel()), ", but the recipe has sgd")};
    same("momentum", a.momentum(), true, recipe.sgd().momentum());
    decays.push_back(recipe.sgd().weight_decay());
  } else if (recipe.has_adamw()) {
    if (step.kernel() != ADAMW) return {absl::StrCat("is ", Kernel_Name(step.kernel()), ", but the recipe has adamw")};
    same("beta1", a.beta1(), recipe.adamw().has_beta1(), recipe.adamw().beta1());
    same("beta2", a.beta2(), recipe.adamw().has_beta2(), recipe.adamw().beta2());
    same("epsilon", a.epsilon(), recipe.adamw().has_epsilon(), recipe.adamw().epsilon());
    if (!recipe.adamw().has_weight_decay()) return problems;
    decays.push_back(recipe.adamw().weight_decay());
    for (const DecayOverride& of_names : recipe.adamw().overrides()) decays.push_back(of_names.weight_decay());
  } else {
    return problems;
  }
  if (std::find(decays.begin(), decays.end(), a.weight_decay()) == decays.end()) {
    problems.push_back(absl::StrCat("weight_decay is ", a.weight_decay(), ", which the recipe has for no tensor"));
  }
  return problems;
}

}  // namespace

void StepCheck::NormFactor(const Value& norm) {
  Is(norm, {FP64});
  Shape(norm, {2});
}

void StepCheck::ScaleState(const Value& scale) {
  Is(scale, {FP64});
  Shape(scale, {3});
}

void StepCheck::NormTotal() {
  Attributes({A::kClipNormFieldNumber, A::kLossScaleFieldNumber});
  if (!Arity(1, 2, 1, 1)) return;
  const A& a = attributes();
  Is(In(0), {FP64, EXACT192});
  Rank(In(0), 1);
  NormFactor(Out(0));
  Require(a.clip_norm() >= 0, "clip_norm", a.clip_norm(), "at least 0");
  Require(a.loss_scale() == 0 || (a.loss_scale() >= kLeastLossScale && a.loss_scale() <= kLargestLossScale),
          "loss_scale", a.loss_scale(), "0 or from 2^-60 to 2^60");
  if (inputs() == 1) return;
  ScaleState(In(1));
  Require(a.loss_scale() == 0, "loss_scale", a.loss_scale(), "0 with the input scale");
}

void StepCheck::UpdateLossScale() {
  Attributes({A::kLossScaleFieldNumber, A::kGrowthIntervalFieldNumber});
  if (!Arity(2, 2, 1, 1)) return;
  NormFactor(In(0));
  ScaleState(In(1));
  ScaleState(Out(0));
  InPlace(1, 0);
  Require(attributes().loss_scale() >= 1 && attributes().loss_scale() <= kLargestLossScale, "loss_scale",
          attributes().loss_scale(), "from 1 to 2^60, as all values of a dynamic scale are");
  Require(attributes().growth_interval() >= 1, "growth_interval", attributes().growth_interval(), "at least 1");
}

void StepCheck::ScaleKernel() {
  Attributes({});
  if (!Arity(2, 2, 1, 1)) return;
  AllFloating();
  NormFactor(In(0));
  SameShape(Out(0), In(1));
}

void StepCheck::Optimizer() {
  const A& a = attributes();
  const int states = OptimizerStates(step_);
  if (step_.kernel() == ADAMW) {
    Attributes({A::kBeta1FieldNumber, A::kBeta2FieldNumber, A::kEpsilonFieldNumber, A::kWeightDecayFieldNumber,
                A::kRoundingSiteFieldNumber, A::kFirstElementFieldNumber});
    if (!Arity(1 + states, 3 + states, states, states + 1)) return;
    Require(a.beta1() >= 0 && a.beta1() < 1, "beta1", a.beta1(), "in [0, 1)");
    Require(a.beta2() >= 0 && a.beta2() < 1, "beta2", a.beta2(), "in [0, 1)");
    Require(a.epsilon() >= 0, "epsilon", a.epsilon(), "at least 0");
  } else {
    Attributes({A::kMomentumFieldNumber, A::kWeightDecayFieldNumber, A::kRoundingSiteFieldNumber,
                A::kFirstElementFieldNumber});
    Require(a.momentum() >= 0, "momentum", a.momentum(), "at least 0");
    if (!Arity(1 + states, 3 + states, states, states + 1)) return;
  }
  Require(a.weight_decay() >= 0, "weight_decay", a.weight_decay(), "at least 0");
  // What is trained otherwise than the recipe says would be reported and saved as something that it is not.
  for (const std::string& problem : UnlikeRecipe(step_, program_.recipe())) Bad("P11.recipe", problem);
  AllFloating();
  for (int i = 0; i < states; ++i) {
    SameShape(In(i + 1), In(0));
    SameShape(Out(i), In(0));
    InPlace(i + 1, i);
  }
  if (outputs() > states) SameShape(Out(states), In(0));
  Rounding(outputs() > states ? &Out(states) : nullptr);
  if (inputs() > states + 1) NormFactor(In(states + 1));
  if (inputs() > states + 2) ScaleState(In(states + 2));
}

// Which tensor's numbers they are, and of which elements, is known where the segment runs (P11.round).
void StepCheck::Rounding(const Value* param) {
  const A& a = attributes();
  const bool halves = param != nullptr && (param->dtype() == BF16 || param->dtype() == FP16);
  const bool wanted = program_.recipe().weight_rounding() == STOCHASTIC && halves;
  if (wanted != (a.rounding_site() > 0)) {
    Bad("P11.round", "rounding_site is ", a.rounding_site(), wanted ? ", must be positive" : ", must be 0", ": recipe.",
        "weight_rounding is ", WeightRounding_Name(program_.recipe().weight_rounding()),
        halves ? " and the weights that compute reads are halves" : " and there are no weights in half precision");
    return;
  }
  if (!wanted) {
    Require(a.first_element() == 0, "first_element", static_cast<double>(a.first_element()), "0 without rounding_site");
    return;
  }
  Is(Out(0), {FP32});
  Require(a.first_element() >= 0, "first_element", static_cast<double>(a.first_element()), "at least 0");
}

}  // namespace weft::verify
