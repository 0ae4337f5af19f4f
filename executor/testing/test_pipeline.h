// A pipeline in doubles for tests of the interpreter, in any order of compute and with any sharing of transfer streams.
//
// Stage 0 makes x = 1 + 1000 step + g of microbatch g, and every later stage doubles it. The last stage answers with
// twice its value. Every stage adds the answer to its own sum and hands twice the answer down. After the last
// microbatch a stage puts twice its sum into `result` and starts again from 1 + 1000 step. All values are whole
// numbers, so the order of sums does not matter.
#ifndef WEFT_EXECUTOR_TESTING_TEST_PIPELINE_H_
#define WEFT_EXECUTOR_TESTING_TEST_PIPELINE_H_

#include <cstdint>

#include "executor/interface/backend.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct TestPipeline {
  int ranks = 2;
  int microbatches = 4;
  ComputeOrder order = STATIC_ORDER;
  TransferStreams streams = PER_EDGE;
  // Maximum number of microbatches in flight on each rank; at least `ranks`.
  int limit = 4;
  // If true, a send and the receive from the same neighbor that follows it on the rank are one transfer group.
  bool groups = false;
};

// A program whose lists of actions are in 1F1B order. On rank 0, the buffer `result` has the role LOSSES.
Program TestPipelineProgram(const TestPipeline& pipeline);

// FILL writes its attribute `value` + 1000 x optimizer step + global microbatch; ADD adds its inputs. FP64 only.
class AddingBackend : public Backend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override;
};

// The sum of the elements of rank 0's `result` after `step`, in a run that began with `first_step`.
double TestPipelineLoss(const TestPipeline& pipeline, int64_t first_step, int64_t step);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_TEST_PIPELINE_H_
