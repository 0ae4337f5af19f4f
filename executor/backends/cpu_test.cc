// Every CPU kernel against a naive reference in double, for all storage types, odd shapes, accumulation, 1 to 3 threads
// and every instruction set of this machine.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu_kernel_case.h"
#include "executor/exact192.h"
#include "executor/philox.h"

namespace weft::cpu {
namespace {

TEST(Cpu, MatMul) {
  std::mt19937_64 random(1);
  const int64_t shapes[][3] = {{1, 1, 1},   {2, 3, 5},      {12, 32, 16},  {13, 33, 17}, {50, 70, 300},
                               {97, 65, 9}, {100, 40, 600}, {3, 200, 257}, {200, 7, 64}, {5, 9, 0}};
  for (DType dtype : kDTypes) {
    for (const auto& [m, n, k] : shapes) {
      for (int bits = 0; bits < 16; ++bits) {
        const bool ta = bits & 1, tb = bits & 2, accumulate = bits & 4, bias = bits & 8;
        KernelCase c;
        c.name = absl::StrCat("MATMUL ", DType_Name(dtype), " ", m, "x", n, "x", k, " flags ", bits);
        c.step = MakeStep(MATMUL, accumulate);
        c.step.mutable_attributes()->set_transpose_a(ta);
        c.step.mutable_attributes()->set_transpose_b(tb);
        c.in.push_back(Normal(dtype, ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}, random));
        c.in.push_back(Normal(dtype, tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}, random));
        if (bias) c.in.push_back(Normal(dtype, {n}, random));
        if (k == 0 && !ta) continue;
        c.out.push_back(Normal(dtype, {m, n}, random));
        c.tolerance = ToleranceOf(dtype);
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = bias ? in[2][j] : 0;
              for (int64_t l = 0; l < k; ++l)
                sum += in[0][ta ? l * m + i : i * k + l] * in[1][tb ? j * k + l : l * n + j];
              expected[0][i * n + j] = (accumulate ? expected[0][i * n + j] : 0) + sum;
            }
          }
        };
        Check(c);
      }
    }
  }
}

// Splitting rows into microbatches or columns into blocks changes no bit of a product.
TEST(Cpu, MatMulRowsDoNotDependOnTheirNeighbours) {
  std::mt19937_64 random(2);
  const int64_t m = 61, n = 83, k = 517;
  Tensor a = Normal(FP32, {m, k}, random), b = Normal(FP32, {k, n}, random);
  std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  std::vector<Tensor> in = {a, b}, out = {Tensor(FP32, {m, n})};
  ASSERT_TRUE(RunStep(*backend, MakeStep(MATMUL), in, out).ok());
  for (int64_t row = 0; row < m; ++row) {
    Tensor one(FP32, {1, k});
    for (int64_t j = 0; j < k; ++j) one.Set(j, a.Get(row * k + j));
    std::vector<Tensor> in_row = {one, b}, out_row = {Tensor(FP32, {1, n})};
    ASSERT_TRUE(RunStep(*backend, MakeStep(MATMUL), in_row, out_row).ok());
    for (int64_t j = 0; j < n; ++j) ASSERT_EQ(out_row[0].Get(j), out[0].Get(row * n + j));
  }
}

TEST(Cpu, MixedTypesComputeInFloatAndRoundOnce) {
  std::mt19937_64 random(3);
  KernelCase c;
  c.name = "MATMUL bf16 x fp32 -> fp32";
  c.step = MakeStep(MATMUL);
  c.in = {Normal(BF16, {20, 30}, random), Normal(FP32, {30, 11}, random)};
  c.out = {Tensor(FP32, {20, 11})};
  c.tolerance = ToleranceOf(FP32);
  c.reference = [](const std::vector<Values>& in, std::vector<Values>& expected) {
    for (int i = 0; i < 20; ++i) {
      for (int j = 0; j < 11; ++j) {
        for (int l = 0; l < 30; ++l) expected[0][i * 11 + j] += in[0][i * 30 + l] * in[1][l * 11 + j];
      }
    }
  };
  Check(c);
}

