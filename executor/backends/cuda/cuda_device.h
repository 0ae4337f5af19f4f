// An NVIDIA GPU as executor/interface/device.h: memory, streams, events and copies of CUDA's runtime.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DEVICE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/interface/backend.h"
#include "executor/interface/device.h"

namespace weft::exec::cuda {

class CudaDevice : public ComputeDevice {
 public:
  // After all checks of cuda_check.h. Sets CUDA_DEVICE_MAX_CONNECTIONS to 32, the most there is, unless it is set: with
  // fewer hardware queues than streams, streams wait for each other.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(const DeviceOptions& options);
  ~CudaDevice() override;

  absl::string_view name() const override { return "cuda"; }
  bool asynchronous() const override { return true; }
  absl::StatusOr<Properties> properties() override;
  int hardware_queues() const override { return hardware_queues_; }

  absl::StatusOr<void*> Allocate(Place place, int64_t bytes) override;
  absl::StatusOr<int> NewStream(Priority priority) override;
  absl::StatusOr<int> NewEvent(bool timed) override;
  absl::Status Record(int event, int stream) override;
  absl::Status Wait(int stream, int event) override;
  absl::StatusOr<bool> Finished(int event) override;
  absl::Status Synchronize(int event) override;
  absl::StatusOr<int64_t> TimeOf(int event) override;
  absl::Status Copy(int stream, void* to, const void* from, int64_t bytes) override;
  absl::Status Clear(int stream, void* to, int64_t bytes) override;
  absl::Status Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                   void* destination) override;
  absl::Status AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                     void* destination) override;
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override;

  // A cudaStream_t. Makes this the calling thread's device.
  void* NativeStream(int stream) override;
  // Each thread that calls CUDA or a library of it needs this once; the calls above do it themselves.
  absl::Status Use();

  int ordinal() const { return ordinal_; }
  // "NVIDIA H200", and its compute capability as 10 * major + minor.
  const std::string& product() const { return product_; }
  int architecture() const { return architecture_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  // A moment at which the device's clock and the host's were compared.
  struct Reference {
    cudaEvent_t event = nullptr;
    // The moment on the host's clock: the first as the host read it, the others by what the device measured since.
    double host_ns = 0;
    ~Reference();
  };
  struct Event {
    cudaEvent_t event = nullptr;
    bool timed = false;
    // Of timed events: what their times are measured from.
    std::shared_ptr<const Reference> reference;
  };

  CudaDevice() = default;
  absl::Status Initialise(const DeviceOptions& options);
  // Zeros that the device reads and writes. Large ones are brought in by all cores, and then pinned.
  absl::StatusOr<void*> AllocateHost(int64_t bytes);
  absl::StatusOr<cudaStream_t> FindStream(int stream);
  absl::StatusOr<cudaEvent_t> FindEvent(int event);
  // The latest comparison of clocks, renewed if it is old. Under mutex_.
  absl::StatusOr<std::shared_ptr<const Reference>> FreshReference();

  int ordinal_ = 0;
  std::string product_;
  int architecture_ = 0;
  int multiprocessors_ = 0;
  int hardware_queues_ = 0;
  int highest_priority_ = 0;

  // Ranks that share the device make streams while others use theirs.
  std::mutex mutex_;
  std::deque<cudaStream_t> streams_;
  std::deque<Event> events_;
  std::vector<void*> device_memory_;
  std::vector<void*> host_memory_;
  // Of MapHostPages, with their bytes.
  std::vector<std::pair<void*, int64_t>> host_pages_;
  // Only for comparing clocks, so that nothing holds it up.
  cudaStream_t clock_stream_ = nullptr;
  std::shared_ptr<const Reference> reference_;
  // When it is old, on the host's clock.
  double renew_ns_ = 0;
};

// Null if it is not a CUDA device.
inline CudaDevice* AsCudaDevice(ComputeDevice* device) {
  return device->name() == "cuda" ? static_cast<CudaDevice*>(device) : nullptr;
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DEVICE_H_
