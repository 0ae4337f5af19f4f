// Events of the engine in order of time.
#ifndef WEFT_SIMULATOR_EVENT_QUEUE_H_
#define WEFT_SIMULATOR_EVENT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

enum class EventKind : uint32_t { kStreamEnd, kTransferEnd, kTransferFinish, kCollectiveEnd, kCollectiveFinish };

// What happens at a time, which is not negative, in 16 bytes. `index` is a stream, a channel, a communicator or a rank;
// `detail` is the action of kTransferFinish, below 2^29.
struct Event {
  int64_t time = 0;
  // index, kind, detail: from the most significant bits on 32, 3 and 29 of them.
  uint64_t rest = 0;

  uint32_t index() const { return static_cast<uint32_t>(rest >> 32); }
  EventKind kind() const { return static_cast<EventKind>(rest >> 29 & 7); }
  uint32_t detail() const { return static_cast<uint32_t>(rest) & ((uint32_t{1} << 29) - 1); }

  // The order among events of one instant changes no result; it is fixed so that runs are repeatable. One number is
  // compared without a branch, which nobody could foresee.
  unsigned __int128 Order() const { return static_cast<unsigned __int128>(static_cast<uint64_t>(time)) << 64 | rest; }
};

// A heap of four children to a node: half as deep as one of two, and the children are neighbours in memory.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }

  // The earliest event, and its time; the queue is not empty.
  const Event& top() const { return heap_.front(); }
  int64_t time() const { return heap_.front().time; }

  void Push(int64_t time, EventKind kind, uint32_t index, uint32_t detail) {
    heap_.emplace_back();
    Rise(heap_.size() - 1, {time, uint64_t{index} << 32 | uint64_t{static_cast<uint32_t>(kind)} << 29 | detail});
  }

  Event Pop() {
    const Event event = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) Rise(SinkHole(), last);
    return event;
  }

 private:
  // Moves the earliest children up from the root on; which leaf is free then. The last event, which takes its place,
  // is mostly a late one and belongs there.
  size_t SinkHole() {
    const size_t size = heap_.size();
    size_t hole = 0;
    for (size_t child = 1; child < size; child = 4 * hole + 1) {
      const size_t end = child + 4 < size ? child + 4 : size;
      size_t least = child;
      for (size_t other = child + 1; other < end; ++other) {
        least = heap_[other].Order() < heap_[least].Order() ? other : least;
      }
      heap_[hole] = heap_[least];
      hole = least;
    }
    return hole;
  }

  void Rise(size_t hole, const Event& event) {
    while (hole > 0) {
      const size_t parent = (hole - 1) / 4;
      if (heap_[parent].Order() <= event.Order()) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;
};

}  // namespace weft

#endif  // WEFT_SIMULATOR_EVENT_QUEUE_H_
