// Measures the speed of the main CPU kernels, at the shapes of a small GPT. Run with
//   bazel run -c opt //executor/backends/cpu:cpu_benchmark -- --benchmark_filter=MatMul
// The first argument of every benchmark is the number of threads.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "executor/interface/backend.h"

namespace weft::exec {
namespace {

// A tensor filled with small numbers of both signs.
class Buffer {
 public:
  Buffer(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
    elements_ = 1;
    for (int64_t extent : shape_) elements_ *= extent;
    const int64_t bytes = elements_ * (dtype == FP64 ? 8 : dtype == BF16 ? 2 : 4);
    memory_.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    uint32_t state = 1;
    for (int64_t i = 0; i < elements_; ++i) {
      state = state * 1664525 + 1013904223;
      const float value = (static_cast<float>(state >> 8) * 0x1p-24f - 0.5f) * 2;
      if (dtype == FP64) static_cast<double*>(memory_.get())[i] = value;
      if (dtype == FP32) static_cast<float*>(memory_.get())[i] = value;
      if (dtype == BF16) static_cast<uint16_t*>(memory_.get())[i] = value < 0 ? 0xBF00 : 0x3F00;
      if (dtype == INT32) static_cast<int32_t*>(memory_.get())[i] = static_cast<int32_t>(state >> 8) % 64;
    }
  }
  TensorView view() const { return {memory_.get(), dtype_, shape_}; }
  int64_t elements() const { return elements_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  DType dtype_;
  std::vector<int64_t> shape_;
  int64_t elements_ = 0;
  std::unique_ptr<void, Free> memory_;
};

void RunLoop(benchmark::State& state, const Step& step, const std::vector<Buffer>& in, const std::vector<Buffer>& out,
             double flops, double bytes, const StepContext& context = {}) {
  std::vector<TensorView> inputs, outputs;
  for (const Buffer& buffer : in) inputs.push_back(buffer.view());
  for (const Buffer& buffer : out) outputs.push_back(buffer.view());
  std::unique_ptr<Backend> backend = MakeCpuBackend(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const absl::Status status = backend->Run(step, inputs, outputs, context);
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
  }
  const double runs = static_cast<double>(state.iterations());
  if (flops > 0) state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9 * runs, benchmark::Counter::kIsRate);
  if (bytes > 0) state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9 * runs, benchmark::Counter::kIsRate);
}

Step MakeStep(Kernel kernel) {
  Step step;
  step.set_kernel(kernel);
  return step;
}

// Arguments: threads, m, n, k, transposes (1 = a, 2 = b), dtype. The dtype TF32 means fp32 factors that are rounded to
// TF32 as they are read.
void MatMul(benchmark::State& state) {
  const int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  const bool ta = state.range(4) & 1, tb = state.range(4) & 2;
  const bool tf32 = state.range(5) == TF32;
  const DType dtype = tf32 ? FP32 : static_cast<DType>(state.range(5));
  Step step = MakeStep(MATMUL);
  step.mutable_attributes()->set_tf32(tf32);
  step.mutable_attributes()->set_transpose_a(ta);
  step.mutable_attributes()->set_transpose_b(tb);
  step.set_accumulate(ta);
  std::vector<Buffer> in, out;
  in.emplace_back(dtype, ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k});
  in.emplace_back(dtype, tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n});
  out.emplace_back(dtype, std::vector<int64_t>{m, n});
  RunLoop(state, step, in, out, 2.0 * m * n * k, 0);
}

void MatMulArguments(benchmark::internal::Benchmark* b) {
  for (int64_t threads : {1, 2}) {
    for (int64_t rows : {64, 128, 1024}) {
      b->Args({threads, rows, 768, 256, 0, FP32});
      b->Args({threads, rows, 256, 768, 2, FP32});
      b->Args({threads, 256, 768, rows, 1, FP32});
    }
    b->Args({threads, 1024, 1024, 1024, 0, FP32});
    b->Args({threads, 512, 4096, 1024, 0, FP32});
    b->Args({threads, 512, 1024, 4096, 2, FP32});
    for (int64_t dtype : {TF32, BF16, FP64}) b->Args({threads, 1024, 768, 256, 0, dtype});
  }
}
BENCHMARK(MatMul)->Apply(MatMulArguments)->UseRealTime();

