// What the deadlines of a run are from: how long each action of its program takes, by simulation.
#ifndef WEFT_CLI_RUN_PREDICT_H_
#define WEFT_CLI_RUN_PREDICT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft {

struct Prediction {
  // Nullopt: nothing is predicted.
  std::optional<Trace> trace;
  // Of the cluster that it is on, where there is a trace.
  std::string cluster;
};

// A process that is to run predicts for itself, before it starts: traces of more steps than these are not made unasked.
inline constexpr int64_t kMostStepsUnasked = int64_t{1} << 21;

// Two repetitions of `program`, which is proven (verifier), on a cluster. `cluster`: a name of the catalog or a
// file; "none" = nothing is predicted; empty = the catalog's cluster that the program was compiled for, with the
// figures that it was compiled for. Then nothing is predicted where there is no such cluster, or where it cannot be
// done within kMostStepsUnasked; otherwise that is an error.
absl::StatusOr<Prediction> PredictRun(const Program& program, const std::string& cluster);

}  // namespace weft

#endif  // WEFT_CLI_RUN_PREDICT_H_
