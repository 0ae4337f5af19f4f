// weft plan: searches for the fastest plan of a model on a cluster.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "catalog/load.h"
#include "cli/command.h"
#include "cli/common/file_clash.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/inputs/inputs.h"
#include "cli/plan_preset.h"
#include "planner/search/device_kinds.h"
#include "planner/search/front.h"
#include "planner/search/objective.h"
#include "planner/search/plan_report.h"
#include "planner/search/search.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/io/set_field.h"
#include "proto/plan_report.pb.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units_text.h"
#include "proto/validate/validate_runtime.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/network_model.h"

namespace weft {
namespace {

// The first Ctrl-C ends the search with the best plan so far, the second one ends the process.
std::atomic<bool> interrupted = false;
void Interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

// Reads "memory=70GiB".
absl::Status ReadAtMost(const std::string& text, int64_t* bytes) {
  const auto refuse = [] {
    return absl::InvalidArgumentError("expected memory=SIZE with a unit, e.g. memory=70GiB; units: MiB, GiB, MB, GB");
  };
  absl::string_view value = text;
  if (!absl::ConsumePrefix(&value, "memory=")) return refuse();
  for (const auto& [unit, size] :
       {std::pair<absl::string_view, double>{"GiB", 0x1p30}, {"MiB", 0x1p20}, {"GB", 1e9}, {"MB", 1e6}}) {
    if (!absl::ConsumeSuffix(&value, unit)) continue;
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !(number > 0) || number * size > 1e15) return refuse();
    *bytes = static_cast<int64_t>(number * size);
    return absl::OkStatus();
  }
  return refuse();
}

// Reads N or N..M.
absl::Status ReadGpus(const std::string& text, std::vector<int64_t>* counts) {
  constexpr int64_t kMost = 1 << 20;
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits("..", 1));
  int64_t fewest = 0, most = 0;
  if (!absl::SimpleAtoi(parts.front(), &fewest) || !absl::SimpleAtoi(parts.back(), &most) || fewest < 1 ||
      most < fewest || most > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a number or a range of devices from 1 to ", kMost, ", e.g. 64 or 64..512"));
  }
  *counts = planner::DeviceCounts(fewest, most);
  return absl::OkStatus();
}

std::vector<std::string> Listed(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : absl::StrSplit(text, ',');
}

struct PlanRequest {
  InputFlags input;
  planner::SearchOptions search;
  std::string runtime = "weft";
  std::string cost, schedules, exclude, output, from, preset;
  std::string format = "text", cache;
  std::string objective = "time";
  bool memory_front = false;
  // The numbers of devices; empty = all devices of the cluster.
  std::vector<int64_t> devices;
  int64_t wanted = 5, threads = 0;
  int64_t gap_thousandths = 1000;
  int64_t budget_ms = 0;
};