TEST(Cpu, ElementwiseKernels) {
  std::mt19937_64 random(4);
  for (DType dtype : kDTypes) {
    for (int64_t n : {1, 7, 1024, 40000}) {
      for (bool accumulate : {false, true}) {
        KernelCase c;
        c.name = absl::StrCat("ADD ", DType_Name(dtype), " ", n);
        c.step = MakeStep(ADD, accumulate);
        c.in = {Normal(dtype, {n}, random), Normal(dtype, {n}, random)};
        c.out = {Normal(dtype, {n}, random)};
        c.tolerance = ToleranceOf(dtype);
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t i = 0; i < n; ++i) expected[0][i] = (accumulate ? expected[0][i] : 0) + in[0][i] + in[1][i];
        };
        Check(c);
      }
      for (bool tanh_approximation : {false, true}) {
        KernelCase c;
        c.name = absl::StrCat("GELU ", DType_Name(dtype), " ", n, tanh_approximation ? " tanh" : " erf");
        c.step = MakeStep(GELU);
        c.step.mutable_attributes()->set_tanh_approximation(tanh_approximation);
        c.in = {Normal(dtype, {n}, random, 3)};
        c.out = {Tensor(dtype, {n})};
        c.tolerance = ToleranceOf(dtype);
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t i = 0; i < n; ++i) {
            const double x = in[0][i];
            // (1 + tanh u) / 2 in a form that is accurate where it is small.
            const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
            expected[0][i] = tanh_approximation ? x / (1 + std::exp(-2 * u)) : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
          }
        };
        Check(c);
        c.name = absl::StrCat(c.name, " backward");
        c.step.set_kernel(GELU_BACKWARD);
        c.in.insert(c.in.begin(), Normal(dtype, {n}, random));
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t i = 0; i < n; ++i) {
            const double x = in[1][i];
            const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
            const double half = 1 / (1 + std::exp(-2 * u)), rest = 1 / (1 + std::exp(2 * u));
            expected[0][i] =
                in[0][i] *
                (tanh_approximation
                     ? half + 2 * x * half * rest * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x)
                     : 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI));
          }
        };
        Check(c);
      }
      for (DType to : kDTypes) {
        KernelCase c;
        c.name = absl::StrCat("CAST ", DType_Name(dtype), " to ", DType_Name(to));
        c.step = MakeStep(CAST);
        c.in = {Normal(dtype, {n}, random)};
        c.out = {Tensor(to, {n})};
        c.tolerance = 0;
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          Tensor rounded(to, {n});
          for (int64_t i = 0; i < n; ++i) rounded.Set(i, in[0][i]);
          expected[0] = rounded.Values();
        };
        Check(c);
      }
      KernelCase c;
      c.name = "FILL";
      c.step = MakeStep(FILL);
      c.step.mutable_attributes()->set_value(0.3);
      c.out = {Tensor(dtype, {n})};
      c.tolerance = 0;
      c.reference = [=](const std::vector<Values>&, std::vector<Values>& expected) {
        Tensor rounded(dtype, {n});
        for (int64_t i = 0; i < n; ++i) rounded.Set(i, 0.3);
        expected[0] = rounded.Values();
      };
      Check(c);
      c.name = absl::StrCat("SCALE ", DType_Name(dtype));
      c.step = MakeStep(SCALE);
      c.in = {Normal(FP64, {2}, random), Normal(dtype, {n}, random)};
      c.tolerance = ToleranceOf(dtype);
      c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t i = 0; i < n; ++i) expected[0][i] = in[1][i] * in[0][1];
      };
      Check(c);
    }
  }
}

TEST(Cpu, GeluOfExtremeValues) {
  for (DType dtype : {FP64, FP32}) {
    for (bool tanh_approximation : {false, true}) {
      Step step = MakeStep(GELU);
      step.mutable_attributes()->set_tanh_approximation(tanh_approximation);
      const Values extremes = {1e30, -1e30, 100, -100, 0, std::nan("")};
      std::vector<Tensor> in = {Tensor(dtype, {6})}, out = {Tensor(dtype, {6})};
      for (int i = 0; i < 6; ++i) in[0].Set(i, extremes[i]);
      ASSERT_TRUE(RunStep(*MakeCpuBackend(1), step, in, out).ok());
      EXPECT_EQ(out[0].Get(0), in[0].Get(0));
      EXPECT_EQ(out[0].Get(1), 0);
      EXPECT_EQ(out[0].Get(2), 100);
      EXPECT_EQ(out[0].Get(3), 0);
      EXPECT_EQ(out[0].Get(4), 0);
      EXPECT_TRUE(std::isnan(out[0].Get(5)));
      step.set_kernel(GELU_BACKWARD);
      in.insert(in.begin(), Tensor(dtype, {6}));
      for (int i = 0; i < 6; ++i) in[0].Set(i, 1);
      ASSERT_TRUE(RunStep(*MakeCpuBackend(1), step, in, out).ok());
      EXPECT_EQ(out[0].Get(0), 1);
      EXPECT_EQ(out[0].Get(1), 0);
      EXPECT_EQ(out[0].Get(2), 1);
      EXPECT_EQ(out[0].Get(3), 0);
      EXPECT_EQ(out[0].Get(4), 0.5);
      EXPECT_TRUE(std::isnan(out[0].Get(5)));
    }
  }
}

