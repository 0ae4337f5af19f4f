// What ranks tell each other besides the program's messages: barriers, and whether to stop early.
#ifndef WEFT_EXECUTOR_INTERPRETER_CONTROL_H_
#define WEFT_EXECUTOR_INTERPRETER_CONTROL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// Where one of the following functions fails after it has posted a transfer, it has aborted the job: nothing touches
// its memory any more when it returns.

// Returns when all ranks have called it. DeadlineExceeded, naming a rank that is missing, after `timeout`.
absl::Status Barrier(Endpoint& endpoint, std::chrono::nanoseconds timeout);

// Sends `mine` to rank 0, which receives all ranks' bytes in rank order; the others receive nothing.
absl::StatusOr<std::vector<std::string>> GatherBytes(Endpoint& endpoint, const std::string& mine,
                                                     std::chrono::nanoseconds timeout);

// One message of `bytes` bytes to or from `peer`, waited for.
absl::Status SendNow(Endpoint& endpoint, int peer, const void* data, int64_t bytes, std::chrono::nanoseconds timeout);
absl::Status RecvNow(Endpoint& endpoint, int peer, void* data, int64_t bytes, std::chrono::nanoseconds timeout);

// Ranks may be in different repetitions when one of them is asked to stop, so they agree: each tells rank 0 when it has
// finished repetition k and whether it was asked, and rank 0, having heard all, tells each whether repetition k+1 will
// take place.
class StopVote {
 public:
  // `asked` is set when this rank is asked to stop; null: it never is.
  StopVote(Endpoint& endpoint, const std::atomic<bool>* asked);

  // Begins a vote; the one before must be over.
  absl::Status Start();
  bool active() const { return active_; }
  // True when the answer is there and nothing is in flight; then `stop()` holds for all ranks alike.
  absl::StatusOr<bool> Advance();
  bool stop() const { return stop_; }
  // The first rank that a vote under way has not heard of, or has not told; -1: there is none.
  int waiting_for() const;

 private:
  bool Asked() const { return asked_ != nullptr && asked_->load(std::memory_order_relaxed); }

  Endpoint& endpoint_;
  const std::atomic<bool>* const asked_;
  // Rank 0: one transfer to or from each other rank. Others: [0] to rank 0, [1] from it.
  std::unique_ptr<Transfer[]> transfers_;
  std::unique_ptr<uint8_t[]> bytes_;
  int count_ = 0;
  bool active_ = false;
  bool answering_ = false;
  bool stop_ = false;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_CONTROL_H_
