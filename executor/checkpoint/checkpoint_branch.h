// Checkpoints of an abandoned run: a new run has continued from an earlier step of the same directory. The two runs are
// never mixed. When the new run first saves, the old run's checkpoints beyond that step move to a folder of their own,
// DIR/abandoned-1, which is a directory of checkpoints like DIR.
#ifndef WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_BRANCH_H_
#define WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_BRANCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft::exec {

// Steps of the whole checkpoints of `directory` beyond `step`, ascending.
absl::StatusOr<std::vector<int64_t>> StepsBeyond(const std::string& directory, int64_t step);

// Moves the checkpoints that StepsBeyond returns to a folder of their own. If the move is cut short at any point, a
// resume finds the checkpoint of `step`, if that exists, and the next call moves the rest.
absl::Status SetAsideBeyond(const std::string& directory, int64_t step);

// Returns the note for a run that continues from `step`; empty if there is no checkpoint beyond it.
absl::StatusOr<std::string> NoteOnBranch(const std::string& directory, int64_t step);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_BRANCH_H_