TEST(Cpu, LayerNorm) {
  std::mt19937_64 random(5);
  for (DType dtype : kDTypes) {
    for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {17, 64}, {40, 100}, {9, 771}}) {
      const double epsilon = 1e-5;
      const auto statistics = [epsilon, d = d](const Values& x, int64_t r, double& mean, double& rstd) {
        mean = 0;
        double variance = 0;
        for (int64_t j = 0; j < d; ++j) mean += x[r * d + j] / d;
        for (int64_t j = 0; j < d; ++j) variance += std::pow(x[r * d + j] - mean, 2) / d;
        rstd = 1 / std::sqrt(variance + epsilon);
      };
      KernelCase c;
      c.name = absl::StrCat("LAYER_NORM ", DType_Name(dtype), " ", rows, "x", d);
      c.step = MakeStep(LAYER_NORM);
      c.step.mutable_attributes()->set_epsilon(epsilon);
      c.in = {Normal(dtype, {rows, d}, random), Normal(dtype, {d}, random), Normal(dtype, {d}, random)};
      c.out = {Tensor(dtype, {rows, d}), Tensor(StatisticsOf(dtype), {rows}), Tensor(StatisticsOf(dtype), {rows})};
      c.tolerance = ToleranceOf(dtype);
      c.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t r = 0; r < rows; ++r) {
          double mean, rstd;
          statistics(in[0], r, mean, rstd);
          for (int64_t j = 0; j < d; ++j)
            expected[0][r * d + j] = (in[0][r * d + j] - mean) * rstd * in[1][j] + in[2][j];
          expected[1][r] = mean;
          expected[2][r] = rstd;
        }
      };
      Check(c);

      Tensor mean(StatisticsOf(dtype), {rows}), rstd(StatisticsOf(dtype), {rows});
      for (int64_t r = 0; r < rows; ++r) {
        double m, s;
        statistics(c.in[0].Values(), r, m, s);
        mean.Set(r, m);
        rstd.Set(r, s);
      }
      for (bool accumulate : {false, true}) {
        KernelCase b;
        b.name = absl::StrCat(c.name, " backward");
        b.step = MakeStep(LAYER_NORM_BACKWARD, accumulate);
        b.in = {Normal(dtype, {rows, d}, random), c.in[0], c.in[1], mean, rstd};
        b.out = {Normal(dtype, {rows, d}, random)};
        b.tolerance = 4 * ToleranceOf(dtype);
        b.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t r = 0; r < rows; ++r) {
            // dx[j] = sum over i of dy[i] gamma[i] dz[i]/dx[j], with the Jacobian written out.
            for (int64_t j = 0; j < d; ++j) {
              const double zj = (in[1][r * d + j] - in[3][r]) * in[4][r];
              double sum = 0;
              for (int64_t i = 0; i < d; ++i) {
                const double zi = (in[1][r * d + i] - in[3][r]) * in[4][r];
                sum += in[0][r * d + i] * in[2][i] * in[4][r] * ((i == j) - 1.0 / d - zi * zj / d);
              }
              expected[0][r * d + j] = (accumulate ? expected[0][r * d + j] : 0) + sum;
            }
          }
        };
        Check(b);
        KernelCase w;
        w.name = absl::StrCat(c.name, " backward weight");
        w.step = MakeStep(LAYER_NORM_BACKWARD_WEIGHT, accumulate);
        w.in = {b.in[0], c.in[0], mean, rstd};
        w.out = {Normal(dtype, {d}, random), Normal(dtype, {d}, random)};
        w.tolerance = ToleranceOf(dtype);
        w.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t j = 0; j < d; ++j) {
            double dgamma = 0, dbeta = 0;
            for (int64_t r = 0; r < rows; ++r) {
              dgamma += in[0][r * d + j] * (in[1][r * d + j] - in[2][r]) * in[3][r];
              dbeta += in[0][r * d + j];
            }
            expected[0][j] = (accumulate ? expected[0][j] : 0) + dgamma;
            expected[1][j] = (accumulate ? expected[1][j] : 0) + dbeta;
          }
        };
        Check(w);
        KernelCase s;
        s.name = absl::StrCat("BIAS_GRADIENT ", DType_Name(dtype));
        s.step = MakeStep(BIAS_GRADIENT, accumulate);
        s.in = {b.in[0]};
        s.out = {w.out[0]};
        s.tolerance = ToleranceOf(dtype);
        s.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t j = 0; j < d; ++j) {
            if (!accumulate) expected[0][j] = 0;
            for (int64_t r = 0; r < rows; ++r) expected[0][j] += in[0][r * d + j];
          }
        };
        Check(s);
      }
    }
  }
}

