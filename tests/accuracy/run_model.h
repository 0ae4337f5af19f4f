// The model graph of a measured run, from the sizes that it states.
#ifndef WEFT_TESTS_ACCURACY_RUN_MODEL_H_
#define WEFT_TESTS_ACCURACY_RUN_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/model_graph.pb.h"
#include "tests/accuracy/framework.h"
#include "tests/accuracy/measurement.h"

namespace weft {

// InvalidArgument says why weft cannot express the model: experts, a size that is not stated, ...
absl::StatusOr<ModelGraph> ModelOf(const Measurement& run, const Framework& framework,
                                   std::vector<std::string>* assumptions);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_RUN_MODEL_H_
