#include "compiler/models/unet_graph.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

// A value and its number of columns.
struct Features {
  std::string name;
  int64_t columns = 0;
};

// Appends the ops of one graph. Every op has one output, which has the op's name.
class Builder {
 public:
  Builder(const UnetShape& shape, absl::string_view name) : shape_(shape) {
    graph_.set_name(std::string(name));
    graph_.set_image_size(shape.image_size);
    graph_.set_image_channels(shape.in_channels);
  }

  ModelGraph Build();

 private:
  std::string Op(absl::string_view name, absl::string_view kind, std::initializer_list<std::string> inputs,
                 const OpAttributes& attributes = {}) {
    GraphOp& op = *graph_.add_ops();
    op.set_name(std::string(name));
    op.set_kind(std::string(kind));
    for (const std::string& input : inputs) op.add_inputs(input);
    op.add_outputs(std::string(name));
    op.set_layer(layer_);
    if (attributes.ByteSizeLong() > 0) *op.mutable_attributes() = attributes;
    return std::string(name);
  }

  // PyTorch draws a layer's weights uniformly from +-1/sqrt(inputs), which has standard deviation 1/sqrt(3 inputs);
  // here they are normal with that deviation. Layers that end a residual branch start at zero, as do all biases.
  std::string Weight(absl::string_view name, std::initializer_list<int64_t> extents, int64_t inputs, bool zero) {
    GraphParameter& parameter = AddParameter(name, extents);
    if (zero) {
      parameter.mutable_init()->set_constant(0);
    } else {
      parameter.mutable_init()->set_normal(1 / std::sqrt(3.0 * static_cast<double>(inputs)));
    }
    return parameter.name();
  }
  std::string Constant(absl::string_view name, int64_t extent, double value) {
    GraphParameter& parameter = AddParameter(name, {extent});
    parameter.mutable_init()->set_constant(value);
    return parameter.name();
  }

  // Convolution adds an op whose weight is [outputs, inputs, side, side]. Projection works on single positions, for
  // attention; its weight is [outputs, inputs, 1].
  Features Convolution(const std::string& name, const Features& x, int64_t outputs, int64_t side, int64_t stride = 1,
                       bool zero = false) {
    std::string weight = Weight(name + ".weight", {outputs, x.columns, side, side}, x.columns * side * side, zero);
    std::string bias = Constant(name + ".bias", outputs, 0);
    OpAttributes attributes;
    if (stride > 1) attributes.set_stride(stride);
    return {Op(name, "conv2d", {x.name, weight, bias}, attributes), outputs};
  }
  Features Projection(const std::string& name, const Features& x, int64_t outputs, bool zero = false) {
    std::string weight = Weight(name + ".weight", {outputs, x.columns, 1}, x.columns, zero);
    std::string bias = Constant(name + ".bias", outputs, 0);
    return {Op(name, "conv2d", {x.name, weight, bias}), outputs};
  }
  Features Linear(const std::string& name, const Features& x, int64_t outputs) {
    std::string weight = Weight(name + ".weight", {outputs, x.columns}, x.columns, false);
    std::string bias = Constant(name + ".bias", outputs, 0);
    OpAttributes transpose;
    transpose.set_transpose_b(true);
    return {Op(name, "matmul", {x.name, weight, bias}, transpose), outputs};
  }
  Features Norm(const std::string& name, const Features& x) {
    std::string gamma = Constant(name + ".weight", x.columns, 1);
    std::string beta = Constant(name + ".bias", x.columns, 0);
    OpAttributes attributes;
    attributes.set_groups(shape_.groups);
    attributes.set_epsilon(shape_.epsilon);
    return {Op(name, "group_norm", {x.name, gamma, beta}, attributes), x.columns};
  }
  Features Silu(const std::string& name, const Features& x) { return {Op(name, "silu", {x.name}), x.columns}; }

