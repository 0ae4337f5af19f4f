#include "simulator/engine/link_classes.h"

#include <algorithm>
#include <tuple>

namespace weft::sim {

LinkClasses::LinkClasses(absl::Span<const int64_t> capacities, int32_t users)
    : capacities_(capacities.begin(), capacities.end()), users_(users) {
  absl::flat_hash_map<int64_t, int32_t> numbers;
  class_of_.reserve(capacities_.size());
  for (const int64_t capacity : capacities_) {
    class_of_.push_back(numbers.try_emplace(capacity, static_cast<int32_t>(numbers.size())).first->second);
  }
  classes_ = static_cast<int32_t>(numbers.size());
}

void LinkClasses::Add(int32_t user, int64_t key, Flow flow) {
  User& own = users_[user];
  KnownFlow& known = own.flows.emplace_back();
  known.key = key;
  for (FlowPhase& phase : flow.phases) {
    known.loads.push_back(-1);
    Loads loads = std::move(phase.loads);
    phase.loads.clear();
    if (phase.bytes == 0) continue;
    const auto found = std::find(own.loads.begin(), own.loads.end(), loads);
    known.loads.back() = static_cast<int32_t>(found - own.loads.begin());
    if (found == own.loads.end()) own.loads.push_back(std::move(loads));
  }
  known.flow = std::move(flow);
}

void LinkClasses::DescribeFlows(int32_t user, std::vector<int64_t>* key) const {
  for (const KnownFlow& known : users_[user].flows) {
    key->insert(key->end(), {known.key, known.flow.latency.ps, static_cast<int64_t>(known.flow.phases.size())});
    for (size_t i = 0; i < known.loads.size(); ++i) {
      const FlowPhase& phase = known.flow.phases[i];
      key->insert(key->end(), {phase.fixed_ps, phase.bytes, known.loads[i]});
    }
  }
}

void LinkClasses::DescribeLinks(int32_t user, std::vector<int64_t>* key) const {
  for (const Loads& loads : users_[user].loads) {
    const size_t first = key->size();
    for (const auto& [link, load] : loads) key->push_back(class_of_[link]);
    std::sort(key->begin() + first, key->end());
    key->erase(std::unique(key->begin() + first, key->end()), key->end());
    // -1 is no class: it separates these classes from those of the next loads.
    key->push_back(-1);
  }
}

void LinkClasses::IndexUses() {
  if (!first_use_.empty()) return;
  first_use_.assign(capacities_.size() + 1, 0);
  for (const User& user : users_) {
    for (const Loads& loads : user.loads) {
      for (const auto& [link, load] : loads) ++first_use_[link + 1];
    }
  }
  for (size_t link = 0; link < capacities_.size(); ++link) first_use_[link + 1] += first_use_[link];
  uses_.resize(first_use_.back());
  std::vector<size_t> next(first_use_.begin(), first_use_.end() - 1);
  for (size_t user = 0; user < users_.size(); ++user) {
    for (size_t index = 0; index < users_[user].loads.size(); ++index) {
      for (const auto& [link, load] : users_[user].loads[index]) {
        uses_[next[link]++] = {static_cast<int32_t>(user), static_cast<int32_t>(index), load};
      }
    }
  }
}

void LinkClasses::SumUses(size_t link, const std::vector<int32_t>& classes, std::vector<Use>* sums) const {
  sums->clear();
  for (const Use& use : UsesOf(link)) sums->push_back({classes[use.user], use.index, use.load});
  std::sort(sums->begin(), sums->end(),
            [](const Use& a, const Use& b) { return std::tie(a.user, a.index) < std::tie(b.user, b.index); });
  size_t kept = 0;
  for (size_t i = 0; i < sums->size(); ++i) {
    Use& own = (*sums)[kept];
    const Use& use = (*sums)[i];
    if (i == kept) continue;
    if (own.user == use.user && own.index == use.index) {
      own.load += use.load;
    } else {
      (*sums)[++kept] = use;
    }
  }
  if (!sums->empty()) sums->resize(kept + 1);
}

bool LinkClasses::Refine(const std::vector<int32_t>& classes) {
  IndexUses();
  absl::flat_hash_map<std::vector<int64_t>, int32_t> numbers;
  std::vector<int64_t> key;
  std::vector<Use> sums;
  for (size_t link = 0; link < capacities_.size(); ++link) {
    SumUses(link, classes, &sums);
    key.assign(1, class_of_[link]);
    for (const Use& sum : sums) key.insert(key.end(), {sum.user, sum.index, sum.load});
    class_of_[link] = numbers.try_emplace(key, static_cast<int32_t>(numbers.size())).first->second;
  }
  const int32_t before = classes_;
  classes_ = static_cast<int32_t>(numbers.size());
  return classes_ > before;
}

bool LinkClasses::Fold(const std::vector<int32_t>& classes) {
  IndexUses();
  folded_.clear();
  std::vector<bool> known(classes_, false);
  std::vector<Use> sums;
  for (size_t link = 0; link < capacities_.size(); ++link) {
    if (known[class_of_[link]]) continue;
    known[class_of_[link]] = true;
    SumUses(link, classes, &sums);
    for (const Use& sum : sums) {
      if (sum.load > INT32_MAX) return false;
      folded_[{sum.user, sum.index}].push_back({class_of_[link], static_cast<int32_t>(sum.load)});
    }
  }
  for (auto& [use, loads] : folded_) std::sort(loads.begin(), loads.end());
  return true;
}

std::vector<int64_t> LinkClasses::FoldedCapacities() const {
  std::vector<int64_t> capacities(classes_, 0);
  for (size_t link = 0; link < capacities_.size(); ++link) capacities[class_of_[link]] = capacities_[link];
  return capacities;
}

std::vector<std::pair<int64_t, Flow>> LinkClasses::FoldedFlows(int32_t user,
                                                               const std::vector<int32_t>& classes) const {
  std::vector<std::pair<int64_t, Flow>> flows;
  for (const KnownFlow& known : users_[user].flows) {
    Flow& flow = flows.emplace_back(known.key, known.flow).second;
    for (size_t i = 0; i < known.loads.size(); ++i) {
      if (known.loads[i] >= 0) flow.phases[i].loads = folded_.at({classes[user], known.loads[i]});
    }
  }
  return flows;
}

}  // namespace weft::sim
