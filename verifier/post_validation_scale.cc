#include "verifier/post_validation_scale.h"

#include <algorithm>

#include "verifier/loss_scale.h"

namespace weft::verify {
namespace {

class FactorCheck {
 public:
  FactorCheck(const Program& program, const Template& t, const PostValidationLists& lists, Findings* findings)
      : program_(program), t_(t), lists_(lists), findings_(findings) {}

  void Run() {
    // P15.verdict requires that VALIDATE has no other kind of step.
    const Action& validate = *lists_.body.validate;
    const Segment& verdict = SegmentOf(validate);
    const Step& total = verdict.steps(0);
    if (verdict.steps_size() != 1) return Bad(validate, "takes several norms");
    if (total.inputs_size() > 1 && !IsKeptScale(t_.buffers(Bound(validate, total.inputs(1))))) {
      return Bad(validate, "divides by a scale that may differ from the scale of the step that it judges");
    }
    if (lists_.keep == nullptr) return;
    const Segment& keep = SegmentOf(*lists_.keep);
    const auto is_total = [](const Step& step) { return step.kernel() == NORM_TOTAL; };
    const auto assumes = std::count_if(keep.steps().begin(), keep.steps().end(), is_total);
    const int wanted = IsScaled(program_) ? 1 : 0;
    if (assumes != wanted) {
      return Bad(*lists_.keep, "takes ", assumes, " norm totals; it must take ", wanted,
                 wanted == 1 ? ", of norms that are zero, because the update reads its factor"
                             : ", because the update reads no factor");
    }
    const int norm = Bound(validate, total.outputs(0));
    for (const Step& step : keep.steps()) {
      if (is_total(step)) CheckAssumed(step, total, norm);
    }
    // No other action may write the norm, except SCALE_GRADIENTS: it repairs the update with the true norm, between
    // VALIDATE and KEEP_STATE.
    for (const Action& action : t_.body()) {
      if (action.kind() != KEEP_STATE && action.kind() != VALIDATE && action.kind() != SCALE_GRADIENTS &&
          Writes(action, norm)) {
        Bad(action, "writes ", DescribeBuffer(t_, norm),
            ", which only VALIDATE, KEEP_STATE and SCALE_GRADIENTS may write");
      }
    }
  }

 private:
  template <typename... Parts>
  void Bad(const Action& action, const Parts&... parts) {
    findings_->Add("P15.scale", Describe(t_, action), ": ", parts...);
  }
  const Segment& SegmentOf(const Action& action) const { return program_.segments(action.segment()); }
  int Bound(const Action& action, int value) const {
    return action.operands(SegmentOf(action).values(value).operand());
  }

  bool Writes(const Action& action, int buffer) const {
    if (!IsCompute(action.kind())) {
      return std::count(action.destinations().begin(), action.destinations().end(), buffer) > 0;
    }
    for (int o = 0; o < action.operands_size(); ++o) {
      if (action.operands(o) == buffer && SegmentOf(action).operands(o).access() != READ) return true;
    }
    return false;
  }

  void CheckAssumed(const Step& step, const Step& total, int norm) {
    const Action& keep = *lists_.keep;
    if (step.attributes().SerializeAsString() != total.attributes().SerializeAsString() ||
        step.inputs_size() != total.inputs_size()) {
      Bad(keep, "step '", step.name(), "' is not the kernel of ", Describe(*lists_.body.validate));
    }
    if (Bound(keep, step.outputs(0)) != norm) {
      Bad(keep, "step '", step.name(), "' does not write ", DescribeBuffer(t_, norm));
    }
    if (step.inputs_size() > 1) {
      const Buffer& scale = t_.buffers(Bound(keep, step.inputs(1)));
      if (scale.role() != LOSS_SCALE || IsKeptScale(scale)) {
        Bad(keep, "step '", step.name(), "' divides by ", DescribeBuffer(t_, Bound(keep, step.inputs(1))));
      }
    }
    // The input must be zero at all times: a persistent buffer starts at zero, so it is enough that nothing writes it.
    const int nothing = Bound(keep, step.inputs(0));
    bool zero = t_.buffers(nothing).persistent() && t_.buffers(nothing).role() == NO_ROLE;
    for (const auto* list : {&t_.body(), &t_.epilogue()}) {
      for (const Action& action : *list) zero = zero && !Writes(action, nothing);
    }
    if (!zero) {
      Bad(keep, "step '", step.name(), "' takes the norm of ", DescribeBuffer(t_, nothing),
          ", which is not zero at all times");
    }
  }

  const Program& program_;
  const Template& t_;
  const PostValidationLists& lists_;
  Findings* findings_;
};

}  // namespace

void CheckAssumedFactor(const Program& program, const Template& t, const PostValidationLists& lists,
                        Findings* findings) {
  FactorCheck(program, t, lists, findings).Run();
}

}  // namespace weft::verify
