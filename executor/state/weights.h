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

// Returns, for each logical tensor of the program, the entry of the file that holds it. Names match with or without the
// prefix of their model. Tensors of published files that are no parameters are ignored (weight_names.h). So is a tensor
// that the program replaces by another (a tied head), if the two are equal; if they are not, it is an error, because
// the tensor would be lost. Anything else that is missing, unknown, of another shape or not of a floating-point type is
// an error that names it.
absl::StatusOr<std::vector<const SafetensorsEntry*>> MatchWeights(const SafetensorsReader& reader,
                                                                  const Program& program);

// Sets the weights that this rank holds. MatchWeights must have accepted the file.
absl::Status LoadWeights(const SafetensorsReader& reader, const Program& program, RankState* state);

// InvalidArgument if `path` exists and is neither a regular file nor a folder, but a pipe or a device, for example.
absl::Status CheckWeightsTarget(const std::string& path);

// Writes all logical tensors as F32 in model order to `path`, atomically. `tensor(i)` returns the i-th tensor.
absl::Status SaveWeights(const std::string& path, const Program& program,
                         const std::function<absl::StatusOr<TensorData>(int)>& tensor);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_STATE_WEIGHTS_H_
