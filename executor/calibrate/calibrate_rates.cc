#include "executor/calibrate/calibrate_rates.h"

#include <algorithm>
#include <utility>

#include "proto/util/status.h"

namespace weft::exec {
namespace {

struct Point {
  double work = 0;
  double seconds = 0;
};

// Adds a rate for each interval between neighboring points, in which time is linear in the work. A single point gives
// one rate without overhead.
void AddRates(const std::string& kernel, DType dtype, bool flops, std::vector<Point> points, Device* device) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.work < b.work; });
  for (size_t i = 0; i < points.size(); ++i) {
    const bool last = i + 1 == points.size();
    if (last && i > 0) break;
    const Point& a = points[i];
    double rate = a.work / a.seconds;
    double overhead = 0;
    if (!last) {
      const Point& b = points[i + 1];
      const double slope = (b.seconds - a.seconds) / (b.work - a.work);
      const double at_zero = a.seconds - slope * a.work;
      // If the line through the two points falls or gives a negative overhead, larger work is disproportionately slower
      // (caches), or the times are noisy. The rate at the larger point is then safer.
      if (slope > 0 && at_zero >= 0) {
        rate = 1 / slope;
        overhead = at_zero;
      } else {
        rate = b.work / b.seconds;
      }
    }
    KernelRate* row = device->add_kernel_rates();
    row->set_kernel(kernel);
    row->set_dtype(dtype);
    row->set_from_work(i == 0 ? 0 : a.work);
    (flops ? row->set_flops_per_second(rate) : row->set_bytes_per_second(rate));
    row->set_overhead_seconds(overhead);
  }
}

}  // namespace

double Typical(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 4, values.end());
  return values[values.size() / 4];
}

absl::Status MeasureRates(const CalibrationShapes& shapes, const MeasureKernels& measure, Device* device) {
  double copy_rate = 0;
  std::vector<std::pair<DType, double>> peaks;
  const std::vector<KernelFamily> families = KernelFamilies(shapes);
  int64_t begun = 0;
  for (const KernelFamily& family : families) {
    if (measure.on_progress) {
      measure.on_progress(absl::StrCat("kernels ", ++begun, " of ", families.size(), ": ", Kernel_Name(family.kernel)));
    }
    std::vector<Point> points;
    for (const std::vector<KernelCase>& size : family.sizes) {
      // The variants of one size become one point, with their average work.
      Point point;
      for (const KernelCase& kernel : size) {
        WEFT_ASSIGN_OR_RETURN(const double seconds, measure.seconds(kernel));
        const double work = family.by_flops ? kernel.flops : kernel.bytes;
        point.work += work / static_cast<double>(size.size());
        point.seconds += seconds / static_cast<double>(size.size());
        if (family.kernel == MATMUL) {
          auto found = std::find_if(peaks.begin(), peaks.end(), [&](const auto& p) { return p.first == family.dtype; });
          if (found == peaks.end()) found = peaks.insert(peaks.end(), {family.dtype, 0.0});
          found->second = std::max(found->second, work / seconds);
        }
        if (family.kernel == ADD) copy_rate = std::max(copy_rate, work / seconds);
      }
      points.push_back(point);
    }
    if (family.peak_only) continue;
    if (measure.besides) {
      for (Point& point : points) point.seconds += measure.besides(point.seconds);
    }
    AddRates(Kernel_Name(family.kernel), family.dtype, family.by_flops, std::move(points), device);
  }
  for (const auto& [dtype, rate] : peaks) {
    Peak* peak = device->add_peaks();
    peak->set_dtype(dtype);
    peak->set_flops_per_second(rate);
  }
  device->set_memory_bytes_per_second(copy_rate);
  WEFT_ASSIGN_OR_RETURN(const double launch, measure.seconds(SmallestStep()));
  device->set_launch_seconds(launch);
  return absl::OkStatus();
}

int64_t CountCases(const CalibrationShapes& shapes) {
  int64_t cases = 1;
  for (const KernelFamily& family : KernelFamilies(shapes)) {
    for (const auto& size : family.sizes) cases += static_cast<int64_t>(size.size());
  }
  return cases;
}

}  // namespace weft::exec
