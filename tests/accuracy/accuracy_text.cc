#include "tests/accuracy/accuracy_text.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace weft {
namespace {

// The first row holds the headings. Columns with `numbers` set are right-aligned.
struct Table {
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> numbers;
};

std::string Percent(double fraction) { return absl::StrFormat("%.1f %%", 100 * fraction); }
std::string Signed(double fraction) { return absl::StrFormat("%+.1f %%", 100 * fraction); }
std::string MedianOf(const AccuracyHalf& half) { return half.rows() == 0 ? "-" : Percent(half.median_ape()); }

// Formats `seconds` as a share of the mean busy and idle time of a rank.
std::string Share(double seconds, const RowAccuracy& row) {
  const double whole = row.busy_seconds() + row.idle_seconds();
  return whole > 0 ? absl::StrFormat("%.0f %%", 100 * seconds / whole) : "-";
}

std::string AsText(const Table& table) {
  std::vector<size_t> widths(table.numbers.size(), 0);
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : table.rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&line, "  ", table.numbers[i] ? pad : "", row[i], table.numbers[i] ? "" : pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string AsMarkdown(const Table& table) {
  std::string text;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    std::vector<std::string> cells;
    for (const std::string& cell : table.rows[i]) cells.push_back(absl::StrReplaceAll(cell, {{"|", "\\|"}}));
    absl::StrAppend(&text, "| ", absl::StrJoin(cells, " | "), " |\n");
    if (i > 0) continue;
    for (bool number : table.numbers) absl::StrAppend(&text, number ? "|--:" : "|---");
    absl::StrAppend(&text, "|\n");
  }
  return text;
}

Table Families(const AccuracyReport& report) {
  Table table;
  table.numbers = {false, false, true, true, true, true, true, true};
  table.rows.push_back({"family", "tier", "rows", "fitted", "unfitted", "all", "mean", "bias"});
  for (const FamilyAccuracy& f : report.families()) {
    table.rows.push_back({f.family(), f.tier(), absl::StrCat(f.rows(), " of ", f.measured()), MedianOf(f.fitted()),
                          MedianOf(f.unfitted()), f.rows() > 0 ? Percent(f.median_ape()) : "-",
                          f.rows() > 0 ? Percent(f.mean_ape()) : "-", f.rows() > 0 ? Signed(f.median_error()) : "-"});
  }
  return table;
}

Table Tiers(const AccuracyReport& report) {
  Table table;
  table.numbers = {false, true, true, true, true};
  table.rows.push_back({"tier", "families", "fitted", "unfitted", "all"});
  for (const TierAccuracy& t : report.tiers()) {
    const auto mean = [](const AccuracyHalf& half) { return half.rows() == 0 ? "-" : Percent(half.mean_ape()); };
    table.rows.push_back({t.tier().empty() ? "other" : t.tier(), absl::StrCat(t.families()), mean(t.fitted()),
                          mean(t.unfitted()), Percent(t.median_ape())});
  }
  return table;
}

Table Ranking(const AccuracyReport& report) {
  Table table;
  table.numbers = {false, true, true, true, true};
  table.rows.push_back({"set", "plans", "pairs", "tau-b", "regret"});
  double tau = 0, tau_of_pairs = 0, regret = 0;
  int64_t pairs = 0, with_pairs = 0, with_plans = 0;
  for (const RankingAccuracy& r : report.ranking()) {
    table.rows.push_back({r.group(), absl::StrCat(r.plans(), " of ", r.listed()), absl::StrCat(r.pairs()),
                          r.pairs() > 0 ? absl::StrFormat("%.2f", r.tau()) : "-",
                          r.plans() > 1 ? Percent(r.regret()) : "-"});
    tau += r.tau();
    tau_of_pairs += r.tau() * static_cast<double>(r.pairs());
    pairs += r.pairs();
    regret += r.regret();
    with_pairs += r.pairs() > 0 ? 1 : 0;
    with_plans += r.plans() > 1 ? 1 : 0;
  }
  table.rows.push_back({"mean", "", "", with_pairs > 0 ? absl::StrFormat("%.2f", tau / with_pairs) : "-",
                        with_plans > 0 ? Percent(regret / with_plans) : "-"});
  // A small set is right or wrong as a whole, so the mean over pairs says more.
  if (pairs > 0) {
    table.rows.push_back({"mean, by pairs", "", absl::StrCat(pairs),
                          absl::StrFormat("%.2f", tau_of_pairs / static_cast<double>(pairs)), ""});
  }
  return table;
}

Table Memory(const AccuracyReport& report) {
  Table table;
  table.numbers = {false, true, true, true};
  table.rows.push_back({"family", "rows", "median error", "bias"});
  for (const MemoryAccuracy& m : report.memory()) {
    table.rows.push_back({m.family(), absl::StrCat(m.rows()), Percent(m.median_ape()), Signed(m.median_error())});
  }
  return table;
}

Table Verdicts(const AccuracyReport& report) {
  Table table;
  table.numbers = {false, true, true};
  table.rows.push_back({"measured", "predicted to fit", "predicted not to"});
  table.rows.push_back(
      {"ran", absl::StrCat(report.oom().true_negative()), absl::StrCat(report.oom().false_positive())});
  table.rows.push_back(
      {"out of memory", absl::StrCat(report.oom().false_negative()), absl::StrCat(report.oom().true_positive())});
  return table;
}

// Each reason with the runs that it applies to, the most frequent reason first.
Table Inexpressible(const AccuracyReport& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const InexpressibleRow& row : report.inexpressible()) by_reason[row.reason()].push_back(row.id());
  std::vector<std::pair<std::string, std::vector<std::string>>> sorted(by_reason.begin(), by_reason.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  Table table;
  table.numbers = {true, false, false};
  table.rows.push_back({"rows", "reason", "which"});
  for (const auto& [reason, ids] : sorted) {
    table.rows.push_back({absl::StrCat(ids.size()), reason, absl::StrJoin(ids, " ")});
  }
  return table;
}

Table Rows(const AccuracyReport& report) {
  Table table;
  table.numbers = {false, false, true, true, true, true, true, true, true, false};
  table.rows.push_back({"row", "half", "measured s", "predicted s", "error", "computing", "exposed", "measured GB",
                        "predicted GB", "assumed"});
  for (const RowAccuracy& r : report.rows()) {
    const auto gigabytes = [](int64_t bytes) { return bytes > 0 ? absl::StrFormat("%.1f", bytes / 1e9) : "-"; };
    const bool timed = r.measured_seconds() > 0;
    std::string fit;
    if (!r.measured_fit().empty()) {
      fit = absl::StrCat(r.measured_fit() == "fits" ? "ran" : r.measured_fit(), ", predicted to ",
                         r.predicted_fits() ? "fit; " : "not fit; ");
    }
    table.rows.push_back(
        {r.id(), r.fitted() ? "fitted" : "unfitted", timed ? absl::StrFormat("%.4g", r.measured_seconds()) : "-",
         absl::StrFormat("%.4g", r.predicted_seconds()), timed ? Signed(r.error()) : "-", Share(r.busy_seconds(), r),
         Share(r.exposed_communication_seconds(), r), gigabytes(r.measured_bytes()), gigabytes(r.predicted_bytes()),
         absl::StrCat(fit, absl::StrJoin(r.assumptions(), "; "))});
  }
  return table;
}

std::string Summary(const AccuracyReport& report) {
  return absl::StrFormat("%d rows predicted, %d cannot be expressed or say nothing that can be compared.",
                         report.rows_size(), report.inexpressible_size());
}

constexpr char kFamilies[] =
    "Median of |predicted - measured| / measured of a step's time: of rows whose source is of the half that figures "
    "of devices were fitted to, of the other half, and of all; mean and median signed error of all.";
constexpr char kTiers[] = "Means over families of the medians above.";

}  // namespace

