// Places the streams of a rank's program on the streams of a device. If the device has enough streams for all ranks
// that share it, each program stream has its own device stream. Otherwise the first program streams get their own as
// far as the budget allows, and the others share a stream with streams of the same use or of similar uses. Any program
// streams may share a device stream: work waits only for work that was enqueued before it, so sharing costs overlap but
// never leads to a deadlock.
#ifndef WEFT_EXECUTOR_PROGRAM_STREAM_FOLD_H_
#define WEFT_EXECUTOR_PROGRAM_STREAM_FOLD_H_

#include <array>

#include "absl/status/statusor.h"
#include "executor/interface/device.h"

namespace weft::exec {

enum class StreamUse { kCompute, kReceives, kSends, kCollectives, kOffload, kFetch };
inline constexpr int kStreamUses = 6;

// Hardware queues that the budget leaves out if the rank has the device to itself: one for comparing clocks, and one to
// spare.
inline constexpr int kReservedQueues = 2;

class StreamFold {
 public:
  // `budget`: number of device streams that the rank may use; 0 = no limit.
  StreamFold(ComputeDevice* device, int budget);

  // Returns the number of streams that a rank may use on a device that `ranks` ranks share; 0 = no limit. `taken` is
  // the number of streams that the transport uses itself.
  static int Budget(const ComputeDevice& device, int ranks, int taken);

  struct Stream {
    // The device's number of the stream.
    int number = 0;
    // True if other program streams may be placed on the same device stream.
    bool shared = false;
  };
  // Returns a device stream for one more program stream.
  absl::StatusOr<Stream> Take(StreamUse use);

 private:
  absl::StatusOr<int> New(StreamUse use);

  ComputeDevice& device_;
  const int budget_;
  // Number of device streams that can still be given to one program stream each.
  int own_left_ = 0;
  // shared_[slot_[use]] is the shared stream of a use, -1 = not made yet.
  std::array<int, kStreamUses> shared_;
  std::array<int, kStreamUses> slot_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STREAM_FOLD_H_
