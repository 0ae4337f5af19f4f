#include "planner/search/block_profile.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/inputs/plan_inputs.h"
#include "planner/evaluate.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/runtime/runtime_memory.h"
#include "simulator/runtime/weight_casts.h"

namespace weft::planner {
namespace {

// Returns the plan with only the fields that change what a layer costs on one replica.
Plan ProfiledPlan(const Plan& plan) {
  Plan profiled = plan;
  profiled.clear_schedule();
  profiled.clear_partition();
  profiled.clear_zero();
  profiled.clear_offload();
  profiled.clear_gradient_bucket_bytes();
  profiled.clear_transfer_placement();
  // An order of all messages may block a pipeline with as few stages as a profile's.
  profiled.clear_transfer_order();
  profiled.clear_group_transfers();
  profiled.clear_step_barrier();
  profiled.clear_post_validation();
  profiled.mutable_overlap()->clear_gathered_cache_bytes();
  if (profiled.recompute().mode() == Recompute::FIT) profiled.mutable_recompute()->set_mode(Recompute::NONE);
  profiled.clear_mesh();
  for (const MeshAxis& axis : plan.mesh().axes()) {
    if (axis.name() != "pipe" && axis.name() != "data" && axis.size() > 1) *profiled.mutable_mesh()->add_axes() = axis;
  }
  return profiled;
}

// Returns the runtime without its host times, which depend on how many layers a stage has, and may be hidden.
std::optional<Runtime> WithoutHost(const Runtime* runtime) {
  if (runtime == nullptr) return std::nullopt;
  Runtime changed = *runtime;
  changed.clear_host();
  return changed;
}

// The compute steps of an action.
struct Span {
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  // Sum of the steps, without the time between them.
  int64_t busy = 0;
  int64_t length() const { return std::max<int64_t>(0, end - begin); }
};

struct Measured {
  // By pipe rank. Times in `busy` are sums of compute steps alone, without the collectives that they wait for.
  std::vector<LayerCosts> ranks;
  std::vector<LayerCosts> busy;
  // By pipe rank: RunCosts.tiled_bytes.
  std::vector<int64_t> tiled_bytes;
  int64_t activation_bytes = 0;
  int64_t gradient_bytes = 0;
};

// Returns the costs of the layers on each pipe rank, from the trace of one microbatch.
absl::StatusOr<Measured> CostsOfRanks(const Evaluation& made, int ranks, const Runtime* runtime) {
  WEFT_RETURN_IF_ERROR(made.trace.status());
  const Program& program = made.program;
  const Program& as_run = made.as_run ? *made.as_run : program;
  Measured measured;
  std::vector<LayerCosts>& costs = measured.ranks;
  costs.resize(ranks);
  measured.busy.resize(ranks);
  measured.tiled_bytes.resize(ranks);
  std::vector<bool> done(ranks, false);
  for (const RankTrace& rank : made.trace->ranks()) {
    const int64_t pipe = AxisCoordinate(program.mesh(), rank.rank(), "pipe");
    if (done[pipe]) continue;
    done[pipe] = true;
    const int index = TemplateOfRank(program, rank.rank());
    const Template &t = program.templates(index), &run = as_run.templates(index);
    if (runtime != nullptr) measured.tiled_bytes[pipe] = sim::TiledBytes(program, t, *runtime);
    LayerCosts& sum = costs[pipe];
    std::map<int32_t, const Action*> actions;
    for (const auto* list : {&run.prologue(), &run.body(), &run.epilogue()}) {
      for (const Action& action : *list) actions[action.id()] = &action;
    }
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        if (action.kind() != BACKWARD && action.kind() != BACKWARD_INPUT) continue;
        int64_t workspace = 0;
        for (const int32_t buffer : action.operands()) {
          if (t.buffers(buffer).class_() == WORKSPACE) workspace += t.buffers(buffer).bytes();
        }
        sum.workspace_bytes = std::max(sum.workspace_bytes, workspace);
      }
    }
    std::map<ActionKind, Span> spans;
    for (const TraceEvent& event : rank.events()) {
      if (rank.streams(event.stream()) != "compute") continue;
      const auto action = actions.find(event.action());
      const ActionKind kind = action == actions.end() ? ACTION_UNSPECIFIED : action->second->kind();
      if (kind != FORWARD && kind != BACKWARD && kind != BACKWARD_INPUT && kind != BACKWARD_WEIGHT) {
        sum.step += event.end_ps() - event.start_ps();
        continue;
      }
      Span& span = spans[kind];
      span.begin = std::min(span.begin, event.start_ps());
      span.end = std::max(span.end, event.end_ps());
      span.busy += event.end_ps() - event.start_ps();
      if (kind != FORWARD) continue;
      const Step& step = as_run.segments(action->second->segment()).steps(event.step());
      if (sim::IsWeightCast(step)) sum.first_forward += event.end_ps() - event.start_ps();
    }
    // Without the casts, the forward ends earlier by the time that they take, or by less if it waits for a collective
    // instead.
    sum.forward = std::max<int64_t>(0, spans[FORWARD].length() - sum.first_forward);
    sum.backward = spans[BACKWARD].length();
    sum.backward_input = spans[BACKWARD_INPUT].length();
    sum.backward_weight = spans[BACKWARD_WEIGHT].length();
    measured.busy[pipe] = {.forward = std::max<int64_t>(0, spans[FORWARD].busy - sum.first_forward),
                           .backward = spans[BACKWARD].busy,
                           .backward_input = spans[BACKWARD_INPUT].busy,
                           .backward_weight = spans[BACKWARD_WEIGHT].busy};
    // Buffers that the input half of a backward frees. With halves, `saved_bytes` is what is kept until the weight
    // half.
    std::set<int32_t> early;
    for (const Action& action : t.body()) {
      if (action.kind() == BACKWARD_INPUT) early.insert(action.releases().begin(), action.releases().end());
    }
    for (int32_t b = 0; b < t.buffers_size(); ++b) {
      const Buffer& buffer = t.buffers(b);
      if (buffer.place() != DEVICE) continue;
      if (buffer.class_() == SAVED_ACTIVATION && early.count(b) == 0) sum.saved_bytes += buffer.bytes();
      if (buffer.class_() == SAVED_GRADIENT) sum.saved_gradient_bytes += buffer.bytes();
      if (!buffer.persistent()) continue;
      if (buffer.class_() == PARAMETER) sum.parameter_bytes += buffer.bytes();
      if (buffer.class_() == GRADIENT) sum.gradient_bytes += buffer.bytes();
      if (buffer.class_() == OPTIMIZER) sum.optimizer_bytes += buffer.bytes();
    }
  }
  return measured;
}

