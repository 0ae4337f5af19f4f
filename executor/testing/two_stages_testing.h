// The ranks of a pipeline of two stages, as threads, for tests of the interpreter. Each rank has its own memory and a
// backend that tests can interfere with.
#ifndef WEFT_EXECUTOR_TESTING_TWO_STAGES_TESTING_H_
#define WEFT_EXECUTOR_TESTING_TWO_STAGES_TESTING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interpreter/interpreter.h"
#include "proto/program.pb.h"

namespace weft::exec {

// FILL writes its attribute `value` + 1000 * optimizer step + global microbatch; ADD adds its inputs. FP64 only.
class TinyBackend : public Backend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override;
  // Called before each step. Its error becomes the step's error.
  std::function<absl::Status(const Step&, const StepContext&)> before;
};

// Two stages, two microbatches, any number of replicas. Stage 0 fills x with 1 + 1000 step + g and sends it; stage 1
// sends 2x back; stage 0 adds both answers to `sum`, which the replicas reduce into LOSSES on stage 0.
Program TwoStages(int replicas);

struct Ranks {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::unique_ptr<ComputeSlots> slots;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::deque<TinyBackend> backends;
  std::vector<std::unique_ptr<Interpreter>> interpreters;
  std::vector<absl::StatusOr<int64_t>> ran;
};

// Runs `repetitions` with one thread per rank. If a rank fails, the others fail too.
std::unique_ptr<Ranks> RunRanks(const Program& program, int64_t repetitions, const InterpreterOptions& options,
                                const std::function<void(int, TinyBackend&)>& prepare = {}, int slots = 0);

// The sum, over 2 elements, all replicas and both microbatches, of what stage 0 accumulates: B0 writes 2 * (2 x0), B1
// adds 2 x1.
double ExpectedLoss(int replicas, int64_t step);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_TWO_STAGES_TESTING_H_
