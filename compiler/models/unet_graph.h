// The U-Net of Nichol and Dhariwal ("Improved Denoising Diffusion Probabilistic Models", arXiv:2102.09672; "Diffusion
// Models Beat GANs", arXiv:2105.05233) as a list of ops: what predicts the noise in an image.
//
// Levels of falling resolution, each with residual blocks of two 3x3 convolutions behind group norms and SiLU,
// attention over all positions where the resolution is among `attention_sides`; between levels a convolution of stride
// 2 on the way down, nearest-neighbour upsampling and a convolution on the way up. Every block on the way up reads what
// the matching one on the way down made. The time is embedded in sines, sent through two linear layers, and added into
// every residual block (or scales and shifts its second norm).
//
// Layers: 0 has the time's embedding, its SiLU for each block, and the first convolution; then one per block of the
// published lists input_blocks, middle_block (three layers), output_blocks; the last has the final norm, convolution
// and loss. Each residual block reads a SiLU of its own of the embedded time, so that no value but a block's output has
// readers in several layers, and one of those in two only: gradients then add up alike wherever the model is cut.
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
  // Columns of the first level; of level i channels x channel_mult[i].
  int64_t channels = 0;
  std::vector<int64_t> channel_mult;
  int64_t blocks = 0;
  // Sides of the levels that have attention.
  std::vector<int64_t> attention_sides;
  // Of attention: heads, on the way up other ones; or columns per head (0 = by heads).
  int64_t heads = 1;
  int64_t heads_up = 1;
  int64_t head_channels = 0;
  // The columns of qkv are ordered by head (the original order), not by q, k and v.
  bool qkv_by_head = true;
  int64_t groups = 32;
  double epsilon = 1e-5;
  double dropout = 0;
  // The embedded time scales and shifts the second norm instead of being added before it.
  bool scale_shift = false;
  int64_t diffusion_steps = 1000;
  bool cosine_schedule = false;
  double timestep_scale = 1;
};

ModelGraph BuildUnetGraph(const UnetShape& shape, absl::string_view name);

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_UNET_GRAPH_H_
