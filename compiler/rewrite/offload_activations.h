// Moves saved activations to host memory until their backward (docs/offload.md).
#ifndef WEFT_COMPILER_REWRITE_OFFLOAD_ACTIVATIONS_H_
#define WEFT_COMPILER_REWRITE_OFFLOAD_ACTIVATIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/model_graph.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Rewrites a compiled program so that values saved by the first `layers` layers of each stage are copied to host memory
// after the forward and back to the device before the backward. This applies to floating-point values that ops of these
// layers make. Values stay on the device if the backward comes so soon that they would always have a copy there. The
// names of the ops in `model` identify the steps. If nothing is offloaded and `notes` is not null, a note states the
// reason. InvalidArgument if the program is of an unsupported kind.
absl::Status OffloadActivations(const ModelGraph& model, int layers, Program* program, std::vector<std::string>* notes);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_OFFLOAD_ACTIVATIONS_H_