void AddFlags(Flags* flags, PlanRequest* request) {
  AddInputFlags(flags, &request->input);
  flags->Custom("gpus", "N|N..M",
                "devices that every plan uses; N..M searches N, 2 N, 4 N, ... and M, and compares them by --objective "
                "[all of the cluster]",
                "", [request](const std::string& text) { return ReadGpus(text, &request->devices); });
  std::vector<std::string> objectives;
  for (const planner::Objective& objective : planner::Objectives()) objectives.push_back(objective.name);
  flags->Choice("objective", std::move(objectives), "how to compare the best plans for several numbers of devices",
                &request->objective);
  flags->Bool("memory-front", "also search with smaller and smaller memory limits", &request->memory_front);
  flags->String(
      "schedules", "A,B,...",
      "pipeline schedules to search, each with several values of its parameters [1f1b, interleaved, zb-h1, zb-v, "
      "v-half, hanayo, chimera; with --runtime: 1f1b, interleaved]",
      &request->schedules);
  flags->String("exclude", "A,B,...",
                absl::StrCat("dimensions that keep their default: ", absl::StrJoin(planner::DimensionNames(), ", ")),
                &request->exclude);
  flags->Custom("at-most", "memory=SIZE", "memory that a plan may use on each device, e.g. memory=70GiB", "",
                [request](const std::string& text) { return ReadAtMost(text, &request->search.memory_bytes); });
  flags->String("from", "PLAN",
                "the plan that you run today: a file, settings, or both, e.g. \"now.textproto mbs=2\" or \"tp=8 pp=2 "
                "dp=4 mbs=1\"; the report then lists the few changes that bring it near the best plan",
                &request->from);
  flags->Thousandths("gap", "PERCENT",
                     "end the search when no other plan can be faster than the best one by more than this",
                     &request->gap_thousandths, 0, 100'000);
  flags->Thousandths("budget", "SECONDS", "end the search after this time with the best plan so far; 0 = no limit",
                     &request->budget_ms, 0, 1'000'000'000);
  flags->Int("top", "N", "number of plans to print", &request->wanted, 1, 100);
  flags->Int("threads", "N", "threads that compile and simulate [one per core]", &request->threads, 1, 1024);
  std::vector<std::string> networks;
  for (const sim::NetworkModelEntry& entry : sim::NetworkModels()) networks.emplace_back(entry.name);
  flags->Choice("network", std::move(networks), "the model that predicts the time of transfers",
                &request->search.network);
  flags->Choice("cost", sim::DeviceCostModels(),
                "the model that predicts the time of kernels [tiles if the cluster has figures for it, else roofline]",
                &request->cost);
  flags->String("runtime", "NAME|FILE",
                "the framework that runs the plan, or weft for its own executor; see weft list runtimes",
                &request->runtime);
  flags->String("cache", "DIR",
                "folder in which searches keep measurements for later searches; none = keep nothing "
                "[$XDG_CACHE_HOME/weft or ~/.cache/weft]",
                &request->cache);
  flags->Choice("preset", PresetNames(), "choose by the rule of this paper's planner instead of searching",
                &request->preset);
  flags->Choice("format", {"text", "json"}, "output format", &request->format);
  flags->String("output", "FILE", "write the best plan to this file", &request->output);
  flags->Short('o', "output");
  flags->Example("weft plan --model=llama-3.1-8b --cluster=dgx-h100 --gpus=8 --set seq=8192 --set gbs=64");
  flags->Example(
      "weft plan --preset=hanayo --model=hanayo-bert --cluster=lonestar6 --gpus=8 --set seq=512 --set gbs=16");
  flags->Example("weft plan --model=gpt2 --cluster=dgx-a100-80g --gpus=8 --set seq=1024 --set gbs=64 --set tp=1");
}

// Reads --from: words separated by spaces, each a plan file or a setting.
absl::StatusOr<planner::StartingPlan> ReadFrom(const std::string& text, const Runtime* runtime) {
  planner::StartingPlan from;
  Recipe recipe;
  std::vector<std::string> settings;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (absl::StrContains(word, '=')) {
      settings.emplace_back(word);
    } else {
      WEFT_RETURN_IF_ERROR(ReadMessageInto(std::string(word), &from.plan));
    }
  }
  if (runtime != nullptr) from.plan = PlanUnder(*runtime, from.plan);
  for (const std::string& setting : settings) {
    if (absl::Status status = ApplySetting(setting, &recipe, &from.plan); !status.ok()) {
      return Annotate(status, "--from");
    }
  }
  from.microbatch_sequences = recipe.microbatch_sequences();
  recipe.clear_microbatch_sequences();
  if (recipe.ByteSizeLong() > 0) {
    return absl::InvalidArgumentError(
        "--from may set only fields of the plan and mbs; give other fields of the recipe to the search with --set");
  }
  return from;
}

// Returns the folder of --cache; empty = keep nothing.
std::string CacheFolder(const std::string& flag) {
  if (flag == "none") return "";
  if (!flag.empty()) return flag;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return absl::StrCat(cache, "/weft");
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? absl::StrCat(home, "/.cache/weft") : "";
}

void ShowProgress(const planner::SearchProgress& progress, Progress* line) {
  std::string text = absl::StrCat("searching ", progress.plans, " plans: ", progress.simulated, " simulated");
  if (progress.best_seconds > 0) {
    absl::StrAppendFormat(&text, ", best %.4g s, gap %.2f %%", progress.best_seconds, 100 * progress.gap);
  }
  line->Step(text);
}

// Searches for each number of devices, or with smaller and smaller memory limits.
absl::StatusOr<planner::Front> Searched(const Inputs& inputs, const PlanRequest& request,
                                        const planner::Objective& objective) {
  if (request.memory_front) {
    return planner::SearchMemoryLimits(inputs.model, inputs.cluster, request.search, objective);
  }
  const std::vector<int64_t> counts =
      request.devices.empty() ? std::vector<int64_t>{inputs.cluster.nodes() * inputs.cluster.devices_per_node()}
                              : request.devices;
  return planner::SearchDevices(inputs.model, inputs.cluster, request.search, counts, objective);
}

// Returns the error for a search that found no plan.
absl::Status NothingFound(const planner::SearchResult& result, const Cluster& cluster) {
  if (result.stopped) {
    return absl::DeadlineExceededError(
        "no plan was found before the search was stopped; allow it more time (--budget)");
  }
  if (result.unfit == 0) return absl::InvalidArgumentError(result.refusal);
  return absl::ResourceExhaustedError(absl::StrCat(
      "no plan fits: each of ", result.unfit, " plans takes more than a device of ", Quoted(cluster.name()),
      " may use; the smallest takes at least ", BytesText(result.least_unfit_bytes),
      "; use more devices (--gpus), shorter sequences (--set seq=N), or fix fewer settings of the plan"));
}

}  // namespace

