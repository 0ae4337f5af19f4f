// A device as the executor drives it: memory, streams of ordered work, and events between them. A device does not
// depend on programs.
//
// On an asynchronous device, every call that takes a stream returns when the work is enqueued. The work runs after
// everything that was enqueued on that stream before. Work waits only for work that was enqueued earlier, so the device
// may pick its streams in any order without deadlock. On a synchronous device the work is finished when the call
// returns.
//
// Only one thread enqueues on a stream at a time. Devices that ranks share (transport `loopback`) take calls from
// several threads at once.
#ifndef WEFT_EXECUTOR_INTERFACE_DEVICE_H_
#define WEFT_EXECUTOR_INTERFACE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft::exec {

// Not to be confused with the Device of proto/cluster.proto, which describes a device.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  virtual absl::string_view name() const = 0;
  virtual bool asynchronous() const = 0;

  // Known properties of the machine; 0 or empty if unknown.
  struct Properties {
    // E.g. "NVIDIA H200".
    std::string product;
    int64_t memory_bytes = 0;
    // Bytes that Allocate(DEVICE) can still return in total.
    int64_t free_bytes = 0;
    int multiprocessors = 0;
    // E.g. 90 for H100 and H200.
    int compute_capability = 0;
  };
  virtual absl::StatusOr<Properties> properties() { return Properties(); }

  // Returns zeroed memory, aligned to 4096 bytes, of the device or of the host. Host memory is pinned, so that copies
  // between it and the device run asynchronously. The device frees the memory when the device is destroyed. Never
  // called in a step. The ResourceExhausted error states how much memory there is.
  virtual absl::StatusOr<void*> Allocate(Place place, int64_t bytes) = 0;

  // Number of streams whose work runs side by side. With more streams, some wait for others without need. 0 = no such
  // limit.
  virtual int hardware_queues() const { return 0; }

  // Streams and events are numbers from 0. They are made before the first step.
  enum class Priority { kNormal, kHigh };
  virtual absl::StatusOr<int> NewStream(Priority priority) = 0;
  // `timed`: TimeOf may be called for the event.
  virtual absl::StatusOr<int> NewEvent(bool timed) = 0;

  // The stream's handle for other libraries on this device: cudaStream_t for CUDA. Null if the device has no such
  // handle.
  virtual void* NativeStream([[maybe_unused]] int stream) { return nullptr; }

  // The event is over when everything that has been enqueued on the stream so far is over. Recording an event again
  // replaces the work that it stands for, but waits enqueued before still wait for the old work.
  virtual absl::Status Record(int event, int stream) = 0;
  // Everything enqueued on the stream from now on waits for the work that the event stands for now. An event that was
  // never recorded delays nothing.
  virtual absl::Status Wait(int stream, int event) = 0;
  // True if the work that the event stands for is over, or if the event was never recorded. Errors come from work
  // enqueued before; an asynchronous device may notice them late.
  virtual absl::StatusOr<bool> Finished(int event) = 0;
  // Waits on the host for the event. The caller must bound the wait: device work that waits for other ranks may never
  // end.
  virtual absl::Status Synchronize(int event) = 0;
  // Time at which the timed event was reached, in nanoseconds of MonotonicNanoseconds' clock. The event must be over.
  virtual absl::StatusOr<int64_t> TimeOf(int event) = 0;

  // Copies between any two memories that Allocate returned; they do not overlap.
  virtual absl::Status Copy(int stream, void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Clear(int stream, void* to, int64_t bytes) = 0;
  // Like SumParts and AddTo of executor/numerics/sum_parts.h, with the same bits as the result. All data is in device
  // memory.
  virtual absl::Status Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                           void* destination) = 0;
  virtual absl::Status AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                             void* destination) = 0;

  // Copies between the device's memory and any host memory, after everything that was enqueued on any stream before.
  // The copy is over when the call returns. Never called in a step.
  virtual absl::Status CopyNow(void* to, const void* from, int64_t bytes) = 0;
};

// Returns the host as a device: streams and events are only names, and all work is over at once.
std::unique_ptr<ComputeDevice> MakeHostDevice();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_DEVICE_H_
