// One repetition of all roles is run on symbols (of an asynchronous program the prologue and two repetitions, with
// microbatches numbered on from one to the next): an activation is the (stage, microbatch) that made it, a gradient the
// set of uses of tensors that it sums, with how many microbatches and whether over the replicas, a norm the tensors it
// covers. The order of the run does not matter: the lists have no races (P7) and every order gives the same symbols.
#include "proto/verify/dataflow.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "proto/verify/completeness.h"

namespace weft::verify {

void Dataflow::Transfer(const RoleAction& at) {
  const Rendezvous& pair = matching_.rendezvous[matching_.of[at.role][at.action]];
  const int from = Ref(pair[0])->sources(0), to = Ref(pair[1])->destinations(0);
  Content& copy = state_[pair[1].role][to].content;
  state_[pair[0].role][from].content.ForEach(0, BufferOf(pair[0].role, from).bytes(),
                                             [&](int64_t begin, int64_t end, const Symbol& symbol) {
                                               copy.Set(begin, end, symbol);
                                               return true;
                                             });
}

int Dataflow::Coordinate(int role, int position) const {
  return position < 0 ? 0 : static_cast<int>(index_.RoleCoordinate(role, position));
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
      for (Part_& part : sources.back().parts) {
        if (part.pipes.empty()) part.pipes = {Coordinate(member.role, pipe_position_)};
        part.last = -1;
      }
    }
    // One sum per data coordinate that is a role of its own; all of them must agree.
    std::map<int, Symbol> sums;
    for (size_t m = 0; m < members.size(); ++m) {
      const int key = over_data || data_position_ < 0 ? Coordinate(members[m].role, data_position_) : 0;
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
  const int first = repetition_ * index_.program->microbatches();
  for (const int m : sum.elements) {
    if (m >= first && m < first + index_.program->microbatches()) continue;
    Bad("P11.loss", at, "sums the loss of a microbatch of another repetition");
    break;
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
  if (a.kind == Symbol::kGradient) return SumGradients(at, a, b);
  Symbol sum = a;
  if (a.kind == Symbol::kNorms || a.kind == Symbol::kLosses) {
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

// Other uses of a tensor are added in model order; the same uses of other replicas each with itself.
Symbol Dataflow::SumGradients(const RoleAction& at, const Symbol& a, const Symbol& b) {
  if (a.scaled != b.scaled) return {};
  Symbol sum = a;
  const auto place = [](const Part_& part) { return std::tie(part.tensor, part.use); };
  const auto same = [&](const Part_& x, const Part_& y) { return place(x) == place(y); };
  if (!std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same)) {
    if (place(a.parts.back()) >= place(b.parts.front())) {
      Bad("P9.uses", at, "adds the uses of ", TensorName(b.parts.front().tensor), " out of model order, or one twice");
      return {};
    }
    sum.parts.insert(sum.parts.end(), b.parts.begin(), b.parts.end());
    return sum;
  }
  for (size_t i = 0; i < sum.parts.size(); ++i) {
    Part_& x = sum.parts[i];
    const Part_& y = b.parts[i];
    std::vector<int> both;
    std::set_intersection(x.pipes.begin(), x.pipes.end(), y.pipes.begin(), y.pipes.end(), std::back_inserter(both));
    if (!both.empty() || x.pipes.empty() || y.pipes.empty()) {
      Bad(Ref(at)->kind() == ALL_REDUCE ? "P9.sync" : "P9.uses", at, "sums the gradient of ", TensorName(x.tensor),
          " twice", both.empty() ? "" : absl::StrCat(": that of pipe ", both[0], " is in it already"));
      return {};
    }
    if (x.stage != y.stage) {
      Bad("P9.uses", at, "adds the gradients of ", TensorName(x.tensor), " use ", x.use, " of stages ", x.stage,
          " and ", y.stage, "; each use is in one stage");
      return {};
    }
    if (x.synced != y.synced) {
      Bad("P9.sync", at, "sums gradients of ", TensorName(x.tensor), ", one of which is summed over data and one not");
      return {};
    }
    std::vector<int> all;
    std::set_union(x.pipes.begin(), x.pipes.end(), y.pipes.begin(), y.pipes.end(), std::back_inserter(all));
    if (x.step != y.step) Bad("P14.step", at, "sums gradients of ", TensorName(x.tensor), " of different steps");
    x.pipes = std::move(all);
    x.microbatches += y.microbatches;
  }
  return sum;
}

void CheckDataflow(const Index& index, const Matching& matching, const ListOrders& order, bool training,
                   Findings* findings) {
  Dataflow(index, matching, training, findings).Run(order);
}

}  // namespace weft::verify
