#include "simulator/segment_runs.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace weft {
namespace {

constexpr int64_t kTimeLimit = int64_t{1} << 62;

}  // namespace

absl::StatusOr<SegmentRuns> BuildSegmentRuns(const Program& program, int segment, ActionKind kind,
                                             const StepDurationFn& duration, const ProgramViewOptions& options,
                                             TemplateView& view) {
  SegmentRuns result;
  const Segment& proto = program.segments(segment);
  const int count = proto.steps_size();
  // Index of each step that another stream waits for, and the last attached step of each stream.
  std::vector<int32_t> named(count, -1);
  std::array<int, kStepStreams> tail = {-1, -1, -1};
  for (int i = 0; i < count; ++i) {
    const Step& step = proto.steps(i);
    if (step.stream() < 0 || step.stream() >= kStepStreams) {
      return absl::InvalidArgumentError(
          absl::StrCat("segment '", proto.name(), "' step ", i, ": unknown stream ", static_cast<int>(step.stream())));
    }
    if (!step.detached()) tail[step.stream()] = i;
    for (const int32_t dep : step.deps()) {
      if (dep < 0 || dep >= i) {
        return absl::InvalidArgumentError(
            absl::StrCat("segment '", proto.name(), "' step ", i, ": dep ", dep, " is not an earlier step"));
      }
      if (proto.steps(dep).stream() != step.stream() && named[dep] < 0) named[dep] = result.named++;
    }
  }
  for (int stream = 0; stream < kStepStreams; ++stream) {
    result.tails += tail[stream] >= 0;
    result.has_tail[stream] = tail[stream] >= 0;
    result.runs[stream].begin = view.runs.size();
    bool open = false;
    for (int i = 0; i < count; ++i) {
      const Step& step = proto.steps(i);
      if (step.stream() != stream) continue;
      Range waits = {.begin = static_cast<int32_t>(view.run_waits.size()), .end = 0};
      for (const int32_t dep : step.deps()) {
        if (proto.steps(dep).stream() != step.stream()) view.run_waits.push_back(named[dep]);
      }
      waits.end = view.run_waits.size();
      if (!open || !waits.empty() || !options.join_steps) {
        const int32_t first = view.steps.size();
        view.runs.push_back(
            {.duration_ps = 0, .steps = {first, first}, .waits = waits, .signal = -1, .is_tail = false});
      }
      WEFT_ASSIGN_OR_RETURN(const Time time, duration(segment, i, kind));
      Run& run = view.runs.back();
      view.steps.push_back({.step = i, .duration_ps = time.ps});
      run.steps.end = view.steps.size();
      run.duration_ps += std::min(time.ps, kTimeLimit - run.duration_ps);
      run.signal = named[i];
      run.is_tail = i == tail[stream];
      open = run.signal < 0 && !run.is_tail;
    }
    result.runs[stream].end = view.runs.size();
    result.streams += !result.runs[stream].empty();
  }
  return result;
}

}  // namespace weft
