// The inputs that all parts of a search share, and their loop over threads.
#ifndef WEFT_PLANNER_SEARCH_SEARCH_CONTEXT_H_
#define WEFT_PLANNER_SEARCH_SEARCH_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/search/device_kinds.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/runtime.pb.h"

namespace weft::planner {

struct SearchContext {
  // Borrowed.
  const ModelGraph& model;
  // Its devices have the memory that plans may use.
  const Cluster& cluster;
  std::string cost;
  std::string network;
  // Borrowed; null = weft's own executor.
  const Runtime* runtime = nullptr;
  // Bytes that a plan may use on each device; with `kinds`, on the device that has most.
  int64_t capacity = 0;
  int threads = 1;
  // Folder for profiles that later searches may use (profile_cache.h); empty = none are kept.
  std::string cache = {};
  // Borrowed. Null if all devices are like cluster.device.
  const DeviceKinds* kinds = nullptr;
};

// Bytes that a plan with this mesh may use on each device, by pipe rank.
std::vector<int64_t> CapacitiesOf(const SearchContext& context, const Mesh& mesh);

// Runs work(i) for i from 0 to count - 1 on some threads. If `stop` is not null, the calling thread asks it before each
// call of `work`; once it returns true, no further call of `work` begins. Returns false if some calls were left out.
bool ForAll(size_t count, int threads, const std::function<void(size_t)>& work,
            const std::function<bool()>& stop = nullptr);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_SEARCH_CONTEXT_H_
