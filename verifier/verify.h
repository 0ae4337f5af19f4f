// The only verifier (rule P13). It proves everything that docs/program.md requires of a Program, before anything is
// allocated or costed. docs/verifier.md lists the rule ids.
//
// Takes time near linear in the size of the program's text. It never enumerates ranks: it proves each template once for
// each combination of coordinates on axes that some template pins.
#ifndef WEFT_VERIFIER_VERIFY_H_
#define WEFT_VERIFIER_VERIFY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace weft {

// The rule that no list of actions may wait for itself.
inline constexpr char kDeadlockRule[] = "P13.deadlock";

// A broken rule. `message` names the template and the actions (id and name), buffers or fields at fault.
struct Finding {
  std::string rule;  // E.g. "P4.matching".
  std::string message;
};

struct VerifyOptions {
  // Accept a program marked `does_not_fit` (it may be costed, never run).
  bool allow_unfit = false;
  // Also prove that the program is a complete training step or evaluation: completeness, gradient synchronization,
  // norms, losses. If false, the proof covers safety only: no deadlock, no races, no accesses out of range.
  bool completeness = true;
  // Names of the known collective algorithms (KnownCollectives() of schedules/collective); empty = any name.
  std::vector<std::string> algorithms = {};
  // The search stops after this many findings.
  int max_findings = 20;
};

// Returns the findings in a deterministic order; none iff the program is proven. The rules are checked in groups that
// build on one another. So a program with findings in an early group may have more in later groups.
std::vector<Finding> FindViolations(const Program& program, const VerifyOptions& options = {});

// Returns OK without findings, or InvalidArgument with the first findings joined.
absl::Status RefusalOf(const Program& program, const std::vector<Finding>& findings);

// Returns RefusalOf(program, FindViolations(program, options)). After OK, every index, offset, size and shape in the
// program may be used without a check, and a run of the program touches no byte outside its arenas.
absl::Status VerifyProgram(const Program& program, const VerifyOptions& options = {});

}  // namespace weft

#endif  // WEFT_VERIFIER_VERIFY_H_