// Arguments: threads, sequences, sequence, heads, head width, dropout in percent, 1 for the backward kernel (0 =
// forward).
void Attention(benchmark::State& state) {
  const int64_t sequences = state.range(1), sequence = state.range(2), heads = state.range(3);
  const int64_t width = heads * state.range(4), rows = sequences * sequence;
  const bool backward = state.range(6) != 0;
  Step step = MakeStep(backward ? ATTENTION_BACKWARD : ATTENTION);
  StepAttributes& attributes = *step.mutable_attributes();
  attributes.set_sequence(sequence);
  attributes.set_heads(heads);
  attributes.set_causal(true);
  attributes.set_scale(1 / std::sqrt(static_cast<double>(state.range(4))));
  attributes.set_dropout(static_cast<double>(state.range(5)) / 100);
  StepContext context;
  context.microbatch_sequences = sequences;
  std::vector<Buffer> in, out;
  if (backward) in.emplace_back(FP32, std::vector<int64_t>{rows, width});
  in.emplace_back(FP32, std::vector<int64_t>{rows, 3 * width});
  if (backward) {
    in.emplace_back(FP32, std::vector<int64_t>{rows, width});
    in.emplace_back(FP32, std::vector<int64_t>{rows, heads});
    out.emplace_back(FP32, std::vector<int64_t>{rows, 3 * width});
  } else {
    out.emplace_back(FP32, std::vector<int64_t>{rows, width});
    out.emplace_back(FP32, std::vector<int64_t>{rows, heads});
  }
  RunLoop(state, step, in, out, (backward ? 10.0 : 4.0) * rows * sequence * width, 0, context);
}
BENCHMARK(Attention)
    ->Args({1, 8, 128, 4, 64, 0, 0})
    ->Args({1, 8, 128, 4, 64, 0, 1})
    ->Args({1, 8, 128, 4, 64, 10, 0})
    ->Args({1, 8, 128, 4, 64, 10, 1})
    ->Args({2, 8, 128, 4, 64, 0, 0})
    ->Args({2, 8, 128, 4, 64, 0, 1})
    ->Args({2, 1, 1024, 12, 64, 0, 0})
    ->Args({2, 1, 1024, 12, 64, 0, 1})
    ->UseRealTime();

// Arguments: threads, rows, columns.
void Elementwise(benchmark::State& state, Kernel kernel, int inputs, DType dtype) {
  Step step = MakeStep(kernel);
  step.mutable_attributes()->set_tanh_approximation(true);
  step.mutable_attributes()->set_dropout(0.1);
  const std::vector<int64_t> shape = {state.range(1), state.range(2)};
  std::vector<Buffer> in, out;
  for (int i = 0; i < inputs; ++i) in.emplace_back(dtype, shape);
  out.emplace_back(dtype, shape);
  const double bytes = static_cast<double>(out[0].elements()) * (dtype == BF16 ? 2 : 4) * (inputs + 1);
  RunLoop(state, step, in, out, 0, bytes);
}
BENCHMARK_CAPTURE(Elementwise, Add, ADD, 2, FP32)->Args({1, 1024, 256})->Args({2, 1024, 256})->UseRealTime();
BENCHMARK_CAPTURE(Elementwise, Gelu, GELU, 1, FP32)->Args({1, 1024, 1024})->Args({2, 1024, 1024})->UseRealTime();
BENCHMARK_CAPTURE(Elementwise, GeluBf16, GELU, 1, BF16)->Args({1, 1024, 1024})->UseRealTime();
BENCHMARK_CAPTURE(Elementwise, GeluBackward, GELU_BACKWARD, 2, FP32)
    ->Args({1, 1024, 1024})
    ->Args({2, 1024, 1024})
    ->UseRealTime();
