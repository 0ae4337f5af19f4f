#include "schedules/synthesis/synthesize.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedules/synthesis/bound.h"
#include "schedules/synthesis/exact.h"
#include "schedules/synthesis/list_policy.h"
#include "schedules/synthesis/slot_graph.h"
#include "schedules/synthesis/tabu_search.h"

namespace weft {
namespace {

// An order and where it came from.
struct Candidate {
  std::shared_ptr<const SlotGraph> graph;
  SlotOrder order;
  int64_t makespan = 0;
  std::string method;
};

// A graph in which list scheduling looks for orders, with its bounds.
struct Arena {
  std::shared_ptr<const SlotGraph> graph;
  SlotBounds bounds;
};

std::vector<Arena> ArenasOf(const SynthesisProblem& problem) {
  std::vector<std::vector<bool>> halves = {HalvesOf(problem, /*prefer_whole=*/true)};
  if (std::vector<bool> all = HalvesOf(problem, /*prefer_whole=*/false); all != halves[0]) halves.push_back(all);
  std::vector<Arena> arenas;
  for (const Placement& placement : problem.placements) {
    // Lanes take turns.
    std::vector<int> lane_of(problem.microbatches);
    for (int m = 0; m < problem.microbatches; ++m) lane_of[m] = m % static_cast<int>(placement.size());
    for (const std::vector<bool>& in_halves : halves) {
      const auto graph = std::make_shared<const SlotGraph>(problem, placement, lane_of, in_halves);
      arenas.push_back({graph, BoundSlots(*graph)});
    }
  }
  return arenas;
}

int64_t Below(std::mt19937_64& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(n, 1)));
}

// Draws a policy at random. It may prefer slots with much work after them, older microbatches, and backwards over
// forwards. Its look-ahead is any; its warm-up may be like 1F1B's, longer, shorter or without a limit.
ListPolicy DrawPolicy(const SlotGraph& graph, const SynthesisProblem& problem, std::mt19937_64& random) {
  int64_t step = 0;
  for (const StageCosts& costs : problem.costs) step = std::max(step, costs.forward + costs.backward);
  ListPolicy policy;
  policy.tail = Below(random, 4) != 0;
  policy.kind = {Below(random, 3) * step, Below(random, 5) * step, -Below(random, 5) * step};
  policy.microbatch = Below(random, 3) * step / 2;
  policy.look_ahead = static_cast<int>(Below(random, 5) * 25);
  if (Below(random, 3) == 0) return policy;
  // The first stage may have `first` microbatches in flight, each later stage slope / 10 fewer.
  const int64_t first = 1 + Below(random, std::min<int64_t>(graph.microbatches, 2 * graph.stages + 2));
  const int64_t slope = Below(random, 21);
  for (int64_t stage = 0; stage < graph.stages; ++stage) {
    policy.in_flight.push_back(static_cast<int>(std::max<int64_t>(1, first - stage * slope / 10)));
  }
  return policy;
}

// Adds the candidate, unless there is one with the same makespan and placement: the two are often the same order.
void Add(Candidate candidate, std::vector<Candidate>& candidates) {
  for (const Candidate& other : candidates) {
    if (other.makespan == candidate.makespan && other.graph->placement == candidate.graph->placement) return;
  }
  candidates.push_back(std::move(candidate));
}

// Looks for an order that is faster than `best` by exact search, until there is none or the work is spent. Returns the
// lower bound that this proves, at least `bound`.
int64_t Improve(const std::vector<Arena>& arenas, size_t placements, const SynthesisOptions& options, int64_t bound,
                Candidate& best) {
  // With two lanes, or a choice between halves and whole backwards, the graphs do not have all orders.
  if (arenas.size() != placements || arenas[0].graph->slots > options.exact_slots) return bound;
  int64_t proven = std::numeric_limits<int64_t>::max();
  for (const Arena& arena : arenas) {
    if (arena.graph->placement.size() > 1) return bound;
    ExactAnswer answer = ExactAnswer::kFound;
    while (answer == ExactAnswer::kFound && best.makespan > bound) {
      SlotOrder order;
      answer = ExactSearch(*arena.graph, best.makespan - 1, options.exact_work, order);
      if (answer != ExactAnswer::kFound) continue;
      OrderTimes times;
      TimeOrder(*arena.graph, order, times);
      best = {arena.graph, std::move(order), times.makespan, "exact search"};
    }
    if (answer == ExactAnswer::kUnknown) proven = bound;
  }
  return std::min(proven, best.makespan);
}

}  // namespace

absl::StatusOr<Synthesis> Synthesize(const SynthesisProblem& problem, const SynthesisOptions& options) {
  if (absl::Status status = CheckProblem(problem); !status.ok()) return status;
  Synthesis result;
  result.bound = LowerBound(problem);
  result.named = NamedSolutions(problem);

  std::vector<Candidate> candidates;
  OrderTimes times;
  for (const NamedSolution& named : result.named) {
    auto [graph, order] = FromSchedule(problem, named.schedule);
    if (!TimeOrder(graph, order, times)) continue;
    Add({std::make_shared<const SlotGraph>(std::move(graph)), std::move(order), times.makespan, named.name},
        candidates);
  }
  std::mt19937_64 random(options.seed);
  const std::vector<Arena> arenas = ArenasOf(problem);
  for (int i = 0; i < options.lists; ++i) {
    const Arena& arena = arenas[i % arenas.size()];
    const ListPolicy policy =
        i < static_cast<int>(arenas.size()) ? ListPolicy() : DrawPolicy(*arena.graph, problem, random);
    SlotOrder order = ListOrder(*arena.graph, arena.bounds, policy);
    if (!TimeOrder(*arena.graph, order, times)) continue;
    Add({arena.graph, std::move(order), times.makespan, "list scheduling"}, candidates);
  }
  const auto faster = [](const Candidate& a, const Candidate& b) { return a.makespan < b.makespan; };
  std::stable_sort(candidates.begin(), candidates.end(), faster);
  Candidate best = candidates[0];
  candidates.resize(std::min<size_t>(candidates.size(), options.starts));
  for (Candidate& candidate : candidates) {
    if (best.makespan <= result.bound) break;
    candidate.makespan = TabuSearch(*candidate.graph, options.iterations, result.bound, random(), candidate.order);
    if (!faster(candidate, best)) continue;
    best = std::move(candidate);
    best.method = "tabu search";
  }
  if (best.makespan > result.bound) {
    result.bound = Improve(arenas, problem.placements.size(), options, result.bound, best);
  }
  result.schedule = ToSchedule(*best.graph, best.order);
  result.method = std::move(best.method);
  absl::StatusOr<ScheduleTiming> timing = CheckSolution(problem, result.schedule);
  if (!timing.ok()) {
    return absl::InternalError(absl::StrCat("synthesis made a wrong schedule: ", timing.status().message()));
  }
  result.timing = *std::move(timing);
  return result;
}

}  // namespace weft
