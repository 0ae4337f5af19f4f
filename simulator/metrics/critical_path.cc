#include "simulator/metrics/critical_path.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

// Maximum number of actions that a report lists, those with the longest time on the path first.
constexpr size_t kListedActions = 20;

absl::Status Unexplained(TraceIndex& index, TracedStep step, absl::string_view what) {
  const EngineEvent& event = index.At(step);
  const Action& action = *index.ActionOf(step).action;
  return absl::InternalError(absl::StrCat("rank ", step.rank, " action ", action.id(), " '", action.name(), "' step ",
                                          event.step, " of repetition ", event.repetition, ": nothing that it waits ",
                                          "for happened at ", what));
}

// Returns what the step's start was waiting for; nothing if the step starts at 0.
absl::StatusOr<std::optional<Cause>> CauseOf(TraceIndex& index, TracedStep step, const EngineOptions& options) {
  const Time start = index.At(step).start;
  if (start == Time{}) return std::nullopt;
  TracedStep last = step;
  if (index.At(step).ready != start) {
    const std::vector<TracedStep> all = index.StartsWith(step);
    const auto found = std::find_if(all.begin(), all.end(), [&](TracedStep s) { return index.At(s).ready == start; });
    if (found == all.end()) {
      const std::optional<TracedStep> holder =
          index.StreamOf(step).key.kind == StreamClass::kCompute ? index.FreedSlot(step, options) : std::nullopt;
      if (!holder) return Unexplained(index, step, absl::StrCat("its start, ", start.ps, " ps"));
      return Cause{*holder, /*finish=*/false};
    }
    last = *found;
  }
  for (const Cause& cause : index.BeforeReady(last)) {
    const EngineEvent& event = index.At(cause.step);
    if ((cause.finish ? event.finish : event.end) == start) return cause;
  }
  return Unexplained(index, last, absl::StrCat(start.ps, " ps, when it was ready"));
}

// Returns the step that finishes last; of several, the first.
std::optional<TracedStep> LastStep(const EngineResult& result) {
  std::optional<TracedStep> last;
  Time latest = {-1};
  for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
    const std::vector<EngineEvent>& events = result.ranks[rank].events;
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].finish <= latest) continue;
      latest = events[i].finish;
      last = TracedStep{static_cast<int32_t>(rank), static_cast<int32_t>(i)};
    }
  }
  return last;
}

std::string KindOf(const ProgramView& view, TraceIndex& index, const CriticalHop& hop) {
  if (hop.latency) return "latency";
  const Action& action = *index.ActionOf(hop.step).action;
  if (IsCompute(action.kind()) && index.StreamOf(hop.step).key.kind == StreamClass::kCollective) {
    return Kernel_Name(view.program->segments(action.segment()).steps(index.At(hop.step).step).kernel());
  }
  return ActionKind_Name(action.kind());
}

}  // namespace

absl::StatusOr<std::vector<CriticalHop>> FindCriticalPath(const ProgramView& view, const EngineResult& result,
                                                          const EngineOptions& options) {
  std::vector<CriticalHop> path;
  TraceIndex index(view, result, options.repetitions);
  std::optional<TracedStep> step = LastStep(result);
  bool finish = true;
  // The path visits each step at most once.
  for (int64_t steps = 0; step; ++steps) {
    if (steps > result.steps) return Unexplained(index, *step, "all: it waits for itself");
    const EngineEvent& event = index.At(*step);
    TracedStep shown = *step;
    if (index.ActionOf(*step).action->kind() == RECV) {
      shown = index.PartnerOf(*step);
      if (shown.rank < 0) return Unexplained(index, *step, "all: it has no SEND");
    }
    if (finish && event.finish > event.end) path.push_back({shown, /*latency=*/true, event.end, event.finish});
    path.push_back({shown, /*latency=*/false, event.start, event.end});
    WEFT_ASSIGN_OR_RETURN(const std::optional<Cause> cause, CauseOf(index, *step, options));
    if (!cause) break;
    step = cause->step;
    finish = cause->finish;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

void ReportCriticalPath(const ProgramView& view, const EngineResult& result, const std::vector<CriticalHop>& path,
                        SimulationReport* report) {
  TraceIndex index(view, result, 1);
  std::map<std::string, Time> kinds;
  struct Passed {
    Time start;
    Time time;
  };
  std::map<std::pair<int32_t, int32_t>, Passed> actions;
  for (const CriticalHop& hop : path) {
    if (hop.to > hop.from) kinds[KindOf(view, index, hop)] += hop.to - hop.from;
    if (hop.latency) continue;
    actions.try_emplace({hop.step.rank, index.At(hop.step).action}, Passed{hop.from, {}}).first->second.time +=
        hop.to - hop.from;
  }
  std::vector<std::pair<Time, std::string>> by_time;
  for (const auto& [kind, time] : kinds) by_time.push_back({time, kind});
  std::stable_sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [time, kind] : by_time) {
    CriticalKind* row = report->add_critical_kinds();
    row->set_kind(kind);
    row->set_seconds(ToSeconds(time));
  }
  // (-time, start, rank, action)
  std::vector<std::tuple<int64_t, int64_t, int32_t, int32_t>> longest;
  for (const auto& [key, passed] : actions) {
    if (passed.time.ps > 0) longest.push_back({-passed.time.ps, passed.start.ps, key.first, key.second});
  }
  std::sort(longest.begin(), longest.end());
  if (longest.size() > kListedActions) longest.resize(kListedActions);
  for (const auto& [negative, start, rank, action_index] : longest) {
    const Action& action = *view.templates[view.template_of_rank[rank]].actions[action_index].action;
    CriticalAction* row = report->add_critical_actions();
    row->set_rank(rank);
    row->set_action(action.id());
    row->set_name(action.name());
    row->set_kind(ActionKind_Name(action.kind()));
    row->set_start_seconds(ToSeconds({start}));
    row->set_seconds(ToSeconds({-negative}));
  }
}

}  // namespace weft::sim
