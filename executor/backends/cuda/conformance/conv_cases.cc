// Cases of convolutions and group norms.
#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

struct Images {
  int64_t samples, height, width, inputs, outputs, side, stride;

  int64_t rows() const { return samples * height * width; }
  int64_t out_rows() const { return samples * ((height - 1) / stride + 1) * ((width - 1) / stride + 1); }
  std::vector<int64_t> weight() const { return {outputs, inputs, side, side}; }
};

Images DrawImages(CaseMaker& make, Step& step) {
  Images i;
  i.samples = make.round == 8 ? 0 : make.Between(1, 3);
  i.height = make.Between(1, 9);
  i.width = make.Between(1, 9);
  i.side = 2 * make.Between(0, 2) + 1;
  i.stride = make.Between(1, 3);
  // Round 3 has more input channels than a tile, and round 5 more output channels.
  i.inputs = make.round == 3 ? 70 : make.Between(1, 20);
  i.outputs = make.round == 5 ? 66 : make.Between(1, 20);
  StepAttributes* a = step.mutable_attributes();
  a->set_height(i.height);
  a->set_width(i.width);
  a->set_kernel_size(i.side);
  a->set_stride(i.stride);
  return i;
}

struct Groups {
  int64_t samples, rows, columns, groups;
};

Groups DrawGroups(CaseMaker& make, Step& step) {
  Groups g;
  g.samples = make.round == 8 ? 0 : make.Between(1, 3);
  // Most rounds draw groups that fit into one block; every third round has groups of a multiple of 8 columns. Round 6
  // has one group that is too large for a block.
  g.rows = make.round == 3 ? 700 : make.round == 6 ? 2100 : make.Between(1, 60);
  g.groups = make.round == 6 ? 1 : make.Between(1, 5);
  g.columns = g.groups * (make.round % 3 == 0 ? 8 * make.Between(1, 2) : make.Between(1, 12));
  // A single element has no variance, so the result would consist of rounding errors.
  if (g.rows == 1 && g.columns == g.groups) g.rows = 2;
  step.mutable_attributes()->set_sequence(g.rows);
  step.mutable_attributes()->set_groups(g.groups);
  return g;
}

}  // namespace

ConformanceCase Conv2dCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(CONV2D);
  const Images i = DrawImages(make, c.step);
  c.in = {make.Normal({i.rows(), i.inputs}), make.Normal(i.weight())};
  if (make.Coin()) c.in.push_back(make.Normal({i.outputs}));
  c.out = {make.Normal({i.out_rows(), i.outputs})};
  return c;
}

ConformanceCase Conv2dBackwardCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(CONV2D_BACKWARD, make.Coin());
  const Images i = DrawImages(make, c.step);
  c.in = {make.Normal({i.out_rows(), i.outputs}), make.Normal(i.weight())};
  c.out = {make.Normal({i.rows(), i.inputs})};
  return c;
}

ConformanceCase Conv2dBackwardWeightCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(CONV2D_BACKWARD_WEIGHT, make.Coin());
  Images i = DrawImages(make, c.step);
  // Round 6 has more rows than the kernel sums in one run.
  if (make.round == 6) i.samples = 20;
  c.in = {make.Normal({i.out_rows(), i.outputs}), make.Normal({i.rows(), i.inputs})};
  c.out = {make.Normal(i.weight())};
  return c;
}

ConformanceCase GroupNormCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(GROUP_NORM);
  const Groups g = DrawGroups(make, c.step);
  c.step.mutable_attributes()->set_epsilon(1e-5);
  c.in = {make.Normal({g.samples * g.rows, g.columns}, 2, 0.5), make.Normal({g.columns}, 0.3, 1),
          make.Normal({g.columns})};
  c.out.emplace_back(make.dtype, std::vector<int64_t>{g.samples * g.rows, g.columns});
  for (int i = 0; i < 2; ++i) c.out.emplace_back(make.statistics(), std::vector<int64_t>{g.samples, g.groups});
  return c;
}

ConformanceCase GroupNormBackwardCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(GROUP_NORM_BACKWARD, make.Coin());
  const Groups g = DrawGroups(make, c.step);
  c.in = {make.Normal({g.samples * g.rows, g.columns}), make.Normal({g.samples * g.rows, g.columns}, 2, 0.5),
          make.Normal({g.columns}, 0.3, 1), make.Normal(make.statistics(), {g.samples, g.groups}),
          make.Positive(make.statistics(), {g.samples, g.groups})};
  c.out = {make.Normal({g.samples * g.rows, g.columns})};
  return c;
}

ConformanceCase GroupNormBackwardWeightCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(GROUP_NORM_BACKWARD_WEIGHT, make.Coin());
  const Groups g = DrawGroups(make, c.step);
  c.in = {make.Normal({g.samples * g.rows, g.columns}), make.Normal({g.samples * g.rows, g.columns}, 2, 0.5),
          make.Normal(make.statistics(), {g.samples, g.groups}),
          make.Positive(make.statistics(), {g.samples, g.groups})};
  c.out = {make.Normal({g.columns}), make.Normal({g.columns})};
  return c;
}

}  // namespace weft::exec::cuda
