// Reads the rotary positions of a Hugging Face config: rope_theta and rope_scaling (newer files: rope_parameters).
#ifndef WEFT_COMPILER_MODELS_HF_ROPE_H_
#define WEFT_COMPILER_MODELS_HF_ROPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/models/hf_config.h"
#include "proto/model_graph.pb.h"

namespace weft {

struct RopeShape {
  // Holds head_size, base, and the attributes that scale the frequencies.
  OpAttributes attributes;
  // The longest sequence: the config's limit, or the original context times the factor if that is more.
  int64_t positions = 0;
};

// Reads the rotary positions of a config. It knows the scaling types default, linear, dynamic, yarn and llama3, and
// refuses others by name.
absl::StatusOr<RopeShape> ReadRope(const HfConfig& config, int64_t head_size, int64_t positions);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_HF_ROPE_H_
