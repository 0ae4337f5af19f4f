#include "simulator/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "simulator/compare/sources.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

// Latest time that a trace may have: 26 days, as in the simulator. The limit keeps sums of times below 2^63.
constexpr int64_t kLatestPs = int64_t{1} << 61;

double Seconds(int64_t ps) { return ToSeconds(Time{ps}); }

bool IsComputeStream(const RankTrace& rank, int stream) { return rank.streams(stream) == "compute"; }

// Returns the median of the values; of two middle values, the lower.
int64_t Median(std::vector<int64_t> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + (values.size() - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Total length of the union of [begin, end) intervals.
int64_t UnionLength(std::vector<std::pair<int64_t, int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  int64_t length = 0, covered_to = std::numeric_limits<int64_t>::min();
  for (const auto& [begin, end] : intervals) {
    if (end <= covered_to) continue;
    length += end - std::max(begin, covered_to);
    covered_to = end;
  }
  return length;
}

// Start and finish of a repetition over all ranks.
struct Extent {
  int64_t start = std::numeric_limits<int64_t>::max();
  int64_t finish = std::numeric_limits<int64_t>::min();
};

std::vector<Extent> Repetitions(const Trace& trace) {
  std::vector<Extent> repetitions(trace.repetitions());
  for (const RankTrace& rank : trace.ranks()) {
    for (const TraceEvent& event : rank.events()) {
      Extent& extent = repetitions[event.repetition()];
      extent.start = std::min(extent.start, event.start_ps());
      extent.finish = std::max(extent.finish, event.finish_ps());
    }
  }
  return repetitions;
}

struct ActionKey {
  int64_t rank = 0;
  int32_t action = 0;

  friend auto operator<=>(const ActionKey&, const ActionKey&) = default;
};

struct ActionTimes {
  // `duration_ps`: sum over steps of the median duration. `start_ps`: median start of the earliest step.
  int64_t duration_ps = 0;
  int64_t start_ps = 0;
  // Median duration by step.
  std::map<int32_t, int64_t> steps;
};

std::map<ActionKey, ActionTimes> TimesByAction(const Trace& trace) {
  const std::vector<Extent> extents = Repetitions(trace);
  // For each action: durations by step, and starts by repetition.
  std::map<ActionKey, std::map<int32_t, std::vector<int64_t>>> durations;
  std::map<ActionKey, std::map<int32_t, int64_t>> starts;
  for (const RankTrace& rank : trace.ranks()) {
    for (const TraceEvent& event : rank.events()) {
      const ActionKey key = {rank.rank(), event.action()};
      durations[key][event.step()].push_back(event.finish_ps() - event.start_ps());
      const int64_t start = event.start_ps() - extents[event.repetition()].start;
      const auto [it, is_new] = starts[key].emplace(event.repetition(), start);
      if (!is_new) it->second = std::min(it->second, start);
    }
  }
  std::map<ActionKey, ActionTimes> times;
  for (auto& [key, steps] : durations) {
    ActionTimes& action = times[key];
    // If steps overlap, or in a made-up trace, the sum of the durations may exceed the latest time, so it is clamped.
    for (auto& [step, values] : steps) {
      const int64_t median = Median(std::move(values));
      action.steps[step] = median;
      action.duration_ps = std::min(action.duration_ps + median, kLatestPs);
    }
    std::vector<int64_t> values;
    for (const auto& [repetition, start] : starts[key]) values.push_back(start);
    action.start_ps = Median(std::move(values));
  }
  return times;
}

// The actions of one template by id.
std::map<int32_t, const Action*> ActionsById(const Template& t) {
  std::map<int32_t, const Action*> actions;
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) actions[action.id()] = &action;
  }
  return actions;
}

// Number of steps of an action; a communication action is one step.
int StepCount(const Program& program, const Action& action) {
  return IsCompute(action.kind()) ? program.segments(action.segment()).steps_size() : 1;
}

