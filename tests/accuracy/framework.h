// What is known of the framework behind a family of measurements, and how much is known of its runs.
//
// A run states a plan; a framework decides the rest: whether attention is one kernel, whether there is dropout, what
// overlaps. These are facts of frameworks and times, alike for all runs of a family, never of one run or source.
#ifndef WEFT_TESTS_ACCURACY_FRAMEWORK_H_
#define WEFT_TESTS_ACCURACY_FRAMEWORK_H_

#include "absl/strings/string_view.h"
#include "proto/plan.pb.h"

namespace weft {

struct Framework {
  // The family's name begins with this.
  absl::string_view family;
  // "A": measured time, plan almost complete. "B": recompute, overlap or microbatch partly unstated. "C": single runs.
  absl::string_view tier;
  AttentionForm attention = FUSED;
  // Of attention and of the hidden values.
  double dropout = 0;
  // Tensor parallelism cuts activations between products, where a run does not say.
  bool sequence_parallel = false;
  // The all-reduce of an input's gradient runs beside the product of the weight's.
  bool overlaps_tensor = true;
  // Gradients of fp16 are summed in fp16.
  bool half_gradients = false;
  // Computation waits for what it sends to and receives from other stages.
  bool blocking_transfers = false;
};

// A family that is not listed has tier "" and what is common today.
const Framework& FrameworkOf(absl::string_view family);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_FRAMEWORK_H_
