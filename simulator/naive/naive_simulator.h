// The oracle of the engine's tests: follows docs/program.md word for word, in O(n^2) time or worse. It expands the
// program into single steps, then checks for every step at every instant whether the step may start. It shares nothing
// with the engine: no view, no network, no cost model, no queue, no solver. The caller supplies durations as functions.
#ifndef WEFT_SIMULATOR_NAIVE_NAIVE_SIMULATOR_H_
#define WEFT_SIMULATOR_NAIVE_NAIVE_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// A request for the cost of one step of a segment; the step is not a collective. `load` (P3) is the load of its rank:
// 0, 1 or 2.
struct NaiveStepCall {
  int64_t rank = 0;
  int repetition = 0;
  int action_id = 0;
  ActionKind kind = ACTION_UNSPECIFIED;
  int segment = 0;
  int step = 0;
  int load = 0;
};

struct NaiveCollective {
  enum Kind { kAllReduce, kAllGather, kReduceScatter };
  Kind kind = kAllReduce;
  std::string algorithm;
  std::vector<int64_t> members;
  // For each source: its bytes, and the pair (type of the source, type of its destination).
  std::vector<int64_t> source_bytes;
  std::vector<std::pair<DType, DType>> types = {};
  // The template and group of one member, for times that depend on more than the list of members.
  const Template* t = nullptr;
  const Group* group = nullptr;
};

// P12: a phase lasts `fixed` picoseconds and then moves `bytes` in each of its messages.
struct NaivePhase {
  int64_t fixed = 0;
  int64_t bytes = 0;
  // For each link, by index: the number of the phase's messages that use it, > 0.
  std::map<int, int64_t> loads;
};

// Times in picoseconds. If there are phases, the occupancy is the time that they take.
struct NaiveTime {
  int64_t occupancy = 0;
  int64_t latency = 0;
  std::vector<NaivePhase> phases = {};
};

struct NaiveDurations {
  std::function<int64_t(const NaiveStepCall& call)> step;
  std::function<NaiveTime(int64_t source, int64_t destination, int64_t bytes)> transfer;
  // The latency must be the same for all collectives of the same members.
  std::function<NaiveTime(const NaiveCollective& collective)> collective;
  // Bytes per second of the links that phases name.
  std::vector<int64_t> capacities = {};
};

struct NaiveStep {
  int64_t rank = 0;
  // 0 = prologue, 1 = body, 2 = epilogue.
  int list = 0;
  int repetition = 0;
  int action_id = 0;
  int step = 0;
  int64_t ready = -1;
  int64_t start = -1;
  int64_t end = -1;
  int64_t finish = -1;
};

struct NaiveOptions {
  int repetitions = 1;
  // Compute slots of a node (0 = no limit), and the time in picoseconds for which a rank may keep its slot (P3).
  int64_t slots_per_node = 0;
  int64_t turn = 0;
  // Rank r is on node r / devices_per_node, unless `nodes` has the node of each rank.
  int64_t devices_per_node = 1;
  std::vector<int64_t> nodes = {};
  // If true, every VALIDATE (rule P15) finds that the norm was too large; if false, none does.
  bool exceeded = false;
};

struct NaiveResult {
  std::vector<NaiveStep> steps;
  int64_t makespan = 0;
  // The finish time T(k) of each repetition k of the body (rule P1).
  std::vector<int64_t> repetition_finish;
  // Live peak of device memory, by rank.
  std::vector<int64_t> live_peak;
  // True if all steps were run.
  bool complete = false;
};

NaiveResult SimulateNaively(const Program& program, const NaiveDurations& durations, const NaiveOptions& options = {});

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NAIVE_NAIVE_SIMULATOR_H_
