// Checks CPU kernels against naive references in double, for all storage types, odd shapes, accumulation, 1 to 3
// threads and every instruction set of this machine. Larger families of kernels have tests of their own beside this
// file.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel_case.h"
#include "executor/numerics/exact192.h"

namespace weft::exec::cpu {
namespace {

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
      // Logits of padded columns hold arbitrary values, which must not matter.
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

// A data source whose values identify sample and position, so that a test can check where each sample is stored.
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
  EXPECT_NE(message(MakeStep(LOAD_TOKENS), {}, {Tensor(INT32, {2})}).find("no data source"), std::string::npos);
  EXPECT_NE(std::string(backend->Run(MakeStep(GROUP_ALL_REDUCE), {}, {}, {}).message()).find("no kernel"),
            std::string::npos);
  Tensor tokens(INT32, {2});
  tokens.Set(1, 9);
  EXPECT_NE(message(MakeStep(EMBEDDING), {tokens, Tensor(FP32, {4, 2})}, {Tensor(FP32, {2, 2})}).find("token 1 is 9"),
            std::string::npos);
  Step loss = MakeStep(CROSS_ENTROPY);
  loss.mutable_attributes()->set_vocabulary(4);
  EXPECT_NE(message(loss, {Tensor(FP32, {2, 4}), tokens}, {Tensor(FP32, {2}), Tensor(FP64, {1})}).find("target 1 is 9"),
            std::string::npos);
  StepContext later;
  later.global_microbatch = 1;
  EXPECT_NE(message(loss, {Tensor(FP32, {2, 4}), Tensor(INT32, {2})}, {Tensor(FP32, {2}), Tensor(FP64, {1})}, later)
                .find("global microbatch 1; the output has 1 elements"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::exec::cpu
