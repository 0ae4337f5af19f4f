// Which things to keep in limited room, so that they are worth most.
#ifndef WEFT_COMPILER_OVERLAP_KNAPSACK_H_
#define WEFT_COMPILER_OVERLAP_KNAPSACK_H_

#include <cstdint>
#include <vector>

namespace weft {

struct KnapsackItem {
  int64_t bytes = 0;
  int64_t value = 0;
};

// Ascending indices of the chosen items; their bytes are at most `room`. Items without value are never chosen, those
// without bytes always.
//
// A search by branch and bound, best value per byte first, whose bound is what fits if the last item could be cut
// (Kolesar 1967, Management Science 13). It is exact if it ends within 2^16 nodes; else the best that it has seen,
// which is worth at least half of the optimum: it begins with the better of what fits greedily and the one item worth
// most (Dantzig's bound, Martello and Toth 1990, Knapsack Problems, sec. 2.4).
std::vector<int> ChooseItems(const std::vector<KnapsackItem>& items, int64_t room);

}  // namespace weft

#endif  // WEFT_COMPILER_OVERLAP_KNAPSACK_H_
