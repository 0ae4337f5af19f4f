#include "verifier/verify.h"

#include "absl/strings/str_cat.h"
#include "verifier/completeness.h"
#include "verifier/evaluation.h"
#include "verifier/index.h"
#include "verifier/loss_scale.h"
#include "verifier/matching.h"
#include "verifier/memory.h"
#include "verifier/plain_program.h"
#include "verifier/post_validation.h"

namespace weft {
namespace {

using verify::Findings;

void FindInProgram(const Program& program, const VerifyOptions& options, Findings* findings) {
  // Each group of checks may rely on what the earlier ones have proven.
  verify::CheckMessage(program, findings);
  if (findings->empty()) verify::CheckStructure(program, options, findings);
  if (findings->empty()) verify::CheckBuffers(program, findings);
  if (findings->empty()) verify::CheckSegments(program, options, findings);
  if (findings->empty()) verify::CheckActions(program, options, findings);
  if (findings->empty()) verify::CheckPostValidationForm(program, findings);
  if (!findings->empty()) return;
  verify::Index index;
  index.program = &program;
  if (!verify::CheckRoles(&index, findings)) return;
  verify::CheckSegmentOrder(&index, findings);
  if (!findings->empty() || !verify::BuildTemplates(&index, findings)) return;
  const verify::Matching matching = verify::CheckMatching(index, findings);
  if (!findings->empty()) return;
  const verify::ListOrders order = verify::CheckDeadlock(index, matching, findings);
  if (!findings->empty()) return;
  if (program.post_validation()) {
    verify::CheckPostValidation(index, matching, findings);
    for (const bool again : {false, true}) {
      if (!findings->empty() || (again && !verify::HasAgain(program))) return;
      // The plain programs have no post-validation, so this function does not call itself again for them.
      const std::string prefix = findings->prefix();
      findings->set_prefix(absl::StrCat(prefix, again ? "if the guess is repeated: " : "if the guess stays: "));
      FindInProgram(verify::PlainProgram(program, again), options, findings);
      findings->set_prefix(prefix);
    }
    return;
  }
  for (const verify::TemplateIndex& t : index.templates) {
    if (!findings->full()) verify::CheckMemory(index, t, findings);
  }
  if (!options.completeness || !findings->empty()) return;
  const bool training = verify::IsTraining(program);
  verify::CheckCompleteness(index, training, findings);
  if (findings->empty() && training) verify::CheckLossScale(index, findings);
  if (findings->empty()) verify::CheckDataflow(index, matching, order, training, findings);
}

}  // namespace

std::vector<Finding> FindViolations(const Program& program, const VerifyOptions& options) {
  Findings findings(std::max(1, options.max_findings));
  FindInProgram(program, options, &findings);
  if (findings.empty() && program.has_evaluation()) {
    // Check the evaluation by itself first, so that the comparison below may trust its numbers.
    findings.set_prefix("evaluation: ");
    FindInProgram(program.evaluation(), options, &findings);
    findings.set_prefix("");
    if (findings.empty()) verify::CheckEvaluation(program, &findings);
  }
  return findings.Take();
}

absl::Status RefusalOf(const Program& program, const std::vector<Finding>& findings) {
  constexpr size_t kShown = 5;
  if (findings.empty()) return absl::OkStatus();
  std::string text = absl::StrCat("program '", program.name(), "' is refused: ");
  for (size_t i = 0; i < findings.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", "[", findings[i].rule, "] ", findings[i].message);
  }
  if (findings.size() > kShown) absl::StrAppend(&text, "; and ", findings.size() - kShown, " more");
  return absl::InvalidArgumentError(text);
}

absl::Status VerifyProgram(const Program& program, const VerifyOptions& options) {
  return RefusalOf(program, FindViolations(program, options));
}

}  // namespace weft
