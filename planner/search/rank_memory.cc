#include "planner/search/rank_memory.h"

#include <array>
#include <utility>

namespace weft::planner {
namespace {

// Returns the bytes that a microbatch keeps at least from its forward to the end of its backward. Bytes that are freed
// after the input half are not counted at all.
int64_t SavedOf(const LayerCosts& costs, const ScheduleShape& shape) {
  if (!shape.split_backward) return costs.saved_bytes;
  return shape.whole_backward ? std::min(costs.saved_bytes, costs.half_saved_bytes) : costs.half_saved_bytes;
}

// Returns the bytes that a backward, or its input half, needs at least while it runs.
int64_t WorkspaceOf(const LayerCosts& costs, const ScheduleShape& shape) {
  if (!shape.split_backward) return costs.workspace_bytes;
  return shape.whole_backward ? std::min(costs.workspace_bytes, costs.half_workspace_bytes)
                              : costs.half_workspace_bytes;
}

std::vector<LayerCosts> StagesOf(const BoundInputs& in) {
  std::vector<LayerCosts> stages;
  int32_t layer = 0;
  for (const int32_t layers : in.layers_per_stage) {
    stages.push_back(in.profile.CostsOf(layer, layer + layers, IsSharded(in)));
    layer += layers;
  }
  return stages;
}

constexpr std::array kFreed = {&Recomputed::saved_bytes, &Recomputed::saved_gradient_bytes};
constexpr std::array kAgain = {&Recomputed::again, &Recomputed::again_whole, &Recomputed::again_input};

Recomputed ChangeOf(const LayerCosts& none, const LayerCosts& all, const ScheduleShape& shape) {
  return {.saved_bytes = SavedOf(none, shape) - SavedOf(all, shape),
          .saved_gradient_bytes = none.saved_gradient_bytes - all.saved_gradient_bytes,
          .again = std::max<int64_t>(0, BackwardOf(all, shape) - BackwardOf(none, shape)),
          .again_whole = std::max<int64_t>(0, all.backward - none.backward),
          .again_input = std::max<int64_t>(0, all.backward_input - none.backward_input)};
}

// The runs of the layers from `begin` to `end`, which are stage `stage`.
std::vector<RecomputedRun> RunsOfStage(const BoundInputs& in, int stage, int32_t begin, int32_t end) {
  std::vector<RecomputedRun> runs;
  const auto change = [&](int32_t from, int32_t to, int64_t* workspace) {
    const LayerCosts all = in.recomputed->CostsOf(from, to, IsSharded(in));
    *workspace = in.workspace_as_planned ? WorkspaceOf(all, in.shape) : 0;
    return ChangeOf(in.profile.CostsOf(from, to, IsSharded(in)), all, in.shape);
  };
  for (const RunCosts& run : in.profile.runs) {
    const int32_t from = std::max(begin, run.run.first), to = std::min(end, run.run.first + run.run.layers);
    if (from >= to) continue;
    RecomputedRun& made = runs.emplace_back(RecomputedRun{.stage = stage, .layers = to - from});
    made.change = change(from, to, &made.workspace_bytes);
  }
  if (runs.size() < 2) return runs;
  // Joined runs may free more and take less than each of them. The first run counts the difference, so that no number
  // of first layers frees more or takes less than the sum of their runs.
  int64_t unused = 0;
  Recomputed joined = change(begin, end, &unused);
  for (const RecomputedRun& run : runs) {
    for (const auto field : kFreed) joined.*field -= run.change.*field;
    for (const auto field : kAgain) joined.*field -= run.change.*field;
  }
  for (const auto field : kFreed) runs[0].change.*field += std::max<int64_t>(0, joined.*field);
  for (const auto field : kAgain) {
    int64_t less = std::max<int64_t>(0, -(joined.*field));
    for (RecomputedRun& run : runs) {
      const int64_t taken = std::min(less, run.change.*field);
      run.change.*field -= taken;
      less -= taken;
    }
  }
  return runs;
}

int64_t CountOf(const std::vector<std::pair<int, int64_t>>& held, int stage) {
  for (const auto& [of_stage, count] : held) {
    if (of_stage == stage) return count;
  }
  return 0;
}

// Returns the bytes of the weights that a rank has gathered for a forward and keeps at the moment, for its backward.
int64_t GatheredAt(const BoundInputs& in, const ScheduleShape::Held& moment, const std::vector<LayerCosts>& stages) {
  const bool keeps = in.workspace_as_planned && in.plan.zero().stage() >= 3 && ReplicasThatShare(in.plan) > 1 &&
                     in.plan.zero().reshard() == Zero::AFTER_BACKWARD;
  if (!keeps) return 0;
  int64_t bytes = 0;
  for (const auto& [stage, count] : moment.saved) {
    if (count == 0) continue;
    // The backward of an embedding needs no weights.
    const int64_t first = stage == 0 ? in.profile.CostsOf(0, 1, IsSharded(in)).parameter_bytes : 0;
    bytes += std::max<int64_t>(0, stages[stage].parameter_bytes - first);
  }
  return bytes;
}

// Returns the bytes that the rank needs at the moment, and how many of its first layers it must recompute for that.
// `stages` recompute nothing; `runs` are those of the rank.
MemoryNeed MemoryAt(const BoundInputs& in, const ScheduleShape::Held& moment, int64_t states,
                    const std::vector<LayerCosts>& stages, const std::vector<RecomputedRun>& runs) {
  const bool keeps = in.plan.offload().activation_layers() == 0;
  int64_t kept = states + GatheredAt(in, moment, stages);
  for (const auto& [stage, count] : moment.saved) kept += keeps ? count * SavedOf(stages[stage], in.shape) : 0;
  for (const auto& [stage, count] : moment.saved_gradients) kept += count * stages[stage].saved_gradient_bytes;
  int64_t workspace = in.workspace_as_planned ? WorkspaceOf(stages[moment.stage], in.shape) : 0;
  MemoryNeed memory{.bytes = kept + workspace};
  bool fits = memory.bytes <= in.capacity;
  int64_t all_layers = 0, all_freed = 0;
  for (const RecomputedRun& run : runs) {
    if (run.stage == moment.stage) workspace = std::max(workspace, run.workspace_bytes);
    const int64_t freed = (keeps ? CountOf(moment.saved, run.stage) * run.change.saved_bytes : 0) +
                          CountOf(moment.saved_gradients, run.stage) * run.change.saved_gradient_bytes;
    const int64_t over = kept + workspace - in.capacity;
    kept -= freed;
    all_layers += run.layers;
    all_freed += freed;
    memory.bytes = std::min(memory.bytes, kept + workspace);
    if (fits) continue;
    fits = freed >= over;
    memory.layers += run.layers * (fits ? static_cast<double>(over) / static_cast<double>(freed) : 1.0);
  }
  memory.freed = all_freed / std::max<int64_t>(1, all_layers);
  return memory;
}

}  // namespace

Ranks::Ranks(const BoundInputs& in) {
  if (in.devices.empty()) inputs_.push_back(in);
  for (const RankDevice& device : in.devices) {
    inputs_.push_back({.profile = *device.profile,
                       .recomputed = device.recomputed,
                       .shape = in.shape,
                       .layers_per_stage = in.layers_per_stage,
                       .plan = in.plan,
                       .network = in.network,
                       .sums_after_backward = in.sums_after_backward,
                       .workspace_as_planned = in.workspace_as_planned,
                       .gathered_share = in.gathered_share,
                       .memory_bytes_per_second = device.memory_bytes_per_second,
                       .capacity = device.capacity});
  }
  for (const BoundInputs& inputs : inputs_) stages_.push_back(StagesOf(inputs));
}

int64_t BackwardOf(const LayerCosts& costs, const ScheduleShape& shape) {
  const int64_t halves = costs.backward_input + costs.backward_weight;
  if (!shape.split_backward) return costs.backward;
  return shape.whole_backward ? std::min(costs.backward, halves) : halves;
}

bool IsSharded(const BoundInputs& in) { return in.plan.zero().stage() >= 2 && ReplicasThatShare(in.plan) > 1; }

std::vector<std::vector<RecomputedRun>> RecomputedRunsOf(const BoundInputs& in, const Ranks& ranks) {
  const ScheduleShape& shape = in.shape;
  std::vector<std::vector<RecomputedRun>> runs(shape.held.size());
  // With more than two lanes, a rank's layers may also be recomputed because other ranks of their stages need it.
  if (in.recomputed == nullptr || shape.placement.size() > 2) return runs;
  int32_t begin = 0;
  for (int s = 0; s < shape.stages; ++s) {
    for (size_t lane = 0; lane < shape.placement.size(); ++lane) {
      const int rank = shape.placement[lane][s];
      std::vector<RecomputedRun> of_stage = RunsOfStage(ranks.In(rank), s, begin, begin + in.layers_per_stage[s]);
      std::vector<RecomputedRun>& of_rank = runs[rank];
      for (RecomputedRun& run : of_stage) run.microbatches = shape.microbatches[lane];
      of_rank.insert(of_rank.end(), of_stage.begin(), of_stage.end());
    }
    begin += in.layers_per_stage[s];
  }
  return runs;
}

std::vector<int64_t> TiledBytesOf(const BoundInputs& in, const Ranks& ranks) {
  const ScheduleShape& shape = in.shape;
  std::vector<int64_t> bytes(shape.held.size());
  for (size_t p = 0; p < bytes.size(); ++p) {
    for (const RunCosts& run : ranks.In(static_cast<int>(p)).profile.runs) {
      bool has_layers = false;
      for (const std::vector<int>& lane : shape.placement) {
        int32_t begin = 0;
        for (int s = 0; s < shape.stages; ++s) {
          const int32_t end = begin + in.layers_per_stage[s];
          has_layers |= lane[s] == static_cast<int>(p) && begin < run.run.first + run.run.layers && run.run.first < end;
          begin = end;
        }
      }
      if (has_layers) bytes[p] += shape.widest * run.tiled_bytes;
    }
  }
  return bytes;
}

MemoryNeed MemoryOf(const BoundInputs& in, int64_t states, const std::vector<ScheduleShape::Held>& held,
                    const std::vector<LayerCosts>& stages, const std::vector<RecomputedRun>& runs) {
  MemoryNeed memory{.bytes = states};
  for (const ScheduleShape::Held& moment : held) {
    const MemoryNeed at = MemoryAt(in, moment, states, stages, runs);
    memory.bytes = std::max(memory.bytes, at.bytes);
    if (at.layers > memory.layers || memory.freed == 0) memory.freed = at.freed;
    memory.layers = std::max(memory.layers, at.layers);
  }
  return memory;
}

}  // namespace weft::planner
