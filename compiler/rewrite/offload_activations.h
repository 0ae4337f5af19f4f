// Saved activations that wait in host memory for their backward (docs/offload.md).
#ifndef WEFT_COMPILER_REWRITE_OFFLOAD_ACTIVATIONS_H_
#define WEFT_COMPILER_REWRITE_OFFLOAD_ACTIVATIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/model_graph.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Rewrites a compiled program so that what the first `layers` layers of each stage save goes to host memory behind the
// forward and comes back before the backward: floating-point values that ops of these layers make. Where the backward
// comes so soon that a copy would be on the device all the time they stay there. Steps are told apart by the names of
// their ops in `model`. Where nothing leaves the device a note says why, if `notes` is not null. InvalidArgument if the
// program is of a kind that this does not support.
absl::Status OffloadActivations(const ModelGraph& model, int layers, Program* program, std::vector<std::string>* notes);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_OFFLOAD_ACTIVATIONS_H_
