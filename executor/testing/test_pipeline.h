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
  // Microbatches in flight on every rank, at least `ranks`.
  int limit = 4;
  // If true, the transfers of both directions that a rank does one after the other are one group.
  bool groups = false;
};

// A program with a 1F1B order in its lists. Rank 0's result is its LOSSES.
Program TestPipelineProgram(const TestPipeline& pipeline);

// FILL writes its value + 1000 x optimizer step + global microbatch; ADD adds its inputs. FP64 only.
class AddingBackend : public Backend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override;
};

// The sum over rank 0's result after `step` of a run that began with `first_step`.
double TestPipelineLoss(const TestPipeline& pipeline, int64_t first_step, int64_t step);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_TEST_PIPELINE_H_
