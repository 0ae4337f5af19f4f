// The results of a rank's optimizer steps (rules P11, P14, P15). Figures are taken when the steps that write them are
// over, checked, and reported in the order of optimizer steps. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_STEP_RESULTS_H_
#define WEFT_EXECUTOR_INTERPRETER_STEP_RESULTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "executor/interpreter/interpreter.h"
#include "executor/program/prepared_program.h"
#include "executor/program/printed_figures.h"
#include "proto/program.pb.h"

namespace weft::exec {

// The verdict on the update before a VALIDATE (rule P15).
enum class Verdict : char { kUnknown, kRight, kWrong };

class StepResults {
 public:
  StepResults(const Program& program, const PreparedProgram& prepared, int rank, bool check_finite,
              std::function<void(const StepResult&)> on_step);

  // Repetitions [first, first + count) of a list will run; the first is optimizer step `first_step`. `loss_scale` is
  // the dynamic loss scale before that step.
  void Begin(ActionList list, int64_t first_step, int64_t first, int64_t count, double loss_scale);
  // Called when a run of the body ends: `repetitions` of its repetitions have run so far, in all runs together.
  void End(int64_t repetitions) { results_.resize(repetitions * steps_per_repetition_); }

  // The optimizer step with which a repetition of the list begins.
  int64_t StepOf(int64_t repetition) const;
  // Returns, for example, "rank 1, step 3, action 7 'F0'".
  std::string Where(const PreparedAction& action, int64_t repetition) const;

  // Takes the figures (bits of Figure) that a step of `action` has completed. Returns OutOfRange if a loss or norm is
  // not finite, unless a dynamic loss scale was too large or finite values are not required.
  absl::Status Take(uint8_t which, const PreparedAction& action, int64_t repetition, const Figures& figures);
  // Called when all of a repetition of the body is over.
  void Over(int64_t repetition, int64_t end_ns);

  bool post_validated() const { return post_validated_; }
  // The verdict of the VALIDATE in a repetition; only for a post-validated program.
  Verdict verdict(int64_t repetition) const { return verdicts_[repetition - first_repetition_]; }
  const std::vector<StepResult>& all() const { return results_; }

 private:
  absl::Status Judge(int64_t repetition, const Figures& figures);
  // Reports steps in order, once they are over and validated.
  void ReportValidated();
  absl::Status CheckFinite(const PreparedAction& action, int64_t repetition, absl::string_view what,
                           double value) const;

  const Program& program_;
  const PreparedProgram& prepared_;
  const int rank_;
  const bool check_finite_;
  const bool post_validated_;
  const std::function<void(const StepResult&)> on_step_;
  // Optimizer steps of a repetition, at least 1.
  const int64_t steps_per_repetition_;

  ActionList list_ = kBodyList;
  int64_t first_step_ = 0;
  int64_t first_repetition_ = 0;
  // One result per optimizer step of the body.
  std::vector<StepResult> results_;
  // The dynamic loss scale that the next repetition uses.
  double loss_scale_ = 0;
  // The verdict of each repetition of the list.
  std::vector<Verdict> verdicts_;
  // For a post-validated program: the number of repetitions of the body whose norm is known, and the number that have
  // been reported.
  int64_t validated_ = 0;
  int64_t reported_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_STEP_RESULTS_H_
