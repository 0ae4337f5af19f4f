#include "verifier/part_flow.h"

#include <algorithm>
#include <optional>

#include "kernels/traits.h"
#include "proto/util/units.h"
#include "verifier/range_set.h"

namespace weft::verify {
namespace {

struct KeptOut {
  int operand = 0;
  int64_t begin = 0, end = 0;
};

// Adds the entries of `more` to `all` and merges entries with the same cuts. So even after many additions of values,
// there are at most as many entries as ways to cut.
void AddScattered(const std::vector<Scattered>& more, std::vector<Scattered>* all) {
  for (const Scattered& one : more) {
    const auto same = std::find_if(all->begin(), all->end(), [&](const Scattered& other) {
      return other.cuts == one.cuts && other.more == one.more;
    });
    if (same == all->end()) {
      all->push_back(one);
    } else {
      same->least = std::min(same->least, one.least);
      same->most = std::max(same->most, one.most);
    }
  }
}

class Walk {
 public:
  Walk(const Program& program, const Segment& segment, const std::vector<RangesOfBlock>& ranges)
      : program_(program),
        segment_(segment),
        content_(segment.operands_size()),
        made_(segment.operands_size()),
        zeros_(segment.operands_size()),
        behind_(segment.operands_size()) {
    flow_.written.resize(segment.operands_size());
    for (int o = 0; o < segment.operands_size(); ++o) {
      if (ranges[o].ranges.empty()) continue;
      content_[o].Set(0, segment.operands(o).bytes(), {ranges[o].ranges, {}, false, ranges[o].block});
    }
  }

  PartFlow Run() {
    for (const Step& step : segment_.steps()) Visit(step);
    return std::move(flow_);
  }

 private:
  static bool ByElement(Kernel kernel) {
    return kernel == CAST || kernel == ADD || kernel == SCALE || kernel == EXACT_ACCUMULATE || kernel == EXACT_ROUND;
  }
  // True if the kernel may read ranges. Optimizers and norms are among these; dataflow_step.cc checks what they read.
  static bool TakesRanges(Kernel kernel) {
    return ByElement(kernel) || kernels::IsCollective(kernel) || kernel == SQUARED_NORM || kernel == ADAMW ||
           kernel == SGD_STEP;
  }

  static Held Join(const Held& a, const Held& b) {
    Held held = a.ranges.empty() ? b : a;
    const Held& other = a.ranges.empty() ? a : b;
    AddScattered(other.scattered, &held.scattered);
    held.mixed = held.mixed || !(a == b);
    return held;
  }

  Held Get(int v) const { return Get(v, EndOf(segment_.values(v))); }
  // The content of the value's bytes before `end`.
  Held Get(int v, int64_t end) const {
    const Value& value = segment_.values(v);
    std::optional<Held> held;
    content_[value.operand()].ForEach(value.offset(), end, [&](int64_t, int64_t, const Held& one) {
      if (held) {
        *held = Join(*held, one);
      } else {
        held = one;
      }
      return true;
    });
    return held.value_or(Held());
  }

  void Set(int v, const Held& held) {
    const Value& value = segment_.values(v);
    content_[value.operand()].Set(value.offset(), EndOf(value), held);
    Held& all = flow_.written[value.operand()];
    auto& made = made_[value.operand()];
    if (!made.ranges.empty()) {
      if (!(all == held)) all.mixed = true;
      AddScattered(held.scattered, &all.scattered);
    } else {
      all = held;
    }
    made.Set(value.offset(), EndOf(value), held);
    zeros_[value.operand()].Remove(value.offset(), EndOf(value));
    behind_[value.operand()].Remove(value.offset(), EndOf(value));
  }

  // The offset of the zeros at the end of the value; the end of the value if there are none.
  int64_t EndBeforeZeros(const Value& value) const {
    int64_t end = EndOf(value);
    const auto& zeros = zeros_[value.operand()].ranges();
    for (auto it = zeros.rbegin(); it != zeros.rend(); ++it) {
      if (it->first < end && it->second >= end) end = std::max(value.offset(), it->first);
    }
    return end;
  }

  // For a step that adds to value `v`: joins `held` with the content that earlier steps of the segment wrote to `v`.
  // The content of a buffer from before the segment is checked separately, action by action.
  Held Added(int v, Held held) const {
    const Value& value = segment_.values(v);
    made_[value.operand()].ForEach(value.offset(), EndOf(value), [&](int64_t, int64_t, const std::optional<Held>& one) {
      if (one) held = Join(*one, held);
      return true;
    });
    return held;
  }

  template <typename... Parts>
  void Fault(const Step& step, const Parts&... parts) {
    if (flow_.fault.empty()) flow_.fault = absl::StrCat("step '", step.name(), "' ", parts...);
  }

