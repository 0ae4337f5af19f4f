// The last actions of a rank, in a ring that is read when a run fails. It costs tens of nanoseconds per action, and
// nothing is allocated after the start. One thread writes; any thread may read at any time, even while the writer is
// stuck.
#ifndef WEFT_EXECUTOR_INTERPRETER_FLIGHT_RECORDER_H_
#define WEFT_EXECUTOR_INTERPRETER_FLIGHT_RECORDER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::exec {

// A clock that is cheaper to read than the system's. Its ticks are converted to nanoseconds later.
int64_t FlightTicks();

class FlightRecorder {
 public:
  // Reports show the last 1,000 actions.
  static constexpr int64_t kEntries = 1024;
  static constexpr int64_t kReported = 1000;

  struct Entry {
    // Number of the entry among all actions that the rank has begun, from 0.
    int64_t number = 0;
    // Index in PreparedProgram.actions, and optimizer step.
    int32_t action = 0;
    int64_t step = 0;
    // Nanoseconds of MonotonicNanoseconds' clock; end 0 = not over. On an asynchronous device: when enqueuing began and
    // ended.
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };

  // `actions`: the number of actions in the rank's template, all lists together.
  explicit FlightRecorder(int64_t actions);

  // Called when a step of the action begins. Does nothing if the action is already under way: if its next repetition
  // begins before the current one is over, both are one entry.
  void Begin(int32_t action, int64_t step) {
    if (last_[action] >= 0) return;
    const int64_t number = begun_.load(std::memory_order_relaxed);
    Slot& slot = slots_[number % kEntries];
    // A reader that sees any of the following stores also sees this one, and leaves the slot out.
    slot.number.store(-1, std::memory_order_relaxed);
    slot.action.store(action, std::memory_order_release);
    slot.step.store(step, std::memory_order_release);
    slot.begin.store(FlightTicks(), std::memory_order_release);
    slot.end.store(0, std::memory_order_release);
    slot.number.store(number, std::memory_order_release);
    last_[action] = number;
    begun_.store(number + 1, std::memory_order_release);
  }

  // Called when the whole action is over.
  void End(int32_t action) {
    const int64_t number = last_[action];
    if (number < 0) return;
    last_[action] = -1;
    Slot& slot = slots_[number % kEntries];
    if (slot.number.load(std::memory_order_relaxed) == number) {
      slot.end.store(FlightTicks(), std::memory_order_relaxed);
    }
  }

  // Enter and Leave surround a call in which the rank's thread can get stuck: a kernel of an action that has begun.
  void Enter(int32_t action) {
    entered_ticks_.store(FlightTicks(), std::memory_order_relaxed);
    entered_.store(last_[action], std::memory_order_release);
  }
  void Leave() { entered_.store(-1, std::memory_order_release); }

  // The last kReported entries, oldest first.
  std::vector<Entry> Last() const;
  // The action for which the rank's thread is executing a call; begin_ns is when it entered the call. False if there is
  // none.
  bool Inside(Entry* entry) const;
  int64_t begun() const { return begun_.load(std::memory_order_acquire); }
  // The optimizer step of the action that began last; -1 = no action has begun.
  int64_t LastStep() const {
    const int64_t begun = this->begun();
    return begun == 0 ? -1 : slots_[(begun - 1) % kEntries].step.load(std::memory_order_acquire);
  }

 private:
  struct Slot {
    std::atomic<int64_t> number{-1};
    std::atomic<int32_t> action{0};
    std::atomic<int64_t> step{0};
    std::atomic<int64_t> begin{0};
    std::atomic<int64_t> end{0};
  };

  // Reads an entry, with times in ticks. False if the entry has been overwritten.
  bool Read(int64_t number, Entry* entry) const;
  // Converts ticks to nanoseconds, by two readings of both clocks.
  void Convert(Entry* entries, size_t count) const;

  const int64_t first_ticks_;
  const int64_t first_ns_;
  std::array<Slot, kEntries> slots_;
  // By action: the number of its entry; -1 = it is not under way. Only the writer uses it.
  std::vector<int64_t> last_;
  std::atomic<int64_t> begun_{0};
  std::atomic<int64_t> entered_{-1};
  std::atomic<int64_t> entered_ticks_{0};
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_FLIGHT_RECORDER_H_
