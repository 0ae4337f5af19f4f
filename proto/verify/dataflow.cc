// One repetition of all roles is run on symbols: an activation is the (stage, microbatch) that made it, a gradient the
// set of uses of tensors that it sums, with how many microbatches and whether over the replicas, a norm the tensors it
// covers. The order of the run does not matter: the lists have no races (P7) and every order gives the same symbols.
#include "proto/verify/dataflow.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "proto/verify/completeness.h"

namespace weft::verify {

void Dataflow::Microbatch(const RoleAction& at, const Action& action) {
  const bool backward = action.kind() == BACKWARD;
  const Segment& segment = index_.program->segments(action.segment());
  const SegmentUse& use = index_.segments[action.segment()];
  const int stages = index_.program->stages();
  const int before = action.stage() + (backward ? 1 : -1);
  bool fed = before < 0 || before >= stages;
  for (int o = 0; o < action.operands_size(); ++o) {
    const int b = action.operands(o);
    if (BufferOf(at.role, b).role() != NO_ROLE) continue;
    for (const auto& [begin, end] : use.operands[o].first_reads.ranges()) {
      const Symbol symbol = state_[at.role][b].content.Get(begin, end);
      const bool of_neighbour = symbol.kind == Symbol::kActivation && symbol.backward == backward &&
                                symbol.stage == before && symbol.microbatch == action.microbatch();
      fed = fed || of_neighbour;
      if (of_neighbour || IsOfForward(symbol, action)) continue;
      Bad("P13.input", at, "operand '", segment.operands(o).name(), "' reads ",
          DescribeBuffer(*TemplateOf(at.role).t, b), ", which holds ", ExplainActivation(symbol),
          "; it may read what stages ", before, " and ", action.stage(), " made of microbatch ", action.microbatch());
      break;
    }
  }
  if (!fed) {
    Bad("P13.input", at, "reads no buffer that holds the ", backward ? "input gradient" : "output", " of stage ",
        before, ", microbatch ", action.microbatch());
  }
  int losses = 0;
  for (int o = 0; o < action.operands_size(); ++o) {
    const int b = action.operands(o);
    const Buffer& buffer = BufferOf(at.role, b);
    if (IsGrad(buffer.role())) Touch(at.role, b, !use.operands[o].first_reads.empty());
    if (use.operands[o].writes.empty()) continue;
    if (IsGrad(buffer.role())) {
      if (backward) {
        Contribute(at, action, b, !use.operands[o].first_reads.empty());
      } else {
        SetWhole(at.role, b, {});
      }
    } else if (buffer.role() == LOCAL_LOSSES) {
      ++losses;
      if (!backward) AddLoss(at, action, b);
    } else if (buffer.role() == NO_ROLE) {
      Symbol symbol = Of(Symbol::kActivation);
      symbol.backward = backward;
      symbol.stage = action.stage();
      symbol.microbatch = action.microbatch();
      for (const auto& [begin, end] : use.operands[o].writes.ranges()) {
        state_[at.role][b].content.Set(begin, end, symbol);
      }
    } else {
      Bad("P11.update", at, "writes ", DescribeBuffer(*TemplateOf(at.role).t, b), ", whose role is ",
          BufferRole_Name(buffer.role()));
    }
  }
  if (backward) return;
  const bool last = action.stage() == stages - 1;
  int cross_entropies = 0;
  for (const Step& step : segment.steps()) cross_entropies += step.kernel() == CROSS_ENTROPY;
  if (last != (losses == 1 && cross_entropies == 1) || (!last && losses > 0)) {
    Bad("P11.loss", at,
        last ? "must write LOCAL_LOSSES by one CROSS_ENTROPY: it is of the last stage"
             : "computes a loss, but is not of the last stage");
  }
}

bool Dataflow::IsOfForward(const Symbol& symbol, const Action& action) {
  const bool kept = symbol.stage == action.stage() - 1 && action.kind() == BACKWARD;
  return symbol.kind == Symbol::kActivation && !symbol.backward && symbol.microbatch == action.microbatch() &&
         (symbol.stage == action.stage() || kept);
}

std::string Dataflow::ExplainActivation(const Symbol& symbol) {
  if (symbol.kind != Symbol::kActivation) return "no activation, or several";
  return absl::StrCat("what the ", symbol.backward ? "backward" : "forward", " of stage ", symbol.stage,
                      ", microbatch ", symbol.microbatch, " made");
}

void Dataflow::AddLoss(const RoleAction& at, const Action& action, int b) {
  Symbol symbol = Whole(at.role, b);
  symbol.elements.push_back(action.microbatch());
  std::sort(symbol.elements.begin(), symbol.elements.end());
  SetWhole(at.role, b, symbol);
}

void Dataflow::Contribute(const RoleAction& at, const Action& action, int b, bool accumulates) {
  const Buffer& buffer = BufferOf(at.role, b);
  const std::string what = DescribeBuffer(*TemplateOf(at.role).t, b);
  Symbol symbol = accumulates ? Whole(at.role, b) : Of(Symbol::kZero);
  if (symbol.kind == Symbol::kZero) {
    symbol = Of(Symbol::kGradient);
    symbol.parts = {{buffer.tensor(), buffer.use(), action.stage(), 0, -1, 0}};
  }
  if (symbol.kind != Symbol::kGradient || symbol.parts.size() != 1 || symbol.parts[0].synced > 0 || symbol.scaled ||
      symbol.parts[0].tensor != buffer.tensor() || symbol.parts[0].use != buffer.use()) {
    Bad("P9.sync", at, "adds to ", what, " after it was synchronised or changed");
    return;
  }
  Part_& part = symbol.parts[0];
  if (part.stage != action.stage()) {
    Bad("P9.uses", at, "adds to ", what, ", to which stage ", part.stage, " adds too: each use has its own gradient");
  }
  if (index_.program->accumulation() != EXACT && action.microbatch() <= part.last) {
    Bad("P9.order", at, "adds microbatch ", action.microbatch(), " to ", what, " after microbatch ", part.last,
        "; IN_ORDER needs ascending microbatches");
  }
  ++part.microbatches;
  if (index_.program->accumulation() != EXACT) part.last = action.microbatch();
  SetWhole(at.role, b, symbol);
}

void Dataflow::Transfer(const RoleAction& at) {
  const Rendezvous& pair = matching_.rendezvous[matching_.of[at.role][at.action]];
  const Symbol symbol = Whole(pair[0].role, Ref(pair[0])->sources(0));
  SetWhole(pair[1].role, Ref(pair[1])->destinations(0), symbol);
}

int Dataflow::OwnData(int role) const {
  return data_position_ < 0 ? 0 : static_cast<int>(index_.RoleCoordinate(role, data_position_));
}

void Dataflow::Reduce(const Rendezvous& members) {
  const Action& first = *Ref(members[0]);
  const bool over_data = data_ > 1 && index_.GroupCoversAxis(first.group(), "data");
  for (int i = 0; i < first.sources_size(); ++i) {
    std::vector<Symbol> sources;
    for (const RoleAction& member : members) {
      const int b = Ref(member)->sources(i);
      if (IsGrad(BufferOf(member.role, b).role())) Touch(member.role, b, true);
      sources.push_back(Whole(member.role, b));
    }
    // One sum per data coordinate that is a role of its own; all of them must agree.
    std::map<int, Symbol> sums;
    for (size_t m = 0; m < members.size(); ++m) {
      const int key = over_data || data_position_ < 0 ? OwnData(members[m].role) : 0;
      const auto [it, fresh] = sums.emplace(key, sources[m]);
      if (!fresh) it->second = Sum(members[m], it->second, sources[m]);
    }
    Symbol sum = sums.begin()->second;
    for (const auto& [data, other] : sums) {
      if (!(other == sum)) {
        Bad("P9.sync", members[0], "sums different things over data");
        sum = {};
        break;
      }
    }
    if (over_data) {
      for (Part_& part : sum.parts) ++part.synced;
      if (sum.kind == Symbol::kNorms) sum = {};
    }
    const bool losses = sum.kind == Symbol::kLosses;
    if (losses) AddAxes(members[0], first.group(), sum);
    for (const RoleAction& member : members) {
      const int b = Ref(member)->destinations(i);
      const BufferRole to = BufferOf(member.role, b).role();
      if (losses) ReduceLosses(member, to, sum);
      if (IsGrad(to) && b != Ref(member)->sources(i)) Touch(member.role, b, false);
      SetWhole(member.role, b, sum);
    }
  }
}

void Dataflow::AddAxes(const RoleAction& at, const Group& group, Symbol& sum) {
  for (const AxisSubset& subset : group.axes()) {
    if (index_.AxisSize(subset.axis()) == 1) continue;
    bool& axis = subset.axis() == "pipe" ? sum.over_pipe : sum.over_data;
    if (axis) Bad("P11.loss", at, "sums the losses over ", subset.axis(), " again");
    if (!index_.GroupCoversAxis(group, subset.axis())) {
      Bad("P11.loss", at, "sums the losses over a part of the mesh only");
    }
    axis = true;
  }
}

void Dataflow::ReduceLosses(const RoleAction& at, BufferRole to, const Symbol& sum) {
  if (to != LOSSES) {
    Bad("P11.loss", at, "sums the losses into a buffer of role ", BufferRole_Name(to), ", must be LOSSES");
    return;
  }
  if (static_cast<int>(sum.elements.size()) != index_.program->microbatches() &&
      (sum.over_pipe || index_.AxisSize("pipe") == 1)) {
    Bad("P11.loss", at, "sums the losses when ", sum.elements.size(), " of ", index_.program->microbatches(),
        " microbatches have given theirs");
  }
  if (losses_synced_[at.role]) Bad("P11.loss", at, "sums the losses again");
  const bool whole = (sum.over_pipe || index_.AxisSize("pipe") == 1) && (sum.over_data || data_ == 1);
  losses_synced_[at.role] = whole;
  losses_part_[at.role] = whole ? std::nullopt : std::optional(at);
}

Symbol Dataflow::Sum(const RoleAction& at, const Symbol& a, const Symbol& b) {
  if (a.kind == Symbol::kZero) return b;
  if (b.kind == Symbol::kZero) return a;
  if (a.kind != b.kind) return {};
  Symbol sum = a;
  if (a.kind == Symbol::kGradient) {
    if (a.scaled != b.scaled) return {};
    const auto place = [](const Part_& part) { return std::tie(part.tensor, part.use); };
    if (place(a.parts.back()) >= place(b.parts.front())) {
      Bad("P9.uses", at, "adds the uses of ", TensorName(b.parts.front().tensor), " out of model order, or one twice");
      return {};
    }
    sum.parts.insert(sum.parts.end(), b.parts.begin(), b.parts.end());
  } else if (a.kind == Symbol::kNorms || a.kind == Symbol::kLosses) {
    if (a.over_pipe != b.over_pipe || a.over_data != b.over_data) return {};
    sum.elements.insert(sum.elements.end(), b.elements.begin(), b.elements.end());
    std::sort(sum.elements.begin(), sum.elements.end());
    if (a.kind == Symbol::kNorms) {
      const auto twice = std::adjacent_find(sum.elements.begin(), sum.elements.end());
      if (twice != sum.elements.end()) Bad("P11.norm", at, "counts the norm of ", TensorName(*twice), " twice");
    }
  } else {
    return {};
  }
  return sum;
}

void CheckDataflow(const Index& index, const Matching& matching, const std::vector<RoleAction>& order, bool training,
                   Findings* findings) {
  Dataflow(index, matching, training, findings).Run(order);
}

}  // namespace weft::verify
