#include "executor/program/figure_steps.h"

#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "executor/interface/channels.h"

namespace weft::exec {
namespace {

class Marker {
 public:
  Marker(const Program& program, int rank, const Arena& arena, PreparedProgram& out)
      : program_(program), rank_(rank), arena_(arena), out_(out) {}

  absl::Status Run() {
    Figures& figures = out_.figures;
    const Buffer* losses = MarkLast(LOSSES, kLossFigure);
    if (losses == nullptr) losses = MarkLast(LOCAL_LOSSES, kLossFigure);
    if (losses != nullptr) figures.losses = Doubles(*losses);
    for (const Segment& segment : program_.segments()) {
      for (const Step& step : segment.steps()) {
        if (step.kernel() == NORM_TOTAL) out_.fixed_loss_scale = step.attributes().loss_scale();
      }
    }
    if (program_.post_validation()) return MarkVerdicts();
    const Buffer* scale = MarkLast(LOSS_SCALE, kLossScaleFigure);
    if (scale != nullptr) figures.loss_scale = reinterpret_cast<const double*>(arena_.Data(*scale));
    if (const Buffer* norm = MarkLast(NORM, kNormFigure)) {
      figures.norm = Doubles(*norm);
    } else if (const Buffer* norms = MarkLast(NORMS, kNormFigure)) {
      figures.norms = {arena_.Data(*norms), norms->dtype(),
                       absl::MakeConstSpan(norms->shape().data(), norms->shape_size())};
    }
    return absl::OkStatus();
  }

 private:
  static int64_t Elements(const Buffer& buffer) {
    int64_t elements = 1;
    for (const int64_t extent : buffer.shape()) elements *= extent;
    return elements;
  }

  absl::Span<const double> Doubles(const Buffer& buffer) const {
    return absl::MakeConstSpan(reinterpret_cast<const double*>(arena_.Data(buffer)), Elements(buffer));
  }

  // Index of the last step of the action that writes the buffer, -1 if none does.
  int LastWriter(const PreparedAction& prepared, const Buffer& buffer) const {
    const auto is_it = [&](int index) { return &out_.rank_template->buffers(index) == &buffer; };
    const Action& action = *prepared.action;
    if (!IsCompute(action)) return absl::c_any_of(action.destinations(), is_it) ? 0 : -1;
    const Segment& segment = program_.segments(action.segment());
    for (int s = segment.steps_size(); s-- > 0;) {
      for (const int value : segment.steps(s).outputs()) {
        if (is_it(action.operands(segment.values(value).operand()))) return s;
      }
    }
    return -1;
  }

  // Marks the last step of the body, without conditional actions (if_exceeded), that writes a buffer of this role.
  // Returns the buffer, or null if no step does.
  const Buffer* MarkLast(BufferRole role, Figure figure) {
    for (size_t i = out_.actions.size(); i-- > 0;) {
      PreparedAction& prepared = out_.actions[i];
      if (prepared.list != kBodyList || prepared.action->if_exceeded()) continue;
      for (const Buffer& buffer : out_.rank_template->buffers()) {
        if (buffer.role() != role) continue;
        const int step = LastWriter(prepared, buffer);
        if (step < 0) continue;
        prepared.steps[step].figures |= figure;
        return &buffer;
      }
    }
    return nullptr;
  }

  // Marks the steps that compute the norm of a VALIDATE. By rule P15, the body and the epilogue have one VALIDATE each,
  // with the same NORM.
  absl::Status MarkVerdicts() {
    for (PreparedAction& prepared : out_.actions) {
      if (prepared.action->kind() != VALIDATE) continue;
      bool marked = false;
      for (const Buffer& buffer : out_.rank_template->buffers()) {
        const int step = buffer.role() == NORM && Elements(buffer) == 2 ? LastWriter(prepared, buffer) : -1;
        if (step < 0) continue;
        prepared.steps[step].figures |= kVerdictFigure;
        out_.figures.norm = Doubles(buffer);
        marked = true;
      }
      // VALIDATE reads the loss scale of the step whose norm it checks.
      for (const int b : prepared.action->operands()) {
        const Buffer& buffer = out_.rank_template->buffers(b);
        if (buffer.role() == LOSS_SCALE) out_.figures.loss_scale = Doubles(buffer).data();
      }
      if (!marked) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, ": action ", prepared.action->id(), " '",
                                                       prepared.action->name(),
                                                       "' must validate, but writes no NORM of two numbers"));
      }
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const int rank_;
  const Arena& arena_;
  PreparedProgram& out_;
};

}  // namespace

absl::Status MarkFigures(const Program& program, int rank, const Arena& arena, PreparedProgram& prepared) {
  return Marker(program, rank, arena, prepared).Run();
}

}  // namespace weft::exec
