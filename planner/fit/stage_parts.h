// Reads from a form pipeline (form_pipeline.h) what its ranks do for one microbatch: which buffers each action makes,
// reads and releases.
#ifndef WEFT_PLANNER_FIT_STAGE_PARTS_H_
#define WEFT_PLANNER_FIT_STAGE_PARTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"

namespace weft::planner {

// A kind of buffer. Every microbatch has one.
struct StageValue {
  // Index in the template of the form's rank.
  int32_t buffer = 0;
  // True if a forward makes it, or reads it from the stage before. The microbatches of a wide forward then share it.
  bool of_forward = false;
  // The direction in which it is received, and in which it is sent; unspecified = it is not.
  Direction received = DIRECTION_UNSPECIFIED;
  Direction sent = DIRECTION_UNSPECIFIED;
  // The last action that uses it: if the backward is whole, and if the backward runs in halves; unspecified = none.
  ActionKind last_if_whole = ACTION_UNSPECIFIED;
  ActionKind last_if_split = ACTION_UNSPECIFIED;
};

struct StageAction {
  int32_t segment = 0;
  // For each operand: an index into StageParts.values, or -1 - the buffer of the template if it is persistent.
  std::vector<int32_t> operands;
};

struct StageParts {
  const Template* of = nullptr;
  std::vector<StageValue> values;
  // FORWARD and the kinds of backward.
  std::map<ActionKind, StageAction> actions;
  // The end of the iteration: all actions that are neither a microbatch's nor transfers. Elements update_begin, …,
  // update_end - 1 are the update: from the first OPTIMIZER_STEP (or the fetch of its states) to the last one.
  std::vector<const Action*> end;
  size_t update_begin = 0;
  size_t update_end = 0;

  // The value that this stage sends in this direction, -1 if none.
  int ValueSent(Direction direction) const;
};

// Returns the parts of each form. `forms` must outlive them. Returns Unimplemented if an edge of the program skips
// stages.
absl::StatusOr<std::vector<StageParts>> PartsOfForms(const Program& forms);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_STAGE_PARTS_H_
