// Compute slots (rule P3): ranks that share the cores of one host take turns. The rank that was ready first is served
// first.
//
// Passing a slot on puts one thread to sleep and wakes another, which easily takes as long as a small step. A turn is
// therefore long enough for several small steps.
#ifndef WEFT_EXECUTOR_INTERFACE_COMPUTE_SLOTS_H_
#define WEFT_EXECUTOR_INTERFACE_COMPUTE_SLOTS_H_

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "executor/interface/transport.h"

namespace weft::exec {

// The compute slots that the rank threads of one process share.
class ComputeSlots {
 public:
  // `endpoints[i]` belongs to the rank with index i in this process. Granting a slot to the rank wakes its endpoint.
  ComputeSlots(int slots, std::vector<Endpoint*> endpoints)
      : free_(slots),
        endpoints_(std::move(endpoints)),
        held_(endpoints_.size(), false),
        since_ns_(endpoints_.size(), 0) {}

  // Requests a slot for a step that became ready at `ready_ns`. Returns true if the rank has a slot now. Asking again
  // while waiting is allowed and changes nothing.
  bool Acquire(int rank, int64_t ready_ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (held_[rank]) return true;
    if (free_ > 0 && waiting_.empty()) {
      --free_;
      held_[rank] = true;
      since_ns_[rank] = MonotonicNanoseconds();
      return true;
    }
    for (const auto& [ready, waiter] : waiting_) {
      if (waiter == rank) return false;
    }
    waiting_.insert({ready_ns, rank});
    return false;
  }

  // For a rank that holds a slot and has a step ready: true if the rank may keep the slot. Either its turn is not over,
  // or no rank waits and it begins another turn at once.
  bool Keep(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    const int64_t now = MonotonicNanoseconds();
    if (now - since_ns_[rank] < kTurnNs) return true;
    if (!waiting_.empty()) return false;
    since_ns_[rank] = now;
    return true;
  }

  // Passes the slot to the rank whose step has been ready for longest.
  void Release(int rank) {
    Endpoint* next = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!held_[rank]) return;
      held_[rank] = false;
      if (waiting_.empty()) {
        ++free_;
      } else {
        const int waiter = waiting_.begin()->second;
        waiting_.erase(waiting_.begin());
        held_[waiter] = true;
        since_ns_[waiter] = MonotonicNanoseconds();
        next = endpoints_[waiter];
      }
    }
    if (next != nullptr) next->Wake();
  }

  // How long a rank may keep a slot while others wait. Calibration writes this time to Cluster.compute_turn_seconds.
  static constexpr int64_t kTurnNs = 500 * 1000;

 private:
  std::mutex mutex_;
  int free_;
  std::vector<Endpoint*> endpoints_;
  std::vector<bool> held_;
  // By rank: when its current turn began.
  std::vector<int64_t> since_ns_;
  // The waiting ranks, as (ready time, rank).
  std::set<std::pair<int64_t, int>> waiting_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERFACE_COMPUTE_SLOTS_H_
