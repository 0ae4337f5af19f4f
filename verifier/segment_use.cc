// Finds which bytes of each operand a segment reads and writes. Checks that its steps agree with the declared access
// modes (P2.access) and do not race with one another (P2.race).
#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/traits.h"
#include "proto/util/units.h"
#include "verifier/segment_order.h"

namespace weft::verify {
namespace {

struct Access {
  int step = 0;
  int part = 0;
  int64_t begin = 0, end = 0;
  bool write = false;
};

class SegmentWalk {
 public:
  SegmentWalk(const Program& program, const Segment& segment, Findings* findings)
      : program_(program), segment_(segment), findings_(findings) {
    use_.operands.resize(segment.operands_size());
    accesses_.resize(segment.operands_size());
  }

  SegmentUse Run() {
    if (!MakeParts(program_, segment_, &use_, &part_of_step_)) {
      Bad("P13.limits", "has too many steps on several streams, more than ", Limits::kParts);
      return std::move(use_);
    }
    for (int i = 0; i < segment_.steps_size(); ++i) {
      Visit(i);
      if (kernels::IsLoss(segment_.steps(i).kernel())) use_.losses.push_back(i);
    }
    for (int o = 0; o < segment_.operands_size(); ++o) CheckMode(o);
    for (OperandUse& use : use_.operands) {
      std::sort(use.parts.begin(), use.parts.end());
      use.parts.erase(std::unique(use.parts.begin(), use.parts.end()), use.parts.end());
    }
    const SegmentOrder order(use_);
    if (use_.parts.size() > 1) CheckRaces(order);
    FindEnds(order);
    return std::move(use_);
  }

 private:
  template <typename... Parts>
  void Bad(const char* rule, const Parts&... parts) {
    findings_->Add(rule, "segment '", segment_.name(), "': ", parts...);
  }
  std::string StepName(int i) const { return absl::StrCat("step ", i, " '", segment_.steps(i).name(), "'"); }

  void Touch(int i, int value, bool write) {
    const Value& v = segment_.values(value);
    const int part = part_of_step_[i];
    const int64_t end = EndOf(v);
    OperandUse& use = use_.operands[v.operand()];
    if (use.parts.empty() || use.parts.back() != part) use.parts.push_back(part);
    accesses_[v.operand()].push_back({i, part, v.offset(), end, write});
    if (write) {
      if (use.rewritten_by < 0 && use.writes.Overlaps(v.offset(), end)) use.rewritten_by = i;
      use.writes.Add(v.offset(), end);
      use.token_writes.Remove(v.offset(), end);
      use.target_writes.Remove(v.offset(), end);
    } else {
      use.writes.AddMissing(v.offset(), end, &use.first_reads);
    }
  }

  // An INT32 input is a list of tokens or of targets. The step that wrote it determines whether its values are in
  // range.
  void ReadIndices(int i, int value, bool tokens) {
    const Value& v = segment_.values(value);
    const int64_t end = EndOf(v);
    OperandUse& use = use_.operands[v.operand()];
    const RangeSet& known = tokens ? use.token_writes : use.target_writes;
    if (known.Covers(v.offset(), end)) return;
    if (use.writes.Overlaps(v.offset(), end)) {
      Bad("P2.indices", StepName(i), " reads '", v.name(), "' as ", tokens ? "tokens" : "targets",
          ", which were not written by ", tokens ? "LOAD_TOKENS" : "LOAD_TARGETS");
      return;
    }
    (tokens ? use.token_reads : use.target_reads).Add(v.offset(), end);
  }

  void Visit(int i) {
    const Step& step = segment_.steps(i);
    for (int k = 0; k < step.inputs_size(); ++k) {
      const int value = step.inputs(k);
      const kernels::OperandSpec* spec = kernels::InputSpec(step, k);
      if (spec != nullptr && (spec->ints == kernels::Ints::kTokens || spec->ints == kernels::Ints::kTargets)) {
        ReadIndices(i, value, spec->ints == kernels::Ints::kTokens);
      }
      Touch(i, value, false);
    }
    for (int k = 0; k < step.outputs_size(); ++k) {
      if (kernels::AddsToOutput(step, k) || kernels::WritesPartOfOutput(step, k)) Touch(i, step.outputs(k), false);
    }
    for (int value : step.outputs()) {
      Touch(i, value, true);
      const Value& v = segment_.values(value);
      const int64_t end = EndOf(v);
      if (step.kernel() == LOAD_TOKENS) use_.operands[v.operand()].token_writes.Add(v.offset(), end);
      if (step.kernel() == LOAD_TARGETS) use_.operands[v.operand()].target_writes.Add(v.offset(), end);
    }
  }