// Returns the bytes of the smallest message in this direction; 0 = there is no message.
int64_t SmallestMessage(const Program& program, Direction direction) {
  int64_t smallest = std::numeric_limits<int64_t>::max();
  for (const Template& t : program.templates()) {
    for (const Action& action : t.body()) {
      if (action.kind() != SEND || action.direction() != direction || action.skip() != 0) continue;
      smallest = std::min(smallest, t.buffers(action.sources(0)).bytes());
    }
  }
  return smallest == std::numeric_limits<int64_t>::max() ? 0 : smallest;
}

// A program that is compiled for a profile.
struct Form {
  // At most this many layers of each run.
  int32_t most = 1;
  // All runs are one stage; else each is a stage of its own.
  bool joined = false;
  // Backwards are split.
  bool split = false;
  // Gradients are sharded over replicas.
  bool sharded = false;
};

absl::StatusOr<Measured> Measure(const ProfileRequest& request, const Form& form) {
  const int32_t most = form.most;
  const bool split = form.split, joined = form.joined;
  const int ranks = joined ? 1 : static_cast<int>(request.runs.size());
  Plan plan = ProfiledPlan(request.plan);
  // Ranks fill nodes, so that tensor ranks are on one node whenever they can be.
  const int64_t per_node = std::max<int64_t>(1, request.cluster.devices_per_node());
  int64_t replicas = form.sharded ? 2 : 1;
  const int64_t of_replica = MeshRanks(plan.mesh()) * ranks;
  if (of_replica * replicas > per_node) replicas *= per_node / std::gcd(per_node, of_replica * replicas);
  if (replicas > 1) {
    MeshAxis* data = plan.mutable_mesh()->add_axes();
    data->set_name("data");
    data->set_size(replicas);
  }
  if (form.sharded) plan.mutable_zero()->set_stage(2);
  MeshAxis* pipe = plan.mutable_mesh()->add_axes();
  pipe->set_name("pipe");
  pipe->set_size(ranks);
  plan.mutable_schedule()->set_name(split ? "zb-h1" : "1f1b");
  for (const LayerRun& run : request.runs) {
    if (joined) break;
    plan.mutable_partition()->add_layers_per_stage(std::min(most, run.layers));
  }
  Recipe recipe = request.recipe;
  recipe.set_global_batch_sequences(recipe.microbatch_sequences() * replicas);
  Cluster cluster = request.cluster;
  const int64_t devices = std::max<int64_t>(1, cluster.devices_per_node());
  cluster.set_nodes(std::max(cluster.nodes(), (MeshRanks(plan.mesh()) + devices - 1) / devices));
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, ResolveInputs(most == 1 ? request.models.one : request.models.two, recipe,
                                                         plan, cluster, /*notes=*/nullptr));
  inputs.cost = request.cost;
  inputs.quick_arenas = true;
  const std::optional<Runtime> runtime = WithoutHost(request.runtime);
  WEFT_ASSIGN_OR_RETURN(
      const Evaluation made,
      Evaluate(
          {.inputs = inputs, .network = request.network, .runtime = runtime ? &*runtime : nullptr, .trace = true}));
  WEFT_ASSIGN_OR_RETURN(Measured measured, CostsOfRanks(made, ranks, request.runtime));
  measured.activation_bytes = SmallestMessage(made.program, TOWARDS_LOSS);
  measured.gradient_bytes = SmallestMessage(made.program, FROM_LOSS);
  return measured;
}

