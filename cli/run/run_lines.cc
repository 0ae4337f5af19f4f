#include "cli/run/run_lines.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/util/printable.h"

namespace weft {

std::string StepLine(const RunStep& step) {
  return absl::StrFormat("step %d  loss %.17g  lr %.6g  norm %.6g%s%s  %.0f tokens/s\n", step.step(), step.loss(),
                         step.learning_rate(), step.grad_norm(),
                         step.has_loss_scale() ? absl::StrFormat("  scale %.6g", step.loss_scale()) : "",
                         step.skipped() ? "  skipped: gradients overflowed" : "",
                         step.seconds() > 0 ? step.tokens() / step.seconds() : 0.0);
}

std::string EvaluationLine(const RunStep& step) {
  return absl::StrFormat("step %d  eval loss %.17g\n", step.step(), step.eval_loss());
}

std::string SkippedLine(const RunReport& report) {
  int skipped = 0;
  for (const RunStep& step : report.steps()) skipped += step.skipped() ? 1 : 0;
  if (skipped == 0 || skipped < report.steps_size()) return "";
  return absl::StrCat(skipped, " of ", skipped, skipped == 1 ? " step" : " steps",
                      " skipped because gradients overflowed, so no weight has changed; run more steps, since each "
                      "skipped step lowers the loss scale, or compile with a lower plan.loss_scale.initial\n");
}

std::string LastLines(const exec::RunResult& result, const std::string& checkpoint) {
  std::string lines;
  if (result.stopped) {
    absl::StrAppend(&lines, "stopped by signal after step ", result.last_step,
                    checkpoint.empty() ? "; nothing was saved (no --checkpoint)\n"
                                       : absl::StrCat("; saved in ", Printable(checkpoint), "\n"));
  }
  const int64_t steps = result.last_step - result.first_step;
  if (steps == 0) {
    return absl::StrCat(lines, "nothing to do: ", result.last_step,
                        result.last_step == 1 ? " step is done\n" : " steps are done\n");
  }
  return absl::StrCat(
      lines,
      absl::StrFormat("%d step%s, %.0f tokens/s, planned bytes per rank %d\n", steps, steps == 1 ? "" : "s",
                      result.report.tokens_per_second(), result.report.planned_bytes()),
      SkippedLine(result.report));
}

}  // namespace weft
