// A program as single steps: what each step is, what it waits for and which steps it starts with. Indices of steps are
// indices in `nodes` and in `steps`: rank after rank, each in list order (docs/program.md, "Expansion").
#ifndef WEFT_SIMULATOR_NAIVE_EXPANSION_H_
#define WEFT_SIMULATOR_NAIVE_EXPANSION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "simulator/naive/naive_simulator.h"

namespace weft::sim::naive {

constexpr int kPrologue = 0;
constexpr int kBody = 1;
constexpr int kEpilogue = 2;

// A step with everything that the rules say about it. Other steps are named by their indices.
struct Node {
  // Kind of the step's stream, and the stream itself as text (P3).
  enum { kCompute, kCopy, kTransfer, kCollective } kind = kCompute;
  std::string stream;
  bool detached = false;
  // True for a step of a segment, false for an action that is one step.
  bool of_segment = false;
  NaiveCollective collective;
  const Template* t = nullptr;
  const Action* action = nullptr;
  // Rule P2. `previous`: steps that must have ended, i.e. the step before on the stream or its whole group. `finished`:
  // steps that must be finished.
  std::vector<int> previous;
  std::vector<int> finished;
  // Steps of `finished` that the action's own deps name.
  std::vector<int> named;
  // All steps that start together with this one, itself among them (P4).
  std::vector<int> together;
  // `group`: index of a transfer's group in Expansion::groups (P4). `item`: index in Expansion::items, set for the
  // first compute step of an action that is chosen at run time (P6).
  int group = -1;
  int item = -1;
  // The steps that become ready with this one, itself among them: the step alone, or its group.
  std::vector<int> ready_with;
  // Time of a transfer or collective; a SEND has no latency.
  NaiveTime time;
  // Durations of a step that is no transfer or collective, by the load of its rank (P3).
  std::array<int64_t, 3> costs = {};
};

// An action in the compute queues of its rank. The rank chooses from the queues at run time (P6).
struct Item {
  int64_t rank = 0;
  enum { kForward, kBackward, kBoth } queue = kBoth;
  // The action's steps on the compute stream.
  std::vector<int> steps;
  bool awaits_recv = false;
  bool chosen = false;
};

struct Expansion {
  const Program* program = nullptr;
  int repetitions = 1;
  bool exceeded = false;
  std::vector<Node> nodes;
  std::vector<NaiveStep> steps;
  std::vector<std::vector<int>> groups;
  std::vector<Item> items;
};

// Returns all steps of all ranks, with streams, transfer groups and items (P2, P3, P6).
Expansion Expand(const Program& program, const NaiveDurations& durations, int repetitions, bool exceeded);

// Fills in `previous`, `finished`, `named` and `ready_with` (P1, P2, P15).
void ResolveWaits(Expansion& expansion);

// Fills in `together`, and the times of transfers and collectives (P4).
void MatchPartners(Expansion& expansion, const NaiveDurations& durations);

// True if rule P15 leaves the action out.
bool IsLeftOut(const Action& action, bool exceeded);

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_EXPANSION_H_
