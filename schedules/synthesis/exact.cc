#include "schedules/synthesis/exact.h"

#if WEFT_HAVE_Z3
#include <z3++.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "schedules/synthesis/bound.h"
#endif

namespace weft {

#if WEFT_HAVE_Z3

namespace {

class Model {
 public:
  Model(const SlotGraph& graph, int64_t deadline, uint32_t work)
      : graph_(graph),
        deadline_(deadline),
        bounds_(BoundSlots(graph)),
        solver_(context_, "QF_IDL"),
        order_(graph.ranks) {
    z3::params params(context_);
    params.set("rlimit", work);
    solver_.set(params);
    for (int32_t id = 0; id < static_cast<int32_t>(graph.time.size()); ++id) {
      start_.push_back(context_.int_const(("t" + std::to_string(id)).c_str()));
    }
    for (int32_t id = 0; id < static_cast<int32_t>(graph.time.size()); ++id) {
      if (!graph.exists(id)) continue;
      order_[graph.rank[id]].push_back(id);
      fits_ &= bounds_.head[id] + bounds_.tail[id] <= deadline;
      solver_.add(start_[id] >= Number(bounds_.head[id]) && start_[id] <= Number(deadline - bounds_.tail[id]));
      if (graph.reads[id] >= 0) AddAfter(id, graph.reads[id], graph.lag[id]);
      if (graph.microbatch(id) > 0 && graph.exists(id - 1)) AddAfter(id, id - 1, 0);
    }
    for (const std::vector<int32_t>& slots : order_) AddRank(slots);
    for (const std::vector<int32_t>& slots : order_) fits_ &= AddMemory(slots);
  }

  ExactAnswer Solve(SlotOrder& order) {
    if (!fits_) return unknown_ ? ExactAnswer::kUnknown : ExactAnswer::kNone;
    const z3::check_result result = solver_.check();
    if (result == z3::unsat) return ExactAnswer::kNone;
    if (result != z3::sat) return ExactAnswer::kUnknown;
    const z3::model model = solver_.get_model();
    std::vector<int64_t> start(graph_.time.size());
    for (std::vector<int32_t>& slots : order_) {
      for (const int32_t id : slots) start[id] = model.eval(start_[id], true).get_numeral_int64();
      // A slot that takes no time comes before a slot that starts at the same time.
      std::sort(slots.begin(), slots.end(), [&](int32_t a, int32_t b) {
        const auto key = [&](int32_t id) {
          return std::tuple(start[id], start[id] + graph_.time[id], Depth(id), graph_.microbatch(id));
        };
        return key(a) < key(b);
      });
    }
    OrderTimes times;
    for (const std::vector<int32_t>& slots : order_) {
      if (!FitsMemory(graph_, slots)) return ExactAnswer::kUnknown;
    }
    if (!TimeOrder(graph_, order_, times) || times.makespan > deadline_) return ExactAnswer::kUnknown;
    order = order_;
    return ExactAnswer::kFound;
  }

 private:
  z3::expr Number(int64_t value) { return context_.int_val(value); }
  void AddAfter(int32_t id, int32_t earlier, int64_t lag) {
    solver_.add(start_[id] - start_[earlier] >= Number(graph_.time[earlier] + lag));
  }

  // Returns the position of a slot on its microbatch's path: forwards go up the stages, gradients down.
  int Depth(int32_t id) const {
    const int stage = graph_.stage(id);
    return graph_.kind(id) == kForwardOp ? stage : 2 * graph_.stages - 1 - stage;
  }
  // True if a comes before b in every schedule, by data and the order of microbatches.
  bool Precedes(int32_t a, int32_t b) const {
    if (graph_.microbatch(a) > graph_.microbatch(b)) return false;
    return graph_.group(a) == graph_.group(b) || (graph_.kind(a) != kWeightOp && Depth(a) <= Depth(b) && a != b &&
                                                  !(Depth(a) == Depth(b) && graph_.kind(b) != kWeightOp));
  }