// Fields of LayerCosts that add up over layers: per microbatch, and per optimizer step.
constexpr std::array kOfMicrobatch = {&LayerCosts::forward,
                                      &LayerCosts::backward,
                                      &LayerCosts::backward_input,
                                      &LayerCosts::backward_weight,
                                      &LayerCosts::saved_bytes,
                                      &LayerCosts::half_saved_bytes,
                                      &LayerCosts::saved_gradient_bytes};
constexpr std::array kTimes = {&LayerCosts::forward, &LayerCosts::backward, &LayerCosts::backward_input,
                               &LayerCosts::backward_weight};
constexpr std::array kTimesOfStep = {&LayerCosts::step, &LayerCosts::first_forward};
constexpr std::array kStates = {&LayerCosts::parameter_bytes, &LayerCosts::gradient_bytes,
                                &LayerCosts::optimizer_bytes};

template <typename Work>
void ForEachField(const Work& work) {
  for (const auto field : kOfMicrobatch) work(field);
  for (const auto field : kTimesOfStep) work(field);
  for (const auto field : kStates) work(field);
}

LayerCosts Difference(const LayerCosts& larger, const LayerCosts& smaller) {
  LayerCosts difference;
  ForEachField([&](auto field) { difference.*field = std::max<int64_t>(0, larger.*field - smaller.*field); });
  return difference;
}

// Copies the costs of the halves of a backward to `costs`. `halves` was measured with split backwards, `costs` with
// whole ones.
void AddHalves(const LayerCosts& halves, LayerCosts& costs) {
  costs.backward_input = halves.backward_input;
  costs.backward_weight = halves.backward_weight;
  costs.saved_gradient_bytes = halves.saved_gradient_bytes;
  costs.half_saved_bytes = halves.saved_bytes;
  costs.half_workspace_bytes = halves.workspace_bytes;
}

}  // namespace

LayerCosts& LayerCosts::operator+=(const LayerCosts& other) {
  ForEachField([&](auto field) { this->*field += other.*field; });
  workspace_bytes = std::max(workspace_bytes, other.workspace_bytes);
  half_workspace_bytes = std::max(half_workspace_bytes, other.half_workspace_bytes);
  return *this;
}

LayerCosts BlockProfile::CostsOf(int32_t begin, int32_t end, bool sharded) const {
  LayerCosts sum;
  int covered = 0;
  for (const RunCosts& run : runs) {
    const int32_t from = std::max(begin, run.run.first), to = std::min(end, run.run.first + run.run.layers);
    if (from >= to) continue;
    ++covered;
    sum += run.first;
    ForEachField([&](auto field) { sum.*field += (to - from - 1) * (run.further.*field); });
    for (const auto time : kTimes) {
      if (sharded) sum.*time = std::max<int64_t>(0, sum.*time - (to - from) * (run.less_if_sharded.*time));
    }
  }
  if (covered < 2) return sum;
  const auto join = [&](auto field) { sum.*field = std::max<int64_t>(0, sum.*field - saved_by_joining.*field); };
  for (const auto field : kOfMicrobatch) join(field);
  for (const auto field : kTimesOfStep) join(field);
  // The first and the last layer may share a parameter.
  if (covered == static_cast<int>(runs.size())) {
    for (const auto field : kStates) join(field);
  }
  return sum;
}

