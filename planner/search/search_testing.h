// Small problems for tests of the search.
#ifndef WEFT_PLANNER_SEARCH_SEARCH_TESTING_H_
#define WEFT_PLANNER_SEARCH_SEARCH_TESTING_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/search/search.h"
#include "proto/cluster.pb.h"

namespace weft::planner {

// Device memory in MiB that some plans of gpt2-tiny exceed.
inline constexpr int64_t kTightMemory = 12;

// A model, a batch, a part of a cluster, and the dimensions that the search leaves out.
struct Problem {
  std::string model = "gpt2-tiny";
  int64_t devices = 2;
  int64_t batch = 2;
  int64_t sequence = 64;
  std::string schedule = "1f1b";
  std::string plan = "";
  std::string network = "analytic";
  std::string runtime = "";
  // Device memory in MiB; 0 = all that the device has.
  int64_t memory = 0;
  // Rows of Cluster.other_devices. A device with the name "H100" gets the catalog's figures, but keeps its memory.
  std::string others = "";
  std::vector<std::string> excluded = {"offload", "recompute"};
};

std::ostream& operator<<(std::ostream& out, const Problem& problem);

struct HowToRun {
  bool exhaustive = false;
  int threads = 2;
  // The search stops when this many plans are simulated; 0 = never.
  int64_t stop_after = 0;
};

// Options with the gap 0.
SearchOptions OptionsFor(const Problem& problem);

Cluster ClusterFor(const Problem& problem);

absl::StatusOr<SearchResult> RunSearch(const Problem& problem, const HowToRun& how = {});

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_SEARCH_TESTING_H_
