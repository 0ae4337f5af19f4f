// FETCH and OFFLOAD in the symbolic run. Each byte of master weights and moments in host memory must be fetched,
// updated and offloaded once (P7, P11). Other content is copied with its symbols.
#include "verifier/dataflow.h"

namespace weft::verify {
namespace {

bool IsState(BufferRole role) { return role == MASTER || role == MOMENT1 || role == MOMENT2; }

}  // namespace

void Dataflow::CopyContent(const RoleAction& at, int from, const Value& source, int to, const Value& destination) {
  Content copy;
  state_[at.role][from].content.ForEach(source.offset(), EndOf(source),
                                        [&](int64_t begin, int64_t end, const Symbol& symbol) {
                                          const int64_t shift = destination.offset() - source.offset();
                                          Symbol moved = symbol.kind == Symbol::kState ? Symbol() : symbol;
                                          if (moved.HasElements()) moved.shift -= shift;
                                          copy.Set(begin + shift, end + shift, std::move(moved));
                                          return true;
                                        });
  for (auto& [begin, value] : copy.ranges) state_[at.role][to].content.Set(begin, value.first, value.second);
}

void Dataflow::Fetch(const RoleAction& at, const Action& action) {
  const Segment& segment = index_.program->segments(action.segment());
  for (const Step& step : segment.steps()) {
    const Value &source = segment.values(step.inputs(0)), &destination = segment.values(step.outputs(0));
    const int from = action.operands(source.operand()), to = action.operands(destination.operand());
    if (BufferOf(at.role, to).role() != NO_ROLE) {
      Bad("P11.host", at, "fetches into ", DescribeBuffer(*TemplateOf(at.role).t, to), ", whose role is ",
          BufferRole_Name(BufferOf(at.role, to).role()), "; a fetched copy must have no role");
      continue;
    }
    if (!IsState(BufferOf(at.role, from).role())) {
      CopyContent(at, from, source, to, destination);
      continue;
    }
    BufferState& host = state_[at.role][from];
    if (host.fetched.Overlaps(source.offset(), EndOf(source))) {
      Bad("P11.host", at, "fetches bytes of ", DescribeBuffer(*TemplateOf(at.role).t, from), " a second time");
    }
    host.fetched.Add(source.offset(), EndOf(source));
    Symbol symbol = SymbolOf(Symbol::kState);
    symbol.buffer = from;
    symbol.shift = source.offset() - destination.offset();
    state_[at.role][to].content.Set(destination.offset(), EndOf(destination), symbol);
  }
}

void Dataflow::TakeBack(const RoleAction& at, const Action& action) {
  const Segment& segment = index_.program->segments(action.segment());
  for (const Step& step : segment.steps()) {
    const Value &source = segment.values(step.inputs(0)), &destination = segment.values(step.outputs(0));
    const int from = action.operands(source.operand()), to = action.operands(destination.operand());
    const BufferRole role = BufferOf(at.role, to).role();
    if (!IsState(role)) {
      if (role != NO_ROLE) {
        Bad("P11.host", at, "writes ", DescribeBuffer(*TemplateOf(at.role).t, to), ", whose role is ",
            BufferRole_Name(role));
      }
      CopyContent(at, from, source, to, destination);
      continue;
    }
    const Symbol symbol = state_[at.role][from].content.Get(source.offset(), EndOf(source));
    const std::string what = DescribeBuffer(*TemplateOf(at.role).t, to);
    if (symbol.kind != Symbol::kState || symbol.buffer != to ||
        symbol.shift != destination.offset() - source.offset()) {
      Bad("P11.host", at, "copies back to bytes [", destination.offset(), ", ", EndOf(destination), ") of ", what,
          " content that was not fetched from there");
    } else if (!symbol.updated) {
      Bad("P11.host", at, "copies back bytes [", destination.offset(), ", ", EndOf(destination), ") of ", what,
          " that no optimizer has updated");
    }
    state_[at.role][to].returned.Add(destination.offset(), EndOf(destination));
    if (role == MASTER) Updated(at, to, destination.offset(), EndOf(destination));
  }
}

}  // namespace weft::verify