  Held Collected(const Step& step, int i) {
    const Value& value = segment_.values(step.inputs(i));
    // A scatter ignores zeros at the end of its input, because they change no sum.
    const bool scatters = step.kernel() == GROUP_REDUCE_SCATTER && step.collective().purpose() == SCATTER_GRADIENTS;
    const int64_t end = scatters ? EndBeforeZeros(value) : EndOf(value);
    Held held = Get(step.inputs(i), end);
    // Keeps activations and their gradients as they are: the model decides whether unsummed values may be added to
    // them.
    if (step.collective().purpose() == TENSOR && held.ranges.empty()) return held;
    const GroupCuts group = CutsOf(program_, step.collective().group());
    const std::string& name = value.name();
    if (step.kernel() == GROUP_ALL_GATHER) {
      // If the value is not a range, the step gathers rows or columns of other ranks.
      if (held.ranges.empty()) return held;
      const size_t n = group.cuts.size();
      if (held.mixed || group.pipe || !group.odd.empty() || held.ranges.size() < n ||
          !std::equal(group.cuts.begin(), group.cuts.end(), held.ranges.end() - static_cast<int64_t>(n))) {
        Fault(step, "gathers '", name, "' over ", DescribeCuts(program_, group.cuts), ", but its ranges are cut over ",
              DescribeCuts(program_, held.ranges));
        held.mixed = true;
        return held;
      }
      if (!PaddedAtEnd(program_, held.block, held.ranges, n)) {
        Fault(step, "gathers '", name, "' over ", DescribeCuts(program_, group.cuts),
              " at once, but its ranges do not divide evenly before the last of these");
      }
      held.ranges.resize(held.ranges.size() - n);
      KeepOut(step.outputs(i), RangeElements(program_, held.block, held.ranges));
      if (held.ranges.empty()) held.block = 0;
      return held;
    }
    // Sums of activations and their gradients are not followed.
    if (step.collective().purpose() != SCATTER_GRADIENTS && held.ranges.empty()) return {};
    for (const AxisCut& cut : group.cuts) {
      if (AddSum(cut, &held.sums)) continue;
      Fault(step, "sums '", name, "' over ", DescribeCuts(program_, {cut}), ", which it is summed over already");
    }
    const bool whole_cuts = std::all_of(group.cuts.begin(), group.cuts.end(), [](AxisCut c) { return c.stride == 0; });
    if (!group.odd.empty() || group.pipe) held.mixed = true;
    if (step.kernel() != GROUP_REDUCE_SCATTER) return held;
    const int64_t item = DTypeBytes(value.dtype());
    const int64_t elements = (end - value.offset() + item - 1) / item;
    AddScattered({{held.ranges.size(), group.cuts.size(), elements, elements}}, &held.scattered);
    held.ranges.insert(held.ranges.end(), group.cuts.begin(), group.cuts.end());
    held.mixed = held.mixed || !whole_cuts;
    return held;
  }

  // Notes that the bytes of a gathered value after its first `elements` elements must not be read.
  void KeepOut(int v, int64_t elements) {
    const Value& value = segment_.values(v);
    const int64_t begin = value.offset() + elements * DTypeBytes(value.dtype());
    if (begin < EndOf(value)) kept_out_.push_back({value.operand(), begin, EndOf(value)});
  }

  void CheckInputs(const Step& step) {
    for (int v : step.inputs()) {
      const Value& value = segment_.values(v);
      if (!behind_[value.operand()].Overlaps(value.offset(), EndOf(value))) continue;
      Fault(step, "reads '", value.name(), "', but a part of it lies after the end of the gathered elements");
    }
  }

  void Visit(const Step& step) {
    std::vector<Held> out(step.outputs_size());
    kept_out_.clear();
    CheckInputs(step);
    if (kernels::IsCollective(step.kernel())) {
      for (int i = 0; i < step.outputs_size(); ++i) out[i] = Collected(step, i);
    } else if (ByElement(step.kernel())) {
      // Input 0 of SCALE is the scale, not a tensor.
      const int first = step.kernel() == SCALE ? 1 : 0;
      out[0] = Get(step.inputs(first));
      for (int i = first + 1; i < step.inputs_size(); ++i) {
        out[0] = Join(out[0], Get(step.inputs(i)));
      }
    } else if (!TakesRanges(step.kernel())) {
      for (int v : step.inputs()) {
        const Held held = Get(v);
        if (held.ranges.empty()) continue;
        Fault(step, "reads '", segment_.values(v).name(), "', a range cut over ", DescribeCuts(program_, held.ranges),
              " that was not gathered");
      }
    }
    for (int i = 0; i < step.outputs_size(); ++i) {
      if (kernels::AddsToOutput(step, i)) out[i] = Added(step.outputs(i), out[i]);
    }
    for (int i = 0; i < step.outputs_size(); ++i) Set(step.outputs(i), out[i]);
    for (const KeptOut& bytes : kept_out_) behind_[bytes.operand].Add(bytes.begin, bytes.end);
    if (step.kernel() == FILL && step.attributes().value() == 0 && !step.accumulate()) {
      const Value& value = segment_.values(step.outputs(0));
      zeros_[value.operand()].Add(value.offset(), EndOf(value));
    }
  }

  const Program& program_;
  const Segment& segment_;
  std::vector<RangeMap<Held>> content_;
  std::vector<RangeMap<std::optional<Held>>> made_;  // Content that the steps so far made.
  // zeros_: bytes that a FILL made zero. behind_: bytes of gathered ranges behind the end of their block.
  std::vector<RangeSet> zeros_, behind_;
  std::vector<KeptOut> kept_out_;  // For the current step.
  PartFlow flow_;
};

}  // namespace

PartFlow FollowParts(const Program& program, const Segment& segment, const std::vector<RangesOfBlock>& ranges) {
  // If no operand is a range and no sum scatters gradients, the segment makes only whole values that need no further
  // sum.
  const bool wholes = std::all_of(ranges.begin(), ranges.end(), [](const auto& of) { return of.ranges.empty(); }) &&
                      std::none_of(segment.steps().begin(), segment.steps().end(), [](const Step& step) {
                        return kernels::IsCollective(step.kernel()) && step.collective().purpose() == SCATTER_GRADIENTS;
                      });
  if (wholes) return {std::vector<Held>(segment.operands_size()), ""};
  return Walk(program, segment, ranges).Run();
}

}  // namespace weft::verify
