// Kinds of actions, and the error for an action that a verified program cannot have.
#ifndef WEFT_SIMULATOR_PROGRAM_VIEW_ACTIONS_H_
#define WEFT_SIMULATOR_PROGRAM_VIEW_ACTIONS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/program.pb.h"
#include "proto/util/action_kind.h"

namespace weft::sim {

inline bool IsCompute(ActionKind kind) { return !IsMessage(kind); }
inline bool IsBackward(ActionKind kind) {
  return kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT;
}

inline absl::Status ViewError(const Template& t, const Action& action, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("template '", t.name(), "' action ", action.id(), " '", action.name(),
                                                 "': ", what, "; was the program verified?"));
}

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_VIEW_ACTIONS_H_