  void EmbedTime();
  Features ResidualBlock(const std::string& name, const Features& x, int64_t outputs);
  Features Attention(const std::string& name, const Features& x, bool up);
  Features Down(Features x);
  Features Middle(const Features& x);
  Features Up(Features x);
  void Loss(const Features& x);

  bool HasAttention(int64_t side) const {
    return std::find(shape_.attention_sides.begin(), shape_.attention_sides.end(), side) !=
           shape_.attention_sides.end();
  }
  GraphParameter& AddParameter(absl::string_view name, std::initializer_list<int64_t> extents) {
    GraphParameter& parameter = *graph_.add_parameters();
    parameter.set_name(std::string(name));
    for (int64_t extent : extents) parameter.add_shape(extent);
    return parameter;
  }

  const UnetShape& shape_;
  ModelGraph graph_;
  int layer_ = 0;
  Features time_;
  // Outputs of blocks on the way down that the blocks on the way up have not read yet.
  std::vector<Features> kept_;
};

void Builder::EmbedTime() {
  OpAttributes levels;
  levels.set_diffusion_steps(shape_.diffusion_steps);
  std::string times = Op("timesteps", "timesteps", {}, levels);
  OpAttributes embedding;
  embedding.set_columns(shape_.channels);
  if (shape_.timestep_scale != 1) embedding.set_timestep_scale(shape_.timestep_scale);
  Features sines = {Op("timestep_embedding", "timestep_embedding", {times}, embedding), shape_.channels};
  const int64_t columns = 4 * shape_.channels;
  time_ = Linear("time_embed.2", Silu("time_embed.1", Linear("time_embed.0", sines, columns)), columns);
}

Features Builder::ResidualBlock(const std::string& name, const Features& x, int64_t outputs) {
  Features h =
      Convolution(name + ".in_layers.2", Silu(name + ".in_layers.1", Norm(name + ".in_layers.0", x)), outputs, 3);
  const Features own_time = {name + ".emb_layers.0", time_.columns};
  Features e = Linear(name + ".emb_layers.1", own_time, shape_.scale_shift ? 2 * outputs : outputs);
  if (shape_.scale_shift) {
    h = Norm(name + ".out_layers.0", h);
    h = {Op(name + ".scale_shift", "scale_shift", {h.name, e.name}), outputs};
  } else {
    h = {Op(name + ".add_time", "add_per_sample", {h.name, e.name}), outputs};
    h = Norm(name + ".out_layers.0", h);
  }
  h = Silu(name + ".out_layers.1", h);
  OpAttributes dropout;
  dropout.set_dropout(shape_.dropout);
  h = {Op(name + ".out_layers.2", "dropout", {h.name}, dropout), outputs};
  h = Convolution(name + ".out_layers.3", h, outputs, 3, 1, /*zero=*/true);
  const Features skip = outputs == x.columns ? x : Convolution(name + ".skip_connection", x, outputs, 1);
  return {Op(name + ".residual", "add", {skip.name, h.name}), outputs};
}

Features Builder::Attention(const std::string& name, const Features& x, bool up) {
  Features qkv = Projection(name + ".qkv", Norm(name + ".norm", x), 3 * x.columns);
  OpAttributes attributes;
  const int64_t heads =
      shape_.head_channels > 0 ? x.columns / shape_.head_channels : (up ? shape_.heads_up : shape_.heads);
  attributes.set_heads(heads);
  // With one head both orders of columns are the same, so the attribute stays false.
  attributes.set_qkv_by_head(shape_.qkv_by_head && heads > 1);
  Features h = {Op(name + ".attention", "attention", {qkv.name}, attributes), x.columns};
  h = Projection(name + ".proj_out", h, x.columns, /*zero=*/true);
  return {Op(name + ".residual", "add", {x.name, h.name}), x.columns};
}

