// Events of the engine in order of time.
#ifndef WEFT_SIMULATOR_EVENT_QUEUE_H_
#define WEFT_SIMULATOR_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

namespace weft {

enum class EventKind : uint32_t { kStreamEnd, kTransferEnd, kTransferFinish, kCollectiveEnd, kCollectiveFinish };

// What happens at a time, in 16 bytes. `index` is a stream, a channel, a communicator or a rank; `detail` is the action
// of kTransferFinish.
struct Event {
  int64_t time = 0;
  uint32_t index = 0;
  uint32_t kind : 3;
  uint32_t detail : 29;

  // The order among events of one instant changes no result; it is fixed so that runs are repeatable.
  friend bool operator>(const Event& a, const Event& b) {
    if (a.time != b.time) return a.time > b.time;
    if (a.index != b.index) return a.index > b.index;
    return std::make_tuple(a.kind, a.detail) > std::make_tuple(b.kind, b.detail);
  }
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }

  // The earliest event, and its time; the queue is not empty.
  const Event& top() const { return heap_.front(); }
  int64_t time() const { return heap_.front().time; }

  void Push(int64_t time, EventKind kind, uint32_t index, uint32_t detail) {
    Event event;
    event.time = time;
    event.index = index;
    event.kind = static_cast<uint32_t>(kind);
    event.detail = detail;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  Event Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  std::vector<Event> heap_;
};

}  // namespace weft

#endif  // WEFT_SIMULATOR_EVENT_QUEUE_H_
