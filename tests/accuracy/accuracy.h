// Compares predictions with measurements and returns an AccuracyReport (proto/report.proto).
#ifndef WEFT_TESTS_ACCURACY_ACCURACY_H_
#define WEFT_TESTS_ACCURACY_ACCURACY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/report.pb.h"
#include "tests/accuracy/measurement.h"

namespace weft {

// The predicted figures of one run.
struct RunPrediction {
  double seconds = 0;
  // Bytes of the program's buffers on one device.
  double bytes = 0;
  bool fits = true;
  double busy = 0, exposed_communication = 0, idle = 0;
  std::vector<std::string> assumptions;
};
using PredictFn = std::function<absl::StatusOr<RunPrediction>(const Measurement&)>;

// Predicts every run, in the order of `runs`, and compares the predictions with the measurements. A ranking set leaves
// out runs that are missing from `runs` and runs that cannot be predicted.
AccuracyReport Compare(absl::Span<const Measurement> runs, absl::Span<const RankingSet> sets, const PredictFn& predict);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_ACCURACY_H_
