#include "executor/step_runs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "proto/status.h"
#include "proto/units.h"

namespace weft {
namespace {

// Ranges of addresses that do not touch, by their ends.
class AddressSet {
 public:
  bool Overlaps(uintptr_t begin, uintptr_t end) const {
    const auto next = by_end_.upper_bound(begin);
    return next != by_end_.end() && next->second < end;
  }
  void Add(uintptr_t begin, uintptr_t end) {
    for (auto next = by_end_.lower_bound(begin); next != by_end_.end() && next->second <= end;) {
      begin = std::min(begin, next->second);
      end = std::max(end, next->first);
      next = by_end_.erase(next);
    }
    if (begin < end) by_end_[end] = begin;
  }
  void Clear() { by_end_.clear(); }

 private:
  std::map<uintptr_t, uintptr_t> by_end_;
};

using Range = std::pair<uintptr_t, uintptr_t>;

Range RangeOf(const TensorView& view) {
  int64_t bytes = DTypeBytes(view.dtype);
  for (const int64_t extent : view.shape) bytes *= extent;
  const auto begin = reinterpret_cast<uintptr_t>(view.data);
  return {begin, begin + static_cast<uintptr_t>(bytes)};
}

// A norm is one element of what all of them are written to.
Range WrittenBy(const PreparedStep& step, size_t output) {
  const TensorView& view = step.outputs[output];
  if (step.step->kernel() != SQUARED_NORM) return RangeOf(view);
  const auto size = static_cast<uintptr_t>(DTypeBytes(view.dtype));
  const uintptr_t begin = RangeOf(view).first + static_cast<uintptr_t>(step.step->attributes().slot()) * size;
  return {begin, begin + size};
}

bool IsOfRuns(Kernel kernel) {
  return kernel == ADAMW || kernel == SGD_STEP || kernel == SQUARED_NORM || kernel == SCALE || kernel == CAST ||
         kernel == FILL;
}

bool CanBeInRun(const PreparedStep& step) {
  return step.step != nullptr && step.step->stream() == COMPUTE && IsOfRuns(step.step->kernel()) &&
         !step.step->accumulate() && step.figures == 0;
}

bool WaitsForOthers(const PreparedStep& step) { return !step.waits.empty() || !step.deps.empty(); }
bool IsWaitedFor(const PreparedStep& step) { return step.awaited || step.event >= 0; }

// What the steps of a run touch.
class Touched {
 public:
  void Clear() {
    read_.Clear();
    written_.Clear();
  }
  bool Conflicts(const PreparedStep& step) const {
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const auto [begin, end] = WrittenBy(step, i);
      if (read_.Overlaps(begin, end) || written_.Overlaps(begin, end)) return true;
    }
    return std::any_of(step.inputs.begin(), step.inputs.end(), [&](const TensorView& view) {
      const auto [begin, end] = RangeOf(view);
      return written_.Overlaps(begin, end);
    });
  }
  void Add(const PreparedStep& step) {
    for (const TensorView& view : step.inputs) read_.Add(RangeOf(view).first, RangeOf(view).second);
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      written_.Add(WrittenBy(step, i).first, WrittenBy(step, i).second);
    }
  }

 private:
  AddressSet read_, written_;
};

bool IsOfMicrobatch(const Action& action) {
  switch (action.kind()) {
    case GRAD_NORM:
    case SCALE_GRADIENTS:
    case OPTIMIZER_STEP:
    case KEEP_STATE:
    case RESTORE_STATE:
    case CLEAR_GRADIENTS:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::vector<StepRange> FindStepRuns(const PreparedAction& action) {
  std::vector<StepRange> runs;
  Touched touched;
  StepRange run;
  const auto end_run = [&] {
    if (run.count > 1) runs.push_back(run);
    run = {};
    touched.Clear();
  };
  for (int s = 0; s < static_cast<int>(action.steps.size()); ++s) {
    const PreparedStep& step = action.steps[s];
    if (run.count > 0) {
      const PreparedStep& before = action.steps[s - 1];
      if (!CanBeInRun(step) || step.step->kernel() != before.step->kernel() || WaitsForOthers(step) ||
          IsWaitedFor(before) || touched.Conflicts(step)) {
        end_run();
      }
    }
    if (!CanBeInRun(step)) continue;
    if (run.count == 0) run.first = s;
    ++run.count;
    touched.Add(step);
  }
  end_run();
  return runs;
}

absl::StatusOr<std::vector<std::unique_ptr<StepRun>>> PrepareStepRuns(PreparedProgram& program, Backend& backend) {
  std::vector<std::unique_ptr<StepRun>> runs;
  for (PreparedAction& action : program.actions) {
    if (IsOfMicrobatch(*action.action)) continue;
    for (const StepRange& range : FindStepRuns(action)) {
      std::vector<StepOfRun> steps;
      for (int s = range.first; s < range.first + range.count; ++s) {
        const PreparedStep& step = action.steps[s];
        steps.push_back({step.step, step.inputs, step.outputs, step.first_element, step.writes_norm});
      }
      WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StepRun> run, backend.PrepareRun(steps));
      if (run == nullptr) continue;
      action.steps[range.first].run = run.get();
      for (int s = range.first + 1; s < range.first + range.count; ++s) action.steps[s].in_run = true;
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

}  // namespace weft