ShortModels ShortModelsOf(const ModelGraph& model, const std::vector<LayerRun>& runs) {
  return {ShortenRuns(model, runs, 1), ShortenRuns(model, runs, 2)};
}

std::string ConfigurationKey(const Plan& plan) { return ProfiledPlan(plan).SerializeAsString(); }

BlockProfile PartOf(const BlockProfile& profile, int64_t part) {
  BlockProfile less = profile;
  for (RunCosts& run : less.runs) {
    for (LayerCosts* costs : {&run.first, &run.further}) {
      for (const auto field : kOfMicrobatch) costs->*field /= part;
      costs->workspace_bytes /= part;
      costs->half_workspace_bytes /= part;
    }
  }
  // These amounts are subtracted, so round them up.
  const auto divide_up = [&](int64_t& amount) { amount = (amount + part - 1) / part; };
  for (RunCosts& run : less.runs) {
    for (const auto field : kOfMicrobatch) divide_up(run.less_if_sharded.*field);
    divide_up(run.tiled_bytes);
  }
  for (const auto field : kOfMicrobatch) divide_up(less.saved_by_joining.*field);
  less.activation_bytes /= part;
  less.gradient_bytes /= part;
  return less;
}

absl::StatusOr<BlockProfile> ProfileBlocks(const ProfileRequest& request) {
  BlockProfile profile;
  const auto measure = [&](Form form) -> absl::StatusOr<Measured> {
    WEFT_ASSIGN_OR_RETURN(Measured measured, Measure(request, form));
    if (!request.split_backward || !profile.halves.ok()) return measured;
    form.split = true;
    const absl::StatusOr<Measured> halves = Measure(request, form);
    profile.halves = halves.status();
    for (size_t i = 0; halves.ok() && i < measured.ranks.size(); ++i) {
      AddHalves(halves->ranks[i], measured.ranks[i]);
      AddHalves(halves->busy[i], measured.busy[i]);
    }
    return measured;
  };
  WEFT_ASSIGN_OR_RETURN(Measured one, measure({}));
  Measured two = one, sharded = one;
  if (std::any_of(request.runs.begin(), request.runs.end(), [](const LayerRun& run) { return run.layers > 1; })) {
    WEFT_ASSIGN_OR_RETURN(two, measure({.most = 2}));
  }
  if (request.sharded_gradients) {
    absl::StatusOr<Measured> made = measure({.sharded = true});
    profile.sharded = made.status();
    if (made.ok()) sharded = *std::move(made);
  }
  profile.activation_bytes = two.activation_bytes;
  profile.gradient_bytes = two.gradient_bytes;
  // In the short segments of a profile, steps wait for gathers over z that a longer segment would have begun earlier.
  // So these waits do not count.
  const bool waits_count = AxisSize(request.plan.mesh(), "z") == 1;
  LayerCosts all, all_busy;
  for (size_t i = 0; i < request.runs.size(); ++i) {
    for (Measured* measured : {&one, &two}) {
      for (const auto time : kTimes) {
        if (!waits_count) measured->ranks[i].*time = measured->busy[i].*time;
      }
    }
    RunCosts& run = profile.runs.emplace_back();
    run.run = request.runs[i];
    run.first = one.ranks[i];
    run.further = Difference(two.ranks[i], one.ranks[i]);
    run.tiled_bytes = std::max(one.tiled_bytes[i], two.tiled_bytes[i]);
    const LayerCosts less = Difference(one.busy[i], sharded.busy[i]);
    for (const auto time : kTimes) run.less_if_sharded.*time = less.*time;
    all += one.ranks[i];
    all_busy += one.busy[i];
  }
  if (request.runs.size() == 1) return profile;
  WEFT_ASSIGN_OR_RETURN(const Measured joined, measure({.joined = true}));
  profile.saved_by_joining = Difference(all, joined.ranks[0]);
  // A joined stage also waits for collectives between the runs. Times with these waits would hide what joining saves.
  const LayerCosts saved = Difference(all_busy, joined.busy[0]);
  for (const auto time : kTimes) profile.saved_by_joining.*time = saved.*time;
  return profile;
}

}  // namespace weft::planner
