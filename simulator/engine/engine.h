// The event engine: runs K repetitions of a program on simulated time, exactly as docs/program.md specifies.
//
// Every rank has streams, and a stream runs its entries in order. An entry at the head of its stream waits for the
// dependencies of its action, then for its partners or a compute slot, then occupies the stream for its duration.
// Nothing else costs time. The engine keeps one event per busy stream, ordered by time; a transfer or collective has
// one event for all ranks that take part. The engine reads an entry only when it is the head of its stream, so memory
// hardly grows with the number of repetitions, except for a trace.
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
  // Number of devices that share a node, and how many of them may compute at the same time (0 = all; rule P3).
  int64_t devices_per_node = 1;
  int64_t compute_slots_per_node = 0;
  // Node of each rank, for compute slots; empty = rank / devices_per_node.
  std::vector<int64_t> node_of_rank = {};
  // How long a rank may keep its compute slot for further steps.
  Time compute_turn = {};
  bool trace = false;
  // Random factors for the costs of compute steps in the view.
  Jitter jitter = {};
  // Stop as soon as two successive differences of T(k) are equal (rule P1). The rest of the result is then partial.
  bool stop_when_steady = false;
  // If a rank runs a part of an action without others, simulate that part step by step only the first time, and then
  // replay it (engine_stretch.cc). This changes how long the simulation takes, not the simulated times.
  bool repeat_stretches = true;
};

// One step that a rank ran in one repetition. Like TraceEvent, but `action` and `stream` are indices into the rank's
// TemplateView.
struct EngineEvent {
  int32_t repetition = 0;
  // Indices of the action in TemplateView::actions, of the step in its segment, of the stream in TemplateView::streams.
  int32_t action = 0;
  int32_t step = 0;
  int32_t stream = 0;
  Time ready;
  Time start;
  Time end;
  Time finish;
};

struct RankResult {
  // Time in which the compute stream runs steps, and the part of that time by which collectives slow the steps down.
  Time busy;
  Time slowed;
  // Time in which a transfer or collective of this rank is between start and finish while no compute step runs.
  Time exposed_communication;
  // Idle time by reason; the sum is makespan - busy.
  std::array<Time, kIdleReasons> idle = {};
  // Most bytes of device memory that are live at one time. `live_at_peak` has these bytes by class, at the first such
  // time. A buffer is live from the start of its first writer, inclusive, to the finish of its releasing action,
  // exclusive.
  int64_t live_peak = 0;
  // Most pairs (stage, microbatch) in flight at one time. A pair is in flight from the start of its forward until its
  // backward, or the weight half of its backward, is over.
  int64_t peak_forwards = 0;
  ClassSizes live_at_peak = {};
  // Steps in order of start; filled only with EngineOptions::trace.
  std::vector<EngineEvent> events;
};

struct EngineResult {
  // Latest finish of any step.
  Time makespan;
  // T(k) of rule P1 for every repetition that all ranks finished.
  std::vector<Time> repetition_finish;
  // Number of steps that all ranks together started, in all repetitions.
  int64_t steps = 0;
  // Number of stretches that the simulated ranks replayed instead of simulating them step by step. Another collective
  // interrupted `disturbed_stretches` of them, so that they were simulated step by step after all.
  int64_t repeated_stretches = 0;
  int64_t disturbed_stretches = 0;
  std::vector<RankResult> ranks;
};

// Maximum number of steps in a trace of all ranks. These take 1 GiB, less than the limit of a message.
inline constexpr int64_t kMaxTraceSteps = int64_t{1} << 24;

// Returns ResourceExhausted, naming how many repetitions are possible, if a trace of `repetitions` repetitions would
// have more than kMaxTraceSteps.
absl::Status CheckTraceSize(const ProgramView& view, int64_t repetitions);

// Simulates the ranks of `links`. The result covers all ranks that they stand for. Errors:
//   - errors of the network model;
//   - ResourceExhausted if the state of the simulation, which grows with ranks x actions, would take more than 4 GiB,
//     or if the trace has more than kMaxTraceSteps;
//   - Internal, naming the actions that wait, if a program that was not verified comes to a standstill;
//   - OutOfRange if simulated time passes 2^61 ps (26 days);
//   - InvalidArgument if ranks were folded (fold.h) that share compute slots or have jitter.
absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const RankLinks& links, const NetworkModel& network,
                                       const EngineOptions& options);

// Simulates every rank.
absl::StatusOr<EngineResult> RunEngine(const ProgramView& view, const NetworkModel& network,
                                       const EngineOptions& options);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_ENGINE_H_
