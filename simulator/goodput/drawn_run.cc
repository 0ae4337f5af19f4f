#include "simulator/goodput/drawn_run.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace weft::sim {
namespace {

// Returns an exponentially distributed number with this mean.
double Exponential(double mean, uint64_t bits) {
  // From 2^-53 to 1.
  const double uniform = (static_cast<double>(bits >> 11) + 1) / static_cast<double>(uint64_t{1} << 53);
  return -mean * std::log(uniform);
}

// Adds the time since the last restart. An interval counts if its checkpoint is whole; if the run has ended, all of
// them count.
void AddRunning(const FaultModel& model, double interval, double running, bool ended, TimeShares& times) {
  const double cycle = interval + model.stop_seconds;
  const double begun = std::floor(running / cycle);
  if (ended) {
    const double rest = running - begun * cycle;
    times.useful += begun * interval + std::min(rest, interval);
    times.saving += begun * model.stop_seconds + std::max(0.0, rest - interval);
    return;
  }
  const double kept = std::max(0.0, std::floor((running - model.write_seconds) / cycle));
  times.useful += kept * interval;
  times.saving += kept * model.stop_seconds;
  times.repeated += running - kept * cycle;
}

}  // namespace

TimeShares DrawRun(const FaultModel& model, double interval_seconds, double seconds, Draw draw) {
  TimeShares times;
  double now = 0;
  // The end of each repair in progress, ascending: all repairs take equally long.
  std::deque<double> repairs;
  for (uint64_t failures = 0; now < seconds; ++failures) {
    // The job begins with a restart, except at the beginning of the run. Interruptions also hit restarts.
    const double restart = failures == 0 ? 0 : model.restart_seconds;
    const double drawn = Exponential(model.seconds_between_failures, draw.Bits(failures));
    const bool ended = now + drawn >= seconds;
    const double until = ended ? seconds - now : drawn;
    times.restarting += std::min(until, restart);
    if (until > restart) AddRunning(model, interval_seconds, until - restart, ended, times);
    now += until;
    if (ended) break;
    while (!repairs.empty() && repairs.front() <= now) repairs.pop_front();
    repairs.push_back(now + model.repair_seconds);
    if (static_cast<int64_t>(repairs.size()) <= model.spare_nodes) continue;
    const double resumed = std::min(repairs.front(), seconds);
    repairs.pop_front();
    times.waiting += std::max(0.0, resumed - now);
    now = std::max(now, resumed);
  }
  for (double* share : {&times.useful, &times.saving, &times.repeated, &times.restarting, &times.waiting}) {
    *share /= seconds;
  }
  return times;
}

}  // namespace weft::sim
