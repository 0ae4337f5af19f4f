// Links that flows share (rule P12), split into classes along with ranks (fold.h).
//
// Links of a class have one capacity, and the flows of one class of users (channels or communicators) together put the
// same load on each of them. All flows of a class are in flight at the same times, so links of a class always have the
// same level. Flows of a class take links of the same classes, so they have the same rate (max_min.h). One flow that
// takes from one link of each class what all flows of its class take there has that rate too: it stands for them.
//
// Example: 8 ranks send through interfaces of their own and one core link. There are two classes of links, the
// interfaces and the core. The flow that stands for the 8 flows has a load of 1 on an interface and 8 on the core.
#ifndef WEFT_SIMULATOR_ENGINE_LINK_CLASSES_H_
#define WEFT_SIMULATOR_ENGINE_LINK_CLASSES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

class LinkClasses {
 public:
  using Loads = std::vector<std::pair<int32_t, int32_t>>;

  // Users are numbered 0 to users - 1. At first, all links of one capacity are in one class.
  LinkClasses(absl::Span<const int64_t> capacities, int32_t users);

  // Adds a flow of `user`, with a key that the user's other flows do not have.
  void Add(int32_t user, int64_t key, Flow flow);

  // Appends to `key` everything about the flows of `user` except links. The result is the same for users that are
  // alike.
  void DescribeFlows(int32_t user, std::vector<int64_t>* key) const;
  // Appends to `key` the classes of links that the flows of `user` take.
  void DescribeLinks(int32_t user, std::vector<int64_t>* key) const;

  // Splits classes of links by the loads that users put on them. `classes` has the class of each user; DescribeFlows
  // gives the same result for all users of a class. Returns true if a class was split. All flows must be added before
  // the first call.
  bool Refine(const std::vector<int32_t>& classes);

  // Makes the flows that stand for the flows of each class of users. Must be called once no class of users or links is
  // split any more. Returns false if one of these flows takes more of a link than a load can hold.
  bool Fold(const std::vector<int32_t>& classes);
  std::vector<int64_t> FoldedCapacities() const;
  // Flows that represent `user`'s class, each with its key.
  std::vector<std::pair<int64_t, Flow>> FoldedFlows(int32_t user, const std::vector<int32_t>& classes) const;

 private:
  struct KnownFlow {
    int64_t key = 0;
    // The flow without its loads.
    Flow flow;
    // For each phase, the index of its loads in User::loads; -1 = the phase moves no bytes.
    std::vector<int32_t> loads;
  };
  struct User {
    std::vector<KnownFlow> flows;
    std::vector<Loads> loads;
  };
  // The load that User::loads[index] of `user` puts on a link.
  struct Use {
    int32_t user = 0;
    int32_t index = 0;
    int64_t load = 0;
  };

  void IndexUses();
  absl::Span<const Use> UsesOf(size_t link) const {
    return absl::MakeConstSpan(uses_).subspan(first_use_[link], first_use_[link + 1] - first_use_[link]);
  }
  // Sums the loads on a link by class of users and index, in that order. In `sums`, Use::user is a class of users.
  void SumUses(size_t link, const std::vector<int32_t>& classes, std::vector<Use>* sums) const;

  std::vector<int64_t> capacities_;
  std::vector<User> users_;
  std::vector<int32_t> class_of_;
  int32_t classes_ = 0;
  // First use of each link, as an index in uses_. Made when all flows have been added.
  std::vector<size_t> first_use_;
  std::vector<Use> uses_;
  // The loads of folded flows, by (class of users, index in User::loads).
  absl::flat_hash_map<std::pair<int32_t, int32_t>, Loads> folded_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_LINK_CLASSES_H_
