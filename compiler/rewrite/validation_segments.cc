#include "compiler/rewrite/validation_segments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/rewrite/segment_part.h"
#include "proto/util/kept_role.h"
#include "proto/util/units.h"

namespace weft {
namespace {

std::vector<int> Operands(const Action& action) { return {action.operands().begin(), action.operands().end()}; }

class Maker {
 public:
  Maker(const StepEnd& end, Program* program, Template* t) : end_(end), program_(*program), t_(*t) {}

  absl::StatusOr<ValidationSegments> Make() {
    ValidationSegments made;
    Action& optimizer = *t_.mutable_body(end_.optimizer);
    const Segment whole = program_.segments(optimizer.segment());
    const std::string prefix = whole.name().substr(0, whole.name().find('.'));
    const std::vector<int> operands = Operands(optimizer);
    const auto name = [&](absl::string_view what) { return absl::StrCat(prefix, ".", what); };
    const auto is_norm = [](const Step& step) { return step.kernel() == NORM_TOTAL; };
    const auto clears = [&](const Step& step) {
      if (step.kernel() != FILL) return false;
      const BufferRole role = t_.buffers(operands[whole.values(step.outputs(0)).operand()]).role();
      return role == GRAD || role == GRAD_ACCUMULATOR;
    };
    if (end_.clip >= 0) {
      const Action& clip = t_.body(end_.clip);
      validate_ = PartOf(program_.segments(clip.segment()), Operands(clip), name("validate"), is_norm);
    } else {
      validate_ = PartOf(whole, operands, name("validate"), is_norm);
    }
    clear_ = PartOf(whole, operands, name("clear_gradients"), clears);
    if (validate_.segment.steps().empty())
      return absl::InvalidArgumentError("has no step that computes the norm of the gradients");
    BoundSegment step = PartOf(whole, operands, whole.name(), [&](const Step& s) { return !is_norm(s) && !clears(s); });
    if (end_.repairs) {
      for (int b : step.operands) MakeLasting(b);
    }
    // Under exact accumulation no step of the optimizer clears gradients. The segment must have a step, so it then
    // clears a part of a gradient.
    for (int o = 0; o < step.segment.operands_size() && clear_.segment.steps().empty(); ++o) {
      const int b = step.operands[o];
      if (step.segment.operands(o).access() != READ || t_.buffers(b).role() != NO_ROLE) continue;
      MakeLasting(b);
      AddZero(t_, b, &clear_);
    }
    if (clear_.segment.steps().empty()) return absl::InvalidArgumentError("has no gradient to make zero on this rank");
    settle_ = clear_;
    settle_.segment.set_name(name("settle"));
    for (int b = 0; b < t_.buffers_size(); ++b) {
      if (t_.buffers(b).role() == NORMS) AddZero(t_, b, &settle_);
    }
    if (end_.repairs) {
      keep_.segment.set_name(name("keep_state"));
      restore_.segment.set_name(name("restore_state"));
      for (int o = 0; o < step.segment.operands_size(); ++o) {
        if (step.segment.operands(o).access() == READ_WRITE) Keep(step.operands[o]);
      }
      if (end_.clip < 0) AssumeFactor();
      made.keep = Add(std::move(keep_));
      made.restore = Add(std::move(restore_));
    }
    optimizer.clear_operands();
    for (int b : step.operands) optimizer.add_operands(b);
    *program_.mutable_segments(optimizer.segment()) = std::move(step.segment);
    made.validate = Add(std::move(validate_));
    made.clear = Add(std::move(clear_));
    made.settle = Add(std::move(settle_));
    return made;
  }

 private:
  AddedSegment Add(BoundSegment bound) {
    *program_.add_segments() = std::move(bound.segment);
    return {program_.segments_size() - 1, std::move(bound.operands)};
  }

