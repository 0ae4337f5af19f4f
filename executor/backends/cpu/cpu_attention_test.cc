// Checks dropout and attention against their definitions, including which elements are dropped.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"
#include "executor/numerics/philox.h"

namespace weft::exec::cpu {
namespace {

// Returns the random word of element e of one sample, from the definition.
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

// Computes dropout factors, probabilities, log-sum-exps and outputs of one head, from the definition.
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

}  // namespace
}  // namespace weft::exec::cpu
