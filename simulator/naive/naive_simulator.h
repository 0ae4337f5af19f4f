// The oracle of the engine's tests: docs/program.md word for word, O(n^2) or worse. It expands the program into single
// steps, then asks every step at every instant whether it may start. It shares nothing with the engine: no view, no
// network, no cost model, no queue. Durations come in as functions.
#ifndef WEFT_SIMULATOR_NAIVE_NAIVE_SIMULATOR_H_
#define WEFT_SIMULATOR_NAIVE_NAIVE_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/program.pb.h"

namespace weft {

struct NaiveCollective {
  enum Kind { kAllReduce, kAllGather, kReduceScatter };
  Kind kind = kAllReduce;
  std::string algorithm;
  std::vector<int64_t> members;
  std::vector<int64_t> source_bytes;
};

// All in picoseconds; pairs are (occupancy, latency).
struct NaiveDurations {
  std::function<int64_t(int segment, int step, ActionKind kind)> step;
  std::function<std::pair<int64_t, int64_t>(int64_t source, int64_t destination, int64_t bytes)> transfer;
  // The latency must be the same for all collectives of the same members.
  std::function<std::pair<int64_t, int64_t>(const NaiveCollective& collective)> collective;
};

struct NaiveStep {
  int64_t rank = 0;
  // 0 prologue, 1 body, 2 epilogue.
  int list = 0;
  int repetition = 0;
  int action_id = 0;
  int step = 0;
  int64_t ready = -1;
  int64_t start = -1;
  int64_t end = -1;
  int64_t finish = -1;
};

struct NaiveResult {
  std::vector<NaiveStep> steps;
  int64_t makespan = 0;
  // T(k) of rule P1.
  std::vector<int64_t> repetition_finish;
  // Per rank, device memory.
  std::vector<int64_t> live_peak;
  // Whether all steps were run.
  bool complete = false;
};

// `slots_per_node` 0 = no limit; `turn` is how long a rank may keep its slot.
// `exceeded`: every verdict of rule P15 is that the norm was too large; else none is.
NaiveResult SimulateNaively(const Program& program, const NaiveDurations& durations, int repetitions,
                            int64_t devices_per_node, int64_t slots_per_node, int64_t turn, bool exceeded = false);

}  // namespace weft

#endif  // WEFT_SIMULATOR_NAIVE_NAIVE_SIMULATOR_H_
