// Checks kernels of Llama-like transformers and of masked language models against naive references in double.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"
#include "executor/numerics/philox.h"

namespace weft::exec::cpu {
namespace {

TEST(CpuTransformer, RmsNorm) {
  std::mt19937_64 random(31);
  for (DType dtype : kDTypes) {
    for (int64_t d : {1, 5, 64, 300}) {
      const int64_t rows = 13;
      KernelCase c;
      c.name = absl::StrCat("RMS_NORM ", DType_Name(dtype), " ", d);
      c.step = MakeStep(RMS_NORM);
      c.step.mutable_attributes()->set_epsilon(1e-3);
      c.in = {Normal(dtype, {rows, d}, random), Normal(dtype, {d}, random)};
      c.out = {Tensor(dtype, {rows, d}), Tensor(StatisticsOf(dtype), {rows})};
      c.tolerance = ToleranceOf(dtype);
      const auto rstd = [=](const Values& x, int64_t row) {
        double squares = 0;
        for (int64_t i = 0; i < d; ++i) squares += x[row * d + i] * x[row * d + i];
        return 1 / std::sqrt(squares / d + 1e-3);
      };
      c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
        for (int64_t row = 0; row < rows; ++row) {
          expected[1][row] = rstd(in[0], row);
          for (int64_t i = 0; i < d; ++i) expected[0][row * d + i] = in[0][row * d + i] * expected[1][row] * in[1][i];
        }
      };
      Check(c);
      Tensor statistics(StatisticsOf(dtype), {rows});
      const Values x = c.in[0].Values();
      for (int64_t row = 0; row < rows; ++row) statistics.Set(row, rstd(x, row));
      for (bool accumulate : {false, true}) {
        KernelCase b;
        b.name = absl::StrCat("RMS_NORM_BACKWARD ", DType_Name(dtype), " ", d);
        b.step = MakeStep(RMS_NORM_BACKWARD, accumulate);
        b.in = {Normal(dtype, {rows, d}, random), c.in[0], c.in[1], statistics};
        b.out = {Normal(dtype, {rows, d}, random)};
        b.tolerance = ToleranceOf(dtype);
        b.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t row = 0; row < rows; ++row) {
            double mean = 0;
            for (int64_t i = row * d; i < (row + 1) * d; ++i)
              mean += in[0][i] * in[2][i % d] * in[1][i] * in[3][row] / d;
            for (int64_t i = row * d; i < (row + 1) * d; ++i) {
              const double dx = in[3][row] * (in[0][i] * in[2][i % d] - in[1][i] * in[3][row] * mean);
              expected[0][i] = (accumulate ? expected[0][i] : 0) + dx;
            }
          }
        };
        Check(b);
        b.name = absl::StrCat("RMS_NORM_BACKWARD_WEIGHT ", DType_Name(dtype), " ", d);
        b.step.set_kernel(RMS_NORM_BACKWARD_WEIGHT);
        b.in.erase(b.in.begin() + 2);
        b.out = {Normal(dtype, {d}, random)};
        b.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t i = 0; i < d; ++i) {
            double sum = 0;
            for (int64_t row = 0; row < rows; ++row) sum += in[0][row * d + i] * in[1][row * d + i] * in[2][row];
            expected[0][i] = (accumulate ? expected[0][i] : 0) + sum;
          }
        };
        Check(b);
      }
    }
  }
}

TEST(CpuTransformer, Rope) {
  std::mt19937_64 random(32);
  // Frequency scaling: none, linear, by turns (Llama 3), by dimension (YaRN).
  const double scalings[][4] = {{0, 0, 0, 0}, {4, 0, 1, 0}, {8, 1, 4, 64}, {4, -3, -1, 0}};
  for (DType dtype : kDTypes) {
    for (const auto& [factor, low, high, positions] : scalings) {
      for (bool inverse : {false, true}) {
        const int64_t sequence = 7, rows = 3 * sequence, head = 10, d = 4 * head;
        KernelCase c;
        c.name = absl::StrCat("ROPE ", DType_Name(dtype), " ", factor);
        c.step = MakeStep(ROPE);
        StepAttributes& a = *c.step.mutable_attributes();
        a.set_sequence(sequence);
        a.set_head_size(head);
        a.set_base(50);
        a.set_magnitude(1.125);
        a.set_factor(factor);
        a.set_ramp_low(low);
        a.set_ramp_high(high);
        a.set_ramp_positions(positions);
        a.set_inverse(inverse);
        c.in = {Normal(dtype, {rows, d}, random)};
        c.out = {Tensor(dtype, {rows, d})};
        c.tolerance = ToleranceOf(dtype);
        c.reference = [=, factor = factor, low = low, high = high, positions = positions](
                          const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t e = 0; e < rows * d; ++e) {
            const int64_t position = e / d % sequence, i = e % d % head, pair = i % (head / 2);
            const double plain = std::pow(50.0, -2.0 * pair / head);
            double frequency = plain;
            if (factor != 0) {
              const double u = positions > 0 ? positions * plain / (2 * M_PI) : -static_cast<double>(pair);
              const double keep = std::min(1.0, std::max(0.0, (u - low) / (high - low)));
              frequency = keep * plain + (1 - keep) * plain / factor;
            }
            const double angle = (inverse ? -1 : 1) * position * frequency;
            const double other = i < head / 2 ? -in[0][e + head / 2] : in[0][e - head / 2];
            expected[0][e] = 1.125 * (in[0][e] * std::cos(angle) + other * std::sin(angle));
          }
        };
        Check(c);
      }
    }
  }
}

