#include "proto/util/step_runs.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <map>
#include <utility>

#include "proto/util/units.h"
#include "proto/util/value_bytes.h"

namespace weft {
namespace {

// A set of address ranges, keyed by their ends. Ranges that meet are merged.
class AddressSet {
 public:
  bool Meets(const StepTouch& touch) const {
    const auto next = by_end_.upper_bound(touch.begin);
    return next != by_end_.end() && next->second < touch.end;
  }
  void Add(const StepTouch& touch) {
    uint64_t begin = touch.begin, end = touch.end;
    for (auto next = by_end_.lower_bound(begin); next != by_end_.end() && next->second <= end;) {
      begin = std::min(begin, next->second);
      end = std::max(end, next->first);
      next = by_end_.erase(next);
    }
    if (begin < end) by_end_[end] = begin;
  }

 private:
  std::map<uint64_t, uint64_t> by_end_;
};

// Returns the data that a step writes to `output`. SQUARED_NORM writes only its own element of the tensor that all
// norms share.
StepTouch WrittenBy(const PlacedStep& use, size_t output) {
  StepTouch touch = use.outputs[output];
  if (use.step->kernel() != SQUARED_NORM) return touch;
  const auto size = static_cast<uint64_t>(DTypeBytes(touch.dtype));
  touch.begin += static_cast<uint64_t>(use.step->attributes().slot()) * size;
  touch.end = touch.begin + size;
  return touch;
}

// The data that the steps of one launch read and write.
class Touched {
 public:
  bool Conflicts(const PlacedStep& use) const {
    for (size_t i = 0; i < use.outputs.size(); ++i) {
      const StepTouch touch = WrittenBy(use, i);
      if (read_.Meets(touch) || written_.Meets(touch)) return true;
    }
    return std::any_of(use.inputs.begin(), use.inputs.end(),
                       [&](const StepTouch& touch) { return written_.Meets(touch); });
  }
  void Add(const PlacedStep& use) {
    for (const StepTouch& touch : use.inputs) read_.Add(touch);
    for (size_t i = 0; i < use.outputs.size(); ++i) written_.Add(WrittenBy(use, i));
  }

