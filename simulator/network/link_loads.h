// Adds up the messages on each link, route by route.
#ifndef WEFT_SIMULATOR_NETWORK_LINK_LOADS_H_
#define WEFT_SIMULATOR_NETWORK_LINK_LOADS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::sim {

class LinkLoads {
 public:
  explicit LinkLoads(size_t links) : messages_(links, 0) {}

  template <typename Links>
  void Add(const Links& links, int64_t messages) {
    for (const int32_t link : links) {
      if (messages_[link] == 0) used_.push_back(link);
      messages_[link] += messages;
    }
  }

  void Clear() {
    for (const int32_t link : used_) messages_[link] = 0;
    used_.clear();
  }

  // Returns (link, messages) in order of the links, and clears the counts. More than 2^31 - 1 messages count as 2^31 -
  // 1.
  std::vector<std::pair<int32_t, int32_t>> Take() {
    std::sort(used_.begin(), used_.end());
    std::vector<std::pair<int32_t, int32_t>> loads;
    loads.reserve(used_.size());
    for (const int32_t link : used_) {
      loads.push_back({link, static_cast<int32_t>(std::min<int64_t>(messages_[link], INT32_MAX))});
    }
    Clear();
    return loads;
  }

 private:
  // Messages by link; only links in used_ have any.
  std::vector<int64_t> messages_;
  std::vector<int32_t> used_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_LINK_LOADS_H_
