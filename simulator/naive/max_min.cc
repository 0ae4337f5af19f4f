#include "simulator/naive/max_min.h"

#include <algorithm>

namespace weft::sim::naive {

std::vector<int64_t> MaxMinRates(const std::vector<int64_t>& capacities,
                                 const std::vector<std::map<int, int64_t>>& flows) {
  std::vector<int64_t> rates(flows.size(), 0);
  std::vector<__int128> free(capacities.begin(), capacities.end());
  while (true) {
    // The highest rate that each link can give to its flows without a rate. Links without such flows are left out.
    std::map<int, __int128> levels;
    for (int link = 0; link < static_cast<int>(capacities.size()); ++link) {
      __int128 loads = 0;
      for (size_t f = 0; f < flows.size(); ++f) {
        if (rates[f] == 0 && flows[f].count(link) > 0) loads += flows[f].at(link);
      }
      if (loads > 0) levels[link] = free[link] / loads;
    }
    if (levels.empty()) return rates;
    __int128 least = levels.begin()->second;
    for (const auto& [link, level] : levels) least = std::min(least, level);
    std::vector<size_t> given;
    for (size_t f = 0; f < flows.size(); ++f) {
      bool tight = false;
      for (const auto& [link, load] : flows[f]) tight |= levels.count(link) > 0 && levels[link] == least;
      if (rates[f] == 0 && tight) given.push_back(f);
    }
    for (const size_t f : given) {
      rates[f] = std::max<int64_t>(1, static_cast<int64_t>(least));
      for (const auto& [link, load] : flows[f]) {
        free[link] = std::max<__int128>(0, free[link] - static_cast<__int128>(load) * rates[f]);
      }
    }
  }
}

}  // namespace weft::sim::naive
