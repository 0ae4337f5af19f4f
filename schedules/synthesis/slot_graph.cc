#include "schedules/synthesis/slot_graph.h"

#include <algorithm>

namespace weft {

SlotGraph::SlotGraph(const SynthesisProblem& problem, Placement placed, std::vector<int> lanes,
                     std::vector<bool> in_halves)
    : ranks(problem.ranks),
      stages(problem.stages()),
      microbatches(problem.microbatches),
      placement(std::move(placed)),
      lane_of(std::move(lanes)),
      halves(std::move(in_halves)),
      activations(problem.memory_cap ? problem.activations : std::vector<int64_t>(problem.stages(), 0)),
      memory_cap(problem.memory_cap.value_or(0)) {
  const size_t ids = size_t{3} * stages * microbatches;
  time.resize(ids);
  rank.resize(ids);
  reads.assign(ids, -1);
  lag.resize(ids);
  readers.assign(ids, {-1, -1});
  const auto read = [&](int32_t reader, int32_t from) {
    reads[reader] = from;
    lag[reader] = rank[reader] == rank[from] ? 0 : problem.p2p;
    readers[from][readers[from][0] >= 0] = reader;
  };
  for (int stage = 0; stage < stages; ++stage) {
    const StageCosts& costs = problem.costs[stage];
    for (int m = 0; m < microbatches; ++m) {
      const bool split = halves[int64_t{stage} * microbatches + m];
      time[id(kForwardOp, stage, m)] = costs.forward;
      time[id(kGradientOp, stage, m)] = split ? costs.backward_input : costs.backward;
      time[id(kWeightOp, stage, m)] = split ? costs.backward_weight : 0;
      for (const GraphKind kind : {kForwardOp, kGradientOp, kWeightOp}) {
        rank[id(kind, stage, m)] = placement[lane_of[m]][stage];
      }
      slots += split ? 3 : 2;
    }
  }
  for (int stage = 0; stage < stages; ++stage) {
    for (int m = 0; m < microbatches; ++m) {
      if (stage > 0) read(id(kForwardOp, stage, m), id(kForwardOp, stage - 1, m));
      read(id(kGradientOp, stage, m), stage + 1 < stages ? id(kGradientOp, stage + 1, m) : id(kForwardOp, stage, m));
      if (exists(id(kWeightOp, stage, m))) read(id(kWeightOp, stage, m), id(kGradientOp, stage, m));
    }
  }
}

bool TimeOrder(const SlotGraph& graph, const SlotOrder& order, OrderTimes& times) {
  times.head.assign(graph.time.size(), -1);
  times.tail.resize(graph.time.size());
  times.index.resize(graph.time.size());
  times.sequence.clear();
  times.makespan = 0;
  std::vector<size_t> next(graph.ranks);
  std::vector<int64_t> free(graph.ranks);
  std::vector<int> work(graph.ranks);
  for (int rank = 0; rank < graph.ranks; ++rank) work[rank] = graph.ranks - 1 - rank;
  while (!work.empty()) {
    const int rank = work.back();
    work.pop_back();
    const std::vector<int32_t>& list = order[rank];
    for (; next[rank] < list.size(); ++next[rank]) {
      const int32_t id = list[next[rank]];
      const int32_t from = graph.reads[id];
      if (from >= 0 && times.head[from] < 0) break;
      times.head[id] =
          from < 0 ? free[rank] : std::max(free[rank], times.head[from] + graph.time[from] + graph.lag[id]);
      times.index[id] = static_cast<int32_t>(next[rank]);
      free[rank] = times.head[id] + graph.time[id];
      times.sequence.push_back(id);
      for (const int32_t reader : graph.readers[id]) {
        if (reader >= 0 && graph.rank[reader] != rank) work.push_back(graph.rank[reader]);
      }
    }
    times.makespan = std::max(times.makespan, free[rank]);
  }
  if (static_cast<int64_t>(times.sequence.size()) != graph.slots) return false;
  // Tails, from the last slot back: over the next slot of the rank, and over the slots that read the result.
  std::fill(free.begin(), free.end(), 0);
  for (auto it = times.sequence.rbegin(); it != times.sequence.rend(); ++it) {
    const int32_t id = *it;
    int64_t after = free[graph.rank[id]];
    for (const int32_t reader : graph.readers[id]) {
      if (reader >= 0) after = std::max(after, graph.lag[reader] + times.tail[reader]);
    }
    free[graph.rank[id]] = times.tail[id] = after + graph.time[id];
  }
  return true;
}

bool FitsMemory(const SlotGraph& graph, const std::vector<int32_t>& order) {
  int64_t held = 0;
  for (const int32_t id : order) {
    const int64_t activations = graph.activations[graph.stage(id)];
    if (graph.kind(id) == kForwardOp) held += activations;
    if (held > graph.memory_cap) return false;
    if (graph.releases(id)) held -= activations;
  }
  return true;
}

std::vector<bool> HalvesOf(const SynthesisProblem& problem, bool prefer_whole) {
  std::vector<bool> halves;
  for (const StageCosts& costs : problem.costs) {
    const bool never_worse = costs.backward_input + costs.backward_weight <= costs.backward;
    halves.insert(halves.end(), problem.microbatches, problem.split && (never_worse || !prefer_whole));
  }
  return halves;
}

PipelineSchedule ToSchedule(const SlotGraph& graph, const SlotOrder& order) {
  PipelineSchedule schedule = {.stages = graph.stages,
                               .lanes = static_cast<int>(graph.placement.size()),
                               .placement = graph.placement,
                               .order = {}};
  for (const std::vector<int32_t>& list : order) {
    std::vector<Slot>& slots = schedule.order.emplace_back();
    for (const int32_t id : list) {
      const GraphKind kind = graph.kind(id);
      const int m = graph.microbatch(id);
      slots.push_back({.kind = kind == kForwardOp   ? SlotKind::kForward
                               : kind == kWeightOp  ? SlotKind::kBackwardWeight
                               : graph.releases(id) ? SlotKind::kBackward
                                                    : SlotKind::kBackwardInput,
                       .lane = static_cast<int16_t>(graph.lane_of[m]),
                       .stage = graph.stage(id),
                       .microbatch = m});
    }
  }
  return schedule;
}

std::pair<SlotGraph, SlotOrder> FromSchedule(const SynthesisProblem& problem, const PipelineSchedule& schedule) {
  const int n = problem.microbatches;
  const std::vector<bool> never_worse = HalvesOf(problem, /*prefer_whole=*/true);
  std::vector<bool> halves(never_worse.size());
  std::vector<int> lane_of(n);
  for (const std::vector<Slot>& list : schedule.order) {
    for (const Slot& slot : list) {
      lane_of[slot.microbatch] = slot.lane;
      const int64_t index = int64_t{slot.stage} * n + slot.microbatch;
      if (slot.kind == SlotKind::kBackwardInput || never_worse[index]) halves[index] = true;
    }
  }
  SlotGraph graph(problem, schedule.placement, std::move(lane_of), std::move(halves));
  SlotOrder order(graph.ranks);
  for (int rank = 0; rank < graph.ranks; ++rank) {
    for (const Slot& slot : schedule.order[rank]) {
      const int32_t gradient = graph.id(kGradientOp, slot.stage, slot.microbatch);
      const int32_t weight = graph.id(kWeightOp, slot.stage, slot.microbatch);
      switch (slot.kind) {
        case SlotKind::kForward:
          order[rank].push_back(graph.id(kForwardOp, slot.stage, slot.microbatch));
          break;
        case SlotKind::kBackward:
          order[rank].push_back(gradient);
          if (graph.exists(weight)) order[rank].push_back(weight);
          break;
        case SlotKind::kBackwardInput:
          order[rank].push_back(gradient);
          break;
        case SlotKind::kBackwardWeight:
          order[rank].push_back(weight);
          break;
      }
    }
  }
  return {std::move(graph), std::move(order)};
}

}  // namespace weft
