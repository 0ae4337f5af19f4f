#include "verifier/accesses.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft::verify {

Accesses::Accesses(const Index& index, const TemplateIndex& t, const Order& order)
    : begin_(t.t->buffers_size() + 1, 0) {
  // Calls fn(buffer, write, reads) for each buffer that a transfer or collective touches.
  const auto for_messages = [](const Action& action, auto fn) {
    for (int k = 0; k < std::max(action.sources_size(), action.destinations_size()); ++k) {
      const int source = k < action.sources_size() ? action.sources(k) : -1;
      const int destination = k < action.destinations_size() ? action.destinations(k) : -1;
      if (source >= 0) fn(source, source == destination, true);
      if (destination >= 0 && destination != source) fn(destination, true, false);
    }
  };
  const auto action_of = [&](const Order::Instance& instance) -> const Action& {
    return *t.actions[instance.action].action;
  };
  for (const Order::Instance& instance : order.instances()) {
    const Action& action = action_of(instance);
    for (const int b : action.operands()) ++begin_[b + 1];
    for_messages(action, [&](int b, bool, bool) { ++begin_[b + 1]; });
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  all_.resize(begin_.back());
  std::vector<int> next(begin_.begin(), begin_.end() - 1), ranks(all_.size());  // Lowest Order::Rank of each access.
  for (int i = 0; i < static_cast<int>(order.instances().size()); ++i) {
    const Order::Instance& instance = order.instances()[i];
    const Action& action = action_of(instance);
    for (int o = 0; o < action.operands_size(); ++o) {
      const OperandUse& use = instance.segment->operands[o];
      int rank = 1 << 30;
      for (const int part : use.first_parts) rank = std::min(rank, order.Rank(instance.first_node + part));
      const int at = next[action.operands(o)]++;
      all_[at] = {i, !use.writes.empty(), !use.first_reads.empty(), &use};
      ranks[at] = rank;
    }
    for_messages(action, [&](int b, bool write, bool reads) {
      const int at = next[b]++;
      all_[at] = {i, write, reads, nullptr};
      ranks[at] = order.Rank(instance.first_node);
    });
  }
  for (int b = 0; b < t.t->buffers_size(); ++b) {
    if (!std::is_sorted(ranks.begin() + begin_[b], ranks.begin() + begin_[b + 1])) Sort(b, ranks);
  }
}

void Accesses::Sort(int buffer, const std::vector<int>& ranks) {
  const int begin = begin_[buffer], end = begin_[buffer + 1];
  std::vector<std::pair<int, int>> keys;  // (rank, position)
  for (int i = begin; i < end; ++i) keys.emplace_back(ranks[i], i);
  std::sort(keys.begin(), keys.end());
  std::vector<BufferAccess> sorted;
  for (const auto& [rank, i] : keys) sorted.push_back(all_[i]);
  std::copy(sorted.begin(), sorted.end(), all_.begin() + begin);
}

}  // namespace weft::verify