// One backend runs steps with alternating attributes and types. Each step uses its own table of angles.
TEST(CpuTransformer, RopeTableFollowsTheStep) {
  std::mt19937_64 random(33);
  std::unique_ptr<Backend> shared = MakeCpuBackend(2);
  for (int round = 0; round < 3; ++round) {
    for (DType dtype : kDTypes) {
      for (double base : {50.0, 60.0}) {
        Step step = MakeStep(ROPE);
        step.mutable_attributes()->set_sequence(5);
        step.mutable_attributes()->set_head_size(round == 1 ? 4 : 8);
        step.mutable_attributes()->set_base(base);
        step.mutable_attributes()->set_magnitude(1);
        std::vector<Tensor> in = {Normal(dtype, {10, 16}, random)}, out = {Tensor(dtype, {10, 16})}, alone = out;
        ASSERT_TRUE(RunStep(*shared, step, in, out).ok());
        ASSERT_TRUE(RunStep(*MakeCpuBackend(1), step, in, alone).ok());
        EXPECT_EQ(out[0].bytes(), alone[0].bytes());
      }
    }
  }
}

TEST(CpuTransformer, GroupedAttentionWithWindows) {
  std::mt19937_64 random(35);
  for (DType dtype : kDTypes) {
    for (int64_t window : {0, 1, 20, 200}) {
      for (int64_t kv_heads : {1, 2, 4}) {
        const int64_t sequences = 2, sequence = 61, heads = 4, width = 6, rows = sequences * sequence;
        const int64_t d = heads * width, kv = kv_heads * width;
        KernelCase c;
        c.name = absl::StrCat("ATTENTION ", DType_Name(dtype), " window ", window, " kv ", kv_heads);
        c.step = MakeStep(ATTENTION);
        StepAttributes& a = *c.step.mutable_attributes();
        a.set_heads(heads);
        a.set_kv_heads(kv_heads);
        a.set_sequence(sequence);
        a.set_causal(true);
        a.set_window(window);
        a.set_scale(0.3);
        c.context.microbatch_sequences = sequences;
        c.in = {Normal(dtype, {rows, d}, random), Normal(dtype, {rows, kv}, random), Normal(dtype, {rows, kv}, random)};
        c.out = {Tensor(dtype, {rows, d}), Tensor(StatisticsOf(dtype), {rows, heads})};
        c.tolerance = ToleranceOf(dtype);
        c.reference = [=](const std::vector<Values>& in, std::vector<Values>& expected) {
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t query = row % sequence, first = row - query;
            const int64_t from = window == 0 ? 0 : std::max<int64_t>(0, query - window + 1);
            for (int64_t h = 0; h < heads; ++h) {
              const int64_t group = h / (heads / kv_heads);
              Values weights(sequence, 0);
              double total = 0;
              for (int64_t key = from; key <= query; ++key) {
                double score = 0;
                for (int64_t i = 0; i < width; ++i) {
                  score += in[0][row * d + h * width + i] * in[1][(first + key) * kv + group * width + i];
                }
                total += weights[key] = std::exp(0.3 * score);
              }
              expected[1][(row / sequence * heads + h) * sequence + query] = std::log(total);
              for (int64_t i = 0; i < width; ++i) {
                double sum = 0;
                for (int64_t key = from; key <= query; ++key) {
                  sum += weights[key] / total * in[2][(first + key) * kv + group * width + i];
                }
                expected[0][row * d + h * width + i] = sum;
              }
            }
          }
        };
        Check(c);
      }
    }
  }
}