BENCHMARK_CAPTURE(Elementwise, Dropout, DROPOUT, 1, FP32)->Args({1, 1024, 256})->Args({2, 1024, 256})->UseRealTime();

// Arguments: threads, rows, columns.
void LayerNorm(benchmark::State& state, Kernel kernel) {
  const int64_t rows = state.range(1), d = state.range(2);
  Step step = MakeStep(kernel);
  step.mutable_attributes()->set_epsilon(1e-5);
  std::vector<Buffer> in, out;
  if (kernel != LAYER_NORM) in.emplace_back(FP32, std::vector<int64_t>{rows, d});
  in.emplace_back(FP32, std::vector<int64_t>{rows, d});
  if (kernel == LAYER_NORM) {
    in.emplace_back(FP32, std::vector<int64_t>{d});
    in.emplace_back(FP32, std::vector<int64_t>{d});
    out.emplace_back(FP32, std::vector<int64_t>{rows, d});
    out.emplace_back(FP32, std::vector<int64_t>{rows});
    out.emplace_back(FP32, std::vector<int64_t>{rows});
  } else {
    if (kernel == LAYER_NORM_BACKWARD) in.emplace_back(FP32, std::vector<int64_t>{d});
    in.emplace_back(FP32, std::vector<int64_t>{rows});
    in.emplace_back(FP32, std::vector<int64_t>{rows});
    if (kernel == LAYER_NORM_BACKWARD) {
      out.emplace_back(FP32, std::vector<int64_t>{rows, d});
    } else {
      out.emplace_back(FP32, std::vector<int64_t>{d});
      out.emplace_back(FP32, std::vector<int64_t>{d});
    }
  }
  RunLoop(state, step, in, out, 0, 4.0 * rows * d * (kernel == LAYER_NORM_BACKWARD ? 3 : 2));
}
BENCHMARK_CAPTURE(LayerNorm, Forward, LAYER_NORM)->Args({1, 1024, 256})->Args({2, 1024, 256})->UseRealTime();
BENCHMARK_CAPTURE(LayerNorm, Backward, LAYER_NORM_BACKWARD)->Args({1, 1024, 256})->Args({2, 1024, 256})->UseRealTime();
BENCHMARK_CAPTURE(LayerNorm, BackwardWeight, LAYER_NORM_BACKWARD_WEIGHT)
    ->Args({1, 1024, 256})
    ->Args({2, 1024, 256})
    ->UseRealTime();

// Arguments: threads, rows, vocabulary.
void CrossEntropy(benchmark::State& state, Kernel kernel) {
  const int64_t rows = state.range(1), vocabulary = state.range(2);
  Step step = MakeStep(kernel);
  step.mutable_attributes()->set_vocabulary(vocabulary);
  step.mutable_attributes()->set_loss_weight(1);
  std::vector<Buffer> in, out;
  in.emplace_back(FP32, std::vector<int64_t>{rows, vocabulary});
  if (kernel == CROSS_ENTROPY_BACKWARD) in.emplace_back(FP32, std::vector<int64_t>{rows});
  in.emplace_back(INT32, std::vector<int64_t>{rows});
  if (kernel == CROSS_ENTROPY) {
    out.emplace_back(FP32, std::vector<int64_t>{rows});
    out.emplace_back(FP64, std::vector<int64_t>{1});
  } else {
    out.emplace_back(FP32, std::vector<int64_t>{rows, vocabulary});
  }
  RunLoop(state, step, in, out, 0, 4.0 * rows * vocabulary * (kernel == CROSS_ENTROPY ? 1 : 2));
}
BENCHMARK_CAPTURE(CrossEntropy, Forward, CROSS_ENTROPY)
    ->Args({1, 1024, 256})
    ->Args({2, 1024, 256})
    ->Args({2, 256, 50304})
    ->UseRealTime();