 private:
  AddressSet read_, written_;
};

// The bits of a double, for keys.
uint64_t BitsOf(double number) {
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

bool IsCompute(const PlacedStep& use) { return use.step != nullptr && use.step->stream() == COMPUTE; }

struct Launch {
  RunKeyNumbers key;
  std::vector<int> steps;
  Touched touched;
};

// Collects neighboring steps into a range.
class RangeBuilder {
 public:
  int count() const { return range_.count; }
  // The number of launches is limited, because each step is compared with all of them. Compiled programs have only a
  // few.
  bool full() const { return launches_.size() >= 64; }
  void Add(int number, const PlacedStep& use, RunKeyNumbers key) {
    if (range_.count++ == 0) range_.first = number;
    size_t from = launches_.size();
    while (from > 0 && !launches_[from - 1].touched.Conflicts(use)) --from;
    const auto found = std::find_if(launches_.begin() + static_cast<std::ptrdiff_t>(from), launches_.end(),
                                    [&](const Launch& launch) { return launch.key == key; });
    Launch& launch = found != launches_.end() ? *found : launches_.emplace_back();
    launch.key = std::move(key);
    launch.steps.push_back(number);
    launch.touched.Add(use);
  }
  // Ends the range. Adds it to `ranges` if some launch has more than one step.
  void EndIn(std::vector<StepRange>& ranges) {
    if (static_cast<int>(launches_.size()) < range_.count) {
      for (Launch& launch : launches_) range_.launches.push_back(std::move(launch.steps));
      ranges.push_back(std::move(range_));
    }
    *this = {};
  }

 private:
  StepRange range_;
  std::vector<Launch> launches_;
};

// Bounds on the columns of a norm. The gradients of the norm's weights share a launch with the gradient of its input if
// the norm has more than kMinSummedNorm and at most kMaxSummedNorm columns. In this case one block of threads computes
// one row and has memory for the sums.
constexpr int64_t kMinSummedNorm = 1024, kMaxSummedNorm = 8192;

bool IsNorm(Kernel kernel) { return kernel == LAYER_NORM || kernel == RMS_NORM; }
bool IsNormBackward(Kernel kernel) { return kernel == LAYER_NORM_BACKWARD || kernel == RMS_NORM_BACKWARD; }
bool IsNormWeight(Kernel kernel) { return kernel == LAYER_NORM_BACKWARD_WEIGHT || kernel == RMS_NORM_BACKWARD_WEIGHT; }
bool IsSum(const PlacedStep& use) {
  return IsCompute(use) && use.step->kernel() == ADD && !use.step->accumulate() && use.inputs.size() == 2 &&
         use.outputs.size() == 1 && use.outputs[0].dtype != EXACT192;
}

// `second` reads output 0 of `first` as its input `link`. Returns true if both steps may run together, row by row.
// Neither step may write data that the other uses in another way. There is one exception: `second` may write exactly
// over an input of `first`, because `first` has read each row by then.
bool RunTogether(const PlacedStep& first, const PlacedStep& second, size_t link) {
  for (const StepTouch& written : second.outputs) {
    for (const StepTouch& touch : first.outputs) {
      if (written.Meets(touch)) return false;
    }
    for (const StepTouch& touch : first.inputs) {
      if (written.Meets(touch) && written != touch) return false;
    }
  }
  for (const StepTouch& written : first.outputs) {
    for (size_t i = 0; i < second.inputs.size(); ++i) {
      if (i != link && written.Meets(second.inputs[i])) return false;
    }
  }
  return true;
}

// Returns which of the two inputs of the ADD is `tensor`; -1 if neither or both are.
int LinkOf(const PlacedStep& sum, const StepTouch& tensor) {
  const bool first = sum.inputs[0] == tensor, second = sum.inputs[1] == tensor;
  return first == second ? -1 : first ? 0 : 1;
}

// True if `norm` is the backward of a norm and `weights` makes the gradients of that norm's weights from the same
// tensors, with a number of columns that kMinSummedNorm and kMaxSummedNorm allow.
bool IsSummedNorm(const PlacedStep& norm, const PlacedStep& weights) {
  const size_t statistics = norm.step->kernel() == LAYER_NORM_BACKWARD ? 2 : 1;
  const Kernel of_weights = statistics == 2 ? LAYER_NORM_BACKWARD_WEIGHT : RMS_NORM_BACKWARD_WEIGHT;
  if (weights.step->kernel() != of_weights || norm.inputs.size() != 3 + statistics ||
      weights.inputs.size() != 2 + statistics) {
    return false;
  }
  for (size_t i = 0; i < weights.inputs.size(); ++i) {
    if (weights.inputs[i] != norm.inputs[i < 2 ? i : i + 1]) return false;
  }
  for (const StepTouch& touch : norm.inputs) {
    if (touch.dtype == FP64) return false;
  }
  const StepTouch& gamma = norm.inputs[2];
  const auto columns = static_cast<int64_t>(gamma.end - gamma.begin) / std::max<int64_t>(1, DTypeBytes(gamma.dtype));
  return columns > kMinSummedNorm && columns <= kMaxSummedNorm;
}

// True if `sums` writes nothing that these steps touch.
bool WritesApart(const PlacedStep& sums, std::initializer_list<const PlacedStep*> steps) {
  Touched touched;
  for (const PlacedStep* step : steps) touched.Add(*step);
  PlacedStep written = sums;
  written.inputs.clear();
  return !touched.Conflicts(written);
}

// True if `bias` is the BIAS_GRADIENT of the output of `made`.
bool IsBiasOf(const PlacedStep& bias, const PlacedStep& made) {
  return bias.step->kernel() == BIAS_GRADIENT && bias.inputs.size() == 1 && bias.outputs.size() == 1 &&
         made.outputs.size() == 1 && bias.inputs[0] == made.outputs[0];
}

// Returns the run of neighboring steps from `s` on that have the same key as `s` and touch no data of each other. The
// run ends where `follows` returns false.
template <typename Follows>
StepRange AlikeRunAt(absl::Span<const PlacedStep> steps, int s, Follows follows) {
  const RunKeyNumbers key = RunKey(steps[s]);
  if (key.empty()) return {};
  Touched touched;
  std::vector<int> launch;
  for (int at = s; at == s || (follows(at) && RunKey(steps[at]) == key && !touched.Conflicts(steps[at])); ++at) {
    touched.Add(steps[at]);
    launch.push_back(at);
  }
  const int count = static_cast<int>(launch.size());
  return count < 2 ? StepRange() : StepRange{s, count, {std::move(launch)}};
}

// Returns the run (step_runs.h, FindNormRuns) that begins with step `s`; empty if there is none.
StepRange NormRunAt(absl::Span<const PlacedStep> steps, int s) {
  const auto follows = [&](int next) {
    return next < static_cast<int>(steps.size()) && IsCompute(steps[next]) && !steps[next].waits &&
           !steps[next - 1].awaited;
  };
  const PlacedStep& first = steps[s];
  if (!IsCompute(first)) return {};
  if (IsSum(first)) {
    if (!follows(s + 1) || !IsNorm(steps[s + 1].step->kernel())) return {};
    const PlacedStep& norm = steps[s + 1];
    if (norm.inputs.empty() || norm.inputs[0] != first.outputs[0] || !RunTogether(first, norm, 0)) return {};
    return {s, 2, {{s, s + 1}}};
  }
  if (first.step->kernel() == EXACT_ACCUMULATE) return AlikeRunAt(steps, s, follows);
  if (first.step->kernel() == GELU_BACKWARD) {
    const bool both = follows(s + 1) && IsBiasOf(steps[s + 1], first) && WritesApart(steps[s + 1], {&first});
    return both ? StepRange{s, 2, {{s, s + 1}}} : StepRange();
  }
  if (!IsNormBackward(first.step->kernel()) || first.step->accumulate() || first.outputs.size() != 1) return {};
  int at = s + 1;
  const bool weights = follows(at) && IsNormWeight(steps[at].step->kernel());
  if (weights) ++at;
  if (!follows(at) || !IsSum(steps[at])) return {};
  const PlacedStep& sum = steps[at];
  const int link = LinkOf(sum, first.outputs[0]);
  if (link < 0 || !RunTogether(first, sum, static_cast<size_t>(link))) return {};
  if (!weights) return {s, 2, {{s, at}}};
  // If the gradients of the norm's weights have a launch of their own, it runs first, because the sum may overwrite
  // what they read.
  const PlacedStep& of_weights = steps[s + 1];
  Touched before;
  before.Add(of_weights);
  if (before.Conflicts(first)) return {};
  if (!IsSummedNorm(first, of_weights) || !WritesApart(of_weights, {&sum})) return {s, 3, {{s + 1}, {s, at}}};
  const bool bias =
      follows(at + 1) && IsBiasOf(steps[at + 1], sum) && WritesApart(steps[at + 1], {&first, &of_weights, &sum});
  return bias ? StepRange{s, 4, {{s, s + 1, at, at + 1}}} : StepRange{s, 3, {{s, s + 1, at}}};
}

// True if steps of the kernel can share launches. `updates` is true for an action that belongs to no microbatch
// (RunsUpdates).
bool IsJoined(Kernel kernel, bool updates) {
  switch (kernel) {
    case ADAMW:
    case SGD_STEP:
    case FILL:
    case SQUARED_NORM:
    case SCALE:
    case CAST:
    case EXACT_ROUND:
      return updates;
    case EXACT_ACCUMULATE:
      return true;
    case ADD:
    case BIAS_GRADIENT:
    case GELU_BACKWARD:
      return !updates;
    default:
      return !updates && (IsNorm(kernel) || IsNormBackward(kernel) || IsNormWeight(kernel));
  }
}

// Bytes of a value of a proven program.
int64_t BytesOf(const Value& value) { return ValueBytes(value).value_or(0); }

bool AreAtOnePlace(const Value& a, const Value& b) { return a.operand() == b.operand() && a.offset() == b.offset(); }

int64_t SumOf(int64_t a, int64_t b) { return a + std::min(b, std::numeric_limits<int64_t>::max() - a); }

}  // namespace

bool RunsUpdates(ActionKind kind) {
  switch (kind) {
    case GRAD_NORM:
    case SCALE_GRADIENTS:
    case OPTIMIZER_STEP:
    case KEEP_STATE:
    case RESTORE_STATE:
    case CLEAR_GRADIENTS:
      return true;
    default:
      return false;
  }
}

RunKeyNumbers RunKey(const PlacedStep& use) {
  if (!IsCompute(use) || use.step->accumulate() || !IsJoined(use.step->kernel(), /*updates=*/true)) return {};
  const StepAttributes& a = use.step->attributes();
  RunKeyNumbers key = {static_cast<uint64_t>(use.step->kernel()), use.inputs.size()};
  for (const StepTouch& touch : use.inputs) key.push_back(static_cast<uint64_t>(touch.dtype));
  for (const StepTouch& touch : use.outputs) key.push_back(static_cast<uint64_t>(touch.dtype));
  switch (use.step->kernel()) {
    case ADAMW:
      key.insert(key.end(), {BitsOf(a.beta1()), BitsOf(a.beta2()), BitsOf(a.epsilon()), a.rounding_site() > 0});
      break;
    case SGD_STEP:
      key.insert(key.end(), {BitsOf(a.momentum()), a.rounding_site() > 0});
      break;
    case FILL:
      key.push_back(BitsOf(a.value()));
      break;
    default:
      break;
  }
  return key;
}

std::vector<StepRange> FindUpdateRuns(absl::Span<const PlacedStep> steps) {
  std::vector<StepRange> ranges;
  RangeBuilder builder;
  for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
    const PlacedStep& use = steps[s];
    RunKeyNumbers key = RunKey(use);
    if (builder.count() > 0 && (key.empty() || use.waits || steps[s - 1].awaited || builder.full())) {
      builder.EndIn(ranges);
    }
    if (!key.empty()) builder.Add(s, use, std::move(key));
  }
  builder.EndIn(ranges);
  return ranges;
}

std::vector<StepRange> FindNormRuns(absl::Span<const PlacedStep> steps) {
  std::vector<StepRange> ranges;
  for (int s = 0; s < static_cast<int>(steps.size());) {
    StepRange range = NormRunAt(steps, s);
    s += std::max(1, range.count);
    if (range.count > 0) ranges.push_back(std::move(range));
  }
  return ranges;
}

std::vector<StepRange> FindStepRuns(ActionKind kind, absl::Span<const PlacedStep> steps) {
  return RunsUpdates(kind) ? FindUpdateRuns(steps) : FindNormRuns(steps);
}

std::vector<PlacedStep> PlacedStepsOf(const Program& program, const Template& of, const Action& action) {
  switch (action.kind()) {
    case SEND:
    case RECV:
    case ALL_REDUCE:
    case ALL_GATHER:
    case REDUCE_SCATTER:
      return {};
    default:
      break;
  }
  const Segment& segment = program.segments(action.segment());
  const auto touch = [&](int index) {
    const Value& value = segment.values(index);
    const Buffer& buffer = of.buffers(action.operands(value.operand()));
    // The highest bit marks host memory. Offsets never reach it, because arenas are far smaller than 2^63 bytes.
    const uint64_t begin = static_cast<uint64_t>(buffer.offset() + value.offset()) |
                           (buffer.place() == HOST ? uint64_t{1} << 63 : uint64_t{0});
    return StepTouch{begin, begin + static_cast<uint64_t>(BytesOf(value)), value.dtype()};
  };
  const bool updates = RunsUpdates(action.kind());
  std::vector<PlacedStep> uses(segment.steps_size());
  for (int s = 0; s < segment.steps_size(); ++s) {
    const Step& step = segment.steps(s);
    PlacedStep& use = uses[s];
    use.step = &step;
    if (IsJoined(step.kernel(), updates)) {
      use.inputs.reserve(static_cast<size_t>(step.inputs_size()));
      use.outputs.reserve(static_cast<size_t>(step.outputs_size()));
      for (const int value : step.inputs()) use.inputs.push_back(touch(value));
      for (const int value : step.outputs()) use.outputs.push_back(touch(value));
    }
    for (const int dep : step.deps()) {
      const bool other = segment.steps(dep).stream() != step.stream() || step.stream() == COLLECTIVE;
      use.waits |= other;
      uses[dep].awaited |= other;
    }
  }
  return uses;
}

const StepRange* RangeOf(absl::Span<const StepRange> ranges, int step) {
  const auto next = std::upper_bound(ranges.begin(), ranges.end(), step,
                                     [](int own, const StepRange& range) { return own < range.first; });
  if (next == ranges.begin()) return nullptr;
  const StepRange& range = *(next - 1);
  return step < range.first + range.count ? &range : nullptr;
}

Step AsOneStep(const Segment& segment, absl::Span<const int> launch) {
  int largest = launch[0];
  int64_t flops = 0, bytes = 0, read_again = 0;
  // True if all steps of the launch have one kernel. Then no step uses the output of another, and the inputs that they
  // share are so small that they may be counted repeatedly.
  const bool alike = std::all_of(launch.begin(), launch.end(), [&](int step) {
    return segment.steps(step).kernel() == segment.steps(launch[0]).kernel();
  });
  for (size_t i = 0; i < launch.size(); ++i) {
    const Step& step = segment.steps(launch[i]);
    if (step.work().bytes() > segment.steps(largest).work().bytes()) largest = launch[i];
    flops = SumOf(flops, step.work().flops());
    bytes = SumOf(bytes, step.work().bytes());
    if (alike) continue;
    for (const int input : step.inputs()) {
      const Value& value = segment.values(input);
      const auto is_it = [&](int other) { return AreAtOnePlace(segment.values(other), value); };
      const bool known = std::any_of(launch.begin(), launch.begin() + static_cast<std::ptrdiff_t>(i), [&](int other) {
        const Step& before = segment.steps(other);
        return std::any_of(before.outputs().begin(), before.outputs().end(), is_it) ||
               std::any_of(before.inputs().begin(), before.inputs().end(), is_it);
      });
      if (known) read_again = SumOf(read_again, BytesOf(value));
    }
  }
  Step one = segment.steps(largest);
  one.mutable_work()->set_flops(flops);
  one.mutable_work()->set_bytes(std::max<int64_t>(0, bytes - read_again));
  return one;
}

}  // namespace weft
