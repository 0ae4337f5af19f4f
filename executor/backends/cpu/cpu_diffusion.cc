// LOAD_TIMESTEPS, LOAD_NOISY_IMAGE, LOAD_NOISE, TIMESTEP_EMBEDDING, SQUARED_ERROR and its backward kernel.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/numerics/diffusion.h"
#include "proto/util/status.h"

namespace weft::exec::cpu {
namespace {

// Returns the number of output elements per sample.
int64_t PerSample(const Call& call) { return Elements(call.out[0]) / call.context.microbatch_sequences; }

}  // namespace

absl::Status LoadTimesteps(const Call& call) {
  auto* out = static_cast<int32_t*>(call.out[0].data);
  for (int64_t i = 0; i < Elements(call.out[0]); ++i) {
    out[i] = static_cast<int32_t>(
        TimestepOfSample(call.context.seed, call.context.SampleOf(i), call.attributes().diffusion_steps()));
  }
  return absl::OkStatus();
}

absl::Status LoadNoisyImage(const Call& call) {
  const int64_t elements = PerSample(call);
  const StepContext& context = call.context;
  if (context.data == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("step '", call.step.name(), "': no data source is open"));
  }
  float* image = call.workspace.shared.Get<float>(elements);
  const StepAttributes& a = call.attributes();
  for (int64_t i = 0; i < context.microbatch_sequences; ++i) {
    const int64_t sample = context.SampleOf(i);
    WEFT_RETURN_IF_ERROR(context.data->Image(sample, absl::MakeSpan(image, elements)));
    const double level = SignalLevel(a.diffusion_steps(), a.cosine_schedule(),
                                     TimestepOfSample(context.seed, sample, a.diffusion_steps()));
    const double signal = std::sqrt(level), spread = std::sqrt(1 - level);
    ForChunks(call, elements, [&](int64_t first, int64_t count) {
      double noise[kChunk];
      NoiseOfSample(context.seed, sample, first, absl::MakeSpan(noise, count));
      for (int64_t e = 0; e < count; ++e) noise[e] = signal * image[first + e] + spread * noise[e];
      GetLoops<double>(call).store(noise, StorageOf(call.out[0]), count, At(call.out[0], i * elements + first));
    });
  }
  return absl::OkStatus();
}

absl::Status LoadNoise(const Call& call) {
  const int64_t elements = PerSample(call);
  for (int64_t i = 0; i < call.context.microbatch_sequences; ++i) {
    ForChunks(call, elements, [&](int64_t first, int64_t count) {
      double noise[kChunk];
      NoiseOfSample(call.context.seed, call.context.SampleOf(i), first, absl::MakeSpan(noise, count));
      GetLoops<double>(call).store(noise, StorageOf(call.out[0]), count, At(call.out[0], i * elements + first));
    });
  }
  return absl::OkStatus();
}

// The first half of the columns are cosines, the second half sines (Vaswani et al. 2017). If the number of columns is
// odd, the last column is zero.
absl::Status TimestepEmbedding(const Call& call) {
  const TensorView& y = call.out[0];
  const int64_t n = Columns(y), half = n / 2;
  const auto* timesteps = static_cast<const int32_t*>(call.in[0].data);
  std::vector<double> row(n);
  for (int64_t i = 0; i < Rows(y); ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t j = 0; j < half; ++j) {
      const double frequency = std::exp(-std::log(10000.0) * static_cast<double>(j) / static_cast<double>(half));
      const double angle = timesteps[i] * call.attributes().timestep_scale() * frequency;
      row[j] = std::cos(angle);
      row[half + j] = std::sin(angle);
    }
    GetLoops<double>(call).store(row.data(), StorageOf(y), n, At(y, i * n));
  }
  return absl::OkStatus();
}

// Sums the squared errors in fp64: over the columns of each row, then over the rows.
absl::Status SquaredError(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(double* const loss, LossOf(call.step, call.out[0], call.context));
  const TensorView& prediction = call.in[0];
  const int64_t n = Columns(prediction), rows = Rows(prediction);
  double* sums = call.workspace.shared.Get<double>(rows);
  ForRows(call, rows, n, [&](int64_t row, int thread) {
    double* buffer = call.workspace.thread[thread].Get<double>(2 * n);
    const double* p = Read(call, prediction, row * n, n, buffer);
    const double* t = Read(call, call.in[1], row * n, n, buffer + n);
    double sum = 0;
    for (int64_t c = 0; c < n; ++c) sum += (p[c] - t[c]) * (p[c] - t[c]);
    sums[row] = sum;
  });
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) total += sums[row];
  *loss = call.attributes().loss_weight() * total;
  return absl::OkStatus();
}

absl::Status SquaredErrorBackward(const Call& call) {
  const double scale = call.in.size() == 3 ? *static_cast<const double*>(call.in[2].data) : 1;
  WithComputeType(call.in.subspan(0, 2), [&]<typename T>() {
    const T weight = static_cast<T>(2 * call.attributes().loss_weight() * scale);
    ForChunks(call, Elements(call.out[0]), [&](int64_t first, int64_t count) {
      T buffer[3][kChunk];
      const T* p = Read(call, call.in[0], first, count, buffer[0]);
      const T* t = Read(call, call.in[1], first, count, buffer[1]);
      T* dp = Target(call.out[0], first, false, buffer[2]);
      for (int64_t i = 0; i < count; ++i) dp[i] = weight * (p[i] - t[i]);
      Write(call, call.out[0], first, count, false, dp);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