// Sums the times of steps by (segment, index) over all actions that run the segment.
class StepSums {
 public:
  void Add(const Action& action, const ActionTimes& first, const ActionTimes& second) {
    for (const auto& [step, ps] : first.steps) {
      Sum& sum = sums_[{action.segment(), step}];
      ++sum.count;
      sum.first += Seconds(ps);
      sum.second += Seconds(second.steps.at(step));
    }
  }

  // Adds the rows to the report, the largest differences first.
  void Fill(const Program& program, ComparisonReport* report) const {
    std::vector<StepComparison> rows;
    double all = 0;
    for (const auto& [at, sum] : sums_) {
      const Segment& segment = program.segments(at.first);
      if (at.second < 0 || at.second >= segment.steps_size()) continue;
      const Step& step = segment.steps(at.second);
      if (step.stream() != COMPUTE) continue;
      StepComparison& row = rows.emplace_back();
      row.set_segment(segment.name());
      row.set_step(step.name());
      row.set_kernel(Kernel_Name(step.kernel()));
      row.set_count(sum.count);
      row.set_first_seconds(sum.first);
      row.set_second_seconds(sum.second);
      all += Difference(row);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const StepComparison& a, const StepComparison& b) { return Difference(a) > Difference(b); });
    for (StepComparison& row : rows) {
      if (all > 0) row.set_share(Difference(row) / all);
      *report->add_steps() = std::move(row);
    }
  }

 private:
  struct Sum {
    int64_t count = 0;
    double first = 0;
    double second = 0;
  };
  static double Difference(const StepComparison& row) { return std::abs(row.first_seconds() - row.second_seconds()); }
  std::map<std::pair<int32_t, int32_t>, Sum> sums_;
};

// Returns the first step that one of the two actions has and the other lacks; -1 = none.
int32_t StepThatOneLacks(const ActionTimes& a, const ActionTimes& b) {
  auto i = a.steps.begin(), j = b.steps.begin();
  while (i != a.steps.end() && j != b.steps.end() && i->first == j->first) ++i, ++j;
  if (i == a.steps.end() && j == b.steps.end()) return -1;
  if (i == a.steps.end()) return j->first;
  return j == b.steps.end() ? i->first : std::min(i->first, j->first);
}

}  // namespace

absl::Status ValidateTrace(const Trace& trace) {
  if (trace.repetitions() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace.repetitions = ", trace.repetitions(), " must not be negative"));
  }
  int64_t previous = -1;
  int64_t events = 0;
  for (const RankTrace& rank : trace.ranks()) {
    if (rank.rank() <= previous) {
      return absl::InvalidArgumentError(absl::StrCat("trace.ranks: rank ", rank.rank(), " comes after rank ", previous,
                                                     "; ranks must ascend from 0"));
    }
    previous = rank.rank();
    for (int i = 0; i < rank.events_size(); ++i) {
      const TraceEvent& event = rank.events(i);
      const std::string path = absl::StrCat("trace: rank ", rank.rank(), ", events[", i, "]");
      if (event.repetition() < 0 || event.repetition() >= trace.repetitions()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ".repetition = ", event.repetition(), "; the trace has ",
                                                       trace.repetitions(), " repetitions"));
      }
      if (event.stream() < 0 || event.stream() >= rank.streams_size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ".stream = ", event.stream(), "; the rank has ", rank.streams_size(), " streams"));
      }
      if (event.start_ps() < 0 || event.finish_ps() > kLatestPs || event.ready_ps() > event.start_ps() ||
          event.start_ps() > event.end_ps() || event.end_ps() > event.finish_ps()) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": ready ", event.ready_ps(), ", start ", event.start_ps(),
                                                       ", end ", event.end_ps(), ", finish ", event.finish_ps(),
                                                       " must ascend, from 0 to ", kLatestPs));
      }
    }
    events += rank.events_size();
  }
  if (events == 0) return absl::InvalidArgumentError("trace: it has no events");
  // Every repetition has at least one event, so a table of repetitions is never larger than the trace itself.
  if (trace.repetitions() > events) {
    return absl::InvalidArgumentError(
        absl::StrCat("trace.repetitions = ", trace.repetitions(), ", but there are only ", events, " events"));
  }
  return absl::OkStatus();
}

