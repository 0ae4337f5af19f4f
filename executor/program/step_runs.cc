#include "executor/program/step_runs.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

StepTouch TouchOf(const TensorView& view) {
  int64_t bytes = DTypeBytes(view.dtype);
  for (const int64_t extent : view.shape) bytes *= extent;
  const auto begin = reinterpret_cast<uintptr_t>(view.data);
  return {begin, begin + static_cast<uint64_t>(bytes), view.dtype};
}

// Runs the launches of a range of steps one after another.
class LaunchesRun : public StepRun {
 public:
  explicit LaunchesRun(Backend& backend) : backend_(backend) {}

  // Adds one launch: a single step, or several steps as the backend has prepared them.
  void Add(const StepOfRun& step) { pieces_.push_back({nullptr, step}); }
  void Add(std::unique_ptr<StepRun> run) {
    ++runs_;
    pieces_.push_back({std::move(run), {}});
  }
  // Number of launches of several steps.
  int runs() const { return runs_; }

  absl::Status Run(const StepContext& context) override {
    StepContext own = context;
    for (const Piece& piece : pieces_) {
      if (piece.run != nullptr) {
        WEFT_RETURN_IF_ERROR(piece.run->Run(context));
        continue;
      }
      own.first_element = piece.step.first_element;
      own.writes_norm = piece.step.writes_norm;
      WEFT_RETURN_IF_ERROR(backend_.Run(*piece.step.step, piece.step.inputs, piece.step.outputs, own));
    }
    return absl::OkStatus();
  }

 private:
  struct Piece {
    std::unique_ptr<StepRun> run;
    StepOfRun step;
  };

  Backend& backend_;
  std::vector<Piece> pieces_;
  int runs_ = 0;
};

// Prepares the launches of a range of steps. Returns null if the backend prepares no launch of several steps.
absl::StatusOr<std::unique_ptr<StepRun>> PrepareRange(const PreparedAction& action, const StepRange& range,
                                                      Backend& backend) {
  auto run = std::make_unique<LaunchesRun>(backend);
  for (const std::vector<int>& launch : range.launches) {
    std::vector<StepOfRun> steps;
    for (const int s : launch) {
      const PreparedStep& step = action.steps[s];
      steps.push_back({step.step, step.inputs, step.outputs, step.first_element, step.writes_norm});
    }
    std::unique_ptr<StepRun> as_one;
    if (steps.size() > 1) {
      WEFT_ASSIGN_OR_RETURN(as_one, backend.PrepareRun(steps));
    }
    if (as_one != nullptr) {
      run->Add(std::move(as_one));
    } else {
      for (const StepOfRun& step : steps) run->Add(step);
    }
  }
  if (run->runs() == 0) return std::unique_ptr<StepRun>();
  return run;
}

}  // namespace

std::vector<PlacedStep> PlacedStepsOf(const PreparedAction& action) {
  std::vector<PlacedStep> uses;
  uses.reserve(action.steps.size());
  for (const PreparedStep& step : action.steps) {
    PlacedStep& use = uses.emplace_back();
    use.step = step.step;
    for (const TensorView& view : step.inputs) use.inputs.push_back(TouchOf(view));
    for (const TensorView& view : step.outputs) use.outputs.push_back(TouchOf(view));
    use.waits = !step.waits.empty() || !step.deps.empty();
    use.awaited = step.awaited || step.event >= 0 || step.figures != 0;
  }
  return uses;
}

absl::StatusOr<std::vector<std::unique_ptr<StepRun>>> PrepareStepRuns(PreparedProgram& program, Backend& backend) {
  std::vector<std::unique_ptr<StepRun>> runs;
  for (PreparedAction& action : program.actions) {
    for (const StepRange& range : FindStepRuns(action.action->kind(), PlacedStepsOf(action))) {
      WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StepRun> run, PrepareRange(action, range, backend));
      if (run == nullptr) continue;
      action.steps[range.first].run = run.get();
      for (int s = range.first + 1; s < range.first + range.count; ++s) action.steps[s].in_run = true;
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace weft::exec
