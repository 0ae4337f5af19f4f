#include "executor/calibrate_device.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/calibrate_buffers.h"
#include "executor/calibrate_rates.h"
#include "proto/status.h"

namespace weft {
namespace {

// Batches of calls between two events.
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
    WEFT_RETURN_IF_ERROR(device_->Record(first_, stream_));
    WEFT_RETURN_IF_ERROR(enqueue());
    WEFT_RETURN_IF_ERROR(device_->Record(last_, stream_));
    WEFT_RETURN_IF_ERROR(device_->Synchronize(last_));
    WEFT_ASSIGN_OR_RETURN(const int64_t begin, device_->TimeOf(first_));
    WEFT_ASSIGN_OR_RETURN(const int64_t end, device_->TimeOf(last_));
    // No device's clock tells less than a nanosecond.
    return 1e-9 * static_cast<double>(std::max<int64_t>(1, end - begin));
  }

 private:
  explicit Stopwatch(ComputeDevice* device) : device_(device) {}

  ComputeDevice* device_;
  int stream_ = 0, first_ = 0, last_ = 0;
};

// Seconds of one of several calls in a row.
absl::StatusOr<double> TypicalOf(Stopwatch& watch, double seconds, const std::function<absl::Status()>& call) {
  // A library chooses, compiles and allocates in its first call.
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
  WEFT_ASSIGN_OR_RETURN(void* const host, device->Allocate(HOST, bytes));
  WEFT_ASSIGN_OR_RETURN(void* const one, device->Allocate(DEVICE, bytes));
  WEFT_ASSIGN_OR_RETURN(void* const other, device->Allocate(DEVICE, bytes));
  WEFT_ASSIGN_OR_RETURN(const double to_device, CopyRate(watch, device, one, host, bytes));
  WEFT_ASSIGN_OR_RETURN(const double to_host, CopyRate(watch, device, host, one, bytes));
  WEFT_ASSIGN_OR_RETURN(const double inside, CopyRate(watch, device, other, one, bytes));
  WEFT_ASSIGN_OR_RETURN(const double smallest,
                        TypicalOf(watch, 0.05, [&] { return device->Copy(watch.stream(), other, one, 4); }));

  Cluster cluster;
  if (options.base != nullptr) {
    cluster = *options.base;
    // Rates of another device of that name are not this one's.
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
  cluster.set_source(
      absl::StrCat("weft calibrate: ", properties.product.empty() ? std::string(device->name()) : properties.product,
                   options.base == nullptr ? std::string() : absl::StrCat(", else as ", options.base->name())));
  cluster.mutable_host()->set_bytes_per_second(std::min(to_device, to_host));
  Device& result = *cluster.mutable_device();
  if (!properties.product.empty()) result.set_name(properties.product);
  if (properties.memory_bytes > 0) result.set_memory_bytes(properties.memory_bytes);
  if (properties.compute_capability > 0) result.set_compute_capability(properties.compute_capability);
  if (properties.multiprocessors > 0 && result.has_tiles()) {
    result.mutable_tiles()->set_multiprocessors(properties.multiprocessors);
  }

  CalibrationMemory memory(device);
  const double each = options.seconds / static_cast<double>(CountCases(*options.shapes));
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
  WEFT_RETURN_IF_ERROR(MeasureRates(*options.shapes, measure, &result));

  // Rule P7: what the context and the libraries, all of them loaded by now, keep of the device.
  WEFT_ASSIGN_OR_RETURN(const ComputeDevice::Properties after, device->properties());
  if (after.memory_bytes > 0 && properties.free_bytes > 0) {
    const int64_t before = properties.memory_bytes - properties.free_bytes;
    const int64_t taken = properties.free_bytes - after.free_bytes - memory.bytes() - 2 * bytes;
    result.set_reserved_bytes(before + std::max<int64_t>(0, taken));
  }
  return cluster;
}

}  // namespace weft
