// Transfers and collectives under way over links that they share: their phases, and the rates of those that move bytes
// (rule P12).
#ifndef WEFT_SIMULATOR_NAIVE_FLIGHTS_H_
#define WEFT_SIMULATOR_NAIVE_FLIGHTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "simulator/naive/naive_simulator.h"

namespace weft::sim::naive {

class Flights {
 public:
  explicit Flights(std::vector<int64_t> capacities) : capacities_(std::move(capacities)) {}

  // Something with phases starts; `what` names it.
  void Begin(int what, const std::vector<NaivePhase>& phases, int64_t now);

  // What ends at `now` and has not been told yet.
  std::vector<int> TakeEnded(int64_t now);

  // When nothing more can happen at `now`: gives all that move bytes their rates.
  void ShareLinks(int64_t now);

  // The next instant at which a phase begins to move bytes or ends; -1 = nothing is under way, or it takes longer than
  // 2^61 picoseconds.
  int64_t NextInstant() const;

 private:
  struct Flight {
    int what = 0;
    std::vector<NaivePhase> phases;
    size_t phase = 0;
    // The end of the phase's fixed part.
    int64_t moves_at = 0;
    // Of what every message of it moves, in 10^-12 bytes, at `as_of`.
    __int128 left = 0;
    int64_t as_of = 0;
    int64_t rate = 0;

    void BeginPhase(int64_t now);
    bool Moves(int64_t now) const { return now >= moves_at && left > 0; }
    // Whether the phase is over.
    bool IsOver(int64_t now) const { return now >= moves_at && left <= 0; }
  };

  std::vector<int64_t> capacities_;
  std::vector<Flight> flights_;
};

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_FLIGHTS_H_
