// What a segment reads and writes of each operand, and that its steps agree with the declared access modes (P2.access)
// and do not race with one another (P2.race).
#include <array>

#include "proto/units.h"
#include "proto/verify/index.h"

namespace weft::verify {
namespace {

struct Access {
  int step = 0;
  int part = 0;
  int64_t begin = 0, end = 0;
  bool write = false;
};

bool ReadsOutput(const Step& step, int output) {
  switch (step.kernel()) {
    case EXACT_ACCUMULATE:
      return true;
    case LAYER_NORM_BACKWARD_WEIGHT:
      return step.accumulate();
    default:
      return step.accumulate() && output == 0;
  }
}

// CROSS_ENTROPY and SQUARED_NORM write one element of this output and leave the others as they are.
bool WritesPartly(const Step& step, int output) {
  return step.kernel() == SQUARED_NORM || (step.kernel() == CROSS_ENTROPY && output == 1);
}

class SegmentWalk {
 public:
  SegmentWalk(const Segment& segment, Findings* findings) : segment_(segment), findings_(findings) {
    use_.operands.resize(segment.operands_size());
    accesses_.resize(segment.operands_size());
  }

  SegmentUse Run() {
    MakeParts();
    for (int i = 0; i < segment_.steps_size(); ++i) Visit(i);
    for (int o = 0; o < segment_.operands_size(); ++o) CheckMode(o);
    if (use_.parts.size() > 1) CheckRaces();
    return std::move(use_);
  }

 private:
  template <typename... Parts>
  void Bad(const char* rule, const Parts&... parts) {
    findings_->Add(rule, "segment '", segment_.name(), "': ", parts...);
  }
  std::string StepName(int i) const { return absl::StrCat("step ", i, " '", segment_.steps(i).name(), "'"); }

  void MakeParts() {
    bool one = true;
    for (const Step& step : segment_.steps())
      one = one && !step.detached() && step.stream() == segment_.steps(0).stream();
    if (one) {
      use_.parts.resize(1);
      use_.parts[0].stream = segment_.steps(0).stream();
      return;
    }
    split_ = true;
    if (segment_.steps_size() > Limits::kParts) {
      Bad("P13.limits", "has ", segment_.steps_size(), " steps on several streams, at most ", Limits::kParts);
    }
    for (const Step& step : segment_.steps()) {
      use_.parts.push_back({step.stream(), step.detached(), {step.deps().begin(), step.deps().end()}});
    }
  }

  void Touch(int i, int value, bool write) {
    const Value& v = segment_.values(value);
    const int part = split_ ? i : 0;
    const int64_t end = v.offset() + *ElementCount(v.shape()) * DTypeBytes(v.dtype());
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

  // An INT32 input is a list of tokens or of targets; whether they are in range is known from who wrote them.
  void ReadIndices(int i, int value, bool tokens) {
    const Value& v = segment_.values(value);
    const int64_t end = v.offset() + *ElementCount(v.shape()) * DTypeBytes(v.dtype());
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
      const Kernel kernel = step.kernel();
      if (segment_.values(value).dtype() == INT32) {
        ReadIndices(i, value, kernel == EMBEDDING || kernel == EMBEDDING_BACKWARD);
      }
      Touch(i, value, false);
    }
    for (int k = 0; k < step.outputs_size(); ++k) {
      if (ReadsOutput(step, k) || WritesPartly(step, k)) Touch(i, step.outputs(k), false);
    }
    for (int value : step.outputs()) {
      Touch(i, value, true);
      const Value& v = segment_.values(value);
      const int64_t end = v.offset() + *ElementCount(v.shape()) * DTypeBytes(v.dtype());
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
      Bad("P2.access", "operand '", operand.name(), "' is used by no step");
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

  // Conflicting steps must be ordered by streams and step dependencies.
  void CheckRaces() {
    const int n = static_cast<int>(use_.parts.size());
    if (n > Limits::kParts) return;
    // before[p][s]: the last part of stream s that ended before part p starts.
    std::vector<std::array<int, 3>> before(n, {-1, -1, -1});
    std::array<int, 3> last = {-1, -1, -1};
    for (int p = 0; p < n; ++p) {
      const auto after = [&](int q) {
        for (int s = 0; s < 3; ++s) before[p][s] = std::max(before[p][s], before[q][s]);
        before[p][use_.parts[q].stream] = std::max(before[p][use_.parts[q].stream], q);
      };
      if (last[use_.parts[p].stream] >= 0) after(last[use_.parts[p].stream]);
      for (int q : use_.parts[p].deps) after(q);
      last[use_.parts[p].stream] = p;
    }
    for (int o = 0; o < segment_.operands_size(); ++o) {
      const std::vector<Access>& list = accesses_[o];
      for (size_t b = 0; b < list.size() && !findings_->full(); ++b) {
        for (size_t a = 0; a < b; ++a) {
          const Access &x = list[a], &y = list[b];
          if (x.part == y.part || !(x.write || y.write) || x.begin >= y.end || y.begin >= x.end) continue;
          if (before[y.part][use_.parts[x.part].stream] >= x.part) continue;
          Bad("P2.race", StepName(x.step), " and ", StepName(y.step), " touch the same bytes of operand '",
              segment_.operands(o).name(), "' and neither waits for the other");
          return;
        }
      }
    }
  }

  const Segment& segment_;
  Findings* findings_;
  SegmentUse use_;
  bool split_ = false;
  std::vector<std::vector<Access>> accesses_;
};

}  // namespace

void CheckSegmentOrder(Index* index, Findings* findings) {
  for (const Segment& segment : index->program->segments()) {
    if (findings->full()) return;
    index->segments.push_back(SegmentWalk(segment, findings).Run());
  }
}

}  // namespace weft::verify
