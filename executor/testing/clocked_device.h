// For tests of measurements: an asynchronous device whose clock is computed. Work runs at once, which is a legal order.
// Each stream has a time that advances by the stated duration of its work, and events carry times between streams, as
// CUDA's events do. A run therefore has the times of a machine with exactly the stated speeds, on which work never
// waits for the host.
#ifndef WEFT_EXECUTOR_TESTING_CLOCKED_DEVICE_H_
#define WEFT_EXECUTOR_TESTING_CLOCKED_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/backend.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// Speed of a copy: it takes `start_ns`, plus 1 ns for every `bytes_per_ns` bytes.
struct CopySpeed {
  int64_t start_ns = 1000;
  int64_t bytes_per_ns = 1;
};

class ClockedDevice : public ComputeDevice {
 public:
  ClockedDevice(CopySpeed inside, CopySpeed host) : inside_(inside), to_host_(host) {}

  absl::string_view name() const override { return "clocked"; }
  bool asynchronous() const override { return true; }
  absl::StatusOr<void*> Allocate(Place place, int64_t bytes) override {
    absl::StatusOr<void*> memory = memory_->Allocate(place, bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    if (memory.ok() && place == HOST) host_[static_cast<const char*>(*memory)] = bytes;
    return memory;
  }
  absl::StatusOr<int> NewStream(Priority) override {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(start_ns_);
    return static_cast<int>(streams_.size()) - 1;
  }
  absl::StatusOr<int> NewEvent(bool) override {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back(start_ns_);
    return static_cast<int>(events_.size()) - 1;
  }
  absl::Status Record(int event, int stream) override {
    std::lock_guard<std::mutex> lock(mutex_);
    events_[event] = streams_[stream];
    return absl::OkStatus();
  }
  absl::Status Wait(int stream, int event) override {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_[stream] = std::max(streams_[stream], events_[event]);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Finished(int) override { return true; }
  absl::Status Synchronize(int) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> TimeOf(int event) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return events_[event];
  }
  absl::Status Copy(int stream, void* to, const void* from, int64_t bytes) override {
    const CopySpeed& speed = OnHost(to) || OnHost(from) ? to_host_ : inside_;
    Spend(stream, speed.start_ns + bytes / speed.bytes_per_ns);
    return memory_->CopyNow(to, from, bytes);
  }
  absl::Status Clear(int stream, void* to, int64_t bytes) override {
    Spend(stream, inside_.start_ns + bytes / inside_.bytes_per_ns);
    return memory_->Clear(0, to, bytes);
  }
  absl::Status Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                   void* destination) override {
    Spend(stream, inside_.start_ns);
    return memory_->Sum(0, dtype, elements, parts, destination);
  }
  absl::Status AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                     void* destination) override {
    Spend(stream, inside_.start_ns);
    return memory_->AddTo(0, from, values, elements, accumulate, to, destination);
  }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override { return memory_->CopyNow(to, from, bytes); }

  // Advances the stream's time by `ns`.
  void Spend(int stream, int64_t ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_[stream] += ns;
  }

 private:
  bool OnHost(const void* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto after = host_.upper_bound(static_cast<const char*>(address));
    if (after == host_.begin()) return false;
    --after;
    return static_cast<const char*>(address) < after->first + after->second;
  }

  const CopySpeed inside_, to_host_;
  // One hour ahead of the host's clock, so that no run starts later than the first event of its own device.
  const int64_t start_ns_ = MonotonicNanoseconds() + int64_t{3600} * 1'000'000'000;
  const std::unique_ptr<ComputeDevice> memory_ = MakeHostDevice();
  std::mutex mutex_;
  std::map<const char*, int64_t> host_;
  std::vector<int64_t> streams_, events_;
};

// Returns the duration of a kernel in nanoseconds. ClockedBackend runs each kernel on `backend` and advances the
// stream's time by `cost`.
using KernelClock =
    std::function<int64_t(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs)>;

class ClockedBackend : public Backend {
 public:
  ClockedBackend(ClockedDevice* device, std::unique_ptr<Backend> backend, KernelClock cost)
      : device_(*device), backend_(std::move(backend)), cost_(std::move(cost)) {}

  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    device_.Spend(context.stream, cost_(step, inputs, outputs));
    return backend_->Run(step, inputs, outputs, context);
  }
  std::string Digest() const override { return "00000000000000ab"; }

 private:
  ClockedDevice& device_;
  const std::unique_ptr<Backend> backend_;
  const KernelClock cost_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_CLOCKED_DEVICE_H_