absl::Status PlanCommand(absl::Span<const std::string> args) {
  PlanRequest request;
  Flags flags(
      "weft plan", "--model=M --cluster=C [--recipe=R] [--plan=PARTIAL] [flags]",
      "Searches for the plan with the shortest iteration, and states how much faster any other plan could be.\n"
      "Settings of --plan, --schedule and --set are fixed; the search chooses everything else. Every plan that it\n"
      "prints was compiled, proven and simulated.");
  AddFlags(&flags, &request);
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 0));
  if (flags.help_wanted()) return Print(flags.Help());
  WEFT_RETURN_IF_ERROR(CheckFileClashes(InputFiles(request.input), {{"-o", request.output}}));
  if (!request.preset.empty()) WEFT_RETURN_IF_ERROR(CheckPresetFlags(flags));

  Progress progress;
  WEFT_ASSIGN_OR_RETURN(std::optional<Runtime> runtime, LoadRuntime(request.runtime));
  if (runtime->name() == "weft") runtime.reset();
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, LoadInputs(request.input, &progress));
  if (runtime) {
    const Plan own = inputs.plan;
    inputs.plan = PlanUnder(*runtime, own);
    if (IsSet(request.input, "plan.recompute.mode")) *inputs.plan.mutable_recompute() = own.recompute();
    if (!own.has_recompute() && !planner::IsSearched(inputs.plan.recompute().mode())) {
      inputs.notes.push_back(absl::StrCat("runtime ", Quoted(runtime->name()), " has recompute.mode ",
                                          Recompute::Mode_Name(inputs.plan.recompute().mode()),
                                          " unless the plan says otherwise; the search chooses among the other modes"));
      inputs.plan.clear_recompute();
    }
    WEFT_RETURN_IF_ERROR(ApplySettingsOver(request.input, &inputs.plan));
  }
  planner::SearchOptions& search = request.search;
  search.space.recipe = inputs.recipe;
  search.space.plan = inputs.plan;
  if (!request.devices.empty()) search.space.devices = request.devices.front();
  if (request.memory_front && request.devices.size() > 1) {
    return absl::InvalidArgumentError("--memory-front: it searches for one number of devices; give --gpus=N");
  }
  const int64_t devices = inputs.cluster.nodes() * inputs.cluster.devices_per_node();
  const int64_t usable = planner::CapacitiesOfDevices(inputs.cluster, devices, /*limit=*/0).most;
  if (search.memory_bytes > usable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--at-most: memory=", BytesText(search.memory_bytes), " is more than a plan may use on any device of ",
        Quoted(inputs.cluster.name()), "; allowed: up to ", BytesText(usable)));
  }
  search.space.schedules = Listed(request.schedules);
  search.space.excluded = Listed(request.exclude);
  search.space.under_runtime = runtime.has_value();
  search.cost = request.cost.empty() ? sim::BestCostModel(inputs.cluster) : request.cost;
  search.runtime = runtime ? &*runtime : nullptr;
  search.gap = static_cast<double>(request.gap_thousandths) / 100'000;
  search.cache = CacheFolder(request.cache);
  search.sensitivities = true;
  search.wanted = static_cast<int>(request.wanted);
  search.threads = request.threads > 0 ? static_cast<int>(request.threads)
                                       : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (!request.preset.empty()) {
    progress.Done();
    return PlanByPresetCommand(request.preset, request.input, inputs, search, request.format, request.output);
  }
  if (!request.from.empty()) {
    WEFT_ASSIGN_OR_RETURN(search.from, ReadFrom(request.from, search.runtime));
    if (search.from->microbatch_sequences == 0) {
      search.from->microbatch_sequences = std::max<int64_t>(1, inputs.recipe.microbatch_sequences());
    }
  }
  search.stop = [] { return interrupted.load(); };
  search.budget_seconds = static_cast<double>(request.budget_ms) / 1000;
  search.on_progress = [&](const planner::SearchProgress& state) { ShowProgress(state, &progress); };
  std::signal(SIGINT, Interrupt);
  progress.Step("profiling blocks");
  WEFT_ASSIGN_OR_RETURN(const planner::Objective* objective, planner::FindObjective(request.objective));
  const absl::StatusOr<planner::Front> front = Searched(inputs, request, *objective);
  WEFT_RETURN_IF_ERROR(WithFile(front.status(), request.input, inputs));
  progress.Done();
  for (const std::string& note : inputs.notes) PrintNote(note);
  if (front->best == front->points.size()) return NothingFound(front->points.back().result, inputs.cluster);
  const planner::SearchResult& best = front->points[front->best].result;
  const PlanReport report = front->points.size() == 1 && objective->name == "time"
                                ? planner::ReportOf(inputs.model, inputs.cluster, search, best)
                                : planner::ReportOf(inputs.model, inputs.cluster, search, *front, *objective);
  std::string text = PrintableLines(planner::PlanReportText(report));
  if (request.format == "json") {
    WEFT_ASSIGN_OR_RETURN(text, MessageToJson(report));
  }
  if (!request.output.empty()) {
    WEFT_RETURN_IF_ERROR(WriteFileAtomic(request.output, MessageToText(report.plans(0).plan())));
  }
  const absl::Status printed = Print(text);
  if (printed.ok() || request.output.empty()) return printed;
  // The plan is written even if the report cannot be printed.
  return absl::Status(printed.code(), absl::StrCat(printed.message(), "; ", request.output, " is written"));
}

}  // namespace weft
