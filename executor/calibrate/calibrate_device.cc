#include "executor/calibrate/calibrate_device.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/calibrate/calibrate_buffers.h"
#include "executor/calibrate/calibrate_program.h"
#include "executor/calibrate/calibrate_rates.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Number of batches of calls. Each batch lies between two events.
constexpr int kBatches = 5;

class Stopwatch {
 public:
  static absl::StatusOr<Stopwatch> Create(ComputeDevice* device) {
    Stopwatch watch(device);
    WEFT_ASSIGN_OR_RETURN(watch.stream_, device->NewStream(ComputeDevice::Priority::kNormal));
    WEFT_ASSIGN_OR_RETURN(watch.first_, device->NewEvent(/*timed=*/true));
    WEFT_ASSIGN_OR_RETURN(watch.last_, device->NewEvent(/*timed=*/true));
    return watch;
  }

  int stream() const { return stream_; }

  // Seconds from the beginning to the end of the work that `enqueue` puts on the stream.
  absl::StatusOr<double> Time(const std::function<absl::Status()>& enqueue) {
    WEFT_RETURN_IF_ERROR(Begin());
    WEFT_RETURN_IF_ERROR(enqueue());
    WEFT_RETURN_IF_ERROR(End());
    return Elapsed();
  }

  absl::Status Begin() { return device_->Record(first_, stream_); }
  absl::Status End() { return device_->Record(last_, stream_); }
  // Waits until the work between Begin and End is over and returns its seconds.
  absl::StatusOr<double> Elapsed() {
    WEFT_RETURN_IF_ERROR(device_->Synchronize(last_));
    WEFT_ASSIGN_OR_RETURN(const int64_t begin, device_->TimeOf(first_));
    WEFT_ASSIGN_OR_RETURN(const int64_t end, device_->TimeOf(last_));
    // A shorter time counts as one nanosecond.
    return 1e-9 * static_cast<double>(std::max<int64_t>(1, end - begin));
  }

 private:
  explicit Stopwatch(ComputeDevice* device) : device_(device) {}

  ComputeDevice* device_;
  int stream_ = 0, first_ = 0, last_ = 0;
};

// Seconds of one call, measured over batches of several calls in a row.
absl::StatusOr<double> TypicalOf(Stopwatch& watch, double seconds, const std::function<absl::Status()>& call) {
  // The first call does not count: in it, a library chooses and compiles kernels and allocates memory.
  WEFT_RETURN_IF_ERROR(watch.Time(call).status());
  WEFT_ASSIGN_OR_RETURN(const double once, watch.Time(call));
  const int calls = static_cast<int>(std::clamp(seconds / kBatches / once, 1.0, 200.0));
  std::vector<double> times;
  for (int batch = 0; batch < kBatches; ++batch) {
    WEFT_ASSIGN_OR_RETURN(const double all, watch.Time([&]() -> absl::Status {
      for (int i = 0; i < calls; ++i) WEFT_RETURN_IF_ERROR(call());
      return absl::OkStatus();
    }));
    times.push_back(all / calls);
  }
  return Typical(times);
}

absl::StatusOr<double> CopyRate(Stopwatch& watch, ComputeDevice* device, void* to, const void* from, int64_t bytes) {
  WEFT_ASSIGN_OR_RETURN(const double seconds,
                        TypicalOf(watch, 0.2, [&] { return device->Copy(watch.stream(), to, from, bytes); }));
  return static_cast<double>(bytes) / seconds;
}

// Seconds of one copy while several copies in a row run in each direction, in both directions at the same time. The
// slower direction counts.
absl::StatusOr<double> BothWays(Stopwatch& one, Stopwatch& other, ComputeDevice* device, std::byte* on_device,
                                std::byte* on_host, int64_t bytes) {
  constexpr int kCopies = 4;
  std::vector<double> times;
  for (int batch = 0; batch <= kBatches; ++batch) {
    WEFT_RETURN_IF_ERROR(one.Begin());
    WEFT_RETURN_IF_ERROR(other.Begin());
    for (int i = 0; i < kCopies; ++i) {
      WEFT_RETURN_IF_ERROR(device->Copy(one.stream(), on_device, on_host, bytes));
      WEFT_RETURN_IF_ERROR(device->Copy(other.stream(), on_host + bytes, on_device + bytes, bytes));
    }
    WEFT_RETURN_IF_ERROR(one.End());
    WEFT_RETURN_IF_ERROR(other.End());
    WEFT_ASSIGN_OR_RETURN(const double in, one.Elapsed());
    WEFT_ASSIGN_OR_RETURN(const double out, other.Elapsed());
    if (batch > 0) times.push_back(std::max(in, out) / kCopies);
  }
  return Typical(times);
}

}  // namespace