absl::Status ValidateTogether(const Trace& trace, const Program& program) {
  if (trace.program_crc() != 0 && trace.program_crc() != ProgramCrc(program)) {
    return absl::InvalidArgumentError(absl::StrCat("the trace is of program '", trace.program_name(), "' with CRC ",
                                                   absl::Hex(trace.program_crc(), absl::kZeroPad8), ", not of '",
                                                   program.name(), "' with CRC ",
                                                   absl::Hex(ProgramCrc(program), absl::kZeroPad8)));
  }
  const int64_t ranks = MeshRanks(program.mesh());
  std::map<int, std::map<int32_t, const Action*>> actions;
  for (const RankTrace& rank : trace.ranks()) {
    if (rank.rank() >= ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat("the trace has rank ", rank.rank(), "; program '", program.name(), "' has ", ranks, " ranks"));
    }
    const int t = TemplateOfRank(program, rank.rank());
    if (t < 0) return absl::InvalidArgumentError(absl::StrCat("no template for rank ", rank.rank()));
    if (!actions.count(t)) actions[t] = ActionsById(program.templates(t));
    for (const TraceEvent& event : rank.events()) {
      const auto it = actions[t].find(event.action());
      const int steps = it == actions[t].end() ? 0 : StepCount(program, *it->second);
      if (event.step() < 0 || event.step() >= steps) {
        return absl::InvalidArgumentError(absl::StrCat("the trace has step ", event.step(), " of action ",
                                                       event.action(), " on rank ", rank.rank(), ", which template '",
                                                       program.templates(t).name(), "' does not have"));
      }
    }
  }
  return absl::OkStatus();
}

TraceReport SummarizeTrace(const Trace& trace) {
  TraceReport report;
  report.set_schema_version(1);
  report.set_program(trace.program_name());
  report.set_origin(trace.origin());
  report.set_repetitions(trace.repetitions());
  report.set_tuning_digest(trace.tuning_digest());

  Extent whole;
  std::vector<int64_t> finishes;
  for (const Extent& extent : Repetitions(trace)) {
    whole.start = std::min(whole.start, extent.start);
    whole.finish = std::max(whole.finish, extent.finish);
    if (extent.start <= extent.finish) finishes.push_back(extent.finish);
  }
  std::sort(finishes.begin(), finishes.end());
  std::vector<int64_t> periods;
  for (size_t i = 1; i < finishes.size(); ++i) periods.push_back(finishes[i] - finishes[i - 1]);
  if (periods.size() > 1) periods.erase(periods.begin());
  const int64_t makespan = whole.finish - whole.start;
  report.set_makespan_seconds(Seconds(makespan));
  report.set_iteration_seconds(Seconds(periods.empty() ? makespan : Median(periods)));

  const double repetitions = std::max(1, trace.repetitions());
  for (const RankTrace& rank : trace.ranks()) {
    std::vector<std::pair<int64_t, int64_t>> compute, all;
    for (const TraceEvent& event : rank.events()) {
      const std::pair<int64_t, int64_t> interval = {event.start_ps(), event.finish_ps()};
      all.push_back(interval);
      if (IsComputeStream(rank, event.stream())) compute.push_back(interval);
    }
    const int64_t busy = UnionLength(std::move(compute));
    const int64_t active = UnionLength(std::move(all));
    TraceRank* row = report.add_per_rank();
    row->set_rank(rank.rank());
    row->set_busy_seconds(Seconds(busy) / repetitions);
    row->set_exposed_communication_seconds(Seconds(active - busy) / repetitions);
    row->set_idle_seconds(Seconds(makespan - active) / repetitions);
    report.set_buffer_bytes(std::max(report.buffer_bytes(), rank.buffer_bytes()));
  }
  return report;
}

