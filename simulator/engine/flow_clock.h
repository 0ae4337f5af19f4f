// Transfers and collectives under way over shared links, phase by phase (rule P12): when each of them ends, as far as
// it can be told now.
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
  // Of an end that is not known, or is later than any simulated time.
  static constexpr int64_t kNever = INT64_MAX;

  explicit FlowClock(absl::Span<const int64_t> capacities) : max_min_(capacities) {}

  // `flow` starts and must stay valid until its end. Its number is free again when Advance has returned it.
  int32_t Begin(int64_t now, const Flow& flow);

  bool empty() const { return heap_.empty(); }

  // When something happens next, kNever if nothing does. Rates must be up to date, but at the present instant.
  int64_t next() const { return heap_.empty() ? kNever : running_[heap_.front()].end; }

  // With now == next(): one phase that is over now. The number of its flow if that was the last one, else -1.
  int32_t Advance(int64_t now);

  // Whether rates are out of date: to be asked when nothing more can happen at this instant.
  bool changed() const { return max_min_.changed(); }
  void Solve(int64_t now);

 private:
  struct Running {
    const Flow* flow = nullptr;
    size_t phase = 0;
    // Of the solver, -1 in the fixed part of a phase.
    int32_t rated = -1;
    // In 10^-12 bytes, at `since`, from when it has had `rate`.
    __int128 left = 0;
    int64_t since = 0;
    int64_t rate = 0;
    int64_t end = kNever;
    // In heap_.
    int32_t place = -1;
  };

  // Enters the phase that stands next, or those behind it if that takes no time; false if there is none.
  bool EnterPhase(int64_t now, int32_t number);
  void EnterFlow(int64_t now, int32_t number);

  // ---- The running ones by end, ties by number; those without a rate yet are last.

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
  // Who has a number of the solver.
  std::vector<int32_t> running_of_rated_;
  std::vector<int32_t> heap_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_ENGINE_FLOW_CLOCK_H_
