#include "schedules/synthesis/tabu_search.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace weft {
namespace {

// Moves the slot at index `from` of a rank's list to index `to`; those between shift by one.
struct Move {
  int rank = 0;
  int32_t from = 0, to = 0;
  int64_t value = 0;
};

class Searcher {
 public:
  Searcher(const SlotGraph& graph, uint64_t seed, SlotOrder& order) : graph_(graph), random_(seed), order_(order) {}

  int64_t Run(int64_t iterations, int64_t bound) {
    if (!TimeOrder(graph_, order_, times_)) return INT64_MAX;
    SlotOrder best = order_;
    int64_t best_makespan = times_.makespan;
    for (iteration_ = 1; iteration_ <= iterations && best_makespan > bound; ++iteration_) {
      if (!Step(best_makespan)) break;
      if (times_.makespan >= best_makespan) continue;
      best_makespan = times_.makespan;
      best = order_;
    }
    order_ = std::move(best);
    return best_makespan;
  }

 private:
  // Makes the best move of one critical path. Returns false if there is none.
  bool Step(int64_t best_makespan) {
    moves_.clear();
    FindMoves();
    std::stable_sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) { return a.value < b.value; });
    // Try moves that are not tabu, or that may be better than anything found so far. If none works, try all moves.
    for (const bool allow_tabu : {false, true}) {
      for (const Move& move : moves_) {
        if (!allow_tabu && move.value >= best_makespan && IsTabu(move)) continue;
        if (Make(move)) return true;
      }
    }
    return false;
  }

  int Chance(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  int64_t End(int32_t id) const { return times_.head[id] + graph_.time[id]; }

  // Follows a critical path from its end. Collects the moves of each block.
  void FindMoves() {
    int32_t at = -1;
    int ties = 0;
    for (int rank = 0; rank < graph_.ranks; ++rank) {
      if (order_[rank].empty() || End(order_[rank].back()) != times_.makespan) continue;
      if (Chance(++ties) == 0) at = order_[rank].back();
    }
    int32_t last = times_.index[at];
    while (at >= 0) {
      const int rank = graph_.rank[at];
      const int32_t index = times_.index[at];
      const int32_t from = graph_.reads[at];
      const bool by_rank = index > 0 && End(order_[rank][index - 1]) == times_.head[at];
      const bool by_data = from >= 0 && graph_.rank[from] != rank && End(from) + graph_.lag[at] == times_.head[at];
      if (by_rank && !(by_data && Chance(2) == 0)) {
        at = order_[rank][index - 1];
        continue;
      }
      AddMoves(rank, index, last);
      at = by_data ? from : -1;
      if (at >= 0) last = times_.index[at];
    }
  }

  // Adds the moves of a block: the slots first, …, last of a rank.
  void AddMoves(int rank, int32_t first, int32_t last) {
    for (int32_t i = first; i <= last; ++i) {
      AddMove(rank, i, Limit(rank, i, last, 1));
      AddMove(rank, i, Limit(rank, i, first, -1));
    }
  }

  // Returns the index to which the slot at `from` may go towards `to`. The slot must not pass other slots of its group
  // or of its microbatch.
  int32_t Limit(int rank, int32_t from, int32_t to, int32_t step) const {
    const std::vector<int32_t>& list = order_[rank];
    const int32_t id = list[from];
    int32_t at = from;
    while (at != to) {
      const int32_t other = list[at + step];
      if (graph_.group(other) == graph_.group(id) || graph_.microbatch(other) == graph_.microbatch(id)) break;
      at += step;
    }
    return at;
  }

  void AddMove(int rank, int32_t from, int32_t to) {
    if (from == to) return;
    // Neighbors that swap appear as a move of either one.
    for (const Move& move : moves_) {
      if (move.rank == rank &&
          ((move.from == from && move.to == to) || (std::abs(from - to) == 1 && move.from == to && move.to == from))) {
        return;
      }
    }
    moves_.push_back({rank, from, to, ValueOf(rank, from, to)});
  }

  // Returns the longest path through the slots that change places, if the paths to them and from them stay as they are.
  int64_t ValueOf(int rank, int32_t from, int32_t to) {
    const std::vector<int32_t>& list = order_[rank];
    const int32_t low = std::min(from, to), high = std::max(from, to);
    segment_.assign(list.begin() + low, list.begin() + high + 1);
    if (from < to) {
      std::rotate(segment_.begin(), segment_.begin() + 1, segment_.end());
    } else {
      std::rotate(segment_.begin(), segment_.end() - 1, segment_.end());
    }
    heads_.resize(segment_.size());
    int64_t free = low > 0 ? End(list[low - 1]) : 0;
    for (size_t i = 0; i < segment_.size(); ++i) {
      const int32_t id = segment_[i], read = graph_.reads[id];
      heads_[i] = std::max(free, read >= 0 ? End(read) + graph_.lag[id] : 0);
      free = heads_[i] + graph_.time[id];
    }
    int64_t after = high + 1 < static_cast<int32_t>(list.size()) ? times_.tail[list[high + 1]] : 0;
    int64_t value = 0;
    for (size_t i = segment_.size(); i-- > 0;) {
      const int32_t id = segment_[i];
      for (const int32_t reader : graph_.readers[id]) {
        if (reader >= 0) after = std::max(after, graph_.lag[reader] + times_.tail[reader]);
      }
      after += graph_.time[id];
      value = std::max(value, heads_[i] + after);
    }
    return value;
  }

  static int64_t Pair(int32_t before, int32_t after) { return (int64_t{before} << 32) | after; }

  // Calls on_pair(a, b) for each pair of slots that a move reverses, where a ran before b so far.
  template <typename OnPair>
  void ForReversed(const Move& move, const OnPair& on_pair) const {
    const std::vector<int32_t>& list = order_[move.rank];
    const int32_t moved = list[move.from];
    for (int32_t i = move.from + 1; i <= move.to; ++i) on_pair(moved, list[i]);
    for (int32_t i = move.from - 1; i >= move.to; --i) on_pair(list[i], moved);
  }

  bool IsTabu(const Move& move) const {
    bool tabu = false;
    ForReversed(move, [&](int32_t was_first, int32_t will_be) {
      const auto it = tabu_.find(Pair(will_be, was_first));
      tabu |= it != tabu_.end() && it->second >= iteration_;
    });
    return tabu;
  }

  static void Shift(std::vector<int32_t>& list, int32_t from, int32_t to) {
    if (from < to) {
      std::rotate(list.begin() + from, list.begin() + from + 1, list.begin() + to + 1);
    } else {
      std::rotate(list.begin() + to, list.begin() + from, list.begin() + from + 1);
    }
  }

  // Makes the move unless it would block the ranks or exceed the cap.
  bool Make(const Move& move) {
    reversed_.clear();
    ForReversed(move, [&](int32_t was_first, int32_t will_be) { reversed_.push_back(Pair(was_first, will_be)); });
    std::vector<int32_t>& list = order_[move.rank];
    Shift(list, move.from, move.to);
    if (!FitsMemory(graph_, list) || !TimeOrder(graph_, order_, next_)) {
      Shift(list, move.to, move.from);
      return false;
    }
    std::swap(times_, next_);
    // A random tenure breaks cycles.
    const int64_t until = iteration_ + 8 + Chance(16);
    for (const int64_t pair : reversed_) tabu_[pair] = until;
    return true;
  }

  const SlotGraph& graph_;
  std::mt19937_64 random_;
  SlotOrder& order_;
  OrderTimes times_, next_;
  int64_t iteration_ = 0;
  // (a, b) -> the last iteration in which a may not come before b again.
  absl::flat_hash_map<int64_t, int64_t> tabu_;
  std::vector<Move> moves_;
  std::vector<int32_t> segment_;
  std::vector<int64_t> heads_, reversed_;
};

}  // namespace

int64_t TabuSearch(const SlotGraph& graph, int64_t iterations, int64_t bound, uint64_t seed, SlotOrder& order) {
  return Searcher(graph, seed, order).Run(iterations, bound);
}

}  // namespace weft
