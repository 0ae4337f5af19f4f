// weft-accuracy: compares weft's predictions with published measurements.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/io/set_field.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_runtime.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/network_model.h"
#include "simulator/runtime/runtime_memory.h"
#include "tests/accuracy/accuracy.h"
#include "tests/accuracy/accuracy_text.h"
#include "tests/accuracy/family.h"
#include "tests/accuracy/fit.h"
#include "tests/accuracy/measurement.h"
#include "tests/accuracy/predict.h"

namespace weft {
namespace {

template <typename Entry>
std::vector<std::string> NamesOf(absl::Span<const Entry> entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

struct Settings {
  std::string data, ranking, format = "text", cost, network = "nccl", only;
  std::vector<std::string> figures;
  std::string fit;
  bool core = false, whole = false;
  int64_t threads = 1;
};

// Sets one figure: "dgx-h100.device.tiles.half_depth=64", "nanotron.host.launch_seconds=1e-5".
absl::Status SetFigure(const std::string& setting, Machines* machines, Runtimes* runtimes) {
  const size_t dot = setting.find('.'), equals = setting.find('=');
  const std::string name = setting.substr(0, dot);
  if (dot == std::string::npos || equals == std::string::npos || equals < dot) {
    return UsageError(absl::StrCat("--figure=", Quoted(setting), ": expected NAME.FIELD=VALUE"));
  }
  const std::string field = setting.substr(dot + 1, equals - dot - 1), value = setting.substr(equals + 1);
  if (const auto runtime = runtimes->find(name); runtime != runtimes->end()) {
    WEFT_RETURN_IF_ERROR(SetField(&runtime->second, field, value));
    return Validate(runtime->second);
  }
  const auto machine = machines->find(name);
  if (machine == machines->end()) {
    std::vector<std::string> known;
    for (const auto& entry : *machines) known.push_back(entry.first);
    for (const auto& entry : *runtimes) known.push_back(entry.first);
    return UsageError(
        absl::StrCat("--figure=", Quoted(setting), ": no machine or runtime ", Quoted(name), NameHelp(name, known)));
  }
  WEFT_RETURN_IF_ERROR(SetField(&machine->second, field, value));
  return Validate(machine->second);
}

absl::StatusOr<RunPrediction> PredictRun(const Measurement& run, const Machines& machines, const Runtimes& runtimes,
                                         const Settings& settings) {
  WEFT_ASSIGN_OR_RETURN(const CompiledRun compiled, CompileRun(run, machines, runtimes, settings.cost, settings.whole));
  WEFT_ASSIGN_OR_RETURN(const SimulationReport report,
                        SimulateRun(compiled, compiled.cluster, compiled.runtime, settings.cost, settings.network));
  RunPrediction prediction;
  prediction.seconds = report.iteration_seconds();
  const int64_t bytes = report.planned_bytes() + (FamilyOf(run.family).reserved
                                                      ? sim::RuntimeBytes(compiled.program, compiled.runtime)
                                                      : sim::RuntimeTensorBytes(compiled.program, compiled.runtime));
  prediction.bytes = static_cast<double>(bytes);
  prediction.fits = report.fits();
  for (const RankReport& rank : report.per_rank()) {
    const double share = 1.0 / report.per_rank_size();
    prediction.busy += share * rank.busy_seconds();
    prediction.exposed_communication += share * rank.exposed_communication_seconds();
    prediction.idle += share * rank.idle_seconds();
  }
  prediction.assumptions = compiled.assumptions;
  return prediction;
}

// Predicts all runs on several threads and returns the results in the order of `runs`. Runs are independent.
std::vector<absl::StatusOr<RunPrediction>> PredictAll(const std::vector<Measurement>& runs, const Machines& machines,
                                                      const Runtimes& runtimes, const Settings& settings) {
  std::vector<absl::StatusOr<RunPrediction>> predictions(runs.size(), absl::UnknownError("not predicted"));
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Progress progress;
  const auto work = [&] {
    for (size_t i = next++; i < runs.size(); i = next++) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        progress.Step(absl::StrCat(i + 1, " of ", runs.size(), ": ", Printable(runs[i].id)));
      }
      predictions[i] = PredictRun(runs[i], machines, runtimes, settings);
    }
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < settings.threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  progress.Done();
  return predictions;
}

// For each family, takes the mean of |log(predicted / measured)|. Returns the mean of these over families, so that no
// large sweep dominates.
absl::StatusOr<double> ErrorOf(const std::vector<std::pair<const Measurement*, CompiledRun>>& runs,
                               const Cluster& machine, const Settings& settings) {
  std::map<std::string, std::pair<double, int>> families;
  for (const auto& [run, compiled] : runs) {
    WEFT_ASSIGN_OR_RETURN(const Cluster cluster, MachineOfRun(*run, machine));
    WEFT_ASSIGN_OR_RETURN(const SimulationReport report,
                          SimulateRun(compiled, cluster, compiled.runtime, settings.cost, settings.network));
    auto& [sum, count] = families[run->family];
    sum += std::abs(std::log(report.iteration_seconds() / *run->seconds));
    ++count;
  }
  double error = 0;
  for (const auto& [name, entry] : families) error += entry.first / entry.second;
  return families.empty() ? 0 : error / static_cast<double>(families.size());
}

// --fit=MACHINE:FIELD,FIELD: fits these figures of the machine to the runs of the fitted half (IsFittedSource) and
// prints the figures with the smallest error.
absl::Status Fit(const std::vector<Measurement>& runs, const Machines& machines, const Runtimes& runtimes,
                 const Settings& settings) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(settings.fit, absl::MaxSplits(':', 1));
  const auto machine = machines.find(parts.first);
  if (machine == machines.end() || parts.second.empty()) {
    return UsageError(absl::StrCat("--fit=", Quoted(settings.fit), ": expected MACHINE:FIELD,FIELD,..."));
  }
  Progress progress;
  std::vector<std::pair<const Measurement*, CompiledRun>> compiled;
  for (const Measurement& run : runs) {
    if (!IsFittedSource(run.source) || !run.seconds) continue;
    progress.Step(absl::StrCat("compiling ", run.id));
    absl::StatusOr<CompiledRun> made = CompileRun(run, machines, runtimes, settings.cost);
    if (made.ok() && made->machine == parts.first) compiled.emplace_back(&run, *std::move(made));
  }
  FitOptions options;
  options.fields = absl::StrSplit(parts.second, ',');
  WEFT_ASSIGN_OR_RETURN(const FitResult result, FitFigures(machine->second, options, [&](const Cluster& tried) {
                          progress.Step("simulating");
                          return ErrorOf(compiled, tried, settings);
                        }));
  progress.Done();
  std::string text = absl::StrFormat("%d runs of %s in the fitted half; mean |log error| %.4f, then %.4f\n",
                                     static_cast<int>(compiled.size()), parts.first, result.before, result.after);
  for (const Fitted& figure : result.figures) {
    absl::StrAppendFormat(&text, "  %-40s %10.4g -> %10.4g\n", figure.field, figure.before, figure.after);
  }
  return Print(text);
}

// Prints notes about parts of the files that the report leaves out.
void Note(const Measurements& data, const std::vector<RankingSet>& sets) {
  if (!data.unread.empty()) PrintNote(absl::StrCat("fields that are not read: ", absl::StrJoin(data.unread, ", ")));
  std::set<std::string> known;
  for (const Measurement& run : data.runs) known.insert(run.id);
  for (const RankingSet& set : sets) {
    if (!set.unreadable.empty()) PrintNote(absl::StrCat("ranking set ", Quoted(set.group), ": ", set.unreadable));
    std::vector<std::string> missing;
    for (const std::string& id : set.ids) {
      if (known.count(id) == 0) missing.push_back(id);
    }
    if (missing.empty()) continue;
    PrintNote(absl::StrCat("ranking set ", Quoted(set.group), ": not in the data: ", absl::StrJoin(missing, ", ")));
  }
}

absl::Status Run(const Settings& settings) {
  WEFT_ASSIGN_OR_RETURN(const std::string json, ReadFile(settings.data));
  WEFT_ASSIGN_OR_RETURN(Measurements data, ParseMeasurements(json, settings.data));
  std::vector<RankingSet> sets;
  if (!settings.ranking.empty()) {
    WEFT_ASSIGN_OR_RETURN(const std::string text, ReadFile(settings.ranking));
    WEFT_ASSIGN_OR_RETURN(sets, ParseRankingSets(text, settings.ranking));
  }
  WEFT_ASSIGN_OR_RETURN(Machines machines, LoadMachines());
  WEFT_ASSIGN_OR_RETURN(Runtimes runtimes, LoadRuntimes());
  for (const std::string& setting : settings.figures) WEFT_RETURN_IF_ERROR(SetFigure(setting, &machines, &runtimes));
  if (!settings.only.empty() || settings.core) {
    const auto left_out = [&settings](const Measurement& run) {
      const bool named = absl::StrContains(run.id, settings.only) || absl::StrContains(run.family, settings.only);
      return !named || (settings.core && !run.core);
    };
    data.runs.erase(std::remove_if(data.runs.begin(), data.runs.end(), left_out), data.runs.end());
    // The ranking sets would name runs that have just been left out, so they are dropped.
    sets.clear();
  }
  if (!settings.fit.empty()) return Fit(data.runs, machines, runtimes, settings);

  const std::vector<absl::StatusOr<RunPrediction>> predictions = PredictAll(data.runs, machines, runtimes, settings);
  const AccuracyReport report =
      Compare(data.runs, sets, [&](const Measurement& run) { return predictions[&run - data.runs.data()]; });
  Note(data, sets);
  if (settings.format == "json") {
    WEFT_ASSIGN_OR_RETURN(const std::string text, MessageToJson(report));
    return Print(text);
  }
  if (settings.format == "text") return Print(AccuracyToText(report));
  const std::string command = absl::StrCat(
      "weft-accuracy --data=", settings.data, settings.ranking.empty() ? "" : " --ranking=", settings.ranking,
      " --cost=", settings.cost, " --network=", settings.network, " --format=markdown");
  return Print(AccuracyToMarkdown(report, "Published measurements", command));
}

absl::Status Main(const std::vector<std::string>& args) {
  Settings settings;
  settings.cost = "tiles";
  Flags flags(
      "weft-accuracy", "--data=FILE   [flags]",
      "Compiles and simulates measured training runs and prints how far the predictions are off: per run, family\n"
      "and tier, the order of plans, memory, verdicts, and what cannot be expressed. tests/accuracy/README.md has\n"
      "the format of the files.");
  flags.String("data", "FILE", "measured runs", &settings.data);
  flags.String("ranking", "FILE", "sets of runs whose order was measured", &settings.ranking);
  flags.Choice("format", {"text", "json", "markdown"}, "output format", &settings.format);
  flags.Choice("cost", NamesOf(sim::CostModels()), "the model that predicts the time of kernels", &settings.cost);
  flags.Choice("network", NamesOf(sim::NetworkModels()), "the model that predicts the time of transfers",
               &settings.network);
  flags.String("only", "TEXT", "runs with this in their id or family; without the sets", &settings.only);
  flags.Bool("core", "only the runs that are marked as core; without the sets", &settings.core);
  flags.Bool("whole", "all microbatches of every run, instead of as many as show what one more takes", &settings.whole);
  flags.Int("threads", "N", "runs that are predicted at the same time", &settings.threads, 1, 256);
  flags.Repeated("figure", "NAME.FIELD=VALUE", "overrides a figure of a machine or runtime of the catalog",
                 &settings.figures);
  flags.String("fit", "MACHINE:FIELD,...", "instead: figures with which the fitted half of the runs fits best",
               &settings.fit);
  flags.Example("weft-accuracy --data=tests/accuracy/published.json --ranking=tests/accuracy/ranking_sets.json");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 0));
  if (flags.help_wanted()) return Print(flags.Help());
  if (settings.data.empty()) return UsageError("--data=FILE is needed; see weft-accuracy --help");
  return Run(settings);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const absl::Status status = weft::Main(std::vector<std::string>(argv + (argc > 0), argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "weft-accuracy: %s\n", weft::Printable(status.message()).c_str());
  return weft::IsUsageError(status) ? 2 : 1;
}
