#include "executor/backends/cuda/bandwidth_measure.h"

#include <algorithm>
#include <list>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/interface/step_tensors.h"
#include "proto/io/json.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

constexpr int64_t kAlignment = 256;
// Bytes of the block that the host copies if all numbers of an operand are the same.
constexpr int64_t kBlock = int64_t{1} << 20;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t MemoryOf(const BandwidthCase& c) {
  int64_t bytes = 0;
  for (const auto* operands : {&c.in, &c.out}) {
    for (const BandwidthOperand& operand : *operands) bytes += Aligned(operand.Bytes());
  }
  return bytes;
}

// Returns the launch of a case with several steps; null for a case of one step. `views` keeps the views of the steps.
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
    WEFT_RETURN_IF_ERROR(CheckStep(step.step, of_in, of_out));
    steps.push_back({&step.step, of_in, of_out});
  }
  if (steps.empty()) {
    WEFT_RETURN_IF_ERROR(CheckStep(c.step, in, out));
    return std::unique_ptr<StepRun>();
  }
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StepRun> launch, backend.PrepareRun(steps));
  if (launch == nullptr) return absl::InternalError("is no launch");
  return launch;
}

// Resources of a measurement: memory for the largest case, a stream, one event before the first run and one after each
// run.
struct Bench {
  ComputeDevice& device;
  Backend& backend;
  char* memory;
  int stream;
  std::vector<int> events;
};

// Fills an operand. The host copies all tokens. If any other operand is large, the host copies one block, and the
// device then doubles the content until it fills the operand.
absl::Status Fill(const BandwidthOperand& operand, char* to, Bench& bench) {
  const int64_t bytes = operand.Bytes();
  BandwidthOperand block = operand;
  if (operand.dtype != INT32 && bytes > kBlock) block.shape = {kBlock / (bytes / operand.Elements())};
  const std::vector<char> content = BandwidthContent(block);
  auto filled = static_cast<int64_t>(content.size());
  WEFT_RETURN_IF_ERROR(bench.device.CopyNow(to, content.data(), filled));
  while (filled < bytes) {
    const int64_t more = std::min(filled, bytes - filled);
    WEFT_RETURN_IF_ERROR(bench.device.Copy(bench.stream, to + filled, to, more));
    filled += more;
  }
  return absl::OkStatus();
}

// Runs the case once, then twice, then four times and so on, until `nanoseconds` have passed on the device's clock: a
// device that has waited for the host is slow at first. The case runs at least once, so that outputs that are
// accumulated into hold a number.
absl::Status WarmUp(const std::function<absl::Status()>& run, int64_t nanoseconds, Bench& bench) {
  constexpr int kMax = 1 << 12;
  int64_t spent = 0;
  for (int runs = 1; runs == 1 || (spent < nanoseconds && runs <= kMax); runs *= 2) {
    WEFT_RETURN_IF_ERROR(bench.device.Record(bench.events.front(), bench.stream));
    for (int i = 0; i < runs; ++i) WEFT_RETURN_IF_ERROR(run());
    WEFT_RETURN_IF_ERROR(bench.device.Record(bench.events.back(), bench.stream));
    WEFT_RETURN_IF_ERROR(bench.device.Synchronize(bench.events.back()));
    WEFT_ASSIGN_OR_RETURN(const int64_t begin, bench.device.TimeOf(bench.events.front()));
    WEFT_ASSIGN_OR_RETURN(const int64_t end, bench.device.TimeOf(bench.events.back()));
    spent += end - begin;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TimeOf(const BandwidthCase& c, int64_t warm_nanoseconds, Bench& bench) {
  char* next = bench.memory;
  std::vector<TensorView> in, out;
  for (const BandwidthOperand& operand : c.in) {
    in.push_back({next, operand.dtype, operand.shape});
    WEFT_RETURN_IF_ERROR(Fill(operand, next, bench));
    next += Aligned(operand.Bytes());
  }
  for (size_t i = 0; i < c.out.size(); ++i) {
    const BandwidthOperand& operand = c.out[i];
    out.push_back(c.in_place[i] >= 0 ? in[c.in_place[i]] : TensorView{next, operand.dtype, operand.shape});
    next += Aligned(operand.Bytes());
  }
  StepContext context = c.context;
  context.stream = bench.stream;
  std::list<std::vector<TensorView>> views;
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<StepRun> launch, LaunchOf(c, in, out, bench.backend, views));
  const auto run = [&] {
    return launch != nullptr ? launch->Run(context) : bench.backend.Run(c.step, in, out, context);
  };
  WEFT_RETURN_IF_ERROR(WarmUp(run, warm_nanoseconds, bench));
  WEFT_RETURN_IF_ERROR(bench.device.Record(bench.events[0], bench.stream));
  for (size_t i = 1; i < bench.events.size(); ++i) {
    WEFT_RETURN_IF_ERROR(run());
    WEFT_RETURN_IF_ERROR(bench.device.Record(bench.events[i], bench.stream));
  }
  WEFT_RETURN_IF_ERROR(bench.device.Synchronize(bench.events.back()));
  std::vector<int64_t> times;
  for (const int event : bench.events) {
    WEFT_ASSIGN_OR_RETURN(times.emplace_back(), bench.device.TimeOf(event));
  }
  std::vector<int64_t> spans;
  for (size_t i = 1; i < times.size(); ++i) spans.push_back(times[i] - times[i - 1]);
  return MedianTime(std::move(spans));
}

// Returns OK if more cases can be measured after an error. A broken context refuses all calls.
absl::Status StatusOf(Bench& bench) {
  WEFT_RETURN_IF_ERROR(bench.device.Record(bench.events.front(), bench.stream));
  return bench.device.Synchronize(bench.events.front());
}

}  // namespace

