// A device for tests. It uses the host's memory and counts its allocations.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_COUNTING_DEVICE_TESTING_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_COUNTING_DEVICE_TESTING_H_

#include <cstdint>
#include <memory>

#include "executor/interface/device.h"

namespace weft::exec::cuda {

class CountingDevice : public ComputeDevice {
 public:
  // Allocations so far.
  int allocations() const { return allocations_; }

  absl::string_view name() const override { return "counting"; }
  bool asynchronous() const override { return false; }
  absl::StatusOr<void*> Allocate(Place place, int64_t bytes) override {
    ++allocations_;
    return host_->Allocate(place, bytes);
  }
  absl::StatusOr<int> NewStream(Priority priority) override { return host_->NewStream(priority); }
  absl::StatusOr<int> NewEvent(bool timed) override { return host_->NewEvent(timed); }
  absl::Status Record(int event, int stream) override { return host_->Record(event, stream); }
  absl::Status Wait(int stream, int event) override { return host_->Wait(stream, event); }
  absl::StatusOr<bool> Finished(int event) override { return host_->Finished(event); }
  absl::Status Synchronize(int event) override { return host_->Synchronize(event); }
  absl::StatusOr<int64_t> TimeOf(int event) override { return host_->TimeOf(event); }
  absl::Status Copy(int stream, void* to, const void* from, int64_t bytes) override {
    return host_->Copy(stream, to, from, bytes);
  }
  absl::Status Clear(int stream, void* to, int64_t bytes) override { return host_->Clear(stream, to, bytes); }
  absl::Status Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                   void* destination) override {
    return host_->Sum(stream, dtype, elements, parts, destination);
  }
  absl::Status AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                     void* destination) override {
    return host_->AddTo(stream, from, values, elements, accumulate, to, destination);
  }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override { return host_->CopyNow(to, from, bytes); }

 private:
  std::unique_ptr<ComputeDevice> host_ = MakeHostDevice();
  int allocations_ = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_COUNTING_DEVICE_TESTING_H_
