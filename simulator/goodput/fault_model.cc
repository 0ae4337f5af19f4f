#include "simulator/goodput/fault_model.h"

#include <algorithm>
#include <cmath>

namespace weft::sim {
namespace {

// Maximum number of steps between two checkpoints: 2^53, so that the number is exact as a double.
constexpr double kMaxSteps = 9007199254740992.0;

// Erlang's loss formula for `load` erlangs on `servers` servers. The usual recursion over the number of servers; it
// ends early when the loss no longer counts.
double ErlangLoss(double load, int64_t servers) {
  double loss = 1;
  for (int64_t n = 1; n <= servers && loss > 1e-18; ++n) loss = load * loss / (static_cast<double>(n) + load * loss);
  return loss > 1e-18 ? loss : 0;
}

}  // namespace

TimeShares SharesOfTime(const FaultModel& model, double interval_seconds) {
  const double mean = model.seconds_between_failures;
  TimeShares shares;
  if (model.repair_seconds > 0 && model.spare_nodes < std::numeric_limits<int64_t>::max()) {
    shares.waiting = ErlangLoss(model.repair_seconds / mean, model.spare_nodes + 1);
  }
  const double running = 1 - shares.waiting;
  const double cycle = mean * std::exp((model.restart_seconds + model.write_seconds) / mean) *
                       std::expm1((interval_seconds + model.stop_seconds) / mean);
  shares.restarting = running * -std::expm1(-model.restart_seconds / mean);
  if (std::isfinite(cycle)) {
    shares.useful = running * interval_seconds / cycle;
    shares.saving = running * model.stop_seconds / cycle;
  }
  shares.repeated = std::max(0.0, running - shares.restarting - shares.useful - shares.saving);
  return shares;
}

int64_t BestStepsBetweenCheckpoints(const FaultModel& model, double step_seconds) {
  const double mean = model.seconds_between_failures;
  // The useful share has one maximum, where (interval / M - 1) e^((interval + stop) / M) + 1 = 0. The left side grows
  // with the interval, is at most 0 at 0, and is 1 at M.
  const auto slope = [&](double interval) {
    return (interval / mean - 1) * std::exp((interval + model.stop_seconds) / mean) + 1;
  };
  double low = 0, high = mean;
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    (slope(middle) < 0 ? low : high) = middle;
  }
  // The write must be over when the next checkpoint begins.
  const double least = std::max(1.0, std::ceil((model.write_seconds - model.stop_seconds) / step_seconds));
  const double below = std::clamp(std::floor(high / step_seconds), least, kMaxSteps);
  const double above = std::min(below + 1, kMaxSteps);
  const auto useful = [&](double steps) { return SharesOfTime(model, steps * step_seconds).useful; };
  return static_cast<int64_t>(useful(above) > useful(below) ? above : below);
}

}  // namespace weft::sim
