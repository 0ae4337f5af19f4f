#include "verifier/loss_scale.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/traits.h"

namespace weft::verify {
namespace {

// Returns the index of the step's input that is the state of a dynamic scale, -1 if there is none.
int ScaleInput(const Step& step) { return kernels::FindInput(step, "scale"); }

class LossScaleCheck {
 public:
  LossScaleCheck(const Index& index, Findings* findings)
      : program_(*index.program), index_(index), findings_(findings) {
    about_scale_.resize(program_.segments_size(), false);
    for (int s = 0; s < program_.segments_size(); ++s) {
      for (const Step& step : program_.segments(s).steps()) {
        const bool about = ScaleInput(step) >= 0 || step.kernel() == NORM_TOTAL || step.kernel() == UPDATE_LOSS_SCALE;
        about_scale_[s] = about_scale_[s] || about;
        if (step.kernel() == NORM_TOTAL && total_ == nullptr) total_ = &step;
        if (step.kernel() == UPDATE_LOSS_SCALE && update_ == nullptr) update_ = &step;
        if (kernels::IsLoss(step.kernel()) && loss_ == nullptr) loss_ = &step;
      }
    }
    dynamic_ = total_ != nullptr && ScaleInput(*total_) >= 0;
    if (total_ != nullptr) fixed_ = total_->attributes().loss_scale();
  }

  void Run() {
    for (const Segment& segment : program_.segments()) {
      for (const Step& step : segment.steps()) CheckStep(segment, step);
    }
    for (const TemplateIndex& t : index_.templates) {
      if (!findings_->full()) CheckTemplate(t);
    }
  }

 private:
  template <typename... Parts>
  void Bad(const Parts&... parts) {
    findings_->Add("P11.scale", parts...);
  }

  // Checks that the step uses the same scale as all other steps.
  void CheckStep(const Segment& segment, const Step& step) {
    const auto bad = [&](const auto&... parts) {
      Bad("segment '", segment.name(), "', step '", step.name(), "' ", parts...);
    };
    const StepAttributes& a = step.attributes();
    const char* const how = dynamic_ ? "is scaled by LOSS_SCALE" : "has no dynamic scale";
    switch (step.kernel()) {
      case CROSS_ENTROPY_BACKWARD:
      case SQUARED_ERROR_BACKWARD: {
        const double factor = fixed_ > 0 ? fixed_ : 1;
        if (loss_ != nullptr && a.loss_weight() != loss_->attributes().loss_weight() * factor) {
          bad("has loss_weight ", a.loss_weight(), "; the loss has ", loss_->attributes().loss_weight(),
              ", which the gradient norm assumes to be scaled by ", factor);
        }
        break;
      }
      case NORM_TOTAL:
        if (a.loss_scale() != fixed_) bad("has loss_scale ", a.loss_scale(), ", but another NORM_TOTAL has ", fixed_);
        break;
      case UPDATE_LOSS_SCALE:
        if (a.loss_scale() != update_->attributes().loss_scale() ||
            a.growth_interval() != update_->attributes().growth_interval()) {
          bad("begins with ", a.loss_scale(), " and grows after ", a.growth_interval(),
              " steps, but another UPDATE_LOSS_SCALE begins with ", update_->attributes().loss_scale(),
              " and grows after ", update_->attributes().growth_interval());
        }
        break;
      case ADAMW:
      case SGD_STEP:
        break;
      default:
        return;
    }
    if ((ScaleInput(step) >= 0) != dynamic_) {
      bad(dynamic_ ? "does not read" : "reads", " the state of the loss scale, but the gradient norm ", how);
    }
  }

  void CheckTemplate(const TemplateIndex& t) {
    const auto bad = [&](const auto&... parts) { Bad("template '", t.t->name(), "': ", parts...); };
    bool total = false;
    const Action* update = nullptr;
    // True if the template keeps a scale. If it does not, most segments need no check, because no step accesses a
    // scale.
    const bool has_state = std::any_of(t.t->buffers().begin(), t.t->buffers().end(),
                                       [](const Buffer& buffer) { return buffer.role() == LOSS_SCALE; });
    for (const ActionRef& ref : t.actions) {
      const Action& action = *ref.action;
      if (!IsCompute(action.kind()) && action.kind() != FETCH && action.kind() != OFFLOAD) {
        for (const auto* list : {&action.sources(), &action.destinations()}) {
          for (int b : *list) {
            if (t.t->buffers(b).role() == LOSS_SCALE) bad(Describe(action), " moves the loss scale");
          }
        }
        continue;
      }
      const Segment& segment = program_.segments(action.segment());
      if (!has_state && !about_scale_[action.segment()]) continue;
      const auto is_scale = [&](int value) {
        return t.t->buffers(action.operands(segment.values(value).operand())).role() == LOSS_SCALE;
      };
      for (const Step& step : segment.steps()) {
        total = total || step.kernel() == NORM_TOTAL;
        const int scale = ScaleInput(step);
        if (scale >= 0 && !is_scale(step.inputs(scale))) {
          bad(Describe(action), ", step '", step.name(), "' takes the loss scale from a buffer of another role");
        }
        bool touches = false;
        for (int i = 0; i < step.inputs_size(); ++i) {
          if (!is_scale(step.inputs(i))) continue;
          touches = true;
          if (i != scale)
            bad(Describe(action), ", step '", step.name(), "' reads LOSS_SCALE, but does not use it as a scale");
        }
        for (int value : step.outputs()) {
          if (is_scale(value) && step.kernel() != UPDATE_LOSS_SCALE) {
            bad(Describe(action), ", step '", step.name(), "' writes LOSS_SCALE");
          }
        }
        if (touches && update != nullptr) {
          bad(Describe(action), ", step '", step.name(), "' uses LOSS_SCALE after its update in ", Describe(*update));
        }
        if (step.kernel() == UPDATE_LOSS_SCALE) {
          update = &action;
          if (action.kind() != OPTIMIZER_STEP)
            bad(Describe(action), " updates the loss scale; only an OPTIMIZER_STEP may");
        }
      }
    }
    if ((dynamic_ || fixed_ > 0) && !total) bad("has no NORM_TOTAL, so it cannot know whether steps are skipped");
    if (dynamic_ && update == nullptr) bad("never updates LOSS_SCALE");
    if (!dynamic_ && update != nullptr)
      bad(Describe(*update), " updates a loss scale, but the norm is not divided by it");
  }

  const Program& program_;
  const Index& index_;
  Findings* findings_;
  // The program's first NORM_TOTAL, its first UPDATE_LOSS_SCALE and its first step of a loss; null if there is none.
  const Step* total_ = nullptr;
  const Step* update_ = nullptr;
  const Step* loss_ = nullptr;
  // For each segment: true if it has steps that read or update a scale, or a NORM_TOTAL.
  std::vector<bool> about_scale_;
  bool dynamic_ = false;
  double fixed_ = 0;
};

}  // namespace

bool IsScaled(const Program& program) {
  for (const Segment& segment : program.segments()) {
    for (const Step& step : segment.steps()) {
      if (step.kernel() == NORM_TOTAL && (step.attributes().loss_scale() > 0 || ScaleInput(step) >= 0)) return true;
    }
  }
  return false;
}

bool IsDynamicallyScaled(const Program& program) {
  for (const Segment& segment : program.segments()) {
    for (const Step& step : segment.steps()) {
      if (step.kernel() == NORM_TOTAL && ScaleInput(step) >= 0) return true;
    }
  }
  return false;
}

void CheckLossScale(const Index& index, Findings* findings) { LossScaleCheck(index, findings).Run(); }

}  // namespace weft::verify