TEST(Cpu, Embeddings) {
  std::mt19937_64 random(6);
  for (DType dtype : kDTypes) {
    for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{1, 1}, {24, 7}, {60, 130}}) {
      const int64_t vocabulary = 11, sequence = rows % 12 == 0 ? 12 : 1;
      Tensor tokens(INT32, {rows});
      for (int64_t i = 0; i < rows; ++i) tokens.Set(i, static_cast<double>(random() % vocabulary));
      KernelCase c;
      c.name = absl::StrCat("EMBEDDING ", DType_Name(dtype), " ", rows, "x", d);
      c.step = MakeStep(EMBEDDING);
      c.in = {tokens, Normal(dtype, {vocabulary, d}, random)};
      c.out = {Tensor(dtype, {rows, d})};
      c.tolerance = 0;
      c.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t i = 0; i < rows * d; ++i) expected[0][i] = in[1][static_cast<int64_t>(in[0][i / d]) * d + i % d];
      };
      Check(c);
      c.name = absl::StrCat("POSITION_", c.name);
      c.step = MakeStep(POSITION_EMBEDDING);
      c.step.mutable_attributes()->set_sequence(sequence);
      c.in = {Normal(dtype, {sequence + 1, d}, random)};
      c.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t i = 0; i < rows * d; ++i) expected[0][i] = in[0][i / d % sequence * d + i % d];
      };
      Check(c);
      for (bool accumulate : {false, true}) {
        c.name = absl::StrCat("EMBEDDING_BACKWARD ", DType_Name(dtype), " ", rows, "x", d);
        c.step = MakeStep(EMBEDDING_BACKWARD, accumulate);
        c.in = {tokens, Normal(dtype, {rows, d}, random)};
        c.out = {Normal(dtype, {vocabulary, d}, random)};
        c.tolerance = ToleranceOf(dtype);
        c.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          if (!accumulate) std::fill(expected[0].begin(), expected[0].end(), 0);
          for (int64_t i = 0; i < rows * d; ++i)
            expected[0][static_cast<int64_t>(in[0][i / d]) * d + i % d] += in[1][i];
        };
        Check(c);
        c.name = absl::StrCat("POSITION_", c.name);
        c.step = MakeStep(POSITION_EMBEDDING_BACKWARD, accumulate);
        c.step.mutable_attributes()->set_sequence(sequence);
        c.in.erase(c.in.begin());
        c.out = {Normal(dtype, {sequence + 1, d}, random)};
        c.reference = [=, rows = rows, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
          if (!accumulate) std::fill(expected[0].begin(), expected[0].end(), 0);
          for (int64_t i = 0; i < rows * d; ++i) expected[0][i / d % sequence * d + i % d] += in[0][i];
        };
        Check(c);
      }
    }
  }
}

// Word of element e of one sample, from the definition.
uint32_t DropoutWord(uint64_t seed, uint32_t site, uint64_t sample, int64_t e) {
  return Philox4x32(
      MakePhiloxKey(seed, PhiloxPurpose::kDropout),
      {static_cast<uint32_t>(e / 4), site, static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)})[e % 4];
}

TEST(Cpu, Dropout) {
  std::mt19937_64 random(7);
  for (DType dtype : kDTypes) {
    for (const auto& [sequence, d] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {30, 67}}) {
      const int64_t sequences = 3;
      const double p = 0.3;
      KernelCase c;
      c.name = absl::StrCat("DROPOUT ", DType_Name(dtype), " ", sequence, "x", d);
      c.step = MakeStep(DROPOUT);
      c.step.mutable_attributes()->set_dropout(p);
      c.step.mutable_attributes()->set_dropout_site(9);
      c.in = {Normal(dtype, {sequences * sequence, d}, random)};
      c.out = {Tensor(dtype, {sequences * sequence, d})};
      c.context.seed = 0x123456789abcdef0;
      c.context.first_sample = (int64_t{1} << 32) - 1;
      c.context.microbatch_sequences = sequences;
      c.tolerance = ToleranceOf(dtype);
      c.reference = [=, sequence = sequence, d = d](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t i = 0; i < sequences * sequence * d; ++i) {
          const uint32_t word =
              DropoutWord(0x123456789abcdef0, 9, (uint64_t{1} << 32) - 1 + i / (sequence * d), i % (sequence * d));
          expected[0][i] = word < static_cast<uint32_t>(std::floor(p * 4294967296.0)) ? 0 : in[0][i] / (1 - p);
        }
      };
      Check(c);
    }
  }
}

struct AttentionShape {
  int64_t sequences, sequence, heads, head_width;
};

