#include "simulator/report/report_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "simulator/report/figure_text.h"

namespace weft::sim {
namespace {

// Maximum number of ranks in the text; the JSON report has all.
constexpr int kShownRanks = 32;

std::string MemoryText(const SimulationReport& report) {
  const int64_t besides = report.device_bytes() - report.planned_bytes();
  std::string text = absl::StrCat("memory per device: ", Bytes(report.planned_bytes()), " planned",
                                  besides >= 0 ? absl::StrCat(" + ", Bytes(besides), " reserved")
                                               : absl::StrCat(", ", Bytes(report.device_bytes()), " taken"),
                                  " of ", Bytes(report.capacity_bytes()), report.fits() ? ", fits" : ", DOES NOT FIT",
                                  "; live peak ", Bytes(report.live_peak_bytes()), "\n");
  if (besides < 0) {
    absl::StrAppend(&text, "  taken: on the rank whose device has the least headroom, under runtime ", report.runtime(),
                    "; planned: on the fullest rank\n");
  }
  if (!report.fits() && report.device_bytes() > report.capacity_bytes()) {
    absl::StrAppend(&text, "  exceeds the capacity by ", Bytes(report.device_bytes() - report.capacity_bytes()), "\n");
  }
  if (report.live_peak_bytes() > report.planned_bytes() && !report.runtime().empty()) {
    absl::StrAppend(
        &text, "  live peak: the plan's own buffers, which live longer because of the order of actions in runtime ",
        report.runtime(), "; ", besides >= 0 ? "planned + reserved" : "the memory taken", " decides whether it fits\n");
  }
  if (report.planned_host_bytes() > 0) {
    const int64_t capacity = report.host_capacity_bytes();
    absl::StrAppend(&text, "host memory per node: ", Bytes(report.planned_host_bytes()), " planned",
                    capacity > 0 ? absl::StrCat(" of ", Bytes(capacity)) : "",
                    capacity > 0 && report.planned_host_bytes() > capacity ? ", DOES NOT FIT" : "", "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"class", "arena", "at peak"}};
  for (const ClassBytes& row : report.memory()) {
    rows.push_back({row.class_(), Bytes(row.planned_bytes()), Bytes(row.bytes_at_peak())});
  }
  return text + Table(rows);
}

std::string IdleText(const SimulationReport& report) {
  std::vector<std::pair<std::string, double>> causes;
  for (const RankReport& rank : report.per_rank()) {
    for (const IdleCause& cause : rank.idle_causes()) {
      const auto found =
          std::find_if(causes.begin(), causes.end(), [&](const auto& known) { return known.first == cause.cause(); });
      if (found == causes.end()) {
        causes.push_back({cause.cause(), cause.seconds()});
      } else {
        found->second += cause.seconds();
      }
    }
  }
  std::stable_sort(causes.begin(), causes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> rows = {
      {"idle compute, mean per rank", "time",
       report.steps_per_repetition() > 0 ? "of one iteration alone" : "of the step"}};
  for (const auto& [cause, seconds] : causes) {
    const double mean = seconds / static_cast<double>(std::max<int64_t>(report.ranks(), 1));
    rows.push_back(
        {cause, Seconds(mean), Percent(report.makespan_seconds() > 0 ? mean / report.makespan_seconds() : 0)});
  }
  return Table(rows);
}

// Returns "" if no runs with noise were simulated.
std::string NoiseText(const SimulationReport& report) {
  if (!report.has_noise()) return "";
  const NoiseReport& noise = report.noise();
  std::vector<std::vector<std::string>> rows = {
      {absl::StrCat("iteration of ", noise.runs(), noise.runs() == 1 ? " run" : " runs", ", seed ", noise.seed()),
       "time", "longer"}};
  const std::pair<const char*, double> figures[] = {{"10th percentile", noise.p10()},
                                                    {"median", noise.p50()},
                                                    {"90th percentile", noise.p90()},
                                                    {"mean", noise.mean()}};
  for (const auto& [name, seconds] : figures) {
    const double plain = report.iteration_seconds();
    rows.push_back({name, Seconds(seconds), Percent(plain > 0 ? seconds / plain - 1 : 0)});
  }
  return "\n" + Table(rows);
}

// Formats a time of seconds to years: "45.0 s", "12.3 min", "3.1 h", "4.2 days".
std::string LongTime(double seconds) {
  if (seconds < 120) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.1f min", seconds / 60);
  if (seconds < 172800) return absl::StrFormat("%.1f h", seconds / 3600);
  return absl::StrFormat("%.1f days", seconds / 86400);
}

// Returns "" if no goodput was predicted.
std::string GoodputText(const SimulationReport& report) {
  if (!report.has_goodput()) return "";
  const GoodputReport& goodput = report.goodput();
  std::vector<std::vector<std::string>> rows = {
      {absl::StrCat("with an interruption every ", LongTime(goodput.seconds_between_failures())), "of the time"},
      {"steps that count (goodput)", Percent(goodput.useful())},
      {absl::StrCat("saving ", Bytes(goodput.checkpoint_bytes()), " every ", goodput.steps_between_checkpoints(),
                    goodput.steps_between_checkpoints() == 1 ? " step" : " steps", ", ",
                    LongTime(goodput.interval_seconds())),
       Percent(goodput.saving())},
      {"steps that an interruption lost", Percent(goodput.repeated())},
      {"starting again", Percent(goodput.restarting())},
      {"waiting for a spare node", Percent(goodput.waiting())},
  };
  std::string text = "\n" + Table(rows);
  if (goodput.runs() > 0) {
    absl::StrAppendFormat(
        &text, "  goodput of %d drawn runs of %g days, seed %d: 10th percentile %s, median %s, 90th percentile %s\n",
        goodput.runs(), goodput.days(), goodput.seed(), Percent(goodput.useful_p10()), Percent(goodput.useful_p50()),
        Percent(goodput.useful_p90()));
  }
  return text;
}

// Returns "" if the program sends nothing.
std::string SentText(const SimulationReport& report) {
  if (report.sent_size() == 0) return "";
  std::vector<std::vector<std::string>> rows = {{"sent, mean per rank", "bytes"}};
  for (const SentBytes& row : report.sent()) {
    rows.push_back({row.purpose(), Bytes(row.bytes() / std::max<int64_t>(report.ranks(), 1))});
  }
  return Table(rows) + "\n";
}

// Formats a ratio to a peak as a percentage; "-" if the device does not state the peak.
std::string PercentOrNone(double ratio) { return ratio > 0 ? Percent(ratio) : "-"; }

// Returns "" if the report has no bounds.
std::string BoundsText(const SimulationReport& report) {
  if (!report.has_bounds()) return "";
  const LowerBounds& bounds = report.bounds();
  const auto row = [&](const char* name, double seconds) -> std::vector<std::string> {
    const double part = report.iteration_seconds() > 0 ? seconds / report.iteration_seconds() : 0;
    return {name, Seconds(seconds), Percent(part)};
  };
  return Table({{"no iteration is shorter than", "time", "of this one"},
                row("computation at dense peak and full memory bandwidth", bounds.compute_seconds()),
                row("computation as it is costed", bounds.costed_seconds()),
                row("bytes sent, at the full bandwidth of all links", bounds.communication_seconds())}) +
         "\n";
}

// Returns "" if no critical path was requested.
std::string CriticalPathText(const SimulationReport& report) {
  if (report.critical_kinds_size() == 0) return "";
  const char* alone =
      report.steps_per_repetition() > 0 ? "critical path of one iteration alone" : "critical path of the step alone";
  std::vector<std::vector<std::string>> kinds = {{alone, "time", "of it"}};
  for (const CriticalKind& row : report.critical_kinds()) {
    kinds.push_back({row.kind(), Seconds(row.seconds()),
                     Percent(report.makespan_seconds() > 0 ? row.seconds() / report.makespan_seconds() : 0)});
  }
  std::vector<std::vector<std::string>> actions = {{"its longest actions", "rank", "action", "start", "time"}};
  for (const CriticalAction& row : report.critical_actions()) {
    actions.push_back({row.name().empty() ? row.kind() : row.name(), absl::StrCat(row.rank()),
                       absl::StrCat(row.action()), Seconds(row.start_seconds()), Seconds(row.seconds())});
  }
  return absl::StrCat("\n", Table(kinds), "\n", Table(actions));
}

// Returns "" if no "what if" was requested.
std::string WhatIfText(const SimulationReport& report) {
  if (report.what_if_size() == 0) return "";
  std::vector<std::vector<std::string>> rows = {{"what if", "iteration", "faster by"}};
  for (const WhatIf& row : report.what_if()) {
    rows.push_back({row.change(), Seconds(row.iteration_seconds()), Percent(row.gain())});
  }
  return "\n" + Table(rows);
}

std::string RankText(const SimulationReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "busy", "exposed communication", "idle", "activations", "live peak", "planned"}};
  for (int i = 0; i < std::min(report.per_rank_size(), kShownRanks); ++i) {
    const RankReport& rank = report.per_rank(i);
    rows.push_back({absl::StrCat(rank.rank()), Seconds(rank.busy_seconds()),
                    Seconds(rank.exposed_communication_seconds()), Seconds(rank.idle_seconds()),
                    absl::StrFormat("%.4g", rank.peak_activations()), Bytes(rank.live_peak_bytes()),
                    Bytes(rank.planned_bytes())});
  }
  std::string text = Table(rows);
  if (report.per_rank_size() > kShownRanks) {
    absl::StrAppend(&text, "  ... and ", report.per_rank_size() - kShownRanks, " more ranks (in the JSON report)\n");
  }
  return text;
}

// Returns the idle seconds of each rank by cause, as tables with one row per cause and at most kColumns ranks each.
// Shows the first kShownRanks ranks.
std::string RankIdleText(const SimulationReport& report) {
  std::vector<std::string> causes;
  for (const RankReport& rank : report.per_rank()) {
    for (const IdleCause& cause : rank.idle_causes()) {
      if (std::find(causes.begin(), causes.end(), cause.cause()) == causes.end()) causes.push_back(cause.cause());
    }
  }
  const int shown = std::min(report.per_rank_size(), kShownRanks);
  std::vector<std::vector<std::string>> rows = {{"idle compute, by rank"}};
  for (int i = 0; i < shown; ++i) rows[0].push_back(absl::StrCat("rank ", report.per_rank(i).rank()));
  for (const std::string& cause : causes) {
    rows.push_back({cause});
    for (int i = 0; i < shown; ++i) {
      double seconds = 0;
      for (const IdleCause& own : report.per_rank(i).idle_causes()) {
        if (own.cause() == cause) seconds += own.seconds();
      }
      rows.back().push_back(Seconds(seconds));
    }
  }
  // Split the columns into blocks that fit the width of a terminal.
  std::string text;
  constexpr size_t kColumns = 8;
  for (size_t first = 1; first < rows[0].size(); first += kColumns) {
    std::vector<std::vector<std::string>> block;
    for (const std::vector<std::string>& row : rows) {
      const size_t last = std::min(first + kColumns, row.size());
      block.push_back({row[0]});
      block.back().insert(block.back().end(), row.begin() + first, row.begin() + last);
    }
    absl::StrAppend(&text, "\n", Table(block));
  }
  return text;
}

}  // namespace

std::string ReportToText(const SimulationReport& report, bool verbose) {
  std::string text =
      absl::StrFormat("runtime %s: %s on %s, %d %s (cost %s, network %s)\n\n", report.runtime(),
                      report.program().empty() ? "program" : report.program(), report.cluster(), report.ranks(),
                      report.ranks() == 1 ? "rank" : "ranks", report.cost(), report.network());
  const int steps = report.steps_per_repetition();
  absl::StrAppend(&text,
                  Table({{steps > 0 ? absl::StrCat("iteration, ", steps, steps == 1 ? " step" : " steps") : "iteration",
                          Seconds(report.iteration_seconds())},
                         {steps > 0 ? "one iteration alone" : "one step alone", Seconds(report.makespan_seconds())},
                         {"bubble ratio", Percent(report.bubble_ratio())},
                         {"tokens/s", absl::StrFormat("%.0f", report.tokens_per_second())},
                         {"tokens/s per device", absl::StrFormat("%.0f", report.tokens_per_second_per_device())},
                         {"MFU (attention in full)", PercentOrNone(report.mfu())},
                         {"MFU (causal)", PercentOrNone(report.mfu_causal())},
                         {"HFU (with recompute)", PercentOrNone(report.hfu())}}));
  absl::StrAppend(&text, NoiseText(report), GoodputText(report), "\n", BoundsText(report), MemoryText(report), "\n",
                  IdleText(report), "\n", SentText(report), RankText(report));
  if (verbose) text += RankIdleText(report);
  absl::StrAppend(&text, CriticalPathText(report), WhatIfText(report));
  return text;
}

}  // namespace weft::sim
