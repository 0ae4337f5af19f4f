// The one verifier (rule P13): everything that docs/program.md demands of a Program, proven before anything is
// allocated or costed. docs/verifier.md lists the rule ids.
//
// Time: near linear in the size of the program's text. Ranks are never enumerated: what a template does is proven once
// for each combination of coordinates on axes that some template pins.
#ifndef WEFT_VERIFIER_VERIFY_H_
#define WEFT_VERIFIER_VERIFY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace weft {

// A broken rule. `message` names the template and the actions (id and name), buffers or fields at fault.
struct Finding {
  std::string rule;  // E.g. "P4.matching".
  std::string message;
};

struct VerifyOptions {
  // Accept a program marked `does_not_fit` (it may be costed, never run).
  bool allow_unfit = false;
  // Also prove what makes a program a training step or an evaluation: completeness, gradient synchronisation, norms,
  // losses. Off, the program is only safe: free of deadlock, races and accesses out of range.
  bool completeness = true;
  // Names of the collective algorithms that there are (KnownCollectives() of schedules/collective); empty = any name.
  std::vector<std::string> algorithms = {};
  // The search stops here.
  int max_findings = 20;
};

// In a deterministic order; empty iff the program is proven. Rules are checked in groups that build on one another, so
// a program with findings of an early group may have more in later ones.
std::vector<Finding> FindViolations(const Program& program, const VerifyOptions& options = {});

// Ok, or InvalidArgument with the first findings joined. After Ok, every index, offset, size and shape in the program
// may be used without a check, and running it touches no byte outside its arenas.
absl::Status VerifyProgram(const Program& program, const VerifyOptions& options = {});

}  // namespace weft

#endif  // WEFT_VERIFIER_VERIFY_H_
