// Checks kernels of image models against plain loops, and their backward kernels against finite differences.
#include <cmath>
#include <string>
#include <vector>

#include "executor/backends/cpu/cpu_gradient_testing.h"
#include "executor/numerics/diffusion.h"

namespace weft::exec::cpu {
namespace {

struct Image {
  int64_t samples, height, width, side, stride, inputs, outputs;

  int64_t out_height() const { return (height + stride - 1) / stride; }
  int64_t out_width() const { return (width + stride - 1) / stride; }
  int64_t in_rows() const { return samples * height * width; }
  int64_t out_rows() const { return samples * out_height() * out_width(); }
  std::vector<int64_t> filter() const { return {outputs, inputs, side, side}; }

  Step step(Kernel kernel) const {
    Step step;
    step.set_kernel(kernel);
    StepAttributes& a = *step.mutable_attributes();
    a.set_height(height);
    a.set_width(width);
    a.set_kernel_size(side);
    a.set_stride(stride);
    return step;
  }
  std::string Name() const {
    return "conv " + std::to_string(height) + "x" + std::to_string(width) + " side " + std::to_string(side) +
           " stride " + std::to_string(stride);
  }
};

// Small shapes, one shape whose sums are longer than kDepthBlock, and one with more output channels than a task takes.
const Image kImages[] = {{2, 5, 4, 3, 1, 3, 7},  {2, 5, 4, 3, 2, 3, 7}, {1, 6, 6, 1, 1, 5, 4},  {2, 4, 4, 5, 2, 2, 3},
                         {1, 3, 3, 3, 1, 40, 5}, {2, 4, 5, 1, 2, 3, 4}, {1, 4, 4, 3, 1, 3, 300}};

std::vector<double> Convolve(const Image& g, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<double> y;
  const int64_t pad = g.side / 2;
  for (int64_t n = 0; n < g.samples; ++n) {
    for (int64_t oy = 0; oy < g.out_height(); ++oy) {
      for (int64_t ox = 0; ox < g.out_width(); ++ox) {
        for (int64_t o = 0; o < g.outputs; ++o) {
          double sum = bias.Get(o);
          for (int64_t c = 0; c < g.inputs; ++c) {
            for (int64_t ky = 0; ky < g.side; ++ky) {
              for (int64_t kx = 0; kx < g.side; ++kx) {
                const int64_t iy = oy * g.stride + ky - pad, ix = ox * g.stride + kx - pad;
                if (iy < 0 || ix < 0 || iy >= g.height || ix >= g.width) continue;
                sum += x.Get(((n * g.height + iy) * g.width + ix) * g.inputs + c) *
                       weight.Get(((o * g.inputs + c) * g.side + ky) * g.side + kx);
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

using ImageTest = GradientTest;

TEST_F(ImageTest, ConvolutionIsThePlainSum) {
  for (const Image& g : kImages) {
    for (DType dtype : {FP64, FP32, BF16}) {
      const Tensors in = {Normal(dtype, {g.in_rows(), g.inputs}, random_), Normal(dtype, g.filter(), random_),
                          Normal(dtype, {g.outputs}, random_)};
      const Tensor y = Run(g.step(CONV2D), in, {Tensor(dtype, {g.out_rows(), g.outputs})})[0];
      const std::vector<double> expected = Convolve(g, in[0], in[1], in[2]);
      ASSERT_EQ(static_cast<size_t>(y.size()), expected.size());
      const double tolerance = dtype == FP64 ? 1e-13 : dtype == FP32 ? 1e-5 : 0.01;
      for (int64_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y.Get(i), expected[i], tolerance * (std::abs(expected[i]) + std::sqrt(9.0 * g.inputs))) << g.Name();
      }
      EXPECT_TRUE(y.GuardIntact());
    }
  }
}

TEST_F(ImageTest, ConvolutionBackward) {
  for (const Image& g : kImages) {
    const Tensors x = {Normal(FP64, {g.in_rows(), g.inputs}, random_), Normal(FP64, g.filter(), random_),
                       Normal(FP64, {g.outputs}, random_)};
    Check(
        g.Name(), x, [&](Tensors in) { return Run(g.step(CONV2D), in, {Tensor(FP64, {g.out_rows(), g.outputs})})[0]; },
        [&](const Tensor& dy) {
          return Tensors{
              Run(g.step(CONV2D_BACKWARD), {dy, x[1]}, {Tensor(FP64, {g.in_rows(), g.inputs})})[0],
              Run(g.step(CONV2D_BACKWARD_WEIGHT), {dy, x[0]}, {Tensor(FP64, g.filter())})[0],
              Run(BIAS_GRADIENT, {dy}, {Tensor(FP64, {g.outputs})})[0],
          };
        });
  }
}

// The weight gradient is a sum of several pieces of rows. It is added to the old value with one rounding, and the
// number of threads changes no bit of any result.
TEST_F(ImageTest, WeightGradientAccumulatesAndThreadsDoNotShow) {
  const Image g = {3, 17, 16, 3, 1, 20, 100};
  for (DType dtype : {FP32, BF16}) {
    const Tensor dy = Normal(dtype, {g.out_rows(), g.outputs}, random_),
                 x = Normal(dtype, {g.in_rows(), g.inputs}, random_);
    const Tensor weight = Normal(dtype, g.filter(), random_), old = Normal(FP32, g.filter(), random_);
    for (Kernel kernel : {CONV2D, CONV2D_BACKWARD, CONV2D_BACKWARD_WEIGHT}) {
      std::vector<unsigned char> first;
      for (int threads : {1, 2, 3}) {
        const std::unique_ptr<Backend> backend = MakeCpuBackend(threads);
        Tensors in = {kernel == CONV2D ? x : dy, kernel == CONV2D_BACKWARD_WEIGHT ? x : weight};
        Tensors out = {kernel == CONV2D            ? Tensor(dtype, {g.out_rows(), g.outputs})
                       : kernel == CONV2D_BACKWARD ? Tensor(dtype, {g.in_rows(), g.inputs})
                                                   : old};
        Step step = g.step(kernel);
        step.set_accumulate(kernel == CONV2D_BACKWARD_WEIGHT);
        ASSERT_TRUE(RunStep(*backend, step, in, out).ok());
        if (threads == 1) first = out[0].bytes();
        EXPECT_EQ(out[0].bytes(), first) << threads << " threads, " << Kernel_Name(kernel);
        if (!step.accumulate()) continue;
        Tensors fresh = {Tensor(FP32, g.filter())};
        step.set_accumulate(false);
        ASSERT_TRUE(RunStep(*backend, step, in, fresh).ok());
        for (int64_t i = 0; i < old.size(); ++i) {
          ASSERT_EQ(static_cast<float>(out[0].Get(i)),
                    static_cast<float>(old.Get(i)) + static_cast<float>(fresh[0].Get(i)));
        }
      }
    }
  }
}

TEST_F(ImageTest, GroupNorm) {
  const int64_t samples = 2, positions = 6, columns = 12;
  for (int64_t groups : {1, 3, 12}) {
    Step step;
    step.set_kernel(GROUP_NORM);
    step.mutable_attributes()->set_groups(groups);
    step.mutable_attributes()->set_sequence(positions);
    step.mutable_attributes()->set_epsilon(1e-3);
    const int64_t rows = samples * positions;
    const Tensors outputs = {Tensor(FP64, {rows, columns}), Tensor(FP64, {samples, groups}),
                             Tensor(FP64, {samples, groups})};
    const Tensors x = {Normal(FP64, {rows, columns}, random_), Normal(FP64, {columns}, random_),
                       Normal(FP64, {columns}, random_)};
    // With gamma = 1 and beta = 0, each group has mean 0.
    Tensors plain = x;
    for (int64_t c = 0; c < columns; ++c) {
      plain[1].Set(c, 1);
      plain[2].Set(c, 0);
    }
    const Tensor y = Run(step, plain, outputs)[0];
    for (int64_t sample = 0; sample < samples; ++sample) {
      for (int64_t group = 0; group < groups; ++group) {
        double sum = 0;
        for (int64_t r = 0; r < positions; ++r) {
          for (int64_t c = 0; c < columns / groups; ++c) {
            sum += y.Get((sample * positions + r) * columns + group * (columns / groups) + c);
          }
        }
        EXPECT_NEAR(sum, 0, 1e-12);
      }
    }
    Check(
        "GROUP_NORM", x, [&](Tensors in) { return Run(step, in, outputs)[0]; },
        [&](const Tensor& dy) {
          const Tensors forward = Run(step, x, outputs);
          Step backward = step;
          backward.mutable_attributes()->clear_epsilon();
          backward.set_kernel(GROUP_NORM_BACKWARD);
          const Tensors dx = Run(backward, {dy, x[0], x[1], forward[1], forward[2]}, {Tensor(FP64, {rows, columns})});
          backward.set_kernel(GROUP_NORM_BACKWARD_WEIGHT);
          const Tensors dw =
              Run(backward, {dy, x[0], forward[1], forward[2]}, {Tensor(FP64, {columns}), Tensor(FP64, {columns})});
          return Tensors{dx[0], dw[0], dw[1]};
        });
  }
}

TEST_F(ImageTest, ColumnsAndPositions) {
  const int64_t samples = 2, height = 3, width = 2, rows = samples * height * width, columns = 5;
  const Tensors two = {Normal(FP64, {rows, columns}, random_), Normal(FP64, {rows, 3}, random_)};
  Check(
      "CONCAT_COLUMNS", two,
      [&](Tensors in) { return Run(CONCAT_COLUMNS, in, {Tensor(FP64, {rows, columns + 3})})[0]; },
      [&](const Tensor& dy) {
        Step slice;
        slice.set_kernel(SLICE_COLUMNS);
        const Tensor first = Run(slice, {dy}, {Tensor(FP64, {rows, columns})})[0];
        slice.mutable_attributes()->set_first_column(columns);
        return Tensors{first, Run(slice, {dy}, {Tensor(FP64, {rows, 3})})[0]};
      });
  Step step;
  step.mutable_attributes()->set_height(height);
  step.mutable_attributes()->set_width(width);
  const Tensors x = {Normal(FP64, {rows, columns}, random_)};
  Check(
      "UPSAMPLE", x,
      [&](Tensors in) {
        step.set_kernel(UPSAMPLE);
        return Run(step, in, {Tensor(FP64, {4 * rows, columns})})[0];
      },
      [&](const Tensor& dy) {
        step.set_kernel(UPSAMPLE_BACKWARD);
        return Run(step, {dy}, {Tensor(FP64, {rows, columns})});
      });
  step.set_kernel(UPSAMPLE);
  const Tensor up = Run(step, x, {Tensor(FP64, {4 * rows, columns})})[0];
  // Output position (5, 3) of the second sample comes from input position (2, 1).
  for (int64_t c = 0; c < columns; ++c) {
    EXPECT_EQ(up.Get((4 * height * width + 5 * 2 * width + 3) * columns + c),
              x[0].Get((height * width + 2 * width + 1) * columns + c));
  }
}

// An all-gather stores the columns of each member as one block of rows.
TEST_F(ImageTest, SliceOfColumnsInGroups) {
  const int64_t rows = 7, columns = 6, groups = 3, of_group = columns / groups;
  for (DType dtype : {FP64, BF16}) {
    const Tensor whole = Normal(dtype, {rows, columns}, random_);
    Tensor gathered(dtype, {groups * rows, of_group});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        gathered.Set((c / of_group * rows + r) * of_group + c % of_group, whole.Get(r * columns + c));
      }
    }
    Step step;
    step.set_kernel(SLICE_COLUMNS);
    step.mutable_attributes()->set_groups(groups);
    for (int64_t first = 0; first < columns; ++first) {
      for (int64_t count = 1; count <= columns - first; ++count) {
        for (int64_t shift = 0; shift <= first; ++shift) {
          step.mutable_attributes()->set_first_column(first - shift);
          StepContext context;
          context.column_shift = shift;
          const Tensor part = Run(step, {gathered}, {Tensor(dtype, {rows, count})}, context)[0];
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < count; ++c) {
              EXPECT_EQ(part.Get(r * count + c), whole.Get(r * columns + first + c)) << first << " " << count;
            }
          }
        }
      }
    }
  }
}

TEST_F(ImageTest, RowsPerSample) {
  const int64_t samples = 3, positions = 4, rows = samples * positions, columns = 150;
  Step step;
  step.mutable_attributes()->set_sequence(positions);
  const auto run = [&](Kernel kernel, Tensors in, std::vector<int64_t> shape) {
    step.set_kernel(kernel);
    return Run(step, std::move(in), {Tensor(FP64, std::move(shape))})[0];
  };
  const Tensors plain = {Normal(FP64, {rows, columns}, random_), Normal(FP64, {samples, columns}, random_)};
  Check(
      "ADD_PER_SAMPLE", plain, [&](Tensors in) { return run(ADD_PER_SAMPLE, in, {rows, columns}); },
      [&](const Tensor& dy) { return Tensors{dy, run(SUM_PER_SAMPLE, {dy}, {samples, columns})}; });
  const Tensors both = {plain[0], Normal(FP64, {samples, 2 * columns}, random_)};
  Check(
      "SCALE_SHIFT", both, [&](Tensors in) { return run(SCALE_SHIFT, in, {rows, columns}); },
      [&](const Tensor& dy) {
        return Tensors{run(SCALE_SHIFT_BACKWARD, {dy, both[1]}, {rows, columns}),
                       run(SCALE_SHIFT_BACKWARD_SAMPLE, {dy, both[0]}, {samples, 2 * columns})};
      });
}

TEST_F(ImageTest, SquaredError) {
  const int64_t rows = 6, columns = 3;
  const Tensor target = Normal(FP64, {rows, columns}, random_);
  Step step;
  step.set_kernel(SQUARED_ERROR);
  step.mutable_attributes()->set_loss_weight(0.25);
  StepContext context;
  context.global_microbatch = 1;
  const Tensors x = {Normal(FP64, {rows, columns}, random_)};
  Tensor losses(FP64, {3});
  losses.Set(0, 7);
  losses.Set(2, 8);
  const Tensor out = Run(step, {x[0], target}, {losses}, context)[0];
  double expected = 0;
  for (int64_t i = 0; i < x[0].size(); ++i) expected += std::pow(x[0].Get(i) - target.Get(i), 2) / 4;
  EXPECT_NEAR(out.Get(1), expected, 1e-14 * expected);
  EXPECT_EQ(out.Get(0), 7);
  EXPECT_EQ(out.Get(2), 8);
  step.mutable_attributes()->set_loss_weight(1);
  Check(
      "SQUARED_ERROR", x, [&](Tensors in) { return Run(step, {in[0], target}, {Tensor(FP64, {1})})[0]; },
      [&](const Tensor& dy) {
        Step backward = step;
        backward.set_kernel(SQUARED_ERROR_BACKWARD);
        backward.mutable_attributes()->set_loss_weight(dy.Get(0));
        return Run(backward, {x[0], target}, {Tensor(FP64, {rows, columns})});
      });
}

// An image has pixels 0.01, 0.02, …, each plus the number of its sample.
class RampData : public DataSource {
 public:
  int64_t windows() const override { return 100; }
  absl::Status Sample(int64_t, absl::Span<int32_t>, absl::Span<int32_t>) const override {
    return absl::InternalError("no tokens");
  }
  absl::Status Image(int64_t sample, absl::Span<float> pixels) const override {
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = 0.01f * static_cast<float>(i + 1) + static_cast<float>(sample);
    return absl::OkStatus();
  }
};

TEST_F(ImageTest, NoisyImagesAreTheImageAndTheNoise) {
  const RampData data;
  StepContext context;
  context.seed = 77;
  context.first_sample = 5;
  context.microbatch_sequences = 2;
  context.data = &data;
  const int64_t positions = 700, channels = 3, per_sample = positions * channels;
  Step step, of_noise;
  step.set_kernel(LOAD_TIMESTEPS);
  step.mutable_attributes()->set_diffusion_steps(1000);
  of_noise.set_kernel(LOAD_NOISE);
  const Tensor times = Run(step, {}, {Tensor(INT32, {2})}, context)[0];
  const Tensor noise = Run(of_noise, {}, {Tensor(FP64, {2 * positions, channels})}, context)[0];
  step.set_kernel(LOAD_NOISY_IMAGE);
  const Tensor noisy = Run(step, {}, {Tensor(FP64, {2 * positions, channels})}, context)[0];
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < noise.size(); ++i) {
    const int64_t sample = i / per_sample;
    const double level = SignalLevel(1000, false, static_cast<int64_t>(times.Get(sample)));
    const double pixel = 0.01f * static_cast<float>(i % per_sample + 1) + static_cast<float>(5 + sample);
    EXPECT_NEAR(noisy.Get(i), std::sqrt(level) * pixel + std::sqrt(1 - level) * noise.Get(i), 1e-12);
    sum += noise.Get(i);
    squares += noise.Get(i) * noise.Get(i);
  }
  const double n = static_cast<double>(noise.size());
  EXPECT_NEAR(sum / n, 0, 0.05);
  EXPECT_NEAR(squares / n, 1, 0.07);
  // A sample's noise depends on the sample alone, whichever microbatch loads it.
  context.first_sample = 6;
  context.microbatch_sequences = 1;
  const Tensor second = Run(of_noise, {}, {Tensor(FP64, {positions, channels})}, context)[0];
  for (int64_t i = 0; i < per_sample; ++i) ASSERT_EQ(second.Get(i), noise.Get(per_sample + i));
}

TEST_F(ImageTest, TimestepEmbedding) {
  Tensor times(INT32, {2});
  times.Set(0, 0);
  times.Set(1, 40);
  Step step;
  step.set_kernel(TIMESTEP_EMBEDDING);
  step.mutable_attributes()->set_timestep_scale(0.5);
  const Tensor y = Run(step, {times}, {Tensor(FP64, {2, 5})})[0];
  const double expected[] = {1, 1, 0, 0, 0, std::cos(20.0), std::cos(0.2), std::sin(20.0), std::sin(0.2), 0};
  for (int i = 0; i < 10; ++i) EXPECT_NEAR(y.Get(i), expected[i], 1e-14) << i;
}

}  // namespace
}  // namespace weft::exec::cpu