// Probabilities after and before dropout, log-sum-exps and outputs of one head, from the definition.
void NaiveAttention(const Values& qkv, const AttentionShape& s, bool causal, double scale, double p,
                    const StepContext& context, int64_t b, int64_t h, Values& kept, Values& probability, Values& lse,
                    Values& o) {
  const int64_t S = s.sequence, D = s.head_width, width = s.heads * D;
  const auto at = [&](int part, int64_t row, int64_t c) {
    return qkv[(b * S + row) * 3 * width + part * width + h * D + c];
  };
  kept.assign(S * S, 0);
  probability.assign(S * S, 0);
  lse.assign(S, 0);
  o.assign(S * D, 0);
  for (int64_t i = 0; i < S; ++i) {
    const int64_t reach = causal ? i + 1 : S;
    Values score(reach);
    double largest = -1e300, total = 0;
    for (int64_t j = 0; j < reach; ++j) {
      for (int64_t c = 0; c < D; ++c) score[j] += scale * at(0, i, c) * at(1, j, c);
      largest = std::max(largest, score[j]);
    }
    for (int64_t j = 0; j < reach; ++j) total += std::exp(score[j] - largest);
    lse[i] = largest + std::log(total);
    for (int64_t j = 0; j < reach; ++j) {
      probability[i * S + j] = std::exp(score[j] - lse[i]);
      const bool drop = p > 0 && DropoutWord(context.seed, 4, context.first_sample + b, (h * S + i) * S + j) <
                                     static_cast<uint32_t>(std::floor(p * 4294967296.0));
      kept[i * S + j] = drop ? 0 : 1 / (1 - p);
      for (int64_t c = 0; c < D; ++c) o[i * D + c] += kept[i * S + j] * probability[i * S + j] * at(2, j, c);
    }
  }
}

TEST(Cpu, Attention) {
  std::mt19937_64 random(8);
  for (DType dtype : kDTypes) {
    for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1}, {2, 7, 3, 5}, {1, 50, 2, 16}, {2, 131, 1, 33}}) {
      for (int flags = 0; flags < 4; ++flags) {
        const bool causal = flags & 1;
        const double p = flags & 2 ? 0.2 : 0;
        const int64_t S = s.sequence, D = s.head_width, width = s.heads * D, rows = s.sequences * S;
        const double scale = 1 / std::sqrt(D);
        KernelCase c;
        c.name = absl::StrCat("ATTENTION ", DType_Name(dtype), " sequence ", S, " heads ", s.heads, " width ", D,
                              " flags ", flags);
        c.step = MakeStep(ATTENTION);
        StepAttributes& attributes = *c.step.mutable_attributes();
        attributes.set_heads(s.heads);
        attributes.set_sequence(S);
        attributes.set_causal(causal);
        attributes.set_scale(scale);
        attributes.set_dropout(p);
        attributes.set_dropout_site(4);
        c.context.seed = 77;
        c.context.first_sample = 1000;
        c.context.microbatch_sequences = s.sequences;
        c.in = {Normal(dtype, {rows, 3 * width}, random, 2)};
        c.out = {Tensor(dtype, {rows, width}), Tensor(StatisticsOf(dtype), {rows, s.heads})};
        c.tolerance = 2 * ToleranceOf(dtype);
        const StepContext context = c.context;
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          Values kept, probability, lse, o;
          for (int64_t b = 0; b < s.sequences; ++b) {
            for (int64_t h = 0; h < s.heads; ++h) {
              NaiveAttention(in[0], s, causal, scale, p, context, b, h, kept, probability, lse, o);
              for (int64_t i = 0; i < S; ++i) {
                expected[1][(b * s.heads + h) * S + i] = lse[i];
                for (int64_t k = 0; k < D; ++k) expected[0][(b * S + i) * width + h * D + k] = o[i * D + k];
              }
            }
          }
        };
        Check(c);

        std::vector<Values> forward = {Values(rows * width), Values(rows * s.heads)};
        c.reference({c.in[0].Values()}, forward);
        Tensor o(dtype, {rows, width}), lse(StatisticsOf(dtype), {rows, s.heads});
        for (int64_t i = 0; i < o.size(); ++i) o.Set(i, forward[0][i]);
        for (int64_t i = 0; i < lse.size(); ++i) lse.Set(i, forward[1][i]);
        KernelCase back = c;
        back.name = absl::StrCat(c.name, " backward");
        back.step.set_kernel(ATTENTION_BACKWARD);
        back.in = {Normal(dtype, {rows, width}, random), c.in[0], o, lse};
        back.out = {Tensor(dtype, {rows, 3 * width})};
        back.tolerance = 4 * ToleranceOf(dtype);
        back.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          Values kept, probability, row_lse, unused;
          for (int64_t b = 0; b < s.sequences; ++b) {
            for (int64_t h = 0; h < s.heads; ++h) {
              NaiveAttention(in[1], s, causal, scale, p, context, b, h, kept, probability, row_lse, unused);
              const auto at = [&](int part, int64_t row) { return (b * S + row) * 3 * width + part * width + h * D; };
              for (int64_t i = 0; i < S; ++i) {
                const int64_t doi = (b * S + i) * width + h * D;
                Values dp(S);
                double mean = 0;
                for (int64_t j = 0; j < S; ++j) {
                  for (int64_t k = 0; k < D; ++k) {
                    dp[j] += kept[i * S + j] * in[0][doi + k] * in[1][at(2, j) + k];
                    expected[0][at(2, j) + k] += kept[i * S + j] * probability[i * S + j] * in[0][doi + k];
                  }
                  mean += probability[i * S + j] * dp[j];
                }
                for (int64_t j = 0; j < S; ++j) {
                  const double ds = probability[i * S + j] * (dp[j] - mean) * scale;
                  for (int64_t k = 0; k < D; ++k) {
                    expected[0][at(0, i) + k] += ds * in[1][at(1, j) + k];
                    expected[0][at(1, j) + k] += ds * in[1][at(0, i) + k];
                  }
                }
              }
            }
          }
        };
        Check(back);
      }
    }
  }
}

