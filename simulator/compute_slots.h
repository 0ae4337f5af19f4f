// The compute slots of nodes whose devices share the cores of one host (rule P3).
#ifndef WEFT_SIMULATOR_COMPUTE_SLOTS_H_
#define WEFT_SIMULATOR_COMPUTE_SLOTS_H_

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace weft {

class ComputeSlots {
 public:
  // `slots_per_node` = 0 or at least `devices_per_node`: no limit.
  ComputeSlots(int64_t ranks, int64_t devices_per_node, int64_t slots_per_node)
      : devices_per_node_(std::max<int64_t>(devices_per_node, 1)) {
    if (slots_per_node <= 0 || slots_per_node >= devices_per_node_) return;
    nodes_.assign((ranks + devices_per_node_ - 1) / devices_per_node_, {slots_per_node, {}, false});
  }

  bool limited() const { return !nodes_.empty(); }

  // The compute stream `stream` of `rank` has a step that is ready since `ready`.
  void Wait(int64_t ready, int32_t rank, int32_t stream) {
    nodes_[rank / devices_per_node_].waiting.push_back({ready, rank, stream});
    MarkChanged(rank / devices_per_node_);
  }

  void Release(int32_t rank) {
    ++nodes_[rank / devices_per_node_].free;
    MarkChanged(rank / devices_per_node_);
  }

  // Gives a slot to the first in line of (ready, rank) among those whose node has one free; -1 if there is none. Called
  // when nothing is left to end at this instant.
  int32_t Grant() {
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
    const int32_t stream = std::get<2>(*best);
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

  void MarkChanged(int64_t node) {
    if (nodes_[node].changed) return;
    nodes_[node].changed = true;
    changed_.push_back(node);
  }

  int64_t devices_per_node_;
  std::vector<Node> nodes_;
  // Nodes where something may be granted; all others have no slot or nobody waiting.
  std::vector<int64_t> changed_;
};

}  // namespace weft

#endif  // WEFT_SIMULATOR_COMPUTE_SLOTS_H_