  void CheckMode(int o) {
    const Operand& operand = segment_.operands(o);
    const OperandUse& use = use_.operands[o];
    const auto first = [&](bool write) -> std::string {
      for (const Access& a : accesses_[o]) {
        if (a.write != write) continue;
        if (write || use.first_reads.Overlaps(a.begin, a.end)) return StepName(a.step);
      }
      return "no step";
    };
    if (use.parts.empty()) {
      Bad("P2.access", "operand '", operand.name(), "' is not used by any step");
    } else if (operand.access() == READ && !use.writes.empty()) {
      Bad("P2.access", "operand '", operand.name(), "' is READ, but ", first(true), " writes it");
    } else if (operand.access() == WRITE && !use.first_reads.empty()) {
      Bad("P2.access", "operand '", operand.name(), "' is WRITE, but ", first(false), " reads bytes [",
          use.first_reads.ranges().begin()->first, ", ", use.first_reads.ranges().begin()->second,
          ") of it that no earlier step writes");
    } else if (operand.access() == WRITE && use.writes.empty()) {
      Bad("P2.access", "operand '", operand.name(), "' is WRITE, but no step writes it");
    }
  }

  // Checks that conflicting steps are ordered by streams and step dependencies. `live` has the accesses to compare
  // with. A write removes earlier accesses that it covers and waits for: a later access that is ordered after the write
  // is ordered after those too.
  void CheckRaces(const SegmentOrder& order) {
    for (int o = 0; o < segment_.operands_size(); ++o) {
      std::vector<Access> live;
      for (const Access& y : accesses_[o]) {
        for (const Access& x : live) {
          if (x.part == y.part || !(x.write || y.write) || x.begin >= y.end || y.begin >= x.end) continue;
          if (order.Ordered(x.part, y.part)) continue;
          Bad("P2.race", StepName(x.step), " and ", StepName(y.step), " touch the same bytes of operand '",
              segment_.operands(o).name(), "' and neither waits for the other");
          return;
        }
        if (y.write) {
          live.erase(std::remove_if(live.begin(), live.end(),
                                    [&](const Access& x) {
                                      return x.begin >= y.begin && x.end <= y.end &&
                                             (x.part == y.part || order.Finished(x.part, y.part));
                                    }),
                     live.end());
        }
        live.push_back(y);
      }
    }
  }

  void FindEnds(const SegmentOrder& order) {
    std::vector<int> all, waited;
    for (int p = 0; p < static_cast<int>(use_.parts.size()); ++p) {
      all.push_back(p);
      if (!use_.parts[p].detached) waited.push_back(p);
    }
    use_.first_parts = order.First(all);
    use_.last_parts = order.Last(waited);
    for (OperandUse& use : use_.operands) {
      use.first_parts = order.First(use.parts);
      use.last_parts = order.Last(use.parts);
    }
  }

  const Program& program_;
  const Segment& segment_;
  Findings* findings_;
  SegmentUse use_;
  std::vector<int> part_of_step_;
  std::vector<std::vector<Access>> accesses_;
};

// True if walks over the two segments give the same result. The segments may differ in names and work, and in
// attributes that decide about no operand, because a walk does not read these.
bool AreAlike(const Program& program, const Segment& a, const Segment& b) {
  const auto same = [](const auto& x, const auto& y) { return std::equal(x.begin(), x.end(), y.begin(), y.end()); };
  const auto alike_operands = [](const Operand& x, const Operand& y) { return x.access() == y.access(); };
  const auto alike_values = [&](const Value& x, const Value& y) {
    return x.operand() == y.operand() && x.offset() == y.offset() && x.dtype() == y.dtype() &&
           same(x.shape(), y.shape());
  };
  const auto alike_steps = [&](const Step& x, const Step& y) {
    if (x.kernel() != y.kernel() || x.stream() != y.stream() || x.accumulate() != y.accumulate() ||
        x.detached() != y.detached() || !same(x.inputs(), y.inputs()) || !same(x.outputs(), y.outputs()) ||
        !same(x.deps(), y.deps())) {
      return false;
    }
    if (kernels::HasConditionalOperands(x.kernel()) &&
        x.attributes().SerializePartialAsString() != y.attributes().SerializePartialAsString()) {
      return false;
    }
    return x.stream() != COLLECTIVE || CommunicatorKey(program, x.collective().group(), x.collective().purpose()) ==
                                           CommunicatorKey(program, y.collective().group(), y.collective().purpose());
  };
  return std::equal(a.operands().begin(), a.operands().end(), b.operands().begin(), b.operands().end(),
                    alike_operands) &&
         std::equal(a.values().begin(), a.values().end(), b.values().begin(), b.values().end(), alike_values) &&
         std::equal(a.steps().begin(), a.steps().end(), b.steps().begin(), b.steps().end(), alike_steps);
}

}  // namespace

void CheckSegmentOrder(Index* index, Findings* findings) {
  const Program& program = *index->program;
  // (numbers of operands, values and steps) -> the last segment walked with these numbers. Segments of the stages in
  // the middle of a pipeline are alike, so if one has no findings, the others have none. After a finding, every segment
  // is walked, so that findings are reported for each.
  std::map<std::tuple<int, int, int>, int> walked;
  for (int s = 0; s < program.segments_size(); ++s) {
    if (findings->full()) return;
    const Segment& segment = program.segments(s);
    int& known =
        walked.try_emplace({segment.operands_size(), segment.values_size(), segment.steps_size()}, -1).first->second;
    if (known >= 0 && findings->empty() && AreAlike(program, program.segments(known), segment)) {
      index->segments.AddAlike(known);
      continue;
    }
    index->segments.Add(SegmentWalk(program, segment, findings).Run());
    known = s;
  }
}

}  // namespace weft::verify