TEST(Cpu, CrossEntropy) {
  std::mt19937_64 random(9);
  for (DType dtype : kDTypes) {
    for (const auto& [rows, vocabulary] : {std::pair<int64_t, int64_t>{1, 1}, {9, 50}, {33, 1031}}) {
      const int64_t padded = vocabulary + 6;
      const double weight = 0.0625;
      Tensor targets(INT32, {rows});
      for (int64_t i = 0; i < rows; ++i) targets.Set(i, i % 4 == 2 ? -1 : static_cast<double>(random() % vocabulary));
      KernelCase c;
      c.name = absl::StrCat("CROSS_ENTROPY ", DType_Name(dtype), " ", rows, "x", vocabulary);
      c.step = MakeStep(CROSS_ENTROPY);
      c.step.mutable_attributes()->set_vocabulary(vocabulary);
      c.step.mutable_attributes()->set_loss_weight(weight);
      c.context.global_microbatch = 2;
      // Logits of padded columns are garbage that must not matter.
      c.in = {Normal(dtype, {rows, padded}, random, 3), targets};
      c.out = {Tensor(StatisticsOf(dtype), {rows}), Normal(FP64, {4}, random)};
      c.tolerance = dtype == FP64 ? 1e-12 : 3e-6;
      const auto lse_of = [=, vocabulary = vocabulary](const Values& logits, int64_t r) {
        double total = 0;
        for (int64_t j = 0; j < vocabulary; ++j) total += std::exp(logits[r * padded + j]);
        return std::log(total);
      };
      c.reference = [=, rows = rows](const std::vector<Values>& in, std::vector<Values>& expected) {
        double loss = 0;
        for (int64_t r = 0; r < rows; ++r) {
          expected[0][r] = lse_of(in[0], r);
          if (in[1][r] >= 0) loss += weight * (expected[0][r] - in[0][r * padded + static_cast<int64_t>(in[1][r])]);
        }
        expected[1][2] = loss;
      };
      Check(c);
      KernelCase b = c;
      b.name = absl::StrCat(c.name, " backward");
      b.step.set_kernel(CROSS_ENTROPY_BACKWARD);
      Tensor lse(StatisticsOf(dtype), {rows});
      for (int64_t r = 0; r < rows; ++r) lse.Set(r, lse_of(c.in[0].Values(), r));
      b.in = {c.in[0], lse, targets};
      b.out = {Normal(dtype, {rows, padded}, random)};
      b.tolerance = ToleranceOf(dtype);
      b.reference = [=, rows = rows, vocabulary = vocabulary](const std::vector<Values>& in,
                                                              std::vector<Values>& expected) {
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t j = 0; j < padded; ++j) {
            const bool counts = in[2][r] >= 0 && j < vocabulary;
            expected[0][r * padded + j] =
                counts ? weight * (std::exp(in[0][r * padded + j] - lse_of(in[0], r)) - (in[2][r] == j)) : 0;
          }
        }
      };
      Check(b);
    }
  }
}

