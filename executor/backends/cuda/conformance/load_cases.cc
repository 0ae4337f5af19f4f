// Cases of steps that load tensors from outside the program. The tensors must have the same bits as on the CPU.
#include <algorithm>

#include "executor/backends/cuda/conformance/conformance_case.h"

namespace weft::exec::cuda {
namespace {

class Numbered : public DataSource {
 public:
  int64_t windows() const override { return 1 << 20; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = Token(sample, static_cast<int64_t>(i));
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = Token(sample, static_cast<int64_t>(i) + 1);
    return absl::OkStatus();
  }
  absl::Status Image(int64_t sample, absl::Span<float> pixels) const override {
    for (size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<float>(Token(sample, static_cast<int64_t>(i))) / 50 - 1;
    }
    return absl::OkStatus();
  }

 private:
  static int32_t Token(int64_t sample, int64_t position) {
    return static_cast<int32_t>((sample * 37 + position * 11) % 100);
  }
};

// Draws the samples of one rank. In some cases the microbatch also spans samples of other ranks.
void SetSamples(CaseMaker& make, ConformanceCase& c) {
  static const auto* data = new Numbered();
  c.context.data = data;
  c.context.seed = make.random();
  c.context.first_sample = make.Between(0, 1000);
  c.context.microbatch_sequences = make.Between(1, 6);
  if (make.Coin()) {
    c.context.own_sequences = make.Between(1, 3);
    c.context.sample_stride = make.Between(3, 9);
  }
  c.exact = true;
}

ConformanceCase Tokens(CaseMaker& make, Kernel kernel) {
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  SetSamples(make, c);
  const int64_t sequence = make.Between(1, 40);
  if (make.Coin()) {
    c.step.mutable_attributes()->set_vocabulary(100);
    c.step.mutable_attributes()->set_masked(std::max<int64_t>(1, sequence / 6));
    c.step.mutable_attributes()->set_mask_token(99);
  }
  c.out.emplace_back(INT32, std::vector<int64_t>{c.context.microbatch_sequences * sequence});
  return c;
}

ConformanceCase Pixels(CaseMaker& make, Kernel kernel) {
  ConformanceCase c;
  c.step = make.MakeStep(kernel);
  SetSamples(make, c);
  const int64_t sequence = make.Between(1, 30), channels = make.Between(1, 4);
  c.step.mutable_attributes()->set_sequence(sequence);
  if (kernel == LOAD_NOISY_IMAGE) {
    c.step.mutable_attributes()->set_diffusion_steps(make.Between(1, 50));
    c.step.mutable_attributes()->set_cosine_schedule(make.Coin());
  }
  c.out.emplace_back(make.dtype, std::vector<int64_t>{c.context.microbatch_sequences * sequence, channels});
  return c;
}

}  // namespace

ConformanceCase LoadTokensCase(CaseMaker& make) { return Tokens(make, LOAD_TOKENS); }
ConformanceCase LoadTargetsCase(CaseMaker& make) { return Tokens(make, LOAD_TARGETS); }
ConformanceCase LoadNoisyImageCase(CaseMaker& make) { return Pixels(make, LOAD_NOISY_IMAGE); }
ConformanceCase LoadNoiseCase(CaseMaker& make) { return Pixels(make, LOAD_NOISE); }

ConformanceCase LoadTimestepsCase(CaseMaker& make) {
  ConformanceCase c;
  c.step = make.MakeStep(LOAD_TIMESTEPS);
  SetSamples(make, c);
  c.step.mutable_attributes()->set_diffusion_steps(make.Between(1, 1000));
  c.out.emplace_back(INT32, std::vector<int64_t>{c.context.microbatch_sequences});
  return c;
}

}  // namespace weft::exec::cuda
