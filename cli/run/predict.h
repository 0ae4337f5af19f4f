// Predicts by simulation how long each action of a program takes. The deadlines of a run are derived from this.
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
  // Unset if nothing is predicted.
  std::optional<Trace> trace;
  // The name of the cluster that the prediction is for; empty without a trace.
  std::string cluster;
};

// Each process predicts its run before it starts. Without a --cluster, it predicts nothing if the trace would have more
// steps than this.
inline constexpr int64_t kMaxStepsUnasked = int64_t{1} << 21;

// Predicts two repetitions of `program`, which the verifier has proven, on a cluster. `cluster` is a name of the
// catalog or a file. "none" = predict nothing. Empty = the catalog's cluster that the program was compiled for, if its
// figures have not changed since then. An empty `cluster` gives no prediction if there is no such cluster, if the trace
// would exceed kMaxStepsUnasked, or if the simulation fails. With any other `cluster`, a failure is an error.
absl::StatusOr<Prediction> PredictRun(const Program& program, const std::string& cluster);

}  // namespace weft

#endif  // WEFT_CLI_RUN_PREDICT_H_
