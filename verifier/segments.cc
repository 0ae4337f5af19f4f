// Checks segments: operands, values, and each step against the kernel's row (P2, P3).
#include <algorithm>
#include <map>
#include <string>

#include "kernels/step_view.h"
#include "proto/util/units.h"
#include "verifier/index.h"

namespace weft::verify {
namespace {

// True if kernels::CheckStep finds the same in step `i` of both segments. Their operands, values and value indices must
// be checked already. False may also mean that the steps were not compared: steps of collectives never count as alike.
bool AreAlike(const Segment& a, const Segment& b, int i) {
  const Step &x = a.steps(i), &y = b.steps(i);
  if (x.kernel() != y.kernel() || x.stream() != y.stream() || x.accumulate() != y.accumulate() || x.has_collective() ||
      y.has_collective() || x.has_attributes() != y.has_attributes()) {
    return false;
  }
  const auto alike_values = [&](int v, int w) {
    const Value &from = a.values(v), &to = b.values(w);
    return from.operand() == to.operand() && from.offset() == to.offset() && from.dtype() == to.dtype() &&
           std::equal(from.shape().begin(), from.shape().end(), to.shape().begin(), to.shape().end());
  };
  return std::equal(x.inputs().begin(), x.inputs().end(), y.inputs().begin(), y.inputs().end(), alike_values) &&
         std::equal(x.outputs().begin(), x.outputs().end(), y.outputs().begin(), y.outputs().end(), alike_values) &&
         (!x.has_attributes() ||
          x.attributes().SerializePartialAsString() == y.attributes().SerializePartialAsString());
}

}  // namespace

void CheckSegments(const Program& program, const VerifyOptions& options, Findings* findings) {
  const kernels::ProgramFacts facts(program, options.algorithms);
  const auto report = [&](const char* rule, const std::string& message) { findings->Add(rule, message); };
  std::map<int, int> last;  // Number of steps -> last segment with it. Middle stages of a pipeline are alike.
  for (int s = 0; s < program.segments_size() && !findings->full(); ++s) {
    const Segment& segment = program.segments(s);
    int& known = last.try_emplace(segment.steps_size(), -1).first->second;
    const auto bad = [&](const char* rule, const auto&... parts) {
      findings->Add(rule, "segment ", s, " '", segment.name(), "': ", parts...);
    };
    for (const Operand& operand : segment.operands()) {
      if (operand.bytes() < 1 || operand.bytes() > Limits::kArenaBytes) {
        bad("P2.operand", "operand '", operand.name(), "' has ", operand.bytes(), " bytes");
      }
      if (operand.access() == ACCESS_UNSPECIFIED)
        bad("P2.operand", "operand '", operand.name(), "' has no access mode");
    }
    bool values_ok = true;
    for (int v = 0; v < segment.values_size(); ++v) {
      const Value& value = segment.values(v);
      const auto bad_value = [&](const auto&... parts) {
        values_ok = false;
        bad("P2.value", "value ", v, " '", value.name(), "': ", parts...);
      };
      if (value.operand() < 0 || value.operand() >= segment.operands_size()) {
        bad_value("operand ", value.operand(), " is out of range; the segment has ", segment.operands_size());
        continue;
      }
      const int64_t room = segment.operands(value.operand()).bytes();
      const std::optional<int64_t> bytes = TensorBytes(value.dtype(), value.shape());
      if (!bytes) {
        bad_value("dtype ", DTypeName(value.dtype()), " and its shape have no valid size");
      } else if (value.offset() < 0 || value.offset() > room || *bytes > room - value.offset()) {
        bad_value("bytes [", value.offset(), ", +", *bytes, ") leave operand '",
                  segment.operands(value.operand()).name(), "' of ", room, " bytes");
      }
      if (value.offset() % 64 != 0) bad_value("offset ", value.offset(), " is not a multiple of 64");
    }
    if (segment.steps_size() == 0) bad("P2.step", "has no steps");
    bool waited = segment.steps_size() == 0;
    for (int i = 0; i < segment.steps_size() && !findings->full(); ++i) {
      const Step& step = segment.steps(i);
      const auto bad_step = [&](const auto&... parts) {
        bad("P2.step", "step ", i, " '", step.name(), "': ", parts...);
      };
      bool indices_ok = true;
      for (const auto* list : {&step.inputs(), &step.outputs()}) {
        for (int v : *list) {
          if (v >= 0 && v < segment.values_size()) continue;
          indices_ok = false;
          bad_step("names value ", v, ", but the segment has ", segment.values_size());
        }
      }
      for (int d : step.deps()) {
        if (d < 0 || d >= i) bad_step("depends on step ", d, "; it must name an earlier step");
      }
      const Work& work = step.work();
      if (work.flops() < 0 || work.bytes() < 0 || work.flops() > int64_t{1} << 62 || work.bytes() > int64_t{1} << 62) {
        bad_step("work of ", work.flops(), " flops and ", work.bytes(), " bytes is out of range");
      }
      waited = waited || !step.detached();
      if (!indices_ok || !values_ok) continue;
      if (known >= 0 && findings->empty() && AreAlike(program.segments(known), segment, i)) continue;
      kernels::CheckStep(facts, segment, i, report);
    }
    known = s;
    if (!waited) bad("P2.step", "all steps are detached, so the end of its actions is undefined");
  }
}

}  // namespace weft::verify
