// Measures the memory-bound kernels of the CUDA backend on this machine's GPU. Each kernel gets one line: the bytes
// that it must move, the median of its times by the device's events, and the quotient of the two.
#include <cstdio>
#include <string>

#include "executor/backends/cuda/bandwidth_cases.h"
#include "executor/backends/cuda/bandwidth_measure.h"
#include "executor/interface/backend.h"

namespace {

constexpr int64_t kRows = 32768, kColumns = 4096, kVocabulary = 50304;
// The warm-up is longer than the GPU takes to raise its clocks.
constexpr weft::exec::cuda::BandwidthRuns kRuns = {.warm_nanoseconds = 50'000'000, .timed = 21};

absl::Status Measure() {
  const auto entry = weft::exec::FindBackend("cuda");
  if (!entry.ok()) return entry.status();
  return weft::exec::cuda::MeasureBandwidth(**entry, weft::exec::cuda::BandwidthCases(kRows, kColumns, kVocabulary),
                                            kRuns, [](const weft::exec::cuda::BandwidthRow& row) {
                                              std::printf("%s\n", weft::exec::cuda::BandwidthLine(row).c_str());
                                              std::fflush(stdout);
                                            });
}

}  // namespace

int main() {
  const absl::Status status = Measure();
  if (status.ok()) return 0;
  std::fprintf(stderr, "kernel_bandwidth: %s\n", std::string(status.message()).c_str());
  return 1;
}
