// A device as the executor drives it: memory, streams of work in order, events between them. Knows nothing of programs.
//
// On an asynchronous device every call that takes a stream returns when the work is enqueued, and the work runs after
// all that was enqueued on that stream before. Work waits for work enqueued earlier only, so that no order in which a
// device picks its streams can deadlock. On a synchronous device the work is over when the call returns.
//
// One thread enqueues on a stream at a time. Devices that ranks share (transport `loopback`) take calls from several
// threads at once.
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

// Not to be confused with the Device of proto/cluster.proto, which describes one.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  virtual absl::string_view name() const = 0;
  virtual bool asynchronous() const = 0;

  // What is known of the machine, 0 or empty where it is not.
  struct Properties {
    // E.g. "NVIDIA H200".
    std::string product;
    int64_t memory_bytes = 0;
    // What Allocate(DEVICE) can still give, in all.
    int64_t free_bytes = 0;
    int multiprocessors = 0;
    // E.g. 90 for H100 and H200.
    int compute_capability = 0;
  };
  virtual absl::StatusOr<Properties> properties() { return Properties(); }

  // Zeroed memory, aligned to 4096 bytes: of the device, or of the host such that copies to and from the device run on
  // their own (pinned). Freed with the device. Never called in a step. ResourceExhausted with what is there.
  virtual absl::StatusOr<void*> Allocate(Place place, int64_t bytes) = 0;

  // Work on so many streams runs side by side; of more, some wait for others without need. 0: no such limit.
  virtual int hardware_queues() const { return 0; }

  // Streams and events are numbers from 0. Made before the first step.
  enum class Priority { kNormal, kHigh };
  virtual absl::StatusOr<int> NewStream(Priority priority) = 0;
  // `timed`: TimeOf may be asked of it.
  virtual absl::StatusOr<int> NewEvent(bool timed) = 0;

  // The stream as other libraries on this device take it: cudaStream_t of CUDA. Null: the device has no such thing.
  virtual void* NativeStream([[maybe_unused]] int stream) { return nullptr; }

  // The event is over when all that was enqueued on the stream so far is. Recording again replaces what it stood for;
  // waits enqueued before keep what they wait for.
  virtual absl::Status Record(int event, int stream) = 0;
  // What is enqueued on the stream from now on waits for what the event stands for now; an event that was never
  // recorded holds up nothing.
  virtual absl::Status Wait(int stream, int event) = 0;
  // Whether what the event stands for is over; true if it was never recorded. Errors: those of work enqueued before,
  // which an asynchronous device may notice late.
  virtual absl::StatusOr<bool> Finished(int event) = 0;
  // Waits on the host. The caller bounds it: a device whose work waits for other ranks' may never end it.
  virtual absl::Status Synchronize(int event) = 0;
  // When the timed event, which is over, was reached: nanoseconds of MonotonicNanoseconds' clock.
  virtual absl::StatusOr<int64_t> TimeOf(int event) = 0;

  // Between any two memories of Allocate; they do not overlap.
  virtual absl::Status Copy(int stream, void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Clear(int stream, void* to, int64_t bytes) = 0;
  // SumParts and AddTo of executor/numerics/sum_parts.h, with the same bits. All in device memory.
  virtual absl::Status Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                           void* destination) = 0;
  virtual absl::Status AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                             void* destination) = 0;

  // Copies between the device's memory and any memory of the host, over when it returns; after all that was enqueued on
  // any stream before. Not for steps.
  virtual absl::Status CopyNow(void* to, const void* from, int64_t bytes) = 0;
};

// The host itself: streams and events are names only, everything is over at once.
std::unique_ptr<ComputeDevice> MakeHostDevice();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_DEVICE_H_
