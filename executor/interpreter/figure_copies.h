// The figures (losses, norms, loss scale) that steps on an asynchronous device produce. They are copied to pinned host
// memory after the steps that complete them, and read when the copies are over. Internal to the interpreter.
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
  // `slots` is the number of repetitions that are kept at once. `program` and `device` must outlive the result.
  static absl::StatusOr<std::unique_ptr<FigureCopies>> Create(const PreparedProgram& program, ComputeDevice& device,
                                                              int64_t slots);

  // Called when the step of `action` that completes `which` (bits of Figure) has been enqueued on this device stream.
  // Work that waits for the step must wait for the copies too, because the next step may overwrite the figures.
  absl::Status Enqueue(uint8_t which, int action, int64_t repetition, int stream);

  // Takes the copies that are over, each figure in the order in which it was enqueued. Returns whether there were any.
  using Take = absl::FunctionRef<absl::Status(uint8_t which, int action, int64_t repetition, const Figures& figures)>;
  absl::StatusOr<bool> TakeOver(Take take);
  // The current dynamic loss scale, after everything that was enqueued; 0 = none.
  absl::StatusOr<double> LossScaleNow() const;

 private:
  struct Slot {
    Figures figures;
    // By the number of the figure's bit in Figure.
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
