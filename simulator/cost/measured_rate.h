// Finds the measured rate of a device that applies to a step. A cluster file made by `weft calibrate` has rates of two
// kinds: rates of single steps, with everything that their time depends on (proto/util/kernel_key.h), and rates of
// kernels by the amount of their work.
#ifndef WEFT_SIMULATOR_COST_MEASURED_RATE_H_
#define WEFT_SIMULATOR_COST_MEASURED_RATE_H_

#include <string>
#include <vector>

#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::sim {

enum class RateSource {
  // The rate of this very step: same types, options and shapes.
  kSame,
  // The rate follows from measured steps of the same types and options whose extents are within a factor of
  // kNearExtent. The logarithms of their rates are averaged; the weights are the inverse squared distances of the
  // logarithms of the extents.
  kNear,
  // The kernel's rate by work: the last row whose edge is at most the step's work.
  kByWork,
  // Nothing is measured; a cost model gives the time.
  kNone,
};
constexpr double kNearExtent = 4;

struct MeasuredRate {
  RateSource source = RateSource::kNone;
  // As in KernelRate; 0 = no such term.
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double overhead_seconds = 0;
  // The `kernel` of the row that applies; if several rows are averaged, of the nearest one.
  std::string entry;
};

// `segment` is the segment of the step. If it is not known (while a plan is compiled), it is null, and only rates by
// work apply.
MeasuredRate FindMeasuredRate(const Step& step, const Segment* segment, const Device& device);

// The rates that a prediction of `program` on `device` is based on: a row for every different step on the compute
// stream.
struct StepRate {
  std::string key;
  Kernel kernel = KERNEL_UNSPECIFIED;
  // Number of steps in the program's segments that have this key.
  int64_t steps = 0;
  MeasuredRate rate;
};
std::vector<StepRate> RatesOfSteps(const Program& program, const Device& device);

// Returns notes for users, one sentence each, on three kinds of steps: steps of kernels that are not measured although
// other kernels of the device are; steps whose rate comes from similar shapes; and steps that run on slower kernels
// than a prediction without a measurement assumes. A device without measured rates gets only notes of the last kind.
std::vector<std::string> NotesOnRates(const Program& program, const Device& device);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_MEASURED_RATE_H_
