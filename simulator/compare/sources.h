// What the time of a repetition was spent on, so that the difference of two traces can be told by its sources.
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

// The repetition that TraceReport.iteration_seconds is of: from the finish of the one before to its own, or from first
// start to last finish if the trace has one repetition only.
struct SteadyWindow {
  int64_t begin_ps = 0;
  int64_t end_ps = 0;
};
// `trace` is valid.
SteadyWindow WindowOf(const Trace& trace);

// In this order an instant is taken for what runs then.
enum class Source { kCompute, kCopies, kCommunication, kHost, kWaiting };
constexpr int kSources = 5;
// "compute", "copies", "communication", "host", "waiting"
const char* SourceName(Source source);

// A rank does at every instant of the window one of these; summed over ranks, they add up to ranks x window exactly.
// While nothing runs, a rank waits if what starts next is communication, or a compute step or copy that has been ready
// (for a compute slot); before that step was ready, or where it was ready and started at once, it is the host's time:
// nothing on the rank was left to wait for.
struct TimeBySource {
  int64_t ranks = 0;
  int64_t window_ps = 0;
  std::array<absl::int128, kSources> ps = {};
  struct OfKernel {
    absl::int128 ps = 0;
    int64_t steps = 0;
  };
  // Of what computes, with a program.
  std::map<std::string, OfKernel> kernels;
};
// `program` may be null; else the trace is of it (ValidateTogether).
TimeBySource SourcesOf(const Trace& trace, const Program* program);

// Fills report.sources and report.kernels, both with shares.
void AddSources(const Trace& first, const Trace& second, const Program* program, ComparisonReport* report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COMPARE_SOURCES_H_
