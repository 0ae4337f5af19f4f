// The U-Net of Nichol and Dhariwal ("Improved Denoising Diffusion Probabilistic Models", arXiv:2102.09672; "Diffusion
// Models Beat GANs", arXiv:2105.05233) as a list of ops: a model that predicts the noise in an image.
//
// The model has levels of falling resolution. Each level has residual blocks of two 3x3 convolutions behind group norms
// and SiLU, and attention over all positions if its resolution is among `attention_sides`. Between levels there is a
// convolution of stride 2 on the way down, and nearest-neighbor upsampling and a convolution on the way up. Every block
// on the way up reads the output of the matching block on the way down. The time is embedded in sines, sent through two
// linear layers, and added into every residual block (or scales and shifts its second norm).
//
// Layers: 0 has the time's embedding, its SiLU for each block, and the first convolution; then one per block of the
// published lists input_blocks, middle_block (three layers), output_blocks; the last has the final norm, convolution
// and loss. Each residual block reads its own SiLU of the embedded time. So only the outputs of blocks have readers in
// several layers, and each in two at most: gradients then add up alike wherever the model is cut.
//
// Parameters have the names and shapes of the published checkpoints.
#ifndef WEFT_COMPILER_MODELS_UNET_GRAPH_H_
#define WEFT_COMPILER_MODELS_UNET_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/model_graph.pb.h"

namespace weft {

struct UnetShape {
  // Side of the square images; a multiple of 2^(levels - 1).
  int64_t image_size = 0;
  int64_t in_channels = 3;
  // Level i has channels x channel_mult[i] columns.
  int64_t channels = 0;
  std::vector<int64_t> channel_mult;
  int64_t blocks = 0;
  // Sides of the levels that have attention.
  std::vector<int64_t> attention_sides;
  // Number of attention heads, on the way down and on the way up. If head_channels > 0, it sets the columns per head,
  // and these numbers are ignored.
  int64_t heads = 1;
  int64_t heads_up = 1;
  int64_t head_channels = 0;
  // If true, the columns of qkv are ordered by head (the original order), not by q, k and v.
  bool qkv_by_head = true;
  int64_t groups = 32;
  double epsilon = 1e-5;
  double dropout = 0;
  // If true, the embedded time scales and shifts the second norm instead of being added before it.
  bool scale_shift = false;
  int64_t diffusion_steps = 1000;
  bool cosine_schedule = false;
  double timestep_scale = 1;
};

ModelGraph BuildUnetGraph(const UnetShape& shape, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_UNET_GRAPH_H_
