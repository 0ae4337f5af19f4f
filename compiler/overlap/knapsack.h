// Chooses items of the highest total value whose bytes fit a limit.
#ifndef WEFT_COMPILER_OVERLAP_KNAPSACK_H_
#define WEFT_COMPILER_OVERLAP_KNAPSACK_H_

#include <cstdint>
#include <vector>

namespace weft {

struct KnapsackItem {
  int64_t bytes = 0;
  int64_t value = 0;
};

// Returns the ascending indices of the chosen items. Their bytes are at most `room`. Items without value are never
// chosen; items with value but without bytes always are.
//
// The method is branch and bound, best value per byte first. The bound is the value that fits if the last item may be
// cut (Kolesar 1967, Management Science 13). The result is exact if the search ends within 2^16 nodes. Otherwise it is
// the best one found, which is worth at least half of the optimum: the search begins with the better of the greedy
// choice and the single item of the highest value (Dantzig's bound, Martello and Toth 1990, Knapsack Problems, sec.
// 2.4).
std::vector<int> ChooseItems(const std::vector<KnapsackItem>& items, int64_t room);

}  // namespace weft

#endif  // WEFT_COMPILER_OVERLAP_KNAPSACK_H_
