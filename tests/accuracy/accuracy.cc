#include "tests/accuracy/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/accuracy/family.h"
#include "tests/accuracy/statistics.h"

namespace weft {
namespace {

// Measured times closer than this fraction count as a tie (README.md: releases of one framework differ by 3 to 6 %).
constexpr double kTie = 0.05;

constexpr double kGiga = 1e9;
constexpr double kGibi = int64_t{1} << 30;

// Number of bytes that the family calls a gigabyte. README.md names the families that use binary gigabytes.
double BytesOfGigabyte(absl::string_view family) {
  for (absl::string_view binary : {"torchtitan", "SimuMax", "stas00"}) {
    if (absl::StartsWith(family, binary)) return kGibi;
  }
  return kGiga;
}

std::optional<double> MeasuredSeconds(const Measurement& run) {
  if (run.seconds) return run.seconds;
  const auto& batch = run.plan.global_batch;
  if (run.samples_per_second && batch) return static_cast<double>(*batch) / *run.samples_per_second;
  const auto& sequence = run.model.sequence;
  if (!run.tokens_per_second_per_gpu || !batch || !sequence || !run.machine.gpus) return std::nullopt;
  return static_cast<double>(*batch) * static_cast<double>(*sequence) /
         (*run.tokens_per_second_per_gpu * static_cast<double>(*run.machine.gpus));
}

AccuracyHalf HalfOf(absl::Span<const double> errors) {
  AccuracyHalf half;
  half.set_rows(static_cast<int64_t>(errors.size()));
  half.set_median_ape(Median({errors.begin(), errors.end()}));
  half.set_mean_ape(Mean(errors));
  return half;
}

// Names in the order of their first appearance.
std::vector<std::string> InOrder(absl::Span<const Measurement> runs, const std::string Measurement::* name) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Measurement& run : runs) {
    if (seen.insert(run.*name).second) names.push_back(run.*name);
  }
  return names;
}

void AddFamilies(absl::Span<const Measurement> runs, AccuracyReport* report) {
  std::map<std::string, int64_t> measured;
  for (const Measurement& run : runs) measured[run.family] += MeasuredSeconds(run).has_value() ? 1 : 0;
  for (const std::string& name : InOrder(runs, &Measurement::family)) {
    // A run that could not be read may have no family.
    if (name.empty()) continue;
    std::vector<double> all, halves[2], errors;
    for (const RowAccuracy& row : report->rows()) {
      if (row.family() != name || row.measured_seconds() == 0) continue;
      errors.push_back(row.error());
      all.push_back(std::abs(row.error()));
      halves[row.fitted() ? 1 : 0].push_back(std::abs(row.error()));
    }
    FamilyAccuracy& family = *report->add_families();
    family.set_family(name);
    family.set_tier(std::string(FamilyOf(name).tier));
    family.set_rows(static_cast<int64_t>(all.size()));
    family.set_measured(measured[name]);
    family.set_median_ape(Median(all));
    family.set_mean_ape(Mean(all));
    family.set_median_error(Median(errors));
    // A half without rows stays unset: its error is unknown, not zero.
    if (!halves[1].empty()) *family.mutable_fitted() = HalfOf(halves[1]);
    if (!halves[0].empty()) *family.mutable_unfitted() = HalfOf(halves[0]);
  }
}

void AddTiers(AccuracyReport* report) {
  for (const char* tier : {"A", "B", "C", ""}) {
    std::vector<double> all, fitted, unfitted;
    for (const FamilyAccuracy& family : report->families()) {
      if (family.tier() != tier) continue;
      if (family.rows() > 0) all.push_back(family.median_ape());
      if (family.fitted().rows() > 0) fitted.push_back(family.fitted().median_ape());
      if (family.unfitted().rows() > 0) unfitted.push_back(family.unfitted().median_ape());
    }
    if (all.empty()) continue;
    TierAccuracy& made = *report->add_tiers();
    made.set_tier(tier);
    made.set_families(static_cast<int64_t>(all.size()));
    made.set_median_ape(Mean(all));
    // In the halves of a tier, `rows` is the number of families.
    if (!fitted.empty()) *made.mutable_fitted() = HalfOf(fitted);
    if (!unfitted.empty()) *made.mutable_unfitted() = HalfOf(unfitted);
  }
}

void AddMemory(absl::Span<const Measurement> runs, AccuracyReport* report) {
  for (const std::string& name : InOrder(runs, &Measurement::family)) {
    std::vector<double> absolute, errors;
    for (const RowAccuracy& row : report->rows()) {
      if (row.family() != name || row.measured_bytes() == 0) continue;
      const double error = static_cast<double>(row.predicted_bytes()) / static_cast<double>(row.measured_bytes()) - 1;
      errors.push_back(error);
      absolute.push_back(std::abs(error));
    }
    if (errors.empty()) continue;
    MemoryAccuracy& memory = *report->add_memory();
    memory.set_family(name);
    memory.set_rows(static_cast<int64_t>(errors.size()));
    memory.set_median_ape(Median(absolute));
    memory.set_median_error(Median(errors));
  }
}

