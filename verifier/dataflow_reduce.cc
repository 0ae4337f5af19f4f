// Collective actions in the symbolic run: the values that they sum and gather, and over which ranks (P9, P11).
#include <algorithm>
#include <map>

#include "proto/util/units.h"
#include "verifier/dataflow.h"

namespace weft::verify {

// Combines the members' symbols into one. Sums the symbols of members that differ only in the pipe coordinate. All
// these sums must agree, because the ranks of one role must hold the same symbol.
std::optional<Symbol> Dataflow::ReduceMembers(const Rendezvous& members, int source) {
  std::map<std::vector<int64_t>, Symbol> sums;
  for (const RoleAction& member : members) {
    const int b = Ref(member)->sources(source);
    if (IsGrad(BufferOf(member.role, b).role())) Touch(member.role, b, true);
    std::optional<Symbol> weights = WeightsIn(member.role, b);
    Symbol symbol = weights ? *std::move(weights) : Whole(member.role, b);
    for (GradientPart& part : symbol.parts) {
      if (part.pipes.empty()) part.pipes = {Coordinate(member.role, pipe_position_)};
      part.last = -1;
    }
    std::vector<int64_t> place;
    for (int p = 0; p < static_cast<int>(index_.pinned_axes.size()); ++p) {
      if (p != pipe_position_) place.push_back(index_.RoleCoordinate(member.role, p));
    }
    const auto [it, fresh] = sums.try_emplace(std::move(place));
    it->second = fresh ? std::move(symbol) : Sum(member, std::move(it->second), symbol);
  }
  for (const auto& [place, other] : sums) {
    if (other == sums.begin()->second) continue;
    Bad("P9.sync", members[0],
        "sums or gathers over ranks whose contents (summed over the pipeline) must be equal, but they differ");
    return std::nullopt;
  }
  return std::move(sums.begin()->second);
}

std::optional<Symbol> Dataflow::WeightsIn(int role, int b) const {
  const Buffer& buffer = BufferOf(role, b);
  if (buffer.role() != PARAM && buffer.role() != MASTER) return std::nullopt;
  if (state_[role][b].updates == 0) return Symbol();
  Symbol symbol = SymbolOf(Symbol::kWeights);
  symbol.tensor = buffer.tensor();
  symbol.ranges = RangeCuts(*index_.program, buffer.shard());
  symbol.version = state_[role][b].version;
  return std::move(symbol).InBuffer(0, static_cast<int>(DTypeBytes(buffer.dtype())));
}

void Dataflow::Reduce(const Rendezvous& members) {
  const Action& first = *Ref(members[0]);
  const GroupCuts group = CutsOf(*index_.program, first.group());
  for (int i = 0; i < first.sources_size(); ++i) {
    Symbol result = ReduceMembers(members, i).value_or(Symbol());
    if (first.kind() == ALL_GATHER) {
      result = Gathered(members[0], i, group, std::move(result));
    } else if (result.kind == Symbol::kGradient) {
      SumGradient(members[0], i, group, first.kind(), &result);
    } else if (result.kind == Symbol::kNorms) {
      SumNorms(members[0], group, &result);
    } else if (result.kind == Symbol::kLosses) {
      AddAxes(members[0], group, result);
    } else if (result.kind != Symbol::kZero) {
      result = {};
    }
    if (first.kind() == REDUCE_SCATTER && result.kind != Symbol::kGradient && result.kind != Symbol::kZero) result = {};
    for (const RoleAction& member : members) Deliver(member, i, result);
  }
}

void Dataflow::Deliver(const RoleAction& member, int i, const Symbol& result) {
  const int b = Ref(member)->destinations(i);
  const Buffer& buffer = BufferOf(member.role, b);
  if (result.kind == Symbol::kLosses) ReduceLosses(member, buffer.role(), result);
  if (IsGrad(buffer.role()) && b != Ref(member)->sources(i)) Touch(member.role, b, false);
  if (buffer.role() == PARAM || buffer.role() == MASTER) {
    const bool fits = result.kind == Symbol::kWeights && buffer.role() == PARAM && result.tensor == buffer.tensor() &&
                      result.ranges == RangeCuts(*index_.program, buffer.shard());
    if (!fits) {
      Bad("P11.update", member, "writes ", DescribeBuffer(*TemplateOf(member.role).t, b),
          ", but not with its gathered updated weights");
    }
    Updated(member, b, 0, buffer.bytes());
    if (fits && IsAsynchronous(*index_.program)) Publish(member, b, result);
    return;
  }
  SetWhole(member.role, b, result);
}

void Dataflow::Publish(const RoleAction& member, int b, const Symbol& weights) {
  state_[member.role][b].version = weights.version;
  const Template& t = *TemplateOf(member.role).t;
  for (int m = 0; m < t.buffers_size(); ++m) {
    if (t.buffers(m).role() != MASTER || t.buffers(m).tensor() != weights.tensor) continue;
    BufferState& master = state_[member.role][m];
    if (master.version == weights.version) master.unpublished = false;
  }
}

void Dataflow::CheckWholePart(const RoleAction& at, int b, int tensor, const Cuts& ranges, size_t cuts,
                              const Symbol& symbol) {
  if (!PaddedAtEnd(*index_.program, PartElements(*index_.program, tensor, dimensions_[tensor], {}), ranges, cuts)) {
    Bad("P8.gather", at, "gathers or scatters ", DescribeBuffer(*TemplateOf(at.role).t, b), " at once over several of ",
        DescribeCuts(*index_.program, ranges), "; the ranges of ", TensorName(tensor),
        " do not divide evenly before the last of these");
  }
  const int64_t all = PartElements(*index_.program, tensor, dimensions_[tensor], ranges);
  const int64_t bytes = BufferOf(at.role, b).bytes();
  if (symbol.shift == 0 && symbol.item > 0 && bytes / symbol.item == all) return;
  Bad("P8.gather", at, "gathers or scatters ", DescribeBuffer(*TemplateOf(at.role).t, b), " of ",
      bytes / std::max(1, symbol.item), " elements of ", TensorName(tensor), " from ", symbol.FirstElement(),
      " on; the part that a rank holds has ", all);
}

Symbol Dataflow::Gathered(const RoleAction& at, int i, const GroupCuts& group, Symbol symbol) {
  Cuts* ranges = symbol.kind == Symbol::kWeights    ? &symbol.ranges
                 : symbol.kind == Symbol::kGradient ? &symbol.parts[0].ranges
                                                    : nullptr;
  const size_t n = group.cuts.size();
  if (ranges == nullptr || symbol.parts.size() > 1 || group.pipe || !group.odd.empty() || ranges->size() < n ||
      !std::equal(group.cuts.begin(), group.cuts.end(), ranges->end() - static_cast<int64_t>(n))) {
    Bad("P8.gather", at, "gathers over ", DescribeCuts(*index_.program, group.cuts), " content that is cut over ",
        ranges == nullptr ? "no axes, or is no updated weight" : DescribeCuts(*index_.program, *ranges));
    return {};
  }
  CheckWholePart(at, Ref(at)->sources(i), symbol.kind == Symbol::kWeights ? symbol.tensor : symbol.parts[0].tensor,
                 *ranges, n, symbol);
  ranges->resize(ranges->size() - n);
  return symbol;
}

void Dataflow::SumGradient(const RoleAction& at, int i, const GroupCuts& group, ActionKind kind, Symbol* symbol) {
  if (!group.odd.empty()) Bad("P9.sync", at, "sums gradients over a part of axis ", group.odd, " that cuts nothing");
  bool scatters = kind == REDUCE_SCATTER;
  for (const AxisCut& cut : group.cuts) scatters = scatters && cut.stride == 0;
  if (kind == REDUCE_SCATTER && (!scatters || group.pipe)) {
    Bad("P8.gather", at, "scatters a gradient over pipe or strides, which cut no tensor into ranges");
  }
  for (GradientPart& part : symbol->parts) {
    for (const AxisCut& cut : group.cuts) {
      if (!AddSum(cut, &part.sums)) {
        Bad("P9.sync", at, "sums the gradient of ", TensorName(part.tensor), " over ",
            DescribeCuts(*index_.program, {cut}), ", which it is summed over already");
      }
    }
    if (scatters) part.ranges.insert(part.ranges.end(), group.cuts.begin(), group.cuts.end());
  }
  if (scatters && !symbol->parts.empty()) {
    CheckWholePart(at, Ref(at)->destinations(i), symbol->parts[0].tensor, symbol->parts[0].ranges, group.cuts.size(),
                   *symbol);
  }
}

// Checks that the sum counts each tensor once: the ranks that hold its parts count it together, or one of the ranks
// that hold copies counts it.
void Dataflow::SumNorms(const RoleAction& at, const GroupCuts& group, Symbol* symbol) {
  if (!group.odd.empty()) Bad("P11.norm", at, "sums the norms over a part of axis ", group.odd);
  for (const AxisCut& cut : group.cuts) {
    const std::string axis = DescribeCuts(*index_.program, {cut});
    if (SumsAny(symbol->sums, cut.axis)) Bad("P11.norm", at, "sums the norms over ", axis, " again");
    symbol->sums.push_back(cut);
    for (const NormPart& part : symbol->norms) {
      const bool holds_part = std::find(part.cuts.begin(), part.cuts.end(), cut) != part.cuts.end();
      const bool counted = std::find(part.counted.begin(), part.counted.end(), cut.axis) != part.counted.end();
      const bool whole = cut.block == 0 && cut.stride == 0;
      if (SumsAny(part.cuts, cut.axis) ? holds_part && !counted : counted && whole) continue;
      Bad("P11.norm", at, "sums the norm of ", TensorName(part.tensor), " over ", axis, "; its gradient is cut over ",
          DescribeCuts(*index_.program, part.cuts), ", and copies are ", counted ? "" : "not ", "counted once there");
      break;
    }
  }
}

void Dataflow::AddAxes(const RoleAction& at, const GroupCuts& group, Symbol& sum) {
  if (group.pipe) {
    if (sum.over_pipe) Bad("P11.loss", at, "sums the losses over pipe again");
    if (!index_.GroupCoversAxis(Ref(at)->group(), "pipe")) {
      Bad("P11.loss", at, "sums the losses over a part of the mesh only");
    }
    sum.over_pipe = true;
  }
  for (const AxisCut& cut : group.cuts) {
    const std::string& axis = index_.program->mesh().axes(cut.axis).name();
    if (axis != "data" && axis != "z") {
      Bad("P11.loss", at, "sums the losses over ", axis, ", but all ranks on that axis have the same losses");
      continue;
    }
    bool& over = axis == "data" ? sum.over_data : sum.over_z;
    if (over) Bad("P11.loss", at, "sums the losses over ", axis, " again");
    if (!group.odd.empty() || cut.block > 0 || cut.stride > 0) {
      Bad("P11.loss", at, "sums the losses over a part of the mesh only");
    }
    over = true;
  }
}

void Dataflow::ReduceLosses(const RoleAction& at, BufferRole to, const Symbol& sum) {
  if (to != LOSSES) {
    Bad("P11.loss", at, "sums the losses into a buffer of role ", BufferRole_Name(to), "; it must be LOSSES");
    return;
  }
  const auto over = [&](bool summed, const char* axis) { return summed || index_.AxisSize(axis) == 1; };
  if (static_cast<int>(sum.elements.size()) != index_.program->microbatches() && over(sum.over_pipe, "pipe")) {
    Bad("P11.loss", at, "sums the losses when only ", sum.elements.size(), " of ", index_.program->microbatches(),
        " microbatches have added their losses");
  }
  const int first = repetition_ * index_.program->microbatches();
  for (const int m : sum.elements) {
    if (m >= first && m < first + index_.program->microbatches()) continue;
    Bad("P11.loss", at, "sums the loss of a microbatch of another repetition");
    break;
  }
  if (losses_synced_[at.role]) Bad("P11.loss", at, "sums the losses again");
  const bool whole = over(sum.over_pipe, "pipe") && over(sum.over_data, "data") && over(sum.over_z, "z");
  losses_synced_[at.role] = whole;
  losses_part_[at.role] = whole ? std::nullopt : std::optional(at);
}

}  // namespace weft::verify
