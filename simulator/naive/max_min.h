// Rates of flows that share links, as rule P12 says them: slowly, from nothing, whenever they are asked for.
#ifndef WEFT_SIMULATOR_NAIVE_MAX_MIN_H_
#define WEFT_SIMULATOR_NAIVE_MAX_MIN_H_

#include <cstdint>
#include <map>
#include <vector>

namespace weft::sim::naive {

// `flows` are their loads by link, `capacities` are by link. Returns bytes per second by flow, at least 1.
std::vector<int64_t> MaxMinRates(const std::vector<int64_t>& capacities,
                                 const std::vector<std::map<int, int64_t>>& flows);

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_MAX_MIN_H_
