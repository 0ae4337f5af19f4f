// Which measured rate of a device a step takes. A cluster file of `weft calibrate` has rates of two kinds: of single
// steps, with all that their time depends on (proto/util/kernel_key.h), and of kernels by the amount of their work.
#ifndef WEFT_SIMULATOR_COST_MEASURED_RATE_H_
#define WEFT_SIMULATOR_COST_MEASURED_RATE_H_

#include <string>
#include <vector>

#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::sim {

enum class RateSource {
  // Of this very step: same types, options and shapes.
  kSame,
  // From measured steps of the same types and options whose extents are within a factor of kNearExtent: their rates,
  // averaged by logarithm and weighted by the inverse square of the distance of the logarithms of the extents.
  kNear,
  // Of the kernel, by work: the last row whose edge is at most the step's work.
  kByWork,
  // Nothing is measured; a cost model tells.
  kNone,
};
constexpr double kNearExtent = 4;

struct MeasuredRate {
  RateSource source = RateSource::kNone;
  // As KernelRate has them; 0 = no such term.
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double overhead_seconds = 0;
  // The row: the nearest of several.
  std::string entry;
};

// `segment` is that of the step; null where it is not known (while a plan is compiled), which leaves rates by work.
MeasuredRate FindMeasuredRate(const Step& step, const Segment* segment, const Device& device);

// What a prediction of `program` on `device` rests on: a row for every different step on the compute stream.
struct StepRate {
  std::string key;
  Kernel kernel = KERNEL_UNSPECIFIED;
  // How many steps of the program's segments it is.
  int64_t steps = 0;
  MeasuredRate rate;
};
std::vector<StepRate> RatesOfSteps(const Program& program, const Device& device);

// One sentence each, for people, on what is not measured though other kernels of the device are, and on steps that run
// on slower kernels than a prediction without a measurement supposes. Nothing of a device without measured rates but
// the latter.
std::vector<std::string> NotesOnRates(const Program& program, const Device& device);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_MEASURED_RATE_H_
