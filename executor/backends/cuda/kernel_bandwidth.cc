// Measures the memory-bound kernels of the CUDA backend on this machine's GPU: one line for each, with the bytes that
// it must move, the median of its times by the device's events, and the two's quotient.
#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backend.h"
#include "executor/backends/cuda/bandwidth_cases.h"
#include "proto/status.h"

namespace weft::cuda {
namespace {

constexpr int64_t kRows = 32768, kColumns = 4096, kVocabulary = 50304;
constexpr int kRuns = 21;

// Tokens below a bound, all different up to that many, else ones.
std::vector<char> Content(const BandwidthOperand& operand) {
  std::vector<char> bytes(operand.Bytes());
  // Of tokens: a stride over the table that has no divisor in common with its rows.
  int64_t stride = operand.below * 5 / 13 + 1;
  while (operand.below > 0 && std::gcd(stride, operand.below) != 1) ++stride;
  for (int64_t i = 0; i < operand.Elements(); ++i) {
    if (operand.dtype == INT32)
      reinterpret_cast<int32_t*>(bytes.data())[i] = static_cast<int32_t>(i * stride % operand.below);
    if (operand.dtype == FP32) reinterpret_cast<float*>(bytes.data())[i] = 1;
    if (operand.dtype == FP64) reinterpret_cast<double*>(bytes.data())[i] = 1;
    if (operand.dtype == BF16) reinterpret_cast<uint16_t*>(bytes.data())[i] = 0x3f80;
  }
  return bytes;
}

// Of a case of one step none. `views` are those of its steps.
absl::StatusOr<std::unique_ptr<StepRun>> LaunchOf(const BandwidthCase& c, const std::vector<TensorView>& in,
                                                  const std::vector<TensorView>& out, Backend& backend,
                                                  std::list<std::vector<TensorView>>& views) {
  std::vector<TensorView> all = in;
  all.insert(all.end(), out.begin(), out.end());
  std::vector<StepOfRun> steps;
  for (const BandwidthStep& step : c.launch) {
    std::vector<TensorView>&of_in = views.emplace_back(), &of_out = views.emplace_back();
    for (const int i : step.in) of_in.push_back(all[i]);
    for (const int i : step.out) of_out.push_back(all[i]);
    steps.push_back({&step.step, of_in, of_out});
  }
  if (steps.empty()) return std::unique_ptr<StepRun>();
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StepRun> launch, backend.PrepareRun(steps));
  if (launch == nullptr) return absl::InternalError(absl::StrCat(c.name, " is no launch"));
  return launch;
}

absl::Status Measure() {
  WEFT_ASSIGN_OR_RETURN(const BackendEntry* entry, FindBackend("cuda"));
  WEFT_ASSIGN_OR_RETURN(const auto device, entry->open({}));
  WEFT_ASSIGN_OR_RETURN(const auto backend, entry->make(device.get(), {}));
  const std::vector<BandwidthCase> cases = BandwidthCases(kRows, kColumns, kVocabulary);
  int64_t most = 0;
  for (const BandwidthCase& c : cases) {
    int64_t bytes = 0;
    for (const auto* operands : {&c.in, &c.out}) {
      for (const BandwidthOperand& operand : *operands) bytes += (operand.Bytes() + 255) / 256 * 256;
    }
    most = std::max(most, bytes);
  }
  WEFT_ASSIGN_OR_RETURN(void* memory, device->Allocate(DEVICE, most));
  WEFT_ASSIGN_OR_RETURN(const int stream, device->NewStream(ComputeDevice::Priority::kNormal));
  std::vector<int> events;
  for (int i = 0; i <= kRuns; ++i) {
    WEFT_ASSIGN_OR_RETURN(events.emplace_back(), device->NewEvent(true));
  }
  for (const BandwidthCase& c : cases) {
    char* next = static_cast<char*>(memory);
    std::vector<TensorView> in, out;
    for (const BandwidthOperand& operand : c.in) {
      in.push_back({next, operand.dtype, operand.shape});
      const std::vector<char> content = Content(operand);
      WEFT_RETURN_IF_ERROR(device->CopyNow(next, content.data(), operand.Bytes()));
      next += (operand.Bytes() + 255) / 256 * 256;
    }
    for (size_t i = 0; i < c.out.size(); ++i) {
      const BandwidthOperand& operand = c.out[i];
      out.push_back(c.in_place[i] >= 0 ? in[c.in_place[i]] : TensorView{next, operand.dtype, operand.shape});
      next += (operand.Bytes() + 255) / 256 * 256;
    }
    StepContext context = c.context;
    context.stream = stream;
    std::list<std::vector<TensorView>> views;
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<StepRun> launch, LaunchOf(c, in, out, *backend, views));
    const auto run = [&] { return launch != nullptr ? launch->Run(context) : backend->Run(c.step, in, out, context); };
    // Warm, and the output that is added to a number.
    WEFT_RETURN_IF_ERROR(run());
    WEFT_RETURN_IF_ERROR(device->Record(events[0], stream));
    for (int i = 1; i <= kRuns; ++i) {
      WEFT_RETURN_IF_ERROR(run());
      WEFT_RETURN_IF_ERROR(device->Record(events[i], stream));
    }
    WEFT_RETURN_IF_ERROR(device->Synchronize(events[kRuns]));
    std::vector<int64_t> times;
    for (int i = 0; i <= kRuns; ++i) {
      WEFT_ASSIGN_OR_RETURN(times.emplace_back(), device->TimeOf(events[i]));
    }
    std::vector<int64_t> spans;
    for (int i = 1; i <= kRuns; ++i) spans.push_back(times[i] - times[i - 1]);
    std::nth_element(spans.begin(), spans.begin() + kRuns / 2, spans.end());
    const double seconds = 1e-9 * static_cast<double>(std::max<int64_t>(1, spans[kRuns / 2]));
    std::printf("{\"kernel\": \"%s\", \"bytes\": %lld, \"microseconds\": %.1f, \"terabytes_per_second\": %.3f}\n",
                c.name.c_str(), static_cast<long long>(c.Bytes()), 1e6 * seconds,
                1e-12 * static_cast<double>(c.Bytes()) / seconds);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft::cuda

int main() {
  const absl::Status status = weft::cuda::Measure();
  if (status.ok()) return 0;
  std::fprintf(stderr, "kernel_bandwidth: %s\n", std::string(status.message()).c_str());
  return 1;
}
