// The happens-before relation of rule P7 within one template. It covers the prologue, a number of repetitions of the
// body, and the epilogue. Queries cost O(1) for compute and sends, O(dependents) for receives and collectives.
#ifndef WEFT_VERIFIER_ORDER_H_
#define WEFT_VERIFIER_ORDER_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "verifier/index.h"

namespace weft::verify {

class Order {
 public:
  // One action in one repetition, or in the prologue or epilogue.
  struct Instance {
    int action = 0;      // Index into TemplateIndex::actions.
    int copy = 0;        // 0 = prologue, 1.. = body repetitions, then epilogue.
    int first_node = 0;  // Its steps (parts) are nodes first_node .. first_node + nodes - 1.
    int nodes = 0;
    int finish_node = 0;                   // Reached when all non-detached nodes are finished.
    int all_node = 0;                      // Reached when the detached nodes are finished too.
    std::vector<int> dependents;           // Instances that wait for this one's finish.
    std::vector<int> detached_dependents;  // Instances that also wait for detached steps.
    const SegmentUse* segment = nullptr;   // Null for transfers and collectives.
    // For a member of a transfer group, the instances of the group: each waits for everything that any of them waits
    // for. Otherwise the instance alone.
    int first_member = 0, members = 1;
  };

  // The ranking of nodes: kOfReadiness is the order in which they become ready, kOfList the list order. kOfList takes
  // half the time, but is possible only if no node waits for a later one; otherwise Build uses kOfReadiness.
  enum Ranks { kOfReadiness, kOfList };

  // Returns false if the order within the rank has a cycle. There is none if Index has passed the deadlock check.
  bool Build(const Index& index, const TemplateIndex& t, int repetitions, Ranks ranks);

  const std::vector<Instance>& instances() const { return instances_; }
  int copies() const { return copies_; }
  // The instance of an action in a given copy of its list.
  int InstanceOf(int action, int copy) const { return copy_begin_[copy] + action - action_base_[copy]; }

  // True if node `a` of instance `i` is finished before node `b` starts, for any timing.
  bool Before(int i, int a, int b) const;
  // True if accesses to memory by `a` and then `b` are ordered. Includes Before. Two collectives of one stream also
  // count as ordered, even though the first may end before it is finished (P7).
  bool Visible(int i, int a, int b) const {
    const Node &x = nodes_[a], &y = nodes_[b];
    return Before(i, a, b) || (x.latent && x.collective && y.clock == x.clock && y.position > x.position);
  }
  // True if all non-detached nodes of instance `i` are finished before node `b` starts.
  bool FinishedBefore(int i, int b) const;
  // True if the whole of `i` (except detached steps) is finished before any node of `j` starts.
  bool InstanceBefore(int i, int j) const;

  bool Detached(int node) const { return nodes_[node].detached; }
  // Position in a topological order of all nodes.
  int Rank(int node) const { return nodes_[node].rank; }

 private:
  struct Node {
    int clock = -1;  // -1 = finish of an action with several parts, start or end of a transfer group.
    int position = 0;
    int instance = 0, rank = -1;
    // `latent`: the node may end before it is finished.
    bool detached = false, latent = false, collective = false;
  };

  template <typename Edge>
  void AddSteps(const TemplateIndex& t, const Instance& instance, StreamOrder* streams, Edge edge) const;
  template <typename Edge>
  void AddDependencies(const TemplateIndex& t, int id, Edge edge);
  void StartAfter(int a, int b);
  // Returns false if a node waits for a later one, or if there are transfer groups. FollowReadiness may follow; it
  // overwrites what this function has set.
  bool FollowList(const Index& index, const TemplateIndex& t);
  // Returns false if there is a cycle.
  bool FollowReadiness(const Index& index, const TemplateIndex& t);

  bool Ended(int a, int b) const { return clock_[int64_t{b} * clocks_ + nodes_[a].clock] >= nodes_[a].position; }
  bool DependentStarted(const std::vector<int>& dependents, int b) const;

  int clocks_ = 0;
  int copies_ = 0;
  std::vector<Instance> instances_;
  std::vector<int> copy_begin_, action_base_;
  // (transfer group, copy) -> the node where its members may start; at the next node all have ended.
  std::map<std::pair<int, int>, int> group_node_;
  std::vector<Node> nodes_;
  // clock_[node * clocks + c]: the last position on clock c that has ended before the node starts, -1 = none.
  std::vector<int32_t> clock_;
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_ORDER_H_