  // Places the buffer after everything else, including what the evaluation program uses.
  void PlaceAtEnd(Buffer* buffer) {
    constexpr int64_t kAlignment = 256;
    const int64_t end = std::max(t_.device_arena_bytes(), end_.evaluation_bytes);
    buffer->set_offset((end + kAlignment - 1) / kAlignment * kAlignment);
    t_.set_device_arena_bytes(buffer->offset() + buffer->bytes());
  }

  // Makes the optimizer's inputs and outputs persistent (with ZeRO 1 also parts of gradients and weights), because an
  // update that is repeated reads them again.
  void MakeLasting(int b) {
    Buffer* buffer = t_.mutable_buffers(b);
    if (buffer->persistent()) return;
    buffer->set_persistent(true);
    PlaceAtEnd(buffer);
    for (Action& action : *t_.mutable_body()) {
      auto* releases = action.mutable_releases();
      releases->erase(std::remove(releases->begin(), releases->end(), b), releases->end());
    }
  }

  // Adds a buffer that keeps the content of `b`, which the optimizer is about to change.
  void Keep(int b) {
    Buffer kept = t_.buffers(b);
    kept.set_name(absl::StrCat("kept ", kept.name()));
    kept.set_class_(OPTIMIZER);
    kept.set_role(KeptRoleOf(kept.role()));
    if (kept.role() == LOSS_SCALE) kept.set_version(1);
    PlaceAtEnd(&kept);
    *t_.add_buffers() = std::move(kept);
    // The verdict judges the previous step, so it must divide by the loss scale of that step.
    if (t_.buffers(b).role() == LOSS_SCALE) {
      std::replace(validate_.operands.begin(), validate_.operands.end(), b, t_.buffers_size() - 1);
    }
    AddCopy(t_, b, t_.buffers_size() - 1, &keep_);
    AddCopy(t_, t_.buffers_size() - 1, b, &restore_);
  }

  // With loss scaling, the update reads a factor. The norm is not known yet, so the update reads the factor for a
  // gradient of zero.
  void AssumeFactor() {
    Buffer& nothing = *t_.add_buffers();
    nothing.set_name("norm of nothing");
    nothing.set_class_(COMMUNICATION);
    nothing.set_dtype(FP64);
    nothing.add_shape(1);
    nothing.set_bytes(DTypeBytes(FP64));
    nothing.set_persistent(true);
    PlaceAtEnd(&nothing);
    const Segment& verdict = validate_.segment;
    Step step = verdict.steps(0);
    step.set_name("factor if nothing is to be clipped");
    const auto bind = [&](int value, int buffer) {
      Value own = verdict.values(value);
      own.set_name(t_.buffers(buffer).name());
      own.set_dtype(t_.buffers(buffer).dtype());
      *own.mutable_shape() = t_.buffers(buffer).shape();
      return AddValue(t_, buffer, std::move(own), &keep_);
    };
    for (int& value : *step.mutable_inputs()) {
      int buffer = validate_.operands[verdict.values(value).operand()];
      if (t_.buffers(buffer).role() == NORMS) buffer = t_.buffers_size() - 1;
      for (int b = 0; b < t_.buffers_size(); ++b) {
        if (t_.buffers(buffer).role() == LOSS_SCALE && t_.buffers(b).role() == LOSS_SCALE &&
            t_.buffers(b).version() == 0) {
          buffer = b;
        }
      }
      value = bind(value, buffer);
    }
    for (int& value : *step.mutable_outputs()) value = bind(value, validate_.operands[verdict.values(value).operand()]);
    *keep_.segment.add_steps() = std::move(step);
    SetAccess(t_, &keep_);
  }

  const StepEnd& end_;
  Program& program_;
  Template& t_;
  BoundSegment validate_, keep_, restore_, clear_, settle_;
};

}  // namespace

absl::StatusOr<ValidationSegments> MakeValidationSegments(const StepEnd& end, Program* program, Template* t) {
  return Maker(end, program, t).Make();
}

}  // namespace weft
