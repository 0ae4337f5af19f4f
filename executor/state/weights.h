// Weight files with Hugging Face's names.
#ifndef WEFT_EXECUTOR_STATE_WEIGHTS_H_
#define WEFT_EXECUTOR_STATE_WEIGHTS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/state/safetensors.h"
#include "executor/state/state.h"
#include "proto/program.pb.h"

namespace weft::exec {

// For each logical tensor of the program the entry of the file that holds it. Names match with or without the prefix of
// their model; what published files hold besides parameters is ignored (weight_names.h), and so is a tensor that the
// program uses another in place of (a tied head), if the two are equal. Anything else that is missing, unknown, of
// another shape or not of a floating-point type is an error that names it; so is a head that is not equal to the
// embedding, for it would be lost.
absl::StatusOr<std::vector<const SafetensorsEntry*>> MatchWeights(const SafetensorsReader& reader,
                                                                  const Program& program);

// Sets the weights that this rank holds. MatchWeights has accepted the file.
absl::Status LoadWeights(const SafetensorsReader& reader, const Program& program, RankState* state);

// Ok if SaveWeights may write there: nothing is at `path`, or a regular file.
absl::Status CheckWeightsTarget(const std::string& path);

// Writes all logical tensors as F32 in model order to `path`, atomically. `tensor(i)` gives the i-th.
absl::Status SaveWeights(const std::string& path, const Program& program,
                         const std::function<absl::StatusOr<TensorData>(int)>& tensor);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_STATE_WEIGHTS_H_
