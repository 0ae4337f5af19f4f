#include "planner/resolve_reshard.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/segments/state_shards.h"
#include "planner/choose_reshard.h"
#include "planner/evaluate.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/value_bytes.h"

namespace weft::planner {
namespace {

// The layer whose parameters a step gathers from other data replicas, or nothing.
std::optional<int32_t> LayerOf(const Step& step) {
  if (step.kernel() != GROUP_ALL_GATHER || step.collective().purpose() != GATHER_WEIGHTS) return std::nullopt;
  const auto& axes = step.collective().group().axes();
  if (std::none_of(axes.begin(), axes.end(), [](const AxisSubset& axis) { return axis.axis() == "data"; })) {
    return std::nullopt;
  }
  return LayerOfNamedStep(step.name());
}

int64_t BytesOf(const Segment& segment, const google::protobuf::RepeatedField<int32_t>& values) {
  int64_t bytes = 0;
  for (const int32_t v : values) {
    bytes += ValueBytes(segment.values(v)).value_or(0);
  }
  return bytes;
}

// Adds, for each layer, the picoseconds of its gathers in which the traced rank computes nothing.
void AddExposed(const Program& program, const RankTrace& trace, std::map<int32_t, GatheredLayer>& layers) {
  const Template& t = program.templates(TemplateOfRank(program, trace.rank()));
  std::map<int32_t, const Action*> actions;
  for (const Action& action : t.body()) actions[action.id()] = &action;
  std::vector<std::pair<int64_t, int64_t>> computed;
  for (const TraceEvent& event : trace.events()) {
    if (trace.streams(event.stream()) == "compute") computed.emplace_back(event.start_ps(), event.end_ps());
  }
  std::sort(computed.begin(), computed.end());
  for (const TraceEvent& event : trace.events()) {
    const auto action = actions.find(event.action());
    if (action == actions.end() || action->second->operands().empty()) continue;
    const std::optional<int32_t> layer = LayerOf(program.segments(action->second->segment()).steps(event.step()));
    if (!layer) continue;
    // Start at the end of the last computation that begins before the gather.
    auto next = std::upper_bound(computed.begin(), computed.end(),
                                 std::make_pair(event.start_ps(), std::numeric_limits<int64_t>::max()));
    int64_t from = event.start_ps();
    if (next != computed.begin()) from = std::max(from, std::prev(next)->second);
    for (; from < event.finish_ps(); ++next) {
      const int64_t until = next == computed.end() ? event.finish_ps() : std::min(event.finish_ps(), next->first);
      layers[*layer].exposed += std::max<int64_t>(0, until - from);
      if (next == computed.end()) break;
      from = next->second;
    }
  }
}

// Like AddExposed, for programs whose trace would be too large: adds the whole time of the gathers, as if nothing ran
// beside them.
absl::Status AddAlone(const Program& program, const StepCost& cost, std::map<int32_t, GatheredLayer>& layers) {
  for (const Template& t : program.templates()) {
    for (const Action& action : t.body()) {
      if (action.operands().empty()) continue;
      const Segment& segment = program.segments(action.segment());
      for (const Step& step : segment.steps()) {
        const std::optional<int32_t> layer = LayerOf(step);
        if (!layer) continue;
        WEFT_ASSIGN_OR_RETURN(const int64_t picoseconds, cost(segment, step, action.kind()));
        int64_t& exposed = layers[*layer].exposed;
        exposed = std::min(exposed, std::numeric_limits<int64_t>::max() - picoseconds) + picoseconds;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ReshardTrial> TrialOf(const Evaluation& made, const StepCost& cost) {
  const Program& program = made.program;
  ReshardTrial trial;
  trial.fits = made.fits;
  trial.bytes = made.rank_bytes;
  trial.seconds = made.report.iteration_seconds();
  std::map<int32_t, GatheredLayer> layers;
  for (const Template& t : program.templates()) {
    std::set<int32_t> seen;
    for (const Action& action : t.body()) {
      if (action.operands().empty()) continue;
      const Segment& segment = program.segments(action.segment());
      for (const Step& step : segment.steps()) {
        const std::optional<int32_t> layer = LayerOf(step);
        if (!layer || !seen.insert(*layer).second) continue;
        GatheredLayer& found = layers[*layer];
        found.layer = *layer;
        const auto rank = static_cast<int>(PipeRankOf(t));
        if (found.ranks.empty() || found.ranks.back() != rank) found.ranks.push_back(rank);
        found.bytes = std::max(found.bytes, BytesOf(segment, step.outputs()) - BytesOf(segment, step.inputs()));
      }
    }
  }
  if (layers.empty()) return trial;
  if (made.trace.ok()) {
    for (const RankTrace& rank : made.trace->ranks()) AddExposed(program, rank, layers);
  } else {
    WEFT_RETURN_IF_ERROR(AddAlone(program, cost, layers));
  }
  for (auto& [layer, found] : layers) trial.layers.push_back(std::move(found));
  return trial;
}

}  // namespace

absl::Status ResolveReshard(PlanInputs& inputs, const StepCost& cost, bool evaluation,
                            std::vector<std::string>* notes) {
  Zero& zero = *inputs.plan.mutable_zero();
  if (zero.reshard() != Zero::BY_BENEFIT) return absl::OkStatus();
  if (StateShardsOf(inputs.plan).members == 1) {
    zero.set_reshard(Zero::AFTER_FORWARD);
    return absl::OkStatus();
  }
  PlanInputs tried = inputs;
  // The partition of the first candidate becomes the partition of all later ones.
  const TryReshard attempt = [&](const Zero& candidate) -> absl::StatusOr<ReshardTrial> {
    *tried.plan.mutable_zero() = candidate;
    const Candidate traced = {
        .inputs = tried, .cost = &cost, .evaluation = evaluation, .post_validate = false, .trace = true};
    WEFT_ASSIGN_OR_RETURN(const Evaluation made, Evaluate(traced));
    const std::vector<int32_t>& counts = made.layers_per_stage;
    tried.plan.mutable_partition()->mutable_layers_per_stage()->Assign(counts.begin(), counts.end());
    return TrialOf(made, cost);
  };
  WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> usable, UsableBytesOfPipeRanks(inputs));
  const int64_t capacity = *std::min_element(usable.begin(), usable.end());
  Zero asked = zero;
  if (inputs.plan.overlap().has_all_gather() && !inputs.plan.overlap().all_gather()) asked.set_prefetch(0);
  WEFT_ASSIGN_OR_RETURN(ReshardDecision decision, ChooseReshard(asked, capacity, attempt));
  zero = std::move(decision.zero);
  *inputs.plan.mutable_partition() = tried.plan.partition();
  if (notes != nullptr) notes->push_back(std::move(decision.note));
  return absl::OkStatus();
}

}  // namespace weft::planner