Features Builder::Down(Features x) {
  int block = 0;
  int64_t side = shape_.image_size;
  kept_.push_back(x);
  for (size_t level = 0; level < shape_.channel_mult.size(); ++level) {
    for (int64_t i = 0; i < shape_.blocks; ++i) {
      ++layer_;
      const std::string name = absl::StrCat("input_blocks.", ++block);
      x = ResidualBlock(name + ".0", x, shape_.channels * shape_.channel_mult[level]);
      if (HasAttention(side)) x = Attention(name + ".1", x, false);
      kept_.push_back(x);
    }
    if (level + 1 == shape_.channel_mult.size()) break;
    ++layer_;
    x = Convolution(absl::StrCat("input_blocks.", ++block, ".0.op"), x, x.columns, 3, 2);
    kept_.push_back(x);
    side /= 2;
  }
  return x;
}

Features Builder::Middle(const Features& x) {
  ++layer_;
  Features h = ResidualBlock("middle_block.0", x, x.columns);
  ++layer_;
  h = Attention("middle_block.1", h, false);
  ++layer_;
  return ResidualBlock("middle_block.2", h, x.columns);
}

Features Builder::Up(Features x) {
  int block = 0;
  int64_t side = shape_.image_size >> (shape_.channel_mult.size() - 1);
  for (size_t level = shape_.channel_mult.size(); level-- > 0;) {
    for (int64_t i = 0; i <= shape_.blocks; ++i) {
      ++layer_;
      const std::string name = absl::StrCat("output_blocks.", block++);
      const Features skip = kept_.back();
      kept_.pop_back();
      x = {Op(name + ".concat", "concat", {x.name, skip.name}), x.columns + skip.columns};
      x = ResidualBlock(name + ".0", x, shape_.channels * shape_.channel_mult[level]);
      int part = 1;
      if (HasAttention(side)) x = Attention(absl::StrCat(name, ".", part++), x, true);
      if (level == 0 || i < shape_.blocks) continue;
      const std::string upsample = absl::StrCat(name, ".", part);
      x = {Op(upsample, "upsample", {x.name}), x.columns};
      x = Convolution(upsample + ".conv", x, x.columns, 3);
      side *= 2;
    }
  }
  return x;
}

void Builder::Loss(const Features& x) {
  ++layer_;
  Features prediction = Convolution("out.2", Silu("out.1", Norm("out.0", x)), shape_.in_channels, 3, 1, /*zero=*/true);
  std::string noise = Op("noise", "noise", {});
  graph_.set_loss(Op("loss", "squared_error", {prediction.name, noise}));
}

// Each parameter is added where an op reads it. The published order is the order of the modules. Both orders agree,
// except for the SiLUs of the embedded time, which have no parameters.
ModelGraph Builder::Build() {
  EmbedTime();
  // Names of the residual blocks. Each has its own SiLU of the embedded time, made here (unet_graph.h says why).
  std::vector<std::string> blocks;
  int block = 0;
  for (size_t level = 0; level < shape_.channel_mult.size(); ++level) {
    for (int64_t i = 0; i < shape_.blocks; ++i) blocks.push_back(absl::StrCat("input_blocks.", ++block, ".0"));
    ++block;
  }
  blocks.push_back("middle_block.0");
  blocks.push_back("middle_block.2");
  for (size_t i = 0; i < shape_.channel_mult.size() * static_cast<size_t>(shape_.blocks + 1); ++i) {
    blocks.push_back(absl::StrCat("output_blocks.", i, ".0"));
  }
  for (const std::string& name : blocks) Silu(name + ".emb_layers.0", time_);
  OpAttributes levels;
  levels.set_diffusion_steps(shape_.diffusion_steps);
  levels.set_cosine_schedule(shape_.cosine_schedule);
  const Features image = {Op("image", "noisy_image", {}, levels), shape_.in_channels};
  const Features first = Convolution("input_blocks.0.0", image, shape_.channels * shape_.channel_mult[0], 3);
  Loss(Up(Middle(Down(first))));
  return std::move(graph_);
}

}  // namespace

ModelGraph BuildUnetGraph(const UnetShape& shape, absl::string_view name) { return Builder(shape, name).Build(); }

}  // namespace weft
