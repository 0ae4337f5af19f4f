#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "simulator/compare/programs.h"
#include "simulator/compare/short_names.h"
#include "simulator/report/figure_text.h"

namespace weft::sim {
namespace {

// Maximum number of programs beside the first in one table of differences.
constexpr int kProgramsBeside = 3;

// Maximum length of a program's name in characters, unless more are needed to tell two names apart.
constexpr size_t kNameWidth = 24;

using Rows = std::vector<std::vector<std::string>>;

// One name per program.
using Names = std::vector<std::string>;

// Times that would be shown as 0.00 us are shown as 0.
std::string Shown(double seconds) { return Seconds(std::abs(seconds) < 0.5e-8 ? 0 : seconds); }

std::string Difference(double seconds) {
  const std::string shown = Shown(seconds);
  return absl::StrCat(seconds > 0 && shown != "0" ? "+" : "", shown);
}

std::string Difference(int64_t bytes) {
  if (bytes == 0) return "0";
  return absl::StrCat(bytes > 0 ? "+" : "-", Bytes(std::abs(bytes)));
}

std::string Figures(const ProgramComparisonReport& report, const Names& programs) {
  Rows rows = {{"program", "ranks", "step", "faster by", "tokens/s", "MFU", "bubble", "exposed", "memory", "of", "fits",
                "live peak"}};
  for (const ComparedProgram& program : report.programs()) {
    const SimulationReport& own = program.report();
    rows.push_back({programs[rows.size() - 1], absl::StrCat(own.ranks()), Seconds(program.step_seconds()),
                    rows.size() == 1 ? "" : absl::StrFormat("%+.1f %%", 100 * program.gain()),
                    absl::StrFormat("%.0f", own.tokens_per_second()), own.mfu() > 0 ? Percent(own.mfu()) : "-",
                    Percent(own.bubble_ratio()), Seconds(program.exposed_communication_seconds()),
                    Bytes(own.device_bytes()), Bytes(own.capacity_bytes()), own.fits() ? "yes" : "NO",
                    Bytes(own.live_peak_bytes())});
  }
  return Table(rows);
}

// Returns a table of percentiles of the runs with noise; empty if there were no such runs.
std::string Runs(const ProgramComparisonReport& report, const Names& programs) {
  if (!report.programs(0).report().has_noise()) return "";
  const NoiseReport& first = report.programs(0).report().noise();
  Rows rows = {
      {absl::StrCat("iteration of ", first.runs(), first.runs() == 1 ? " run" : " runs", ", seed ", first.seed()),
       "10th percentile", "median", "90th percentile", "mean"}};
  for (const ComparedProgram& program : report.programs()) {
    const NoiseReport& noise = program.report().noise();
    rows.push_back({programs[rows.size() - 1], Seconds(noise.p10()), Seconds(noise.p50()), Seconds(noise.p90()),
                    Seconds(noise.mean())});
  }
  return absl::StrCat("\n", Table(rows));
}

// Returns tables headed `title` with a row for each of `names`. A table has one column for the first program, and two
// for each of up to kProgramsBeside others: the program's value and its difference from the first program's.
// `value`(program, row) returns a value, and `show` formats it. Returns an empty text if there are no rows.
template <typename Value>
std::string SideBySide(const ProgramComparisonReport& report, const Names& programs, const std::string& title,
                       const std::vector<std::string>& names,
                       const std::function<Value(const ComparedProgram&, size_t)>& value, std::string (*show)(Value)) {
  if (names.empty()) return "";
  std::string text;
  for (int begin = 1; begin < std::max(2, report.programs_size()); begin += kProgramsBeside) {
    const int end = std::min(report.programs_size(), begin + kProgramsBeside);
    Rows rows = {{title, programs[0]}};
    for (int i = begin; i < end; ++i) {
      rows[0].push_back(programs[i]);
      rows[0].push_back("difference");
    }
    for (size_t row = 0; row < names.size(); ++row) {
      const Value first = value(report.programs(0), row);
      rows.push_back({names[row], show(first)});
      for (int i = begin; i < end; ++i) {
        const Value own = value(report.programs(i), row);
        rows.back().push_back(show(own));
        rows.back().push_back(Difference(own - first));
      }
    }
    absl::StrAppend(&text, "\n", Table(rows));
  }
  return text;
}

std::string Sources(const ProgramComparisonReport& report, const Names& programs) {
  std::vector<std::string> names;
  for (const TimeSpent& spent : report.programs(0).sources()) names.push_back(spent.source());
  names.push_back("step");
  const auto seconds = [](const ComparedProgram& program, size_t row) {
    const int index = static_cast<int>(row);
    return index < program.sources_size() ? program.sources(index).seconds() : program.step_seconds();
  };
  return SideBySide<double>(report, programs, "a step, mean over ranks; rows add up", names, seconds, Shown);
}

// Returns the rows that some program has, in the order in which they first appear.
std::vector<std::string> NamesOf(const ProgramComparisonReport& report,
                                 const std::function<std::vector<std::string>(const SimulationReport&)>& names_of) {
  std::vector<std::string> names;
  for (const ComparedProgram& program : report.programs()) {
    for (const std::string& name : names_of(program.report())) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string Sent(const ProgramComparisonReport& report, const Names& programs) {
  const std::vector<std::string> names = NamesOf(report, [](const SimulationReport& own) {
    std::vector<std::string> purposes;
    for (const SentBytes& row : own.sent()) purposes.push_back(row.purpose());
    return purposes;
  });
  const auto bytes = [&](const ComparedProgram& program, size_t row) -> int64_t {
    const SimulationReport& own = program.report();
    for (const SentBytes& sent : own.sent()) {
      if (sent.purpose() != names[row]) continue;
      return sent.bytes() / (std::max<int64_t>(1, own.ranks()) * std::max(1, own.steps_per_repetition()));
    }
    return 0;
  };
  return SideBySide<int64_t>(report, programs, "sent in a step, mean per rank", names, bytes, Bytes);
}

std::string Memory(const ProgramComparisonReport& report, const Names& programs) {
  const std::vector<std::string> names = NamesOf(report, [](const SimulationReport& own) {
    std::vector<std::string> classes;
    for (const ClassBytes& row : own.memory()) classes.push_back(row.class_());
    return classes;
  });
  const auto bytes = [&](const ComparedProgram& program, size_t row) -> int64_t {
    for (const ClassBytes& of : program.report().memory()) {
      if (of.class_() == names[row]) return of.bytes_at_peak();
    }
    return 0;
  };
  return SideBySide<int64_t>(report, programs, "live at the peak, fullest rank", names, bytes, Bytes);
}

// Returns a note if steps of the programs have different numbers of tokens; else empty.
std::string Unlike(const ProgramComparisonReport& report, const Names& programs) {
  const int64_t tokens = report.programs(0).report().tokens_per_step();
  for (int i = 1; i < report.programs_size(); ++i) {
    const int64_t own = report.programs(i).report().tokens_per_step();
    if (own == tokens) continue;
    return absl::StrCat("\nThe programs have different numbers of tokens per step (", tokens, " in ", programs[0], ", ",
                        own, " in ", programs[i],
                        "): \"faster by\" compares tokens/s, and times are per step of each program.\n");
  }
  return "";
}

}  // namespace

std::string ProgramComparisonText(const ProgramComparisonReport& report) {
  const SimulationReport& first = report.programs(0).report();
  Names names;
  for (const ComparedProgram& program : report.programs()) names.push_back(program.file());
  names = ShortNames(names, kNameWidth);
  return absl::StrCat("runtime ", first.runtime(), ": ", report.programs_size(), " programs on ", report.cluster(),
                      " (cost ", first.cost(), ", network ", first.network(), "); differences from ", names[0], "\n\n",
                      Figures(report, names), Unlike(report, names), Runs(report, names), Sources(report, names),
                      Sent(report, names), Memory(report, names));
}

}  // namespace weft::sim
