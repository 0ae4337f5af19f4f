#include "simulator/naive/max_min.h"

#include <algorithm>

namespace weft::naive {

std::vector<int64_t> MaxMinRates(const std::vector<int64_t>& capacities,
                                 const std::vector<std::map<int, int64_t>>& flows) {
  std::vector<int64_t> rates(flows.size(), 0);
  std::vector<__int128> free(capacities.begin(), capacities.end());
  while (true) {
    int tightest = -1;
    __int128 level = 0;
    for (int link = 0; link < static_cast<int>(capacities.size()); ++link) {
      __int128 loads = 0;
      for (size_t f = 0; f < flows.size(); ++f) {
        if (rates[f] == 0 && flows[f].count(link) > 0) loads += flows[f].at(link);
      }
      if (loads == 0) continue;
      if (tightest < 0 || free[link] / loads < level) {
        tightest = link;
        level = free[link] / loads;
      }
    }
    if (tightest < 0) return rates;
    for (size_t f = 0; f < flows.size(); ++f) {
      if (rates[f] > 0 || flows[f].count(tightest) == 0) continue;
      rates[f] = std::max<int64_t>(1, static_cast<int64_t>(level));
      for (const auto& [link, load] : flows[f]) {
        free[link] = std::max<__int128>(0, free[link] - static_cast<__int128>(load) * rates[f]);
      }
    }
  }
}

}  // namespace weft::naive
