#include "simulator/naive/flights.h"

#include <algorithm>
#include <map>

#include "simulator/naive/max_min.h"

namespace weft::sim::naive {

void Flights::Flight::BeginPhase(int64_t now) {
  moves_at = now + phases[phase].fixed;
  // Bytes that use no link take no time.
  left = phases[phase].loads.empty() ? 0 : static_cast<__int128>(phases[phase].bytes) * 1000000000000;
  as_of = moves_at;
  rate = 0;
}

void Flights::Begin(int what, const std::vector<NaivePhase>& phases, int64_t now) {
  Flight flight;
  flight.what = what;
  flight.phases = phases;
  flight.BeginPhase(now);
  flights_.push_back(flight);
}

std::vector<int> Flights::TakeEnded(int64_t now) {
  std::vector<int> ended;
  std::vector<Flight> others;
  for (Flight& flight : flights_) {
    if (flight.Moves(now)) {
      flight.left -= static_cast<__int128>(flight.rate) * (now - flight.as_of);
      flight.as_of = now;
    }
    while (flight.phase < flight.phases.size() && flight.IsOver(now)) {
      if (++flight.phase < flight.phases.size()) flight.BeginPhase(now);
    }
    if (flight.phase < flight.phases.size()) {
      others.push_back(flight);
    } else {
      ended.push_back(flight.what);
    }
  }
  flights_ = others;
  return ended;
}

void Flights::ShareLinks(int64_t now) {
  std::vector<Flight*> moving;
  std::vector<std::map<int, int64_t>> loads;
  for (Flight& flight : flights_) {
    if (!flight.Moves(now)) continue;
    moving.push_back(&flight);
    loads.push_back(flight.phases[flight.phase].loads);
  }
  const std::vector<int64_t> rates = MaxMinRates(capacities_, loads);
  for (size_t i = 0; i < moving.size(); ++i) moving[i]->rate = rates[i];
}

int64_t Flights::NextInstant() const {
  constexpr int64_t kFar = int64_t{1} << 61;
  int64_t next = -1;
  for (const Flight& flight : flights_) {
    __int128 time = flight.moves_at;
    if (flight.rate > 0) time = flight.as_of + (flight.left + flight.rate - 1) / flight.rate;
    if (time <= kFar && (next < 0 || time < next)) next = static_cast<int64_t>(time);
  }
  return next;
}

}  // namespace weft::sim::naive
