// An NVIDIA GPU as a device (executor/interface/device.h): memory, streams, events and copies of CUDA's runtime.
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
  // Opens the device after all checks of cuda_check.h. Sets CUDA_DEVICE_MAX_CONNECTIONS to its maximum of 32 unless it
  // is set: with fewer hardware queues than streams, streams wait for each other.
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

  // Returns a cudaStream_t. Also makes this device the calling thread's device in CUDA.
  void* NativeStream(int stream) override;
  // Makes this device the calling thread's device in CUDA. A thread must call it once before it calls CUDA or a library
  // of CUDA itself; the functions above call it for their thread.
  absl::Status Use();

  int ordinal() const { return ordinal_; }
  // The product, e.g. "NVIDIA H200", and its compute capability as 10 * major + minor.
  const std::string& product() const { return product_; }
  int architecture() const { return architecture_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  // A moment at which the device's clock and the host's were compared.
  struct Reference {
    cudaEvent_t event = nullptr;
    // Time of the comparison on the host's clock. Only the first reference reads that clock; a later one adds the time
    // that the device has measured since the previous reference.
    double host_ns = 0;
    ~Reference();
  };
  struct Event {
    cudaEvent_t event = nullptr;
    bool timed = false;
    // For timed events: the reference from which their times are measured.
    std::shared_ptr<const Reference> reference;
  };

  CudaDevice() = default;
  absl::Status Initialize(const DeviceOptions& options);
  // Returns pinned, zeroed host memory that the device can read and write. All cores bring in the pages of large blocks
  // before the pages are pinned.
  absl::StatusOr<void*> AllocateHost(int64_t bytes);
  absl::StatusOr<cudaStream_t> FindStream(int stream);
  absl::StatusOr<cudaEvent_t> FindEvent(int event);
  // Returns the latest comparison of the two clocks. Repeats the comparison first if it is old; if the repetition takes
  // too long, returns the old one. The caller must hold mutex_.
  absl::StatusOr<std::shared_ptr<const Reference>> FreshReference();

  int ordinal_ = 0;
  std::string product_;
  int architecture_ = 0;
  int multiprocessors_ = 0;
  int hardware_queues_ = 0;
  int highest_priority_ = 0;

  // Ranks that share the device create streams while others use theirs.
  std::mutex mutex_;
  std::deque<cudaStream_t> streams_;
  std::deque<Event> events_;
  std::vector<void*> device_memory_;
  std::vector<void*> host_memory_;
  // Pages from MapHostPages, with their bytes.
  std::vector<std::pair<void*, int64_t>> host_pages_;
  // Used only to compare clocks, so that no other work delays the comparison.
  cudaStream_t clock_stream_ = nullptr;
  std::shared_ptr<const Reference> reference_;
  // Time on the host's clock when reference_ becomes old.
  double renew_ns_ = 0;
};

// Returns `device` as a CudaDevice, or null if it is not one.
inline CudaDevice* AsCudaDevice(ComputeDevice* device) {
  return device->name() == "cuda" ? static_cast<CudaDevice*>(device) : nullptr;
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DEVICE_H_
