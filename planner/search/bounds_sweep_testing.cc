#include "planner/search/bounds_sweep_testing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "catalog/catalog.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "planner/evaluate.h"
#include "planner/search/candidate_bounds.h"
#include "planner/search/layer_runs.h"
#include "planner/search/search.h"
#include "planner/search/search_context.h"
#include "planner/search/space.h"
#include "planner/search/try_candidate.h"
#include "proto/io/set_field.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_runtime.h"
#include "schedules/collective/plan.h"
#include "schedules/pipeline/schedule.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/network_model.h"

namespace weft::planner {
namespace {

// Rounding of times.
constexpr double kTolerance = 1e-9;
constexpr size_t kFewestRanked = 8;

class Random {
 public:
  Random(uint64_t seed, uint64_t problem) {
    std::seed_seq mixed{seed, problem};
    engine_.seed(mixed);
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool Chance(double p) { return Uniform() < p; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Below(static_cast<int64_t>(from.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

// Settings of which a user may fix one or more, each with values of which at most one is fixed.
const std::vector<std::vector<std::string>>& FixedSettings() {
  static const auto* settings = new std::vector<std::vector<std::string>>{
      {"precision.compute=FP32", "precision.compute=FP16", "precision.grads=BF16", "precision.reduce=BF16",
       "precision.moments=BF16", "precision.compute=TF32"},
      {"accumulation=EXACT"},
      {"zero.stage=0", "zero.stage=1", "zero.stage=2", "zero.stage=3", "zero.stage=1 zero.group=2",
       "zero.stage=2 zero.group=2", "zero.stage=3 zero.group=2"},
      {"zero.stage=3 zero.reshard=AFTER_BACKWARD", "zero.stage=3 zero.reshard=NEVER", "zero.stage=3 zero.prefetch=0",
       "zero.stage=3 zero.prefetch=3", "zero.stage=3 zero.reshard=LAYERS zero.kept_layers=1",
       "zero.stage=3 zero.reshard=BY_BENEFIT"},
      {"overlap.all_reduce=false", "overlap.reduce_scatter=false", "overlap.all_gather=false",
       "overlap.gathered_cache_bytes=20000"},
      {"collective="},
      {"gradient_bucket_bytes=10000", "gradient_bucket_bytes=1000000"},
      {"gradient_sync=LAZY", "gradient_sync=EAGER_OPT"},
      {"transfer_order=BY_DIRECTION", "transfer_order=TOGETHER", "group_transfers=true"},
      {"transfer_placement=DEFERRED", "transfer_placement=FASTEST"},
      {"step_barrier=true"},
      {"between_halves=GATHERED_ROWS", "between_halves=EVERYTHING"},
      {"sequence_parallel=true"},
      {"attention=MATERIALIZED", "attention=MATERIALIZED recompute.mode=SELECTIVE", "recompute.mode=FULL",
       "recompute.mode=FIT", "recompute.mode=NONE"},
      {"recipe.dropout=0.1", "recipe.dropout=0.1 dropout_masks=true"},
      {"offload.optimizer=true", "offload.optimizer=true offload.bucket_elements=4096", "offload.activation_layers=1"},
      {"receive_buffers=2", "send_buffers=1"},
      {"loss_scale.fixed=1024"},
      {"post_validation=true"},
      {"recipe.clip_norm=0"},
      {"recipe.sgd.momentum=0.9", "recipe.sgd.momentum=0"},
      {"recipe.weight_rounding=STOCHASTIC"},
  };
  return *settings;
}

struct Problem {
  ModelGraph model;
  Cluster cluster;
  std::optional<Runtime> runtime;
  std::string cost, network;
  SpaceOptions space;
  // All choices, for messages.
  std::string text;
};

class Drawer {
 public:
  Drawer(uint64_t seed, int64_t number, bool usual) : random_(seed, number), usual_(usual) {
    absl::StrAppend(&problem_.text, "bounds_sweep ", seed, " 1 ", number, ":");
  }

  absl::StatusOr<Problem> Draw() {
    WEFT_RETURN_IF_ERROR(DrawModel());
    WEFT_RETURN_IF_ERROR(DrawCluster());
    WEFT_RETURN_IF_ERROR(DrawWhatPredicts());
    WEFT_RETURN_IF_ERROR(DrawPlan());
    WEFT_RETURN_IF_ERROR(Resolve());
    return std::move(problem_);
  }
  Random& random() { return random_; }

 private:
  void Note(const std::string& text) { absl::StrAppend(&problem_.text, " ", text); }

  absl::Status Set(const std::string& setting) {
    Note(setting);
    return ApplySetting(setting, &problem_.space.recipe, &problem_.space.plan);
  }

  absl::Status DrawModel() {
    static const auto* tiny =
        new std::vector<std::string>{"gpt2-tiny", "gpt2-tiny", "llama-tiny", "bert-tiny", "unet-tiny"};
    static const auto* others =
        new std::vector<std::string>{"gpt2", "llama-3.1-8b", "qwen2.5-1.5b", "mistral-7b", "bert-base", "unet-50m"};
    const bool is_tiny = random_.Chance(0.5) && !usual_;
    const std::string name = random_.Pick(is_tiny ? *tiny : *others);
    WEFT_ASSIGN_OR_RETURN(problem_.model, LoadModel(name));
    Note(name);
    // Blocks that the model keeps, up to the number that it has.
    const auto blocks = static_cast<int32_t>(1 + random_.Below(8));
    const std::vector<LayerRun> runs = RunsOfLayers(problem_.model);
    if (std::any_of(runs.begin(), runs.end(), [&](const LayerRun& run) { return run.layers > blocks; })) {
      problem_.model = ShortenRuns(problem_.model, runs, blocks);
      Note(absl::StrCat("blocks=", blocks));
    }
    // The samples of these models have a fixed number of elements.
    if (name == "unet-tiny" || name == "unet-50m") return Set(name == "unet-tiny" ? "seq=64" : "seq=1024");
    return Set(absl::StrCat("seq=", (is_tiny ? 16 : usual_ ? 1024 : 128) << random_.Below(3)));
  }

  absl::Status DrawCluster() {
    std::vector<std::string> names = CatalogNames("clusters");
    const std::string name = random_.Chance(0.3) ? "dgx-a100-80g" : random_.Pick(names);
    WEFT_ASSIGN_OR_RETURN(problem_.cluster, LoadCluster(name));
    Cluster& cluster = problem_.cluster;
    Note(name);
    const auto scale = [&](absl::string_view what, double value, auto set) {
      if (value == 0 || !random_.Chance(0.25) || usual_) return;
      const double factor = std::ldexp(1.0, static_cast<int>(random_.Below(9)) - 4);
      set(value * factor);
      Note(absl::StrCat(what, "*", factor));
    };
    const auto scale_link = [&](const std::string& link_name, Link* link) {
      scale(link_name + ".rate", link->bytes_per_second(), [&](double v) { link->set_bytes_per_second(v); });
      scale(link_name + ".latency", link->latency_seconds(), [&](double v) { link->set_latency_seconds(v); });
    };
    scale_link("intra", cluster.mutable_intra_node());
    scale_link("inter", cluster.mutable_inter_node());
    Device& device = *cluster.mutable_device();
    scale("memory_rate", device.memory_bytes_per_second(), [&](double v) { device.set_memory_bytes_per_second(v); });
    scale("launch", device.launch_seconds(), [&](double v) { device.set_launch_seconds(v); });
    int64_t devices = int64_t{1} << random_.Below(5);
    if (random_.Chance(0.1)) devices = random_.Chance(0.5) ? 3 : 6;
    problem_.space.devices = std::min(devices, cluster.nodes() * cluster.devices_per_node());
    Note(absl::StrCat("devices=", problem_.space.devices));
    if (random_.Chance(0.3)) {
      // About as much as the states of some plans take.
      double elements = 0;
      for (const GraphParameter& parameter : problem_.model.parameters()) {
        double of_parameter = 1;
        for (const int64_t size : parameter.shape()) of_parameter *= static_cast<double>(size);
        elements += of_parameter;
      }
      const double share = std::exp2(-std::log2(static_cast<double>(devices)) * random_.Uniform());
      const auto usable = static_cast<int64_t>(elements * share * (8 + 24 * random_.Uniform()));
      device.set_memory_bytes(std::min(device.memory_bytes(), usable + device.reserved_bytes()));
      Note(absl::StrCat("usable=", usable));
    }
    return absl::OkStatus();
  }

  absl::Status DrawWhatPredicts() {
    problem_.cost = random_.Pick(sim::DeviceCostModels());
    if (problem_.cost == "tiles") problem_.cost = sim::BestCostModel(problem_.cluster);
    std::vector<std::string> networks;
    for (const sim::NetworkModelEntry& entry : sim::NetworkModels()) networks.emplace_back(entry.name);
    problem_.network = random_.Pick(networks);
    Note(absl::StrCat("cost=", problem_.cost, " network=", problem_.network));
    if (random_.Chance(0.6)) return absl::OkStatus();
    const std::string name = random_.Pick(CatalogNames("runtimes"));
    if (name == "weft") return absl::OkStatus();
    Note(absl::StrCat("runtime=", name));
    WEFT_ASSIGN_OR_RETURN(problem_.runtime, LoadRuntime(name));
    problem_.space.under_runtime = true;
    problem_.space.plan = PlanUnder(*problem_.runtime, problem_.space.plan);
    return absl::OkStatus();
  }

  absl::Status DrawPlan() {
    WEFT_RETURN_IF_ERROR(Set(absl::StrCat("gbs=", int64_t{1} << random_.Below(6))));
    if (random_.Chance(0.6)) WEFT_RETURN_IF_ERROR(Set(absl::StrCat("mbs=", int64_t{1} << random_.Below(2))));
    // Most spaces have one tensor configuration, so that there are few profiles.
    if (random_.Chance(0.85)) {
      int64_t left = problem_.space.devices;
      for (const char* axis : {"x", "y", "z"}) {
        const bool wide = left > 1 && random_.Chance(0.2) && (*axis == 'x' || !problem_.runtime);
        const int64_t size = wide ? (random_.Chance(0.7) && left % 2 == 0 ? 2 : left) : 1;
        WEFT_RETURN_IF_ERROR(Set(absl::StrCat(axis, "=", size)));
        left /= size;
      }
    }
    std::vector<std::string> schedules;
    for (const ScheduleEntry& entry : Schedules()) {
      const absl::StatusOr<PipelineSchedule> example = BuildSchedule(entry, {.ranks = 2, .microbatches = 4});
      if (example.ok() && (example->asynchrony || example->message_driven)) continue;
      schedules.emplace_back(entry.name);
    }
    if (problem_.runtime && random_.Chance(0.7)) schedules = {"1f1b", "interleaved"};
    if (random_.Chance(0.4)) {
      const std::string& name = random_.Pick(schedules);
      WEFT_RETURN_IF_ERROR(Set(absl::StrCat("schedule=", name)));
      const uint32_t takes = (*FindSchedule(name))->takes;
      for (const auto& [bit, field] : {std::pair<uint32_t, const char*>{kTakesVirtualStages, "virtual"},
                                       {kTakesWaves, "waves"},
                                       {kTakesLanes, "lanes"},
                                       {kTakesLimit, "limit"},
                                       {kTakesGroup, "group"}}) {
        if ((takes & bit) == 0 || random_.Chance(0.4)) continue;
        WEFT_RETURN_IF_ERROR(Set(absl::StrCat(field, "=", 1 + random_.Below(bit == kTakesLimit ? 8 : 4))));
      }
    } else {
      for (int i = 0; i < 3; ++i) problem_.space.schedules.push_back(random_.Pick(schedules));
      Note(absl::StrCat("schedules=", absl::StrJoin(problem_.space.schedules, ",")));
    }
    const double chance = usual_ ? 0 : random_.Pick(std::vector<double>{0, 0.03, 0.08, 0.15});
    for (const std::vector<std::string>& values : FixedSettings()) {
      if (!random_.Chance(chance)) continue;
      std::string settings = random_.Pick(values);
      if (settings == "collective=") {
        std::vector<std::string> names;
        for (const CollectiveEntry& entry : Collectives()) names.emplace_back(entry.name);
        absl::StrAppend(&settings, random_.Pick(names));
      }
      for (const std::string& setting : std::vector<std::string>(absl::StrSplit(settings, ' '))) {
        WEFT_RETURN_IF_ERROR(Set(setting));
      }
    }
    for (const char* name : {"zero", "sequence-parallel", "recompute", "offload"}) {
      if (!random_.Chance(0.3)) continue;
      problem_.space.excluded.push_back(name);
      Note(absl::StrCat("exclude=", name));
    }
    return absl::OkStatus();
  }

  // As Search does.
  absl::Status Resolve() {
    SpaceOptions& space = problem_.space;
    const int64_t microbatch = space.recipe.microbatch_sequences();
    WEFT_RETURN_IF_ERROR(ValidateAndResolve(&space.recipe));
    space.recipe.set_microbatch_sequences(microbatch);
    Plan defaults;
    *defaults.mutable_precision() = space.plan.precision();
    WEFT_RETURN_IF_ERROR(ValidateAndResolve(&defaults, problem_.cluster.device()));
    *space.plan.mutable_precision() = defaults.precision();
    // The mode may be the runtime's.
    if (!IsSearched(space.plan.recompute().mode())) space.plan.clear_recompute();
    return Validate(problem_.cluster);
  }

  Random random_;
  const bool usual_;
  Problem problem_;
};

std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = 0.5 * static_cast<double>(i + end - 1);
    i = end;
  }
  return ranks;
}

// Spearman's rank correlation; equal values have the mean of their ranks. 1 if all values of one list are equal.
double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> ra = RanksOf(a), rb = RanksOf(b);
  const double mean = 0.5 * static_cast<double>(a.size() - 1);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 1;
}

void CountRefusal(const absl::Status& status, SweepResult& result) {
  std::string reason(status.message().substr(0, 80));
  std::replace_if(reason.begin(), reason.end(), [](char c) { return absl::ascii_isdigit(c); }, 'N');
  ++result.refusals[reason];
}

void SweepProblem(const SweepOptions& options, const Problem& problem, Random& random, SweepResult& result) {
  const absl::StatusOr<Space> space = Space::Make(problem.space, problem.cluster);
  if (!space.ok()) {
    ++result.refused_problems;
    CountRefusal(space.status(), result);
    return;
  }
  const SearchContext context = {.model = problem.model,
                                 .cluster = problem.cluster,
                                 .cost = problem.cost,
                                 .network = problem.network,
                                 .runtime = problem.runtime ? &*problem.runtime : nullptr,
                                 .capacity = UsableBytes(problem.cluster.device())};
  CandidateBounds bounds(context, *space);
  bounds.Prepare(nullptr);
  std::vector<ChoiceIndices> all;
  space->ForEach([&](const ChoiceIndices& candidate, const Recipe&, const Plan&) { all.push_back(candidate); });
  std::vector<double> estimates, times;
  const auto plans = static_cast<int64_t>(all.size());
  const int64_t end = result.candidates + options.per_problem;
  for (int64_t i = 0; i < plans && result.candidates < end; ++i) {
    std::swap(all[i], all[i + random.Below(plans - i)]);
    FoundPlan found{.candidate = all[i], .settings = space->SettingsOf(all[i])};
    space->Apply(all[i], &found.recipe, &found.plan);
    const std::string text = absl::StrCat(problem.text, " | ", found.settings);
    absl::StatusOr<PlanBound> bound = bounds.Bound(found.recipe, found.plan);
    if (!bound.ok()) {
      ++result.refused_bounds;
      CountRefusal(bound.status(), result);
      continue;
    }
    ++result.candidates;
    const double loose = bound->least_seconds;
    const absl::Status tightened = bounds.Tighten(found.recipe, found.plan, &*bound);
    if (!tightened.ok()) result.violations.push_back(absl::StrCat("Tighten: ", tightened.message(), ": ", text));
    const ScheduleShape& shape = *bounds.ShapeOf(found.recipe, found.plan);
    const std::vector<int32_t> cut = bounds.CutOf(found.recipe, found.plan);
    const TriedPlan tried = TryCandidate(context, std::move(found), shape, cut, *bound);
    if (!tried.status.ok()) {
      ++result.refused;
      CountRefusal(tried.status, result);
      continue;
    }
    const auto planned = static_cast<double>(tried.found.device_bytes);
    const double least_bytes = static_cast<double>(bound->least_bytes), memory_gap = 1 - least_bytes / planned;
    if (memory_gap < 0) {
      result.violations.push_back(absl::StrCat("bytes ", bound->least_bytes, " > ", tried.found.device_bytes, " (+",
                                               -100 * memory_gap, " %): ", text));
    }
    if (context.runtime == nullptr) result.memory_gaps.push_back(memory_gap);
    if (!tried.fits) {
      ++result.unfit;
      continue;
    }
    ++result.simulated;
    const double seconds = tried.found.report.iteration_seconds();
    if (bound->least_seconds > seconds * (1 + kTolerance)) {
      result.violations.push_back(absl::StrCat("seconds ", bound->least_seconds, " > ", seconds, " (+",
                                               100 * (bound->least_seconds / seconds - 1), " %; loose ", loose,
                                               "): ", text));
    }
    if (options.verbose) {
      result.lines.push_back(absl::StrCat(bound->least_seconds, " ", bound->estimated_seconds, " ", seconds, " s ",
                                          bound->least_bytes, " ", tried.found.device_bytes, " bytes: ", text));
    }
    if (!(seconds > 0)) continue;
    result.bound_gaps.push_back(1 - bound->least_seconds / seconds);
    result.estimate_errors.push_back(std::abs(bound->estimated_seconds / seconds - 1));
    estimates.push_back(bound->estimated_seconds);
    times.push_back(seconds);
  }
  if (times.size() >= kFewestRanked) result.spearman.push_back(Spearman(estimates, times));
}

}  // namespace

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

SweepResult SweepBounds(const SweepOptions& options) {
  SweepResult result;
  for (int64_t number = options.first_problem; result.candidates < options.candidates; ++number) {
    ++result.problems;
    Drawer drawer(options.seed, number, options.usual);
    const absl::StatusOr<Problem> problem = drawer.Draw();
    if (problem.ok()) {
      SweepProblem(options, *problem, drawer.random(), result);
    } else {
      ++result.refused_problems;
      CountRefusal(problem.status(), result);
    }
  }
  return result;
}

}  // namespace weft::planner
