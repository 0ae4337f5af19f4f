// Runs one repetition of all roles on symbols. For an asynchronous program it runs the prologue and two repetitions;
// microbatch numbers continue from one repetition to the next. The symbol of an activation is the (stage, microbatch)
// that made it. The symbol of a gradient is the set of uses of tensors that it sums, with the number of microbatches
// and the replicas that it is summed over. The symbol of a norm is the set of tensors that it covers. The order of the
// run does not matter: the lists have no races (P7), so every order gives the same symbols.
#include "verifier/dataflow.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "verifier/completeness.h"

namespace weft::verify {

void Dataflow::Transfer(const RoleAction& at) {
  const Rendezvous& pair = matching_.rendezvous[matching_.of[at.role][at.action]];
  const int from = Ref(pair[0])->sources(0), to = Ref(pair[1])->destinations(0);
  Content& copy = state_[pair[1].role][to].content;
  state_[pair[0].role][from].content.ForEach(0, BufferOf(pair[0].role, from).bytes(),
                                             [&](int64_t begin, int64_t end, const Symbol& symbol) {
                                               // A symbol of optimizer state refers to a buffer of the sender, so the
                                               // receiver gets the unknown symbol.
                                               copy.Set(begin, end, symbol.kind == Symbol::kState ? Symbol() : symbol);
                                               return true;
                                             });
}

int Dataflow::Coordinate(int role, int position) const {
  return position < 0 ? 0 : static_cast<int>(index_.RoleCoordinate(role, position));
}

Symbol Dataflow::Sum(const RoleAction& at, Symbol a, const Symbol& b) {
  if (a.kind == Symbol::kZero) return b;
  if (b.kind == Symbol::kZero) return a;
  if (a.kind != b.kind) return {};
  if (a.kind == Symbol::kGradient) return SumGradients(at, std::move(a), b);
  Symbol sum = std::move(a);
  if (sum.kind == Symbol::kLosses) {
    if (sum.over_pipe != b.over_pipe || sum.over_data != b.over_data || sum.over_z != b.over_z) return {};
    sum.elements.insert(sum.elements.end(), b.elements.begin(), b.elements.end());
    std::sort(sum.elements.begin(), sum.elements.end());
  } else if (sum.kind == Symbol::kNorms) {
    if (sum.sums != b.sums) return {};
    // Both lists ascend, and usually there is one element to add.
    for (const NormPart& part : b.norms) {
      sum.norms.insert(std::upper_bound(sum.norms.begin(), sum.norms.end(), part), part);
    }
    const auto twice = std::adjacent_find(sum.norms.begin(), sum.norms.end(),
                                          [](const NormPart& x, const NormPart& y) { return x.tensor == y.tensor; });
    if (twice != sum.norms.end()) Bad("P11.norm", at, "counts the norm of ", TensorName(twice->tensor), " twice");
  } else {
    return {};
  }
  return sum;
}

// Appends different uses of a tensor in model order. If both gradients have the same uses, from other replicas, adds
// them use by use.
Symbol Dataflow::SumGradients(const RoleAction& at, Symbol a, const Symbol& b) {
  if (a.scaled != b.scaled) return {};
  if (!a.SameElements(b)) {
    Bad("P9.gradient", at, "adds elements of ", TensorName(a.parts[0].tensor), " from ", a.FirstElement(),
        " on to those of ", TensorName(b.parts[0].tensor), " from ", b.FirstElement(), " on");
    return {};
  }
  const auto place = [](const GradientPart& part) { return std::tie(part.tensor, part.use); };
  const auto same = [&](const GradientPart& x, const GradientPart& y) { return place(x) == place(y); };
  if (!std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same)) {
    if (place(a.parts.back()) >= place(b.parts.front())) {
      Bad("P9.uses", at, "adds the uses of ", TensorName(b.parts.front().tensor),
          " out of model order, or adds one twice");
      return {};
    }
    a.parts.insert(a.parts.end(), b.parts.begin(), b.parts.end());
    return a;
  }
  for (size_t i = 0; i < a.parts.size(); ++i) {
    GradientPart& x = a.parts[i];
    const GradientPart& y = b.parts[i];
    std::vector<int> both;
    std::set_intersection(x.pipes.begin(), x.pipes.end(), y.pipes.begin(), y.pipes.end(), std::back_inserter(both));
    if (!both.empty() || x.pipes.empty() || y.pipes.empty()) {
      Bad(Ref(at)->kind() == ALL_REDUCE ? "P9.sync" : "P9.uses", at, "sums the gradient of ", TensorName(x.tensor),
          " twice", both.empty() ? "" : absl::StrCat(": the sum already contains the gradient of pipe ", both[0]));
      return {};
    }
    if (x.stage != y.stage) {
      Bad("P9.uses", at, "adds the gradients of ", TensorName(x.tensor), " use ", x.use, " of stages ", x.stage,
          " and ", y.stage, "; each use must be in one stage");
      return {};
    }
    if (x.sums != y.sums || x.ranges != y.ranges) {
      Bad("P9.sync", at, "sums gradients of ", TensorName(x.tensor), ", one of which is summed over ",
          DescribeCuts(*index_.program, x.sums), " and one over ", DescribeCuts(*index_.program, y.sums),
          x.ranges != y.ranges ? ", of different ranges" : "");
      return {};
    }
    std::vector<int> all;
    std::set_union(x.pipes.begin(), x.pipes.end(), y.pipes.begin(), y.pipes.end(), std::back_inserter(all));
    if (x.step != y.step) Bad("P14.step", at, "sums gradients of ", TensorName(x.tensor), " of different steps");
    x.pipes = std::move(all);
    x.microbatches += y.microbatches;
  }
  return a;
}

void CheckDataflow(const Index& index, const Matching& matching, const ListOrders& order, bool training,
                   Findings* findings) {
  Dataflow(index, matching, training, findings).Run(order);
}

}  // namespace weft::verify