absl::StatusOr<Cluster> CalibrateDevice(ComputeDevice* device, Backend* backend,
                                        const CalibrateDeviceOptions& options) {
  auto progress = [&](const std::string& text) {
    if (options.on_progress) options.on_progress(text);
  };
  WEFT_ASSIGN_OR_RETURN(const ComputeDevice::Properties properties, device->properties());
  WEFT_ASSIGN_OR_RETURN(Stopwatch watch, Stopwatch::Create(device));

  progress("copies");
  const int64_t bytes = options.copy_bytes;
  WEFT_ASSIGN_OR_RETURN(Stopwatch second, Stopwatch::Create(device));
  WEFT_ASSIGN_OR_RETURN(void* const host, device->Allocate(HOST, 2 * bytes));
  WEFT_ASSIGN_OR_RETURN(void* const one, device->Allocate(DEVICE, 2 * bytes));
  void* const other = static_cast<std::byte*>(one) + bytes;
  WEFT_ASSIGN_OR_RETURN(const double to_device, CopyRate(watch, device, one, host, bytes));
  WEFT_ASSIGN_OR_RETURN(const double to_host, CopyRate(watch, device, host, one, bytes));
  WEFT_ASSIGN_OR_RETURN(const double inside, CopyRate(watch, device, other, one, bytes));
  WEFT_ASSIGN_OR_RETURN(const double both, BothWays(watch, second, device, static_cast<std::byte*>(one),
                                                    static_cast<std::byte*>(host), bytes));
  WEFT_ASSIGN_OR_RETURN(const double smallest_to_device,
                        TypicalOf(watch, 0.05, [&] { return device->Copy(watch.stream(), one, host, 4); }));
  WEFT_ASSIGN_OR_RETURN(const double smallest,
                        TypicalOf(watch, 0.05, [&] { return device->Copy(watch.stream(), other, one, 4); }));

  Cluster cluster;
  if (options.base != nullptr) {
    cluster = *options.base;
    // The rates in `base` may come from another device of the same name, so they are dropped.
    cluster.mutable_device()->clear_kernel_rates();
    cluster.mutable_device()->clear_peaks();
    cluster.mutable_device()->clear_matmul_efficiency();
    cluster.mutable_device()->clear_memory_efficiency();
  } else {
    cluster.set_name("this-machine");
    cluster.set_nodes(1);
    cluster.set_devices_per_node(1);
    cluster.mutable_intra_node()->set_bytes_per_second(inside);
    cluster.mutable_intra_node()->set_overhead_seconds(smallest);
    cluster.set_host_memory_bytes(static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE));
  }
  cluster.set_source(absl::StrCat(
      "weft calibrate: ", properties.product.empty() ? std::string(device->name()) : properties.product,
      options.base == nullptr ? std::string() : absl::StrCat("; other figures from ", options.base->name()),
      absl::StrFormat("; copies to the device %.3g, to the host %.3g, both at a time %.3g bytes/s each", to_device,
                      to_host, static_cast<double>(bytes) / both)));
  // Offloading copies in both directions at the same time, but the cost model has only one rate (docs/simulator.md). So
  // the lowest measured rate counts.
  Link& host_link = *cluster.mutable_host();
  host_link.set_bytes_per_second(std::min({to_device, to_host, static_cast<double>(bytes) / both}));
  host_link.set_overhead_seconds(std::max(0.0, smallest_to_device - 4 / host_link.bytes_per_second()));
  host_link.set_latency_seconds(0);
  Device& result = *cluster.mutable_device();
  if (!properties.product.empty()) result.set_name(properties.product);
  if (properties.memory_bytes > 0) result.set_memory_bytes(properties.memory_bytes);
  if (properties.compute_capability > 0) result.set_compute_capability(properties.compute_capability);
  if (properties.multiprocessors > 0 && result.has_tiles()) {
    result.mutable_tiles()->set_multiprocessors(properties.multiprocessors);
  }

  CalibrationMemory memory(device);
  const std::vector<ProgramCase> own = CasesOf(options.programs);
  const double each =
      options.seconds / static_cast<double>(CountCases(*options.shapes) + static_cast<int64_t>(own.size()));
  MeasureKernels measure;
  measure.on_progress = progress;
  measure.seconds = [&](const KernelCase& kernel) -> absl::StatusOr<double> {
    absl::StatusOr<double> seconds = [&]() -> absl::StatusOr<double> {
      WEFT_ASSIGN_OR_RETURN(const auto buffers, KernelBuffers::Create(*options.shapes, kernel, &memory));
      buffers->context().stream = watch.stream();
      return TypicalOf(watch, each, [&] {
        const KernelBuffers::Copy& copy = buffers->Next();
        return backend->Run(kernel.step, copy.inputs, copy.outputs, buffers->context());
      });
    }();
    if (seconds.ok()) return seconds;
    return absl::Status(seconds.status().code(),
                        absl::StrCat("kernel ", Kernel_Name(kernel.step.kernel()), ": ", seconds.status().message()));
  };
  // The largest cases are measured first, before smaller cases divide up the memory.
  std::vector<std::string> left_out;
  Device of_steps;
  WEFT_RETURN_IF_ERROR(MeasureCases(own, measure, &of_steps, &left_out));
  for (const std::string& note : left_out) {
    if (options.on_note) options.on_note(note);
  }
  WEFT_RETURN_IF_ERROR(MeasureRates(*options.shapes, measure, &result));
  for (const KernelRate& rate : of_steps.kernel_rates()) *result.add_kernel_rates() = rate;

  // The reserve (rule P7) is the device memory that the context and the libraries keep. All libraries are loaded by
  // now.
  WEFT_ASSIGN_OR_RETURN(const ComputeDevice::Properties after, device->properties());
  if (after.memory_bytes > 0 && properties.free_bytes > 0) {
    const int64_t before = properties.memory_bytes - properties.free_bytes;
    const int64_t taken = properties.free_bytes - after.free_bytes - memory.bytes() - 2 * bytes;
    result.set_reserved_bytes(before + std::max<int64_t>(0, taken));
  }
  return cluster;
}

}  // namespace weft::exec
