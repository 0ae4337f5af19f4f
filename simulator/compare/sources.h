// Splits the time of a repetition by its sources, to explain the difference between two traces.
#ifndef WEFT_SIMULATOR_COMPARE_SOURCES_H_
#define WEFT_SIMULATOR_COMPARE_SOURCES_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/numeric/int128.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "proto/trace.pb.h"

namespace weft::sim {

// The repetition whose length is TraceReport.iteration_seconds: from the finish of the previous repetition to its own
// finish. If the trace has only one repetition, the window is from its first start to its last finish.
struct SteadyWindow {
  int64_t begin_ps = 0;
  int64_t end_ps = 0;
};
// `trace` must be valid.
SteadyWindow WindowOf(const Trace& trace);

// Sources of time. If several of them run at an instant, only the first in this order counts.
enum class Source { kCompute, kCopies, kCommunication, kHost, kWaiting };
constexpr int kSources = 5;
// Returns "compute", "copies", "communication", "host" or "waiting".
const char* SourceName(Source source);

// The time of the window by source. At every instant a rank counts for exactly one source, so the sum over sources and
// ranks is ranks x window. While nothing runs on a rank, the work that starts next decides:
//   - communication: the rank waits;
//   - a compute step or copy: until the step is ready, the time is the host's, because the rank has nothing left to
//     wait for. From then until the step starts, the rank waits for a compute slot.
struct TimeBySource {
  int64_t ranks = 0;
  int64_t window_ps = 0;
  std::array<absl::int128, kSources> ps = {};
  struct KernelTimes {
    absl::int128 ps = 0;
    int64_t steps = 0;
  };
  // Time and steps of each kernel; empty without a program.
  std::map<std::string, KernelTimes> kernels;
};
// `program` may be null; otherwise `trace` must be a trace of it (ValidateTogether).
TimeBySource SourcesOf(const Trace& trace, const Program* program);

// Fills in report.sources and report.kernels, both with shares.
void AddSources(const Trace& first, const Trace& second, const Program* program, ComparisonReport* report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_SOURCES_H_
