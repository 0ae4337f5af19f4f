// The figures of steps on an asynchronous device: copied to pinned memory of the host behind the steps that complete
// them, read when the copies are over. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_FIGURE_COPIES_H_
#define WEFT_EXECUTOR_INTERPRETER_FIGURE_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/device.h"
#include "executor/program/prepared_program.h"
#include "executor/program/printed_figures.h"

namespace weft::exec {

class FigureCopies {
 public:
  // Of so many repetitions at once. `program` and `device` outlive this.
  static absl::StatusOr<std::unique_ptr<FigureCopies>> Create(const PreparedProgram& program, ComputeDevice& device,
                                                              int64_t slots);

  // The step of `action` that completes `which` (bits of Figure) has been enqueued on this stream of the device. What
  // waits for the step must wait for the copies too: the next step may overwrite them.
  absl::Status Enqueue(uint8_t which, int action, int64_t repetition, int stream);

  // Takes what is over, each figure in the order in which it was enqueued. Whether there was any.
  using Take = absl::FunctionRef<absl::Status(uint8_t which, int action, int64_t repetition, const Figures& figures)>;
  absl::StatusOr<bool> TakeOver(Take take);
  // A dynamic loss scale as it is now, 0 = none. After all that was enqueued.
  absl::StatusOr<double> LossScaleNow() const;

 private:
  struct Slot {
    Figures figures;
    // By bit of Figure.
    int events[4] = {-1, -1, -1, -1};
  };
  struct Pending {
    uint8_t which = 0;
    int action = 0;
    int64_t repetition = 0;
    int event = -1;
  };

  FigureCopies(const PreparedProgram& program, ComputeDevice& device) : program_(program), device_(device) {}
  Slot& SlotOf(int64_t repetition) { return slots_[repetition % slots_.size()]; }

  const PreparedProgram& program_;
  ComputeDevice& device_;
  std::vector<Slot> slots_;
  std::deque<Pending> pending_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_FIGURE_COPIES_H_