// Attention gives the same bits whether q, k and v lie in one matrix or in three. The same holds for their gradients.
TEST(CpuTransformer, SeparateInputsAreTheFusedOnes) {
  std::mt19937_64 random(36);
  const int64_t sequence = 50, heads = 3, d = 12;
  Step step = MakeStep(ATTENTION);
  step.mutable_attributes()->set_heads(heads);
  step.mutable_attributes()->set_sequence(sequence);
  step.mutable_attributes()->set_scale(0.5);
  step.mutable_attributes()->set_dropout(0.2);
  Tensor qkv = Normal(FP32, {sequence, 3 * d}, random), d_o = Normal(FP32, {sequence, d}, random);
  std::vector<Tensor> parts(3, Tensor(FP32, {sequence, d}));
  for (int64_t e = 0; e < sequence * 3 * d; ++e) parts[e % (3 * d) / d].Set(e / (3 * d) * d + e % d, qkv.Get(e));
  std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  std::vector<Tensor> fused = {qkv}, out = {Tensor(FP32, {sequence, d}), Tensor(FP32, {sequence, heads})}, apart = out;
  ASSERT_TRUE(RunStep(*backend, step, fused, out).ok());
  Step separate = step;
  separate.mutable_attributes()->set_kv_heads(heads);
  ASSERT_TRUE(RunStep(*backend, separate, parts, apart).ok());
  EXPECT_EQ(out[0].bytes(), apart[0].bytes());
  EXPECT_EQ(out[1].bytes(), apart[1].bytes());
  step.set_kernel(ATTENTION_BACKWARD);
  separate.set_kernel(ATTENTION_BACKWARD);
  std::vector<Tensor> in = {d_o, qkv, out[0], out[1]}, gradient = {Tensor(FP32, {sequence, 3 * d})};
  ASSERT_TRUE(RunStep(*backend, step, in, gradient).ok());
  std::vector<Tensor> three = {d_o, parts[0], parts[1], parts[2], out[0], out[1]};
  std::vector<Tensor> gradients(3, Tensor(FP32, {sequence, d}));
  ASSERT_TRUE(RunStep(*backend, separate, three, gradients).ok());
  for (int64_t e = 0; e < sequence * 3 * d; ++e) {
    ASSERT_EQ(gradient[0].Get(e), gradients[e % (3 * d) / d].Get(e / (3 * d) * d + e % d)) << e;
  }
}

class CountingData : public DataSource {
 public:
  int64_t windows() const override { return 1000; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((sample * 7 + i) % 90);
    EXPECT_TRUE(targets.empty());
    return absl::OkStatus();
  }
};

// Checks masked tokens against a literal implementation of the rule in docs/kernels.md.
TEST(CpuTransformer, MaskedTokens) {
  const int64_t sequence = 61, sequences = 40, masked = 9, vocabulary = 100, mask_token = 99;
  CountingData data;
  StepContext context;
  context.seed = (uint64_t{7} << 32) | 5;
  context.first_sample = (int64_t{1} << 32) - 20;
  context.microbatch_sequences = sequences;
  context.data = &data;
  Step step = MakeStep(LOAD_TOKENS);
  step.mutable_attributes()->set_masked(masked);
  step.mutable_attributes()->set_mask_token(mask_token);
  step.mutable_attributes()->set_vocabulary(vocabulary);
  std::vector<Tensor> none, tokens = {Tensor(INT32, {sequences * sequence})}, targets = tokens;
  std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  ASSERT_TRUE(RunStep(*backend, step, none, tokens, context).ok());
  step.set_kernel(LOAD_TARGETS);
  ASSERT_TRUE(RunStep(*backend, step, none, targets, context).ok());
  const PhiloxKey key = MakePhiloxKey(context.seed, PhiloxPurpose::kMasking);
  int by_action[3] = {};
  for (int64_t i = 0; i < sequences; ++i) {
    const uint64_t sample = static_cast<uint64_t>(context.first_sample + i);
    const auto word = [&](int64_t p, uint32_t draw) {
      return Philox4x32(key, {static_cast<uint32_t>(p / 4), draw, static_cast<uint32_t>(sample),
                              static_cast<uint32_t>(sample >> 32)})[p % 4];
    };
    std::set<std::pair<uint32_t, int64_t>> order;
    for (int64_t p = 0; p < sequence; ++p) order.insert({word(p, 0), p});
    std::set<int64_t> chosen;
    for (auto it = order.begin(); static_cast<int64_t>(chosen.size()) < masked; ++it) chosen.insert(it->second);
    for (int64_t p = 0; p < sequence; ++p) {
      const int64_t original = (static_cast<int64_t>(sample) * 7 + p) % 90;
      int64_t seen = original;
      if (chosen.count(p) != 0) {
        const double action = word(p, 1) / 0x1p32;
        ++by_action[action < 0.8 ? 0 : action < 0.9 ? 1 : 2];
        if (action < 0.8) {
          seen = mask_token;
        } else if (action < 0.9) {
          seen = static_cast<int64_t>(word(p, 2) / 0x1p32 * vocabulary);
        }
      }
      ASSERT_EQ(tokens[0].Get(i * sequence + p), seen) << i << " " << p;
      ASSERT_EQ(targets[0].Get(i * sequence + p), chosen.count(p) != 0 ? original : -1) << i << " " << p;
    }
  }
  EXPECT_NEAR(by_action[0], 288, 30);
  EXPECT_GT(by_action[1], 10);
  EXPECT_GT(by_action[2], 10);
}

TEST(CpuTransformer, RefusesToMaskMoreThanASequence) {
  CountingData data;
  StepContext context;
  context.data = &data;
  context.microbatch_sequences = 2;
  Step step = MakeStep(LOAD_TOKENS);
  step.mutable_attributes()->set_masked(5);
  step.mutable_attributes()->set_vocabulary(100);
  std::vector<Tensor> none, out = {Tensor(INT32, {8})};
  EXPECT_EQ(RunStep(*MakeCpuBackend(1), step, none, out, context),
            absl::InvalidArgumentError("step 'LOAD_TOKENS': masked is 5; a sequence has 4 tokens"));
}

}  // namespace
}  // namespace weft::exec::cpu
