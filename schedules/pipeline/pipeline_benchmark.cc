// Measures the generation and checking of schedules at scale.
//
//   bazel run -c opt //schedules/pipeline:pipeline_benchmark
//
// Large: 64 ranks, 1024 microbatches, 4 stages per rank if the schedule has that choice. Huge: 1024 ranks, 4096
// microbatches. peak_rss is the peak of the process so far, in bytes: run one benchmark alone (--benchmark_filter) to
// get its own peak.
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

void Generate(benchmark::State& state, const ScheduleEntry& entry, ScheduleParams params) {
  if ((entry.takes & kTakesVirtualStages) != 0) params.virtual_stages = 4;
  // A wave has two stages per rank.
  if ((entry.takes & kTakesWaves) != 0) params.waves = 2;
  if (!BuildSchedule(entry, params).ok()) params.virtual_stages = params.waves = 0;
  int64_t slots = 0;
  for (auto _ : state) {
    const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(entry, params);
    if (!schedule.ok()) {
      state.SkipWithError(schedule.status().ToString().c_str());
      break;
    }
    if (const absl::Status status = CheckSchedule(*schedule, params.microbatches); !status.ok()) {
      state.SkipWithError(status.ToString().c_str());
      break;
    }
    slots = 0;
    for (const auto& order : schedule->order) slots += static_cast<int64_t>(order.size());
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["slots"] = static_cast<double>(slots);
  state.counters["peak_rss"] = static_cast<double>(usage.ru_maxrss) * 1024;
}

const bool kRegistered = [] {
  for (const ScheduleEntry& entry : Schedules()) {
    for (const auto& [size, ranks, microbatches] : {std::tuple{"large", 64, 1024}, {"huge", 1024, 4096}}) {
      benchmark::RegisterBenchmark(absl::StrCat(size, "/", entry.name).c_str(), [&entry, ranks = ranks,
                                                                                 microbatches = microbatches](
                                                                                    benchmark::State& state) {
        Generate(state, entry, {.ranks = ranks, .microbatches = microbatches});
      })->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace weft
