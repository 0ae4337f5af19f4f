#include "executor/interpreter/step_results.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/interpreter/named_action.h"
#include "executor/numerics/learning_rate.h"
#include "proto/util/status.h"

namespace weft::exec {

StepResults::StepResults(const Program& program, const PreparedProgram& prepared, int rank, bool check_finite,
                         std::function<void(const StepResult&)> on_step)
    : program_(program),
      prepared_(prepared),
      rank_(rank),
      check_finite_(check_finite),
      post_validated_(program.post_validation()),
      on_step_(std::move(on_step)),
      steps_per_repetition_(std::max(1, program.steps_per_repetition())) {}

void StepResults::Begin(ActionList list, int64_t first_step, int64_t first, int64_t count, double loss_scale) {
  list_ = list;
  first_step_ = first_step;
  first_repetition_ = first;
  loss_scale_ = loss_scale;
  if (list == kBodyList) results_.resize(results_.size() + count * steps_per_repetition_);
  verdicts_.assign(post_validated_ ? count : 0, Verdict::kUnknown);
}

int64_t StepResults::StepOf(int64_t repetition) const {
  if (list_ == kBodyList) return first_step_ + (repetition - first_repetition_) * steps_per_repetition_;
  // Rule P14: the prologue counts as the repetition before the first repetition of the body.
  const bool before = list_ == kPrologueList && program_.steps_per_repetition() > 0;
  return first_step_ - (before ? steps_per_repetition_ : 0);
}

std::string StepResults::Where(const PreparedAction& action, int64_t repetition) const {
  return absl::StrCat("rank ", rank_, ", step ", StepOf(repetition) + action.action->step(), ", action ",
                      action.action->id(), " '", action.action->name(), "'");
}

absl::Status StepResults::Take(uint8_t which, const PreparedAction& action, int64_t repetition,
                               const Figures& figures) {
  if (which & kVerdictFigure) return Judge(repetition, figures);
  StepResult* results = &results_[repetition * steps_per_repetition_];
  if (which & kLossFigure) {
    for (int64_t u = 0; u < steps_per_repetition_; ++u) {
      results[u].loss = LossOfStep(figures, program_.microbatches(), steps_per_repetition_, u);
      WEFT_RETURN_IF_ERROR(CheckFinite(action, repetition, "the loss", results[u].loss));
    }
  }
  if (which & kNormFigure) {
    results->norm = GradientNorm(figures);
    // Rule P11: if the norm is not finite, the dynamic loss scale was too large, and the optimizer has changed nothing.
    results->skipped = figures.loss_scale != nullptr && !std::isfinite(results->norm);
    if (results->skipped) results->norm = 0;
    WEFT_RETURN_IF_ERROR(CheckFinite(action, repetition, "the gradient norm", results->norm));
  }
  if (which & kLossScaleFigure) results->loss_scale = std::exchange(loss_scale_, *figures.loss_scale);
  return absl::OkStatus();
}

void StepResults::Over(int64_t repetition, int64_t end_ns) {
  for (int64_t u = 0; u < steps_per_repetition_; ++u) {
    StepResult& result = results_[repetition * steps_per_repetition_ + u];
    result.step = StepOf(repetition) + u;
    result.learning_rate = LearningRateAt(program_.recipe(), result.step);
    result.end_ns = end_ns;
    if (prepared_.fixed_loss_scale > 0) result.loss_scale = prepared_.fixed_loss_scale;
    result.steps_of_repetition = steps_per_repetition_;
    if (on_step_ && !post_validated_) on_step_(result);
  }
  ReportValidated();
}

absl::Status StepResults::Judge(int64_t repetition, const Figures& figures) {
  const double norm = figures.norm[0];
  // If the norm is not finite, the dynamic loss scale was too large, so nothing may be updated.
  const bool skipped = figures.loss_scale != nullptr && !std::isfinite(norm);
  // `judged` steps have been judged when this call returns. If an epilogue has judged the last of them already, the
  // step's results stay as they are.
  const int64_t judged = list_ == kBodyList ? repetition : static_cast<int64_t>(results_.size());
  if (judged > validated_) {
    validated_ = judged;
    StepResult& result = results_[judged - 1];
    result.norm = skipped ? 0 : norm;
    result.skipped = skipped;
    if (figures.loss_scale != nullptr) result.loss_scale = *figures.loss_scale;
    if (check_finite_ && !skipped && !std::isfinite(norm)) {
      return absl::OutOfRangeError(absl::StrCat("rank ", rank_, ", step ", StepOf(repetition) - 1,
                                                ": the gradient norm is not finite (", norm, ")"));
    }
  }
  const double scale = figures.loss_scale != nullptr ? *figures.loss_scale : prepared_.fixed_loss_scale;
  // The update should have multiplied the gradients by NORM[1], but it multiplied them by 1 / `scale`, or by 1 if there
  // is no loss scale.
  const bool wrong = skipped || figures.norm[1] < (scale > 0 ? 1 / scale : 1);
  verdicts_[repetition - first_repetition_] = wrong ? Verdict::kWrong : Verdict::kRight;
  ReportValidated();
  return absl::OkStatus();
}

void StepResults::ReportValidated() {
  for (; reported_ < validated_ && results_[reported_].end_ns > 0; ++reported_) {
    if (on_step_) on_step_(results_[reported_]);
  }
}

absl::Status StepResults::CheckFinite(const PreparedAction& action, int64_t repetition, absl::string_view what,
                                      double value) const {
  if (!check_finite_ || std::isfinite(value)) return absl::OkStatus();
  return ErrorAtAction(absl::StatusCode::kOutOfRange,
                       absl::StrCat(Where(action, repetition), ": ", what, " is not finite (", value, ")"));
}

}  // namespace weft::exec
