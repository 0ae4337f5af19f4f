// Links that flows share (rule P12), parted into classes along with ranks (fold.h).
//
// Links of a class have one capacity, and the flows of one class of users (channels or communicators) together put the
// same load on each of them. All flows of a class are under way at the same times, so links of a class always have one
// level, and flows of a class, which take links of the same classes, one rate (max_min.h). One flow that takes of one
// link of each class what all flows of its class take there has that rate too: it stands for them.
//
// Example: 8 ranks send through interfaces of their own and one core link. Two classes of links, the interfaces and the
// core; what stands for the 8 flows has a load of 1 on an interface and 8 on the core.
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

  // Users are numbered 0 to users - 1. All links of a capacity are alike at first.
  LinkClasses(absl::Span<const int64_t> capacities, int32_t users);

  // One more flow of `user`, with a key that its other flows do not have.
  void Add(int32_t user, int64_t key, Flow flow);

  // Appends all of the flows of `user` but links: in what users that are alike do not differ.
  void DescribeFlows(int32_t user, std::vector<int64_t>* key) const;
  // Appends the classes of links that they take.
  void DescribeLinks(int32_t user, std::vector<int64_t>* key) const;

  // Parts classes of links by what users put on them; `classes` are those of the users, and those of one class are
  // alike in what DescribeFlows says. Whether a class fell apart. The first time all flows must have been added.
  bool Refine(const std::vector<int32_t>& classes);

  // Once no class of users or links falls apart: the flows that stand for those of each class of users. False, if one
  // takes more of a link than a load can say.
  bool Fold(const std::vector<int32_t>& classes);
  std::vector<int64_t> FoldedCapacities() const;
  // Of the class of `user`, by key.
  std::vector<std::pair<int64_t, Flow>> FoldedFlows(int32_t user, const std::vector<int32_t>& classes) const;

 private:
  struct KnownFlow {
    int64_t key = 0;
    // Without loads.
    Flow flow;
    // Of each phase, in User::loads; -1 = it moves no bytes.
    std::vector<int32_t> loads;
  };
  struct User {
    std::vector<KnownFlow> flows;
    std::vector<Loads> loads;
  };
  // What a user puts on a link by its loads of that index.
  struct Use {
    int32_t user = 0;
    int32_t index = 0;
    int64_t load = 0;
  };

  void IndexUses();
  absl::Span<const Use> UsesOf(size_t link) const {
    return absl::MakeConstSpan(uses_).subspan(first_use_[link], first_use_[link + 1] - first_use_[link]);
  }
  // What the classes of users put on a link, in order: class in Use::user.
  void SumUses(size_t link, const std::vector<int32_t>& classes, std::vector<Use>* sums) const;

  std::vector<int64_t> capacities_;
  std::vector<User> users_;
  std::vector<int32_t> class_of_;
  int32_t classes_ = 0;
  // By link, in uses_; made when all flows are there.
  std::vector<size_t> first_use_;
  std::vector<Use> uses_;
  // By class of users and index of loads.
  absl::flat_hash_map<std::pair<int32_t, int32_t>, Loads> folded_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_LINK_CLASSES_H_
