// Checkpoints of a run that another has left: it went on from an earlier step of the same directory. The two are never
// mixed: with the first save of the new run those of the old one beyond that step go to a folder of their own,
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

// Moves them away. Whenever it is cut short, what a resume finds is the checkpoint of `step`, if that is there; what it
// has not moved goes the next time.
absl::Status SetAsideBeyond(const std::string& directory, int64_t step);

// What is said when a run goes on from `step`; empty if there is nothing beyond it.
absl::StatusOr<std::string> NoteOnBranch(const std::string& directory, int64_t step);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CHECKPOINT_CHECKPOINT_BRANCH_H_
