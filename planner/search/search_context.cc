#include "planner/search/search_context.h"

#include <atomic>
#include <thread>
#include <vector>

#include "proto/util/mesh.h"

namespace weft::planner {

std::vector<int64_t> CapacitiesOf(const SearchContext& context, const Mesh& mesh) {
  if (context.kinds != nullptr) return context.kinds->Of(mesh).capacities;
  return std::vector<int64_t>(AxisSize(mesh, "pipe"), context.capacity);
}

bool ForAll(size_t count, int threads, const std::function<void(size_t)>& work, const std::function<bool()>& stop) {
  std::atomic<size_t> next = 0;
  std::atomic<size_t> done = 0;
  std::atomic<bool> stopped = false;
  const auto run = [&](bool asks) {
    while (!stopped) {
      const size_t i = next++;
      if (i >= count) return;
      if (asks && stop != nullptr && stop()) {
        stopped = true;
        return;
      }
      work(i);
      ++done;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads && static_cast<size_t>(i) < count; ++i) others.emplace_back(run, false);
  run(true);
  for (std::thread& thread : others) thread.join();
  return done == count;
}

}  // namespace weft::planner
