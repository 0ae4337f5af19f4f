// Computes when transfers and collectives in flight over shared links end at the current rates, phase by phase (rule
// P12).
#ifndef WEFT_SIMULATOR_ENGINE_FLOW_CLOCK_H_
#define WEFT_SIMULATOR_ENGINE_FLOW_CLOCK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "simulator/engine/max_min.h"
#include "simulator/network/network_model.h"

namespace weft::sim {

class FlowClock {
 public:
  // An end that is not known, or is later than any simulated time.
  static constexpr int64_t kNever = INT64_MAX;

  explicit FlowClock(absl::Span<const int64_t> capacities) : max_min_(capacities) {}

  // Starts `flow`, which must stay valid until its end. Returns its number, which is free again once Advance has
  // returned it.
  int32_t Begin(int64_t now, const Flow& flow);

  bool empty() const { return heap_.empty(); }

  // Returns the time of the next end, kNever if there is none. If rates are out of date, the result is reliable only
  // for an end at the present instant.
  int64_t next() const { return heap_.empty() ? kNever : running_[heap_.front()].end; }

  // Requires now == next(). Ends one phase, or the fixed part of one, that is over now. Returns the number of its flow
  // if the flow is over, else -1.
  int32_t Advance(int64_t now);

  // True if rates are out of date. Then call Solve once nothing more can happen at this instant.
  bool changed() const { return max_min_.changed(); }
  void Solve(int64_t now);

 private:
  struct Running {
    const Flow* flow = nullptr;
    size_t phase = 0;
    // Number of the flow in the solver, -1 in the fixed part of a phase.
    int32_t rated = -1;
    // The bytes left at time `since`, in units of 10^-12 bytes. Since then the flow moves bytes at `rate`.
    __int128 left = 0;
    int64_t since = 0;
    int64_t rate = 0;
    int64_t end = kNever;
    // Index in heap_.
    int32_t place = -1;
  };

  // Enters the next phase, skipping phases that take no time. Returns false if there is none.
  bool EnterPhase(int64_t now, int32_t number);
  void EnterFlow(int64_t now, int32_t number);

  // ---- The heap of running flows by end. Ties go by number; flows that have no rate yet are last.

  bool Before(int32_t a, int32_t b) const {
    return running_[a].end != running_[b].end ? running_[a].end < running_[b].end : a < b;
  }
  void Put(int32_t place, int32_t number);
  void SetEnd(int32_t number, int64_t end);
  void Remove(int32_t number);
  void Up(int32_t place);
  void Down(int32_t place);

  MaxMin max_min_;
  std::vector<Running> running_;
  std::vector<int32_t> unused_;
  // For each number in the solver, the number of the flow that has it.
  std::vector<int32_t> running_of_rated_;
  std::vector<int32_t> heap_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_FLOW_CLOCK_H_