// Compares predictions with runs that are reported as out of memory, and with the runs of the same groups that
// finished.
void AddVerdicts(absl::Span<const Measurement> runs, AccuracyReport* report) {
  std::map<std::string, const Measurement*> by_id;
  std::set<std::string> groups;
  for (const Measurement& run : runs) {
    by_id[run.id] = &run;
    if (run.out_of_memory.value_or(false)) groups.insert(run.group);
  }
  OutOfMemoryAccuracy& oom = *report->mutable_oom();
  for (RowAccuracy& row : *report->mutable_rows()) {
    const Measurement& run = *by_id.at(row.id());
    const bool failed = run.out_of_memory.value_or(false);
    if (!failed && (groups.count(run.group) == 0 || row.measured_seconds() == 0)) continue;
    row.set_measured_fit(failed ? "out of memory" : "fits");
    if (failed && !row.predicted_fits()) oom.set_true_positive(oom.true_positive() + 1);
    if (failed && row.predicted_fits()) oom.set_false_negative(oom.false_negative() + 1);
    if (!failed && !row.predicted_fits()) oom.set_false_positive(oom.false_positive() + 1);
    if (!failed && row.predicted_fits()) oom.set_true_negative(oom.true_negative() + 1);
  }
}

void AddRanking(absl::Span<const Measurement> runs, absl::Span<const RankingSet> sets, AccuracyReport* report) {
  std::map<std::string, const Measurement*> by_id;
  for (const Measurement& run : runs) by_id[run.id] = &run;
  std::map<std::string, const RowAccuracy*> rows;
  for (const RowAccuracy& row : report->rows()) rows[row.id()] = &row;
  for (const RankingSet& set : sets) {
    std::vector<double> measured, predicted;
    for (size_t i = 0; i < set.ids.size(); ++i) {
      const auto run = by_id.find(set.ids[i]);
      // A set may name runs that are no longer in the data.
      if (run == by_id.end()) continue;
      const auto row = rows.find(set.ids[i]);
      if (row == rows.end() || !(row->second->predicted_seconds() > 0)) continue;
      const Measurement& of = *run->second;
      // Compare seconds per token and device, so that a set may mix batches and device counts.
      const double work = static_cast<double>(of.plan.global_batch.value_or(1)) *
                          static_cast<double>(of.model.sequence.value_or(1)) /
                          static_cast<double>(of.machine.gpus.value_or(1));
      measured.push_back(1 / set.values[i]);
      predicted.push_back(row->second->predicted_seconds() / work);
    }
    const RankAgreement agreement = CompareRanks(measured, predicted, kTie);
    RankingAccuracy& made = *report->add_ranking();
    made.set_group(set.group);
    made.set_plans(static_cast<int64_t>(measured.size()));
    made.set_listed(static_cast<int64_t>(set.ids.size()));
    made.set_pairs(agreement.pairs);
    made.set_tau(agreement.tau);
    made.set_regret(agreement.regret);
  }
}

}  // namespace

AccuracyReport Compare(absl::Span<const Measurement> runs, absl::Span<const RankingSet> sets,
                       const PredictFn& predict) {
  AccuracyReport report;
  report.set_schema_version(1);
  for (const Measurement& run : runs) {
    const auto inexpressible = [&](absl::string_view reason) {
      InexpressibleRow& row = *report.add_inexpressible();
      row.set_id(run.id);
      row.set_reason(std::string(reason));
    };
    const std::optional<double> seconds = MeasuredSeconds(run);
    const absl::StatusOr<RunPrediction> prediction = predict(run);
    if (!prediction.ok()) {
      inexpressible(prediction.status().message());
      continue;
    }
    RowAccuracy& row = *report.add_rows();
    row.set_id(run.id);
    row.set_family(run.family);
    row.set_fitted(IsFittedSource(run.source));
    row.set_predicted_seconds(prediction->seconds);
    row.set_predicted_bytes(static_cast<int64_t>(prediction->bytes));
    row.set_predicted_fits(prediction->fits);
    row.set_busy_seconds(prediction->busy);
    row.set_exposed_communication_seconds(prediction->exposed_communication);
    row.set_idle_seconds(prediction->idle);
    for (const std::string& assumption : prediction->assumptions) row.add_assumptions(assumption);
    if (!seconds && run.states_flops) row.add_assumptions("only flops are stated, which sources count differently");
    if (seconds) {
      row.set_measured_seconds(*seconds);
      row.set_error(prediction->seconds / *seconds - 1);
      row.set_rounding(run.rounding);
    }
    if (run.peak_memory_gb) {
      row.set_measured_bytes(std::llround(*run.peak_memory_gb * BytesOfGigabyte(run.family)));
    }
  }
  AddVerdicts(runs, &report);
  AddFamilies(runs, &report);
  AddTiers(&report);
  AddMemory(runs, &report);
  AddRanking(runs, sets, &report);
  return report;
}

}  // namespace weft