absl::StatusOr<ComparisonReport> CompareTraces(const Trace& first, const Trace& second, const Program* program) {
  if (first.program_crc() != 0 && second.program_crc() != 0 && first.program_crc() != second.program_crc()) {
    return absl::InvalidArgumentError(absl::StrCat("the traces are of different programs: '", first.program_name(),
                                                   "' with CRC ", absl::Hex(first.program_crc(), absl::kZeroPad8),
                                                   " and '", second.program_name(), "' with CRC ",
                                                   absl::Hex(second.program_crc(), absl::kZeroPad8)));
  }
  ComparisonReport report;
  report.set_schema_version(1);
  *report.mutable_first() = SummarizeTrace(first);
  *report.mutable_second() = SummarizeTrace(second);
  const double reference = report.second().iteration_seconds();
  if (reference > 0) report.set_iteration_error((report.first().iteration_seconds() - reference) / reference);

  const std::map<ActionKey, ActionTimes> first_times = TimesByAction(first);
  const std::map<ActionKey, ActionTimes> second_times = TimesByAction(second);
  std::map<int64_t, std::string> template_names;
  for (const RankTrace& rank : first.ranks()) template_names[rank.rank()] = rank.template_name();
  std::map<int, std::map<int32_t, const Action*>> actions;
  StepSums steps;
  // Row of each kind, in the order in which kinds first appear.
  std::map<std::string, int> kind_rows;
  const auto lacks = [](const ActionKey& key, const Trace& trace) {
    return absl::InvalidArgumentError(absl::StrCat("action ", key.action, " of rank ", key.rank, " is missing in the ",
                                                   trace.origin(), " trace of '", trace.program_name(),
                                                   "': the traces are of different programs"));
  };
  for (const auto& [key, times] : second_times) {
    if (!first_times.count(key)) return lacks(key, first);
  }
  for (const auto& [key, times] : first_times) {
    const auto other = second_times.find(key);
    if (other == second_times.end()) return lacks(key, second);
    if (const int32_t step = StepThatOneLacks(times, other->second); step >= 0) {
      const bool in_first = times.steps.count(step) > 0;
      return absl::InvalidArgumentError(absl::StrCat("step ", step, " of action ", key.action, " of rank ", key.rank,
                                                     " is missing in the ", (in_first ? second : first).origin(),
                                                     " trace of '", first.program_name(), "'"));
    }
    ActionComparison* row = report.add_actions();
    row->set_rank(key.rank);
    row->set_action(key.action);
    row->set_name(absl::StrCat(template_names[key.rank], " action ", key.action));
    row->set_first_seconds(Seconds(times.duration_ps));
    row->set_second_seconds(Seconds(other->second.duration_ps));
    row->set_first_start_seconds(Seconds(times.start_ps));
    row->set_second_start_seconds(Seconds(other->second.start_ps));
    if (program == nullptr) continue;
    const int t = TemplateOfRank(*program, key.rank);
    if (t < 0) continue;
    if (!actions.count(t)) actions[t] = ActionsById(program->templates(t));
    const auto it = actions[t].find(key.action);
    if (it == actions[t].end()) continue;
    row->set_name(it->second->name());
    row->set_kind(ActionKind_Name(it->second->kind()));
    const auto [kind, is_new] = kind_rows.emplace(row->kind(), report.kinds_size());
    if (is_new) report.add_kinds()->set_kind(row->kind());
    KindComparison* total = report.mutable_kinds(kind->second);
    total->set_actions(total->actions() + 1);
    total->set_first_seconds(total->first_seconds() + row->first_seconds());
    total->set_second_seconds(total->second_seconds() + row->second_seconds());
    if (IsCompute(it->second->kind())) steps.Add(*it->second, times, other->second);
  }
  if (program != nullptr) steps.Fill(*program, &report);
  AddSources(first, second, program, &report);
  return report;
}

}  // namespace weft::sim