TEST(Cpu, Norms) {
  std::mt19937_64 random(10);
  for (DType dtype : kDTypes) {
    for (int64_t n : {1, 3, 5000, 40000}) {
      KernelCase c;
      c.name = absl::StrCat("SQUARED_NORM ", DType_Name(dtype), " ", n);
      c.step = MakeStep(SQUARED_NORM);
      c.step.mutable_attributes()->set_slot(1);
      c.in = {Normal(dtype, {n}, random)};
      c.out = {Normal(FP64, {3}, random)};
      c.tolerance = 1e-13;
      c.reference = [](const std::vector<Values>& in, std::vector<Values>& expected) {
        expected[0][1] = 0;
        for (double x : in[0]) expected[0][1] += x * x;
      };
      Check(c);
    }
  }
  for (double clip : {0.0, 1.0, 100.0}) {
    KernelCase c;
    c.name = absl::StrCat("NORM_TOTAL ", clip);
    c.step = MakeStep(NORM_TOTAL);
    c.step.mutable_attributes()->set_clip_norm(clip);
    c.in = {Tensor(FP64, {3})};
    for (int i = 0; i < 3; ++i) c.in[0].Set(i, 3.0 + i);
    c.out = {Tensor(FP64, {2})};
    c.tolerance = 1e-15;
    c.reference = [=](const std::vector<Values>&, std::vector<Values>& expected) {
      expected[0] = {std::sqrt(12.0), clip == 1 ? 1 / (std::sqrt(12.0) + 1e-6) : 1};
    };
    Check(c);
  }
}

TEST(Cpu, Optimizers) {
  std::mt19937_64 random(11);
  for (DType master : kDTypes) {
    for (DType grad : kDTypes) {
      for (int64_t n : {1, 100, 20000}) {
        for (bool copy : {false, true}) {
          KernelCase c;
          c.name = absl::StrCat("ADAMW ", DType_Name(master), " ", DType_Name(grad), " ", n);
          c.step = MakeStep(ADAMW);
          StepAttributes& attributes = *c.step.mutable_attributes();
          attributes.set_beta1(0.9);
          attributes.set_beta2(0.95);
          attributes.set_epsilon(1e-8);
          attributes.set_weight_decay(0.1);
          c.context.step = 3;
          c.context.learning_rate = 0.01;
          c.in = {Normal(grad, {n}, random), Normal(master, {n}, random), Normal(master, {n}, random),
                  Normal(master, {n}, random)};
          for (int64_t i = 0; i < n; ++i) c.in[3].Set(i, std::abs(c.in[3].Get(i)));
          c.out = {Tensor(master, {n}), Tensor(master, {n}), Tensor(master, {n})};
          if (copy) c.out.push_back(Tensor(BF16, {n}));
          c.tolerance =
              copy ? ToleranceOf(BF16) : std::max(ToleranceOf(master), master == grad ? 0 : ToleranceOf(FP32));
          c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
            for (int64_t i = 0; i < n; ++i) {
              const double g = in[0][i];
              double w = in[1][i];
              w -= 0.01 * 0.1 * w;
              const double m = 0.9 * in[2][i] + 0.1 * g;
              const double v = 0.95 * in[3][i] + 0.05 * g * g;
              w -= 0.01 / (1 - std::pow(0.9, 4)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(0.95, 4)) + 1e-8);
              expected[0][i] = w;
              expected[1][i] = m;
              expected[2][i] = v;
              if (copy) expected[3][i] = w;
            }
          };
          Check(c);
          for (bool momentum : {false, true}) {
            KernelCase s;
            s.name = absl::StrCat("SGD_STEP ", DType_Name(master), " ", DType_Name(grad), " ", n);
            s.step = MakeStep(SGD_STEP);
            s.step.mutable_attributes()->set_momentum(momentum ? 0.8 : 0);
            s.step.mutable_attributes()->set_weight_decay(0.1);
            s.context.learning_rate = 0.01;
            s.in = {c.in[0], c.in[1]};
            s.out = {Tensor(master, {n})};
            if (momentum) {
              s.in.push_back(c.in[2]);
              s.out.push_back(Tensor(master, {n}));
            }
            if (copy) s.out.push_back(Tensor(BF16, {n}));
            s.tolerance = c.tolerance;
            s.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
              for (int64_t i = 0; i < n; ++i) {
                double g = in[0][i] + 0.1 * in[1][i];
                if (momentum) {
                  g = 0.8 * in[2][i] + g;
                  expected[1][i] = g;
                }
                expected[0][i] = in[1][i] - 0.01 * g;
                if (copy) expected.back()[i] = expected[0][i];
              }
            };
            Check(s);
          }
        }
      }
    }
  }
}

