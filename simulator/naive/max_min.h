// Rates of flows over shared links as rule P12 defines them: slow, and calculated from scratch on every call.
#ifndef WEFT_SIMULATOR_NAIVE_MAX_MIN_H_
#define WEFT_SIMULATOR_NAIVE_MAX_MIN_H_

#include <cstdint>
#include <map>
#include <vector>

namespace weft::sim::naive {

// `flows` has, for each flow, its number of messages on each link; `capacities` is by link. Returns the rate of each
// flow's messages in bytes per second, at least 1.
std::vector<int64_t> MaxMinRates(const std::vector<int64_t>& capacities,
                                 const std::vector<std::map<int, int64_t>>& flows);

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_MAX_MIN_H_
