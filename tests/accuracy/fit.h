// Fits figures of one machine of the catalog to measured runs. Only the fitted half of the sources is used, and all
// runs share one set of figures.
#ifndef WEFT_TESTS_ACCURACY_FIT_H_
#define WEFT_TESTS_ACCURACY_FIT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"

namespace weft {

struct FitOptions {
  // The figures to fit: paths of positive numbers in the cluster, e.g. "device.tiles.half_depth".
  std::vector<std::string> fields;
  // The first step changes a figure by this fraction, up or down. Steps are halved until they are below `last_step`.
  double first_step = 0.2;
  double last_step = 0.01;
};

struct Fitted {
  std::string field;
  double before = 0;
  double after = 0;
};

struct FitResult {
  std::vector<Fitted> figures;
  double before = 0;
  double after = 0;
};

// Returns the error to minimize: the error of the runs with the figures of the cluster.
using ErrorFn = std::function<absl::StatusOr<double>(const Cluster&)>;

// Coordinate descent from `start`: raises or lowers each figure in turn by a step as long as that makes the error
// smaller. Never tries a cluster that is not valid. Returns InvalidArgument for a field that is not a positive number.
absl::StatusOr<FitResult> FitFigures(const Cluster& start, const FitOptions& options, const ErrorFn& error);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_FIT_H_
