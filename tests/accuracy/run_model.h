// Builds the model graph of a measured run from the sizes that the run states.
#ifndef WEFT_TESTS_ACCURACY_RUN_MODEL_H_
#define WEFT_TESTS_ACCURACY_RUN_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/model_graph.pb.h"
#include "proto/runtime.pb.h"
#include "tests/accuracy/measurement.h"

namespace weft {

// The sequence length that is assumed if a run's source does not state one.
inline constexpr int64_t kUsualSequence = 2048;

// Fills in sizes of a GPT or BERT that follow from other sizes: the number of layers from the number of parameters,
// heads of about 128 columns, inner layers four times as wide as the hidden size.
void CompleteSizes(Measurement* run, std::vector<std::string>* assumptions);

// Returns the step of MegaScale's table 3 at which the run was measured. Each step keeps the changes of the earlier
// steps: 2 adds parallel blocks, 3 a sliding window, later steps change the runtime. 0 = the run is not in the table.
int64_t CumulativeStep(const Measurement& run);

// Returns InvalidArgument if weft cannot express the model: experts, a size that is not stated, ...
absl::StatusOr<ModelGraph> ModelOf(const Measurement& run, const Runtime& runtime,
                                   std::vector<std::string>* assumptions);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_RUN_MODEL_H_