BENCHMARK_CAPTURE(CrossEntropy, Backward, CROSS_ENTROPY_BACKWARD)
    ->Args({1, 1024, 256})
    ->Args({2, 1024, 256})
    ->Args({2, 256, 50304})
    ->UseRealTime();

// Arguments: threads, elements.
void AdamW(benchmark::State& state) {
  Step step = MakeStep(ADAMW);
  StepAttributes& attributes = *step.mutable_attributes();
  attributes.set_beta1(0.9);
  attributes.set_beta2(0.95);
  attributes.set_epsilon(1e-8);
  const std::vector<int64_t> shape = {state.range(1)};
  std::vector<Buffer> in, out;
  for (int i = 0; i < 4; ++i) in.emplace_back(FP32, shape);
  for (int i = 0; i < 3; ++i) out.emplace_back(FP32, shape);
  RunLoop(state, step, in, out, 0, 28.0 * state.range(1));
}
BENCHMARK(AdamW)->Args({1, 1 << 20})->Args({2, 1 << 20})->UseRealTime();

// Arguments: threads, elements, whether weights are rounded stochastically. As in training, the states are updated in
// place and are larger than a cache, and gradients and weights are bf16.
void AdamWBucket(benchmark::State& state) {
  Step step = MakeStep(ADAMW);
  StepAttributes& attributes = *step.mutable_attributes();
  attributes.set_beta1(0.9);
  attributes.set_beta2(0.95);
  attributes.set_epsilon(1e-8);
  attributes.set_rounding_site(static_cast<uint32_t>(state.range(2)));
  const std::vector<int64_t> shape = {state.range(1)};
  const Buffer gradient(BF16, shape), w(FP32, shape), m(FP32, shape), v(FP32, shape), param(BF16, shape);
  StepContext context;
  context.learning_rate = 1e-4;
  const std::unique_ptr<Backend> backend = MakeCpuBackend(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const absl::Status status = backend->Run(step, {gradient.view(), w.view(), m.view(), v.view()},
                                             {w.view(), m.view(), v.view(), param.view()}, context);
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
  }
  const double elements = static_cast<double>(state.iterations() * state.range(1));
  state.counters["elements/s"] = benchmark::Counter(elements, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(28e-9 * elements, benchmark::Counter::kIsRate);
}
BENCHMARK(AdamWBucket)->ArgsProduct({{1, 2}, {1 << 22}, {0, 1}})->UseRealTime();

void ExactAccumulate(benchmark::State& state) {
  const std::vector<int64_t> shape = {state.range(1)};
  Step step = MakeStep(EXACT_ACCUMULATE);
  std::vector<Buffer> in;
  in.emplace_back(FP32, shape);
  std::vector<char> accumulators(24 * state.range(1) + 64);
  const std::vector<TensorView> inputs = {in[0].view()};
  const std::vector<TensorView> outputs = {{accumulators.data(), EXACT192, shape}};
  std::unique_ptr<Backend> backend = MakeCpuBackend(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    if (!backend->Run(step, inputs, outputs, {}).ok()) state.SkipWithError("failed");
  }
  state.SetItemsProcessed(state.iterations() * state.range(1));
}
BENCHMARK(ExactAccumulate)->Args({1, 1 << 18})->Args({2, 1 << 18})->UseRealTime();

// Measures the cost of dispatching a step and of waking the threads.
void Overhead(benchmark::State& state) {
  std::vector<Buffer> in, out;
  for (int i = 0; i < 2; ++i) in.emplace_back(FP32, std::vector<int64_t>{state.range(1)});
  out.emplace_back(FP32, std::vector<int64_t>{state.range(1)});
  RunLoop(state, MakeStep(ADD), in, out, 0, 0);
}
BENCHMARK(Overhead)->Args({1, 1})->Args({2, 1})->Args({2, 1 << 15})->UseRealTime();

}  // namespace
}  // namespace weft::exec