std::string AccuracyToText(const AccuracyReport& report) {
  std::string text = absl::StrCat(Summary(report), "\n\n", AsText(Rows(report)));
  const std::pair<const char*, Table> tables[] = {
      {"Families", Families(report)}, {"Tiers", Tiers(report)},       {"Ranking sets", Ranking(report)},
      {"Memory", Memory(report)},     {"Verdicts", Verdicts(report)}, {"Not expressible", Inexpressible(report)},
  };
  for (const auto& [title, table] : tables) absl::StrAppend(&text, "\n", title, "\n", AsText(table));
  return text;
}

std::string AccuracyToMarkdown(const AccuracyReport& report, const std::string& title, const std::string& command) {
  std::string text = absl::StrCat("## ", title, "\n\nMade by `", command, "`. ", Summary(report), "\n\n### Families\n",
                                  kFamilies, "\n\n", AsMarkdown(Families(report)));
  absl::StrAppend(&text, "\n### Tiers\n", kTiers, "\n\n", AsMarkdown(Tiers(report)));
  absl::StrAppend(&text, "\n### Ranking sets\n", AsMarkdown(Ranking(report)));
  absl::StrAppend(&text, "\n### Memory\n", AsMarkdown(Memory(report)));
  absl::StrAppend(&text, "\n### Out of memory\n", AsMarkdown(Verdicts(report)));
  absl::StrAppend(&text, "\n### Rows\n", AsMarkdown(Rows(report)));
  absl::StrAppend(&text, "\n### Not expressible\n", AsMarkdown(Inexpressible(report)));
  return text;
}

}  // namespace weft
