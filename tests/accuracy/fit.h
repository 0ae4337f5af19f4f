// Fits figures of one machine of the catalog to runs: of the fitted half of the sources only, and one set of figures
// for all of them.
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
  // Paths of positive numbers in the cluster: "device.tiles.half_depth", "intra_node.bytes_per_second".
  std::vector<std::string> fields;
  // The first step of a figure is so much of it, up and down; halved until it is below the last.
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

// What is made smaller: the error of the runs with these figures.
using ErrorFn = std::function<absl::StatusOr<double>(const Cluster&)>;

// Coordinate descent from `start`: each figure in turn goes up or down by a step as long as that makes the error
// smaller. A cluster that is not valid is never tried. InvalidArgument for a field that is not a positive number.
absl::StatusOr<FitResult> FitFigures(const Cluster& start, const FitOptions& options, const ErrorFn& error);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_FIT_H_
