// Transfers and collectives in flight over shared links: their phases, and the rates of those that move bytes (rule
// P12).
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

  // Starts a transfer or collective that consists of `phases`. `what` is the number that TakeEnded returns for it.
  void Begin(int what, const std::vector<NaivePhase>& phases, int64_t now);

  // Removes the transfers and collectives that end at `now` and returns their numbers.
  std::vector<int> TakeEnded(int64_t now);

  // Sets the rate of every phase that moves bytes. Must be called when nothing else can happen at `now`.
  void ShareLinks(int64_t now);

  // Returns the next instant at which a phase begins to move bytes or ends; -1 = nothing is in flight, or the next
  // instant is later than 2^61 picoseconds.
  int64_t NextInstant() const;

 private:
  struct Flight {
    int what = 0;
    std::vector<NaivePhase> phases;
    size_t phase = 0;
    // The instant at which the phase's fixed part ends and its bytes begin to move.
    int64_t moves_at = 0;
    // The bytes that each message of the phase still has to move at `as_of`, in units of 10^-12 bytes.
    __int128 left = 0;
    int64_t as_of = 0;
    int64_t rate = 0;

    void BeginPhase(int64_t now);
    bool Moves(int64_t now) const { return now >= moves_at && left > 0; }
    bool IsOver(int64_t now) const { return now >= moves_at && left <= 0; }
  };

  std::vector<int64_t> capacities_;
  std::vector<Flight> flights_;
};

}  // namespace weft::sim::naive

#endif  // WEFT_SIMULATOR_NAIVE_FLIGHTS_H_
