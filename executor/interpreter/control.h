// Messages that ranks exchange besides the program's: barriers, small data, and votes on whether to stop early.
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

// If one of the following functions fails after it has posted a transfer, it has aborted the job: when it returns,
// nothing touches the memory of its transfers any more.

// Returns when all ranks have called it. DeadlineExceeded, naming a rank that is missing, after `timeout`.
absl::Status Barrier(Endpoint& endpoint, std::chrono::nanoseconds timeout);

// Sends `mine` to rank 0, which receives all ranks' bytes in rank order; the others receive nothing.
absl::StatusOr<std::vector<std::string>> GatherBytes(Endpoint& endpoint, const std::string& mine,
                                                     std::chrono::nanoseconds timeout);

// Sends or receives one message of `bytes` bytes and waits for it.
absl::Status SendNow(Endpoint& endpoint, int peer, const void* data, int64_t bytes, std::chrono::nanoseconds timeout);
absl::Status RecvNow(Endpoint& endpoint, int peer, void* data, int64_t bytes, std::chrono::nanoseconds timeout);

// Ranks may be in different repetitions when one of them is asked to stop, so they vote. When a rank has finished a
// repetition, it reports to rank 0 whether it was asked to stop. When rank 0 has the reports of all ranks, it sends
// each rank the answer whether to stop.
class StopVote {
 public:
  // `asked` is set when this rank is asked to stop; null = it is never asked.
  StopVote(Endpoint& endpoint, const std::atomic<bool>* asked);

  // Begins a vote; the previous vote must be over.
  absl::Status Start();
  bool active() const { return active_; }
  // True when the answer has arrived and nothing is in flight; `stop()` is then the same on all ranks.
  absl::StatusOr<bool> Advance();
  bool stop() const { return stop_; }
  // The first rank that the vote under way waits for: its message has not arrived, or it has not received this rank's
  // message. -1 = none.
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
