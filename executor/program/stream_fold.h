// Which of a device's streams a rank's program streams are on. One for each, where the device has enough for all ranks
// that share it; else those of one use share one. A stream of the device may hold any of the program's: work waits for
// work that was enqueued before it only, so sharing costs overlap and never ends in a deadlock.
#ifndef WEFT_EXECUTOR_PROGRAM_STREAM_FOLD_H_
#define WEFT_EXECUTOR_PROGRAM_STREAM_FOLD_H_

#include <array>

#include "absl/status/statusor.h"
#include "executor/interface/device.h"

namespace weft::exec {

enum class StreamUse { kCompute, kReceives, kSends, kCollectives, kOffload, kFetch };
inline constexpr int kStreamUses = 6;

// Of the device's own, which nobody counts: comparing clocks, and one to spare.
inline constexpr int kReservedQueues = 2;

class StreamFold {
 public:
  // `budget`: how many of the device's streams the rank may use; 0 = as many as it wants.
  StreamFold(ComputeDevice* device, int budget);

  // The streams that a rank may use of a device that `ranks` share, where the transport works on `taken` itself; 0 = as
  // many as it wants.
  static int Budget(const ComputeDevice& device, int ranks, int taken);

  struct Stream {
    // The device's number.
    int number = 0;
    // Others of the program may be on it.
    bool shared = false;
  };
  // Of one more program stream.
  absl::StatusOr<Stream> Take(StreamUse use);

 private:
  absl::StatusOr<int> New(StreamUse use);

  ComputeDevice& device_;
  const int budget_;
  // Streams that may still be made for one program stream each.
  int own_left_ = 0;
  // By use: the one that is shared, -1 = not made yet; and the use whose stream it is.
  std::array<int, kStreamUses> shared_;
  std::array<int, kStreamUses> slot_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STREAM_FOLD_H_
