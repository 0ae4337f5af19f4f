// The compute slots of nodes whose devices share the cores of one host (rule P3).
#ifndef WEFT_SIMULATOR_ENGINE_COMPUTE_SLOTS_H_
#define WEFT_SIMULATOR_ENGINE_COMPUTE_SLOTS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

namespace weft::sim {

class ComputeSlots {
 public:
  // There is no limit if `slots_per_node` is 0 or at least `devices_per_node`. A rank that got a slot keeps it for its
  // next step if that step is ready as soon as the rank's last step ends, and less than `turn` after the rank got the
  // slot. If `node_of_rank` is empty, ranks fill the nodes in order.
  ComputeSlots(int64_t ranks, int64_t devices_per_node, int64_t slots_per_node, int64_t turn,
               const std::vector<int64_t>& node_of_rank)
      : turn_(turn) {
    devices_per_node = std::max<int64_t>(devices_per_node, 1);
    if (slots_per_node <= 0 || slots_per_node >= devices_per_node) return;
    std::map<int64_t, int64_t> index;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t node = node_of_rank.empty() ? rank / devices_per_node : node_of_rank[rank];
      node_of_.push_back(index.try_emplace(node, static_cast<int64_t>(index.size())).first->second);
    }
    nodes_.assign(index.size(), {slots_per_node, {}, false});
    holders_.assign(ranks, {});
  }

  bool limited() const { return !nodes_.empty(); }

  // Registers that the next step of `rank`, on compute stream `stream`, has been ready since `ready` and needs a slot.
  void Wait(int64_t ready, int32_t rank, int32_t stream) {
    Holder& holder = holders_[rank];
    if (holder.between) {
      holder.next = stream;
      if (ready - holder.since < turn_) keepers_.push(rank);
      return;
    }
    Queue(ready, rank, stream);
  }

  // Registers that the rank's step ends. When all ends of this instant are processed, Grant frees the slot or lets the
  // rank keep it.
  void End(int32_t rank) {
    holders_[rank].between = true;
    holders_[rank].next = -1;
    ended_.push_back(rank);
  }

  // Returns the stream whose step starts next, or -1. Ranks that keep their slot come first, in ascending order. Then
  // comes the first waiting step by (ready, rank) on a node with a free slot. Called when all ends of the instant `now`
  // are processed.
  int32_t Grant(int64_t now) {
    if (!keepers_.empty()) {
      Holder& holder = holders_[keepers_.top()];
      keepers_.pop();
      holder.between = false;
      return holder.next;
    }
    for (const int32_t rank : ended_) {
      // A rank that is no longer between two steps has kept its slot for the next one.
      Holder& holder = holders_[rank];
      if (!holder.between) continue;
      holder.between = false;
      ++nodes_[node_of_[rank]].free;
      MarkChanged(node_of_[rank]);
      if (holder.next >= 0) Queue(now, rank, holder.next);
    }
    ended_.clear();
    Node* best_node = nullptr;
    std::vector<Waiting>::iterator best;
    for (const int64_t index : changed_) {
      Node& node = nodes_[index];
      if (node.free == 0 || node.waiting.empty()) continue;
      const auto first = std::min_element(node.waiting.begin(), node.waiting.end());
      if (best_node != nullptr && *best < *first) continue;
      best_node = &node;
      best = first;
    }
    if (best_node == nullptr) {
      for (const int64_t index : changed_) nodes_[index].changed = false;
      changed_.clear();
      return -1;
    }
    const auto [ready, rank, stream] = *best;
    holders_[rank].since = now;
    *best = best_node->waiting.back();
    best_node->waiting.pop_back();
    --best_node->free;
    return stream;
  }

 private:
  // (ready, rank, stream)
  using Waiting = std::tuple<int64_t, int32_t, int32_t>;

  struct Node {
    int64_t free = 0;
    std::vector<Waiting> waiting;
    bool changed = false;
  };

  struct Holder {
    // When the rank's turn began.
    int64_t since = 0;
    // True if a step of the rank has ended at this instant. `next` is then the stream of its next step if that step is
    // ready, else -1.
    bool between = false;
    int32_t next = -1;
  };

  void Queue(int64_t ready, int32_t rank, int32_t stream) {
    nodes_[node_of_[rank]].waiting.push_back({ready, rank, stream});
    MarkChanged(node_of_[rank]);
  }

  void MarkChanged(int64_t node) {
    if (nodes_[node].changed) return;
    nodes_[node].changed = true;
    changed_.push_back(node);
  }

  int64_t turn_;
  std::vector<Node> nodes_;
  // Index in `nodes_` of each rank's node.
  std::vector<int64_t> node_of_;
  // The state of each rank.
  std::vector<Holder> holders_;
  // Ranks with a step that ended at this instant, and the ranks among them that keep their slot.
  std::vector<int32_t> ended_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> keepers_;
  // Nodes where a slot may be granted. All other nodes have no free slot or no waiting step.
  std::vector<int64_t> changed_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_COMPUTE_SLOTS_H_
