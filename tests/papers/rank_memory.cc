#include "tests/papers/rank_memory.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace weft {
namespace {

// Bytes of the device's arena that buffers of the class take at some time, each byte counted once.
double BytesOfClass(const Template& t, BufferClass of) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const Buffer& buffer : t.buffers()) {
    if (buffer.place() == DEVICE && buffer.class_() == of) {
      ranges.push_back({buffer.offset(), buffer.offset() + buffer.bytes()});
    }
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t bytes = 0, covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (end > covered) bytes += end - std::max(begin, covered);
    covered = std::max(covered, end);
  }
  return static_cast<double>(bytes);
}

std::set<int32_t> StagesOf(const Template& t) {
  std::set<int32_t> stages;
  for (const Action& action : t.body()) {
    if (action.kind() == FORWARD) stages.insert(action.stage());
  }
  return stages;
}

}  // namespace

double MostBytes(const Program& program, const FrameworkMemory& framework) {
  double most = 0;
  for (const Template& t : program.templates()) {
    double again = 0;
    for (const int32_t stage : StagesOf(t)) {
      const auto found = framework.recomputed.find(stage);
      if (found != framework.recomputed.end()) again = std::max(again, found->second);
    }
    most = std::max(most, static_cast<double>(t.device_arena_bytes()) +
                              (framework.activation_factor - 1) * BytesOfClass(t, SAVED_ACTIVATION) +
                              (framework.gradient_factor - 1) * BytesOfClass(t, GRADIENT) +
                              framework.activation_factor * again);
  }
  return most;
}

std::map<int32_t, double> SavedByStage(const Program& program) {
  std::map<int32_t, double> saved;
  for (const Template& t : program.templates()) {
    const double bytes = BytesOfClass(t, SAVED_ACTIVATION);
    for (const int32_t stage : StagesOf(t)) saved[stage] = std::max(saved[stage], bytes);
  }
  return saved;
}

}  // namespace weft