  // Returns the expression "a runs before b" for two slots of a rank.
  z3::expr Before(int32_t a, int32_t b) {
    if (Precedes(a, b)) return context_.bool_val(true);
    if (Precedes(b, a)) return context_.bool_val(false);
    const auto it = before_.find({std::min(a, b), std::max(a, b)});
    const z3::expr first =
        context_.bool_const(("b" + std::to_string(std::min(a, b)) + "_" + std::to_string(std::max(a, b))).c_str());
    if (it == before_.end()) {
      before_.insert({{std::min(a, b), std::max(a, b)}, true});
      Decide(std::min(a, b), std::max(a, b), first);
    }
    return a < b ? first : !first;
  }

  // Adds the meaning of the boolean `first`, "a before b", to the solver.
  void Decide(int32_t a, int32_t b, const z3::expr& first) {
    solver_.add(z3::implies(first, start_[b] - start_[a] >= Number(graph_.time[a])));
    solver_.add(z3::implies(!first, start_[a] - start_[b] >= Number(graph_.time[b])));
    if (bounds_.head[a] + graph_.time[a] + bounds_.tail[b] > deadline_) solver_.add(!first);
    if (bounds_.head[b] + graph_.time[b] + bounds_.tail[a] > deadline_) solver_.add(first);
  }

  void AddRank(const std::vector<int32_t>& slots) {
    for (const int32_t a : slots) {
      for (const int32_t b : slots) {
        if (a == b || Precedes(a, b) || Precedes(b, a)) continue;
        const z3::expr before = Before(a, b);
        // If a is before b, so are the earlier slots of a's group, and a is before the later slots of b's group.
        if (graph_.microbatch(a) > 0 && graph_.exists(a - 1)) solver_.add(z3::implies(before, Before(a - 1, b)));
        const int32_t next = b + 1;
        if (graph_.microbatch(b) + 1 < graph_.microbatches && graph_.exists(next)) {
          solver_.add(z3::implies(before, Before(a, next)));
        }
      }
    }
  }

  // Limits what the rank holds at each of its forwards: activations of forwards that have run and are not released.
  // Returns false if they cannot fit, or if the weights are too large for Z3.
  bool AddMemory(const std::vector<int32_t>& slots) {
    int64_t unit = 0, sum = 0;
    for (const int32_t id : slots) {
      unit = std::gcd(unit, graph_.activations[graph_.stage(id)]);
      sum += graph_.activations[graph_.stage(id)];
    }
    if (unit == 0) return true;
    if (sum / unit > std::numeric_limits<int>::max() / 4) {
      unknown_ = true;
      return false;
    }
    for (const int32_t forward : slots) {
      if (graph_.kind(forward) != kForwardOp) continue;
      z3::expr_vector literals(context_);
      std::vector<int> weights;
      int64_t room = graph_.memory_cap / unit - graph_.activations[graph_.stage(forward)] / unit;
      for (const int32_t id : slots) {
        const int weight = static_cast<int>(graph_.activations[graph_.stage(id)] / unit);
        if (id == forward || weight == 0) continue;
        if (graph_.kind(id) == kForwardOp) {
          literals.push_back(Before(id, forward));
          weights.push_back(weight);
        } else if (graph_.releases(id)) {
          // -weight * before = weight * (not before) - weight
          literals.push_back(!Before(id, forward));
          weights.push_back(weight);
          room += weight;
        }
      }
      if (room < 0) return false;
      if (!weights.empty() && room < std::accumulate(weights.begin(), weights.end(), int64_t{0})) {
        solver_.add(z3::pble(literals, weights.data(), static_cast<int>(room)));
      }
    }
    return true;
  }

  const SlotGraph& graph_;
  const int64_t deadline_;
  const SlotBounds bounds_;
  z3::context context_;
  z3::solver solver_;
  std::vector<z3::expr> start_;
  absl::flat_hash_map<std::pair<int32_t, int32_t>, bool> before_;
  SlotOrder order_;
  bool fits_ = true, unknown_ = false;
};

}  // namespace

bool HasExactSearch() { return true; }

ExactAnswer ExactSearch(const SlotGraph& graph, int64_t deadline, uint32_t work, SlotOrder& order) {
  try {
    return Model(graph, deadline, work).Solve(order);
  } catch (const z3::exception&) {
    return ExactAnswer::kUnknown;
  }
}

#else

bool HasExactSearch() { return false; }

ExactAnswer ExactSearch(const SlotGraph&, int64_t, uint32_t, SlotOrder&) { return ExactAnswer::kUnknown; }

#endif  // WEFT_HAVE_Z3

}  // namespace weft
