// The event engine: runs K repetitions of a program on simulated time, exactly as docs/program.md says.
//
// Every rank has streams; a stream runs its entries in order. An entry at the head of its stream waits for what its
// action names, then for its partners or a compute slot, then holds the stream for its duration. Nothing else costs
// time. The engine keeps one event per busy stream, of a transfer or collective one for all that take part, ordered by
// time, and never looks at an entry before it heads its stream, so memory does not grow with the length of the run.
#ifndef WEFT_SIMULATOR_ENGINE_ENGINE_H_
#define WEFT_SIMULATOR_ENGINE_ENGINE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/util/units.h"
#include "simulator/engine/jitter.h"
#include "simulator/network/network_model.h"
#include "simulator/program/idle_reason.h"
#include "simulator/program/program_view.h"
#include "simulator/program/rank_links.h"

namespace weft::sim {

struct EngineOptions {
  int32_t repetitions = 1;
  // Devices that share a node, and how many of them may compute at the same time; 0 = all (rule P3).
  int64_t devices_per_node = 1;
  int64_t compute_slots_per_node = 0;
  // With slots, the node of each rank; empty = rank / devices_per_node.
  std::vector<int64_t> node_of_rank = {};
  // How long a rank may keep its slot for further steps.
  Time compute_turn = {};
  bool trace = false;
  // What compute steps cost more or less than the view says.
  Jitter jitter = {};
  // Stop as soon as two successive differences of T(k) are equal (rule P1); the rest of the result is then partial.
  bool stop_when_steady = false;
  // Do what a rank does alone step by step the first time only (engine_stretch.cc). Changes nothing but the time that
  // it takes.
  bool repeat_stretches = true;
};

// One expanded step that was run; TraceEvent without the rank.
struct EngineEvent {
  int32_t repetition = 0;
  // Index in TemplateView::actions, step in its segment, stream in TemplateView::streams.
  int32_t action = 0;
  int32_t step = 0;
  int32_t stream = 0;
  Time ready;
  Time start;
  Time end;
  Time finish;
};

struct RankResult {
  // Time that the compute stream runs steps, and what collectives beside them add to it.
  Time busy;
  Time slowed;
  // Time in which a transfer or collective of this rank is between start and finish and no compute step runs.
  Time exposed_communication;
  // Sums to makespan - busy.
  std::array<Time, kIdleReasons> idle = {};
  // Most bytes of device memory that were live at one time, and of which classes at the first such time. A buffer is
  // live from the start of its first writer, inclusive, to the finish of its releasing action, exclusive.
  int64_t live_peak = 0;
  // Most microbatches that had begun their forward, in any stage of the rank, without their backward being over, at one
  // time.
  int64_t peak_forwards = 0;
  ClassSizes live_at_peak = {};
  // In order of start, with EngineOptions::trace.
  std::vector<EngineEvent> events;
};

struct EngineResult {
  // Latest finish of any step.
  Time makespan;
  // T(k) of rule P1 for every repetition that was finished on all ranks.
  std::vector<Time> repetition_finish;
  // Expanded steps that were started, of all ranks.
  int64_t steps = 0;
  // Of simulated ranks, stretches that were not done step by step; and those of them that were after all, from where a
  // collective came between.
  int64_t repeated_stretches = 0;
  int64_t disturbed_stretches = 0;
  std::vector<RankResult> ranks;
};

// A trace of all ranks has at most so many steps: 1 GiB, less than a message may have.
inline constexpr int64_t kMostTraceSteps = int64_t{1} << 24;

// ResourceExhausted, naming how many repetitions are possible, if a trace of so many would be longer.
absl::Status CheckTraceSize(const ProgramView& view, int64_t repetitions);

// Simulates the ranks of `links`; the result is of all that they stand for. Errors are those of the network model;
// ResourceExhausted if the state of what is simulated, which grows with ranks x actions, would take more than 4 GiB, or
// the trace has more than kMostTraceSteps; Internal, naming the actions that wait, if a program that was not verified
// comes to a standstill; OutOfRange if simulated time passes 2^61 ps (26 days); InvalidArgument if ranks were
// folded (fold.h) that share compute slots or have jitter.
absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const RankLinks& links, const NetworkModel& network,
                                       const EngineOptions& options);

// Simulates every rank.
absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const NetworkModel& network,
                                       const EngineOptions& options);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_ENGINE_H_
