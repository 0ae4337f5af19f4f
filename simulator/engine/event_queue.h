// Events of the engine in order of time.
#ifndef WEFT_SIMULATOR_ENGINE_EVENT_QUEUE_H_
#define WEFT_SIMULATOR_ENGINE_EVENT_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::sim {

enum class EventKind : uint32_t { kStreamEnd, kTransferEnd, kTransferFinish, kCollectiveEnd, kCollectiveFinish };
inline constexpr int kEventKinds = 5;

// An event, in 16 bytes. `time` must not be negative. `index` is a stream, a channel, a communicator or a rank.
// `detail` is the action of kTransferFinish, below 2^29.
struct Event {
  int64_t time = 0;
  // index, kind and detail, from the most significant bit on, in 32, 3 and 29 bits.
  uint64_t rest = 0;

  uint32_t index() const { return static_cast<uint32_t>(rest >> 32); }
  EventKind kind() const { return static_cast<EventKind>(rest >> 29 & 7); }
  uint32_t detail() const { return static_cast<uint32_t>(rest) & ((uint32_t{1} << 29) - 1); }

  // The order among events of one instant changes no result; it is fixed so that runs are repeatable. Comparing one
  // number avoids a branch, which could not be predicted.
  unsigned __int128 Order() const { return static_cast<unsigned __int128>(static_cast<uint64_t>(time)) << 64 | rest; }
};

// A priority queue of events. Ranks that are alike do the same at one instant, and what they start ends at one instant.
// So events of one kind and one time that are pushed one after the other in ascending order form a run, and the heap
// holds only the first event of each run. A node has four children: the heap is half as deep as a binary one, and the
// children are neighbors in memory.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }

  // The earliest event and its time. The queue must not be empty.
  const Event& top() const { return heap_.front().event; }
  int64_t time() const { return heap_.front().event.time; }

  void Push(int64_t time, EventKind kind, uint32_t index, uint32_t detail) {
    const auto number = static_cast<uint32_t>(kind);
    const Event event = {time, uint64_t{index} << 32 | uint64_t{number} << 29 | detail};
    Open& open = open_[number];
    if (open.run >= 0 && open.last.time == time && open.last.rest < event.rest) {
      open.last = event;
      return Append(open.run, event.rest);
    }
    const int32_t run = free_run_ >= 0 ? free_run_ : static_cast<int32_t>(runs_.size());
    if (free_run_ >= 0) {
      free_run_ = runs_[run].first;
      runs_[run] = {};
    } else {
      runs_.emplace_back();
    }
    open = {event, run};
    heap_.emplace_back();
    Rise(heap_.size() - 1, {event, run});
  }

  Event Pop() {
    Node& root = heap_.front();
    const Event event = root.event;
    Run& run = runs_[root.run];
    if (run.first >= 0) {
      Link& link = links_[run.first];
      root.event.rest = link.rest;
      const int32_t freed = run.first;
      run.first = link.next;
      link.next = free_link_;
      free_link_ = freed;
      Sink();
      return event;
    }
    Open& open = open_[static_cast<uint32_t>(event.kind())];
    if (open.run == root.run) open.run = -1;
    run.first = free_run_;
    free_run_ = root.run;
    const Node last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) Rise(SinkHole(), last);
    return event;
  }

 private:
  struct Node {
    Event event;
    int32_t run = -1;

    bool Before(const Node& other) const { return event.Order() < other.event.Order(); }
  };
  // The events of a run after the first, as indices in `links_`, -1 = none. In a free run `first` is the next free run.
  struct Run {
    int32_t first = -1;
    int32_t last = -1;
  };
  struct Link {
    uint64_t rest = 0;
    int32_t next = -1;
  };
  // For one kind of event: the run that was begun last (-1 = it is over), and its last event.
  struct Open {
    Event last;
    int32_t run = -1;
  };

  void Append(int32_t run, uint64_t rest) {
    int32_t own = free_link_;
    if (own >= 0) {
      free_link_ = links_[own].next;
      links_[own] = {rest, -1};
    } else {
      own = static_cast<int32_t>(links_.size());
      links_.push_back({rest, -1});
    }
    Run& of = runs_[run];
    (of.first < 0 ? of.first : links_[of.last].next) = own;
    of.last = own;
  }

  // Returns the earliest child of a node, which must have one.
  size_t LeastChild(size_t node) const {
    const size_t child = 4 * node + 1;
    if (child + 4 <= heap_.size()) {
      const size_t low = child + heap_[child + 1].Before(heap_[child]);
      const size_t high = child + 2 + heap_[child + 3].Before(heap_[child + 2]);
      return heap_[high].Before(heap_[low]) ? high : low;
    }
    size_t least = child;
    for (size_t other = child + 1; other < heap_.size(); ++other) {
      if (heap_[other].Before(heap_[least])) least = other;
    }
    return least;
  }

  // Restores the order of the heap after the root has become later.
  void Sink() {
    const Node node = heap_.front();
    size_t hole = 0;
    while (4 * hole + 1 < heap_.size()) {
      const size_t least = LeastChild(hole);
      if (!heap_[least].Before(node)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = node;
  }

  // Removes the root: moves the earliest children up, beginning at the root, and returns the leaf that is free then.
  // The last node takes that place. It is mostly a late event, which belongs near the leaves.
  size_t SinkHole() {
    size_t hole = 0;
    while (4 * hole + 1 < heap_.size()) {
      const size_t least = LeastChild(hole);
      heap_[hole] = heap_[least];
      hole = least;
    }
    return hole;
  }

  void Rise(size_t hole, const Node& node) {
    while (hole > 0) {
      const size_t parent = (hole - 1) / 4;
      if (!node.Before(heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = node;
  }

  std::vector<Node> heap_;
  std::vector<Run> runs_;
  std::vector<Link> links_;
  // The first free run and the first free link, -1 = none.
  int32_t free_run_ = -1;
  int32_t free_link_ = -1;
  // The run that was begun last, for each kind of event.
  std::array<Open, kEventKinds> open_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_EVENT_QUEUE_H_
