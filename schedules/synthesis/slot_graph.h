// The graph of a problem's slots, and the times of slots under an order. All search methods use it.
#ifndef WEFT_SCHEDULES_SYNTHESIS_SLOT_GRAPH_H_
#define WEFT_SCHEDULES_SYNTHESIS_SLOT_GRAPH_H_

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/pipeline/schedule.h"
#include "schedules/synthesis/problem.h"

namespace weft {

// Forward, gradient (a whole backward or its input half) and weight half.
enum GraphKind { kForwardOp = 0, kGradientOp = 1, kWeightOp = 2 };

// order[rank] = ids of slots in execution order.
using SlotOrder = std::vector<std::vector<int32_t>>;

// The slots of a problem on one placement. Slot (kind, stage, microbatch) has the id (kind * stages + stage) *
// microbatches + microbatch; slots with the same id / microbatches form a group.
//
// Microbatches do not differ, so each group runs in ascending order of microbatches: if microbatch k gets the k-th
// smallest start of each group, all waits hold and the memory stays as it was. (If b_j >= a_j + c for all j, then the
// sorted b and a satisfy it too.)
struct SlotGraph {
  // lane_of[microbatch]. halves[stage * microbatches + microbatch] is true if that backward runs in halves.
  SlotGraph(const SynthesisProblem& problem, Placement placement, std::vector<int> lane_of, std::vector<bool> halves);

  int32_t id(GraphKind kind, int stage, int microbatch) const {
    return static_cast<int32_t>((int64_t{kind} * stages + stage) * microbatches + microbatch);
  }
  GraphKind kind(int32_t id) const { return static_cast<GraphKind>(id / microbatches / stages); }
  int stage(int32_t id) const { return id / microbatches % stages; }
  int microbatch(int32_t id) const { return id % microbatches; }
  int group(int32_t id) const { return id / microbatches; }
  // False for the weight half of a whole backward.
  bool exists(int32_t id) const { return kind(id) != kWeightOp || halves[id - 2 * int64_t{stages} * microbatches]; }
  // True if the stage is done with the microbatch when the slot ends, and its activations are released.
  bool releases(int32_t id) const {
    return kind(id) == kWeightOp || (kind(id) == kGradientOp && !halves[id - int64_t{stages} * microbatches]);
  }

  int ranks, stages, microbatches;
  Placement placement;
  std::vector<int> lane_of;
  std::vector<bool> halves;
  // By stage; all 0 without a cap.
  std::vector<int64_t> activations;
  int64_t memory_cap;

  // By id: the time, the rank, the slot whose result it reads (-1: none), the time until that result arrives, and the
  // slots that read its own result (-1: none).
  std::vector<int64_t> time;
  std::vector<int32_t> rank;
  std::vector<int32_t> reads;
  std::vector<int64_t> lag;
  std::vector<std::array<int32_t, 2>> readers;
  int64_t slots = 0;
};

// The longest paths through each slot under an order.
struct OrderTimes {
  int64_t makespan = 0;
  // By id: earliest start; the longest time from its start to the end of the schedule; index in the list of its rank.
  std::vector<int64_t> head, tail;
  std::vector<int32_t> index;
  // All slots, each after those that it waits for.
  std::vector<int32_t> sequence;
};

// Computes the times in linear time. Returns false if the ranks would wait for each other forever.
bool TimeOrder(const SlotGraph& graph, const SlotOrder& order, OrderTimes& times);

// True if the rank never holds more than the cap.
bool FitsMemory(const SlotGraph& graph, const std::vector<int32_t>& order);

// Returns SlotGraph::halves for a problem. A backward that may be split runs in halves if the halves together take no
// longer than the whole, because then a whole backward is never better. If the halves take longer, `prefer_whole` makes
// it run whole.
std::vector<bool> HalvesOf(const SynthesisProblem& problem, bool prefer_whole);

PipelineSchedule ToSchedule(const SlotGraph& graph, const SlotOrder& order);

// Returns the graph and the order of a schedule that passes CheckSolution. If the halves of a whole backward together
// take no longer than the whole, the order has the two halves, one after the other.
std::pair<SlotGraph, SlotOrder> FromSchedule(const SynthesisProblem& problem, const PipelineSchedule& schedule);

}  // namespace weft

#endif  // WEFT_SCHEDULES_SYNTHESIS_SLOT_GRAPH_H_
