// Errors of a run whose message names the action at fault.
#ifndef WEFT_EXECUTOR_INTERPRETER_NAMED_ACTION_H_
#define WEFT_EXECUTOR_INTERPRETER_NAMED_ACTION_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

inline constexpr absl::string_view kNamesAction = "weft/names_action";

// Returns an error and marks that `message` names an action.
inline absl::Status ErrorAtAction(absl::StatusCode code, absl::string_view message) {
  absl::Status status(code, message);
  status.SetPayload(kNamesAction, absl::Cord());
  return status;
}

inline bool NamesAction(const absl::Status& status) { return status.GetPayload(kNamesAction).has_value(); }

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_NAMED_ACTION_H_