std::vector<char> BandwidthContent(const BandwidthOperand& operand) {
  std::vector<char> bytes(operand.Bytes());
  // For tokens: a stride that is coprime to the number of rows of the table, so that tokens repeat as late as possible.
  int64_t stride = operand.below * 5 / 13 + 1;
  while (operand.below > 0 && std::gcd(stride, operand.below) != 1) ++stride;
  const int64_t elements = operand.Elements();
  for (int64_t i = 0; i < elements; ++i) {
    if (operand.dtype == INT32)
      reinterpret_cast<int32_t*>(bytes.data())[i] = static_cast<int32_t>(i * stride % operand.below);
    if (operand.dtype == FP32) reinterpret_cast<float*>(bytes.data())[i] = 1;
    if (operand.dtype == FP64) reinterpret_cast<double*>(bytes.data())[i] = 1;
    if (operand.dtype == BF16) reinterpret_cast<uint16_t*>(bytes.data())[i] = 0x3f80;
  }
  return bytes;
}

int64_t MedianTime(std::vector<int64_t> nanoseconds) {
  const auto middle = nanoseconds.begin() + static_cast<int64_t>(nanoseconds.size() / 2);
  std::nth_element(nanoseconds.begin(), middle, nanoseconds.end());
  return std::max<int64_t>(1, *middle);
}

absl::Status MeasureBandwidth(const BackendEntry& entry, absl::Span<const BandwidthCase> cases,
                              const BandwidthRuns& runs, const std::function<void(const BandwidthRow&)>& add) {
  WEFT_ASSIGN_OR_RETURN(const auto device, entry.open({}));
  WEFT_ASSIGN_OR_RETURN(const auto backend, entry.make(device.get(), {}));
  int64_t most = 0;
  for (const BandwidthCase& c : cases) most = std::max(most, MemoryOf(c));
  WEFT_ASSIGN_OR_RETURN(void* const memory, device->Allocate(DEVICE, most));
  WEFT_ASSIGN_OR_RETURN(const int stream, device->NewStream(ComputeDevice::Priority::kNormal));
  Bench bench = {*device, *backend, static_cast<char*>(memory), stream, {}};
  for (int i = 0; i <= runs.timed; ++i) {
    WEFT_ASSIGN_OR_RETURN(bench.events.emplace_back(), device->NewEvent(true));
  }
  int failed = 0;
  for (const BandwidthCase& c : cases) {
    const absl::StatusOr<int64_t> time = TimeOf(c, runs.warm_nanoseconds, bench);
    if (time.ok()) {
      add({c.name, c.Bytes(), *time, ""});
      continue;
    }
    ++failed;
    add({c.name, c.Bytes(), 0, std::string(time.status().message())});
    if (const absl::Status status = StatusOf(bench); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(c.name, ": ", time.status().message(),
                                                      "; nothing can be measured after it: ", status.message()));
    }
  }
  if (failed == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(failed, " of ", cases.size(), " cases could not be measured"));
}

std::string BandwidthLine(const BandwidthRow& row) {
  if (!row.error.empty()) {
    return absl::StrCat("{\"kernel\": ", JsonQuoted(row.name), ", \"error\": ", JsonQuoted(row.error), "}");
  }
  const double seconds = 1e-9 * static_cast<double>(row.nanoseconds);
  return absl::StrFormat(R"({"kernel": "%s", "bytes": %d, "microseconds": %.1f, "terabytes_per_second": %.3f})",
                         row.name, row.bytes, 1e6 * seconds, 1e-12 * static_cast<double>(row.bytes) / seconds);
}

}  // namespace weft::exec::cuda