TEST(Cpu, ExactAccumulators) {
  std::mt19937_64 random(12);
  for (DType dtype : kDTypes) {
    const int64_t n = 20000;
    std::unique_ptr<Backend> backend = MakeCpuBackend(2);
    std::vector<Tensor> accumulator = {Tensor(EXACT192, {n})};
    Step fill = MakeStep(FILL);
    std::vector<Tensor> none;
    ASSERT_TRUE(RunStep(*backend, fill, none, accumulator).ok());
    Values expected(n);
    for (int term = 0; term < 5; ++term) {
      std::vector<Tensor> x = {Normal(dtype, {n}, random)};
      for (int64_t i = 0; i < n; ++i) expected[i] += x[0].Get(i);
      ASSERT_TRUE(RunStep(*backend, MakeStep(EXACT_ACCUMULATE), x, accumulator).ok());
    }
    std::vector<Tensor> pair = {accumulator[0], accumulator[0]}, sum = {Tensor(EXACT192, {n})};
    ASSERT_TRUE(RunStep(*backend, MakeStep(ADD), pair, sum).ok());
    for (DType to : {FP64, FP32, BF16, FP16}) {
      KernelCase c;
      c.name = absl::StrCat("EXACT_ROUND ", DType_Name(to));
      c.step = MakeStep(EXACT_ROUND);
      c.in = {sum[0]};
      c.out = {Tensor(to, {n})};
      c.tolerance = to == FP64 ? 1e-15 : to == FP32 ? 6e-8 : to == FP16 ? 5e-4 : 4e-3;
      c.reference = [&](const std::vector<Values>&, std::vector<Values>& rounded) {
        for (int64_t i = 0; i < n; ++i) rounded[0][i] = 2 * expected[i];
      };
      Check(c);
    }
  }
}

// Counts its own values so that a test sees which sample went where.
class CountingData : public DataSource {
 public:
  int64_t windows() const override { return 1 << 20; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(100 * sample + i);
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = -static_cast<int32_t>(100 * sample + i);
    return absl::OkStatus();
  }
};

TEST(Cpu, LoadsTheSamplesOfTheMicrobatch) {
  CountingData data;
  StepContext context;
  context.data = &data;
  context.first_sample = 5;
  context.microbatch_sequences = 2;
  std::vector<Tensor> none, tokens = {Tensor(INT32, {6})};
  ASSERT_TRUE(RunStep(*MakeCpuBackend(2), MakeStep(LOAD_TOKENS), none, tokens, context).ok());
  EXPECT_EQ(tokens[0].Values(), (Values{500, 501, 502, 600, 601, 602}));
  ASSERT_TRUE(RunStep(*MakeCpuBackend(2), MakeStep(LOAD_TARGETS), none, tokens, context).ok());
  EXPECT_EQ(tokens[0].Values(), (Values{-500, -501, -502, -600, -601, -602}));
}

TEST(Cpu, RefusesWhatItCannotRead) {
  std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const auto message = [&](const Step& step, std::vector<Tensor> in, std::vector<Tensor> out,
                           StepContext context = {}) {
    const absl::Status status = RunStep(*backend, step, in, out, context);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_NE(
      message(MakeStep(ADD), {Tensor(INT32, {2}), Tensor(FP32, {2})}, {Tensor(FP32, {2})}).find("input 0 is INT32"),
      std::string::npos);
  EXPECT_NE(message(MakeStep(ADD), {Tensor(FP32, {2})}, {Tensor(FP32, {2})}).find("given 1 and 1"), std::string::npos);
  EXPECT_NE(message(MakeStep(LOAD_TOKENS), {}, {Tensor(INT32, {2})}).find("no data source"), std::string::npos);
  EXPECT_NE(message(MakeStep(KERNEL_UNSPECIFIED), {}, {}).find("no kernel"), std::string::npos);
  Tensor tokens(INT32, {2});
  tokens.Set(1, 9);
  EXPECT_NE(message(MakeStep(EMBEDDING), {tokens, Tensor(FP32, {4, 2})}, {Tensor(FP32, {2, 2})}).find("token 1 is 9"),
            std::string::npos);
  Step loss = MakeStep(CROSS_ENTROPY);
  loss.mutable_attributes()->set_vocabulary(4);
  EXPECT_NE(message(loss, {Tensor(FP32, {2, 4}), tokens}, {Tensor(FP32, {2}), Tensor(FP64, {1})}).find("target 1 is 9"),
            std::string::npos);
  Step dropout = MakeStep(DROPOUT);
  dropout.mutable_attributes()->set_dropout(1);
  EXPECT_NE(message(dropout, {Tensor(FP32, {2, 4})}, {Tensor(FP32, {2, 4})}).find("below 1"), std::string::npos);
}

}  // namespace
}  // namespace weft::cpu
