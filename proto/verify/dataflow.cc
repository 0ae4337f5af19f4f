// One repetition of all roles is run on symbols: an activation is the (stage, microbatch) that made it, a gradient the
// set of uses of tensors that it sums, with how many microbatches and whether over the replicas, a norm the tensors it
// covers. The order of the run does not matter: the lists have no races (P7) and every order gives the same symbols.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "absl/strings/str_join.h"
#include "proto/units.h"
#include "proto/verify/completeness.h"
#include "proto/verify/symbols.h"

namespace weft::verify {
namespace {

struct BufferState {
  Content content;
  // GRAD, GRAD_ACCUMULATOR: the first access of the repetition relies on zeros.
  bool touched = false, needs_zero = false;
  int updates = 0;  // PARAM, MASTER.
};

class Dataflow {
 public:
  Dataflow(const Index& index, const Matching& matching, bool training, Findings* findings)
      : index_(index), matching_(matching), training_(training), findings_(findings) {
    const Recipe& recipe = index.program->recipe();
    clip_ = recipe.has_clip_norm() ? recipe.clip_norm() : 1.0;
    data_ = index.AxisSize("data");
    const int axis = index.AxisIndex("data");
    data_position_ = axis < 0 ? -1 : index.PinnedPosition(axis);
    for (int t : index.role_template) {
      std::vector<BufferState>& buffers = state_.emplace_back(index.templates[t].t->buffers_size());
      for (int b = 0; b < static_cast<int>(buffers.size()); ++b) {
        const Buffer& buffer = index.templates[t].t->buffers(b);
        Symbol symbol;
        switch (buffer.role()) {
          case GRAD:
          case GRAD_ACCUMULATOR:
            symbol.kind = Symbol::kZero;
            break;
          case LOCAL_LOSSES:
            symbol.kind = Symbol::kLosses;
            break;
          case LOCAL_NORMS:
            symbol.kind = Symbol::kNorms;
            break;
          default:
            continue;
        }
        buffers[b].content.Set(0, buffer.bytes(), symbol);
      }
    }
    losses_synced_.resize(state_.size(), false);
    losses_part_.resize(state_.size());
  }

  void Run(const std::vector<RoleAction>& order) {
    for (const RoleAction& at : order) {
      if (findings_->full()) return;
      const Action& action = *Ref(at);
      switch (action.kind()) {
        case FORWARD:
        case BACKWARD:
          Microbatch(at, action);
          break;
        case SEND:
        case RECV:
          Transfer(at);
          break;
        case ALL_REDUCE:
          Reduce(matching_.rendezvous[matching_.of[at.role][at.action]]);
          break;
        default:
          EndOfStep(at, action);
      }
    }
    for (int role = 0; role < static_cast<int>(state_.size()) && !findings_->full(); ++role) CheckEnd(role);
    if (training_) CheckHolders();
  }

 private:
  const TemplateIndex& TemplateOf(int role) const { return index_.templates[index_.role_template[role]]; }
  const Action* Ref(const RoleAction& at) const { return TemplateOf(at.role).actions[at.action].action; }
  const Buffer& BufferOf(int role, int b) const { return TemplateOf(role).t->buffers(b); }
  std::string Name(const RoleAction& at) const { return Describe(*TemplateOf(at.role).t, *Ref(at)); }
  std::string TensorName(int i) const { return absl::StrCat("'", index_.program->tensors(i).name(), "'"); }

  template <typename... Parts>
  void Bad(const char* rule, const RoleAction& at, const Parts&... parts) {
    // Roles of one template would repeat it.
    const std::string text = absl::StrCat(Name(at), ": ", parts...);
    if (text != last_message_) findings_->Add(rule, text);
    last_message_ = text;
  }

  Symbol Whole(int role, int b) const { return state_[role][b].content.Get(0, BufferOf(role, b).bytes()); }
  void SetWhole(int role, int b, Symbol symbol) {
    state_[role][b].content.Set(0, BufferOf(role, b).bytes(), std::move(symbol));
  }
  static bool IsGrad(BufferRole role) { return role == GRAD || role == GRAD_ACCUMULATOR; }

  // Notes whether the first access of the repetition relies on the buffer being zero.
  void Touch(int role, int b, bool reads) {
    BufferState& state = state_[role][b];
    if (!state.touched) state.needs_zero = reads;
    state.touched = true;
  }

  void Microbatch(const RoleAction& at, const Action& action) {
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

  // What the forward of the action's own stage and microbatch made, or (in a backward) read: it may have been kept.
  static bool IsOfForward(const Symbol& symbol, const Action& action) {
    const bool kept = symbol.stage == action.stage() - 1 && action.kind() == BACKWARD;
    return symbol.kind == Symbol::kActivation && !symbol.backward && symbol.microbatch == action.microbatch() &&
           (symbol.stage == action.stage() || kept);
  }

  static std::string ExplainActivation(const Symbol& symbol) {
    if (symbol.kind != Symbol::kActivation) return "no activation, or several";
    return absl::StrCat("what the ", symbol.backward ? "backward" : "forward", " of stage ", symbol.stage,
                        ", microbatch ", symbol.microbatch, " made");
  }

  void AddLoss(const RoleAction& at, const Action& action, int b) {
    Symbol symbol = Whole(at.role, b);
    symbol.elements.push_back(action.microbatch());
    std::sort(symbol.elements.begin(), symbol.elements.end());
    SetWhole(at.role, b, symbol);
  }

  // A backward adds to (or starts) the gradient of the buffer's use.
  void Contribute(const RoleAction& at, const Action& action, int b, bool accumulates) {
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

  void Transfer(const RoleAction& at) {
    const Rendezvous& pair = matching_.rendezvous[matching_.of[at.role][at.action]];
    const Symbol symbol = Whole(pair[0].role, Ref(pair[0])->sources(0));
    SetWhole(pair[1].role, Ref(pair[1])->destinations(0), symbol);
  }

  int OwnData(int role) const {
    return data_position_ < 0 ? 0 : static_cast<int>(index_.RoleCoordinate(role, data_position_));
  }

  void Reduce(const Rendezvous& members) {
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

  // Notes over which axes a sum of losses goes. They may be taken one after the other, each once and whole.
  void AddAxes(const RoleAction& at, const Group& group, Symbol& sum) {
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

  void ReduceLosses(const RoleAction& at, BufferRole to, const Symbol& sum) {
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

  Symbol Sum(const RoleAction& at, const Symbol& a, const Symbol& b) {
    if (a.kind == Symbol::kZero) return b;
    if (b.kind == Symbol::kZero) return a;
    if (a.kind != b.kind) return {};
    Symbol sum = a;
    if (a.kind == Symbol::kGradient) {
      if (a.scaled != b.scaled) return {};
      const auto place = [](const Part_& part) { return std::tie(part.tensor, part.use); };
      if (place(a.parts.back()) >= place(b.parts.front())) {
        Bad("P9.uses", at, "adds the uses of ", TensorName(b.parts.front().tensor),
            " out of model order, or one twice");
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

  // GRAD_NORM, SCALE_GRADIENTS, OPTIMIZER_STEP: step by step.
  void EndOfStep(const RoleAction& at, const Action& action) {
    const Segment& segment = index_.program->segments(action.segment());
    const SegmentUse& use = index_.segments[action.segment()];
    for (int o = 0; o < action.operands_size(); ++o) {
      const int b = action.operands(o);
      if (IsGrad(BufferOf(at.role, b).role())) Touch(at.role, b, !use.operands[o].first_reads.empty());
    }
    const auto buffer_of = [&](int value) { return action.operands(segment.values(value).operand()); };
    const auto end_of = [&](int value) {
      const Value& v = segment.values(value);
      return v.offset() + *ElementCount(v.shape()) * DTypeBytes(v.dtype());
    };
    const auto get = [&](int value) {
      return state_[at.role][buffer_of(value)].content.Get(segment.values(value).offset(), end_of(value));
    };
    for (const Step& step : segment.steps()) {
      std::vector<Symbol> out(step.outputs_size());
      switch (step.kernel()) {
        case CAST:
        case EXACT_ROUND:
          out[0] = get(step.inputs(0));
          CopyParam(at, action, buffer_of(step.inputs(0)), buffer_of(step.outputs(0)));
          break;
        case ADD:
          out[0] = Sum(at, get(step.inputs(0)), get(step.inputs(1)));
          if (step.accumulate()) out[0] = Sum(at, get(step.outputs(0)), out[0]);
          break;
        case EXACT_ACCUMULATE:
          out[0] = Sum(at, get(step.outputs(0)), get(step.inputs(0)));
          break;
        case FILL:
          if (step.attributes().value() == 0) out[0].kind = Symbol::kZero;
          break;
        case SCALE:
          out[0] = Scale(at, get(step.inputs(0)), get(step.inputs(1)));
          break;
        case SQUARED_NORM:
          out[0] = Norm(at, step, get(step.inputs(0)), get(step.outputs(0)));
          break;
        case NORM_TOTAL:
          out[0] = Total(at, step, get(step.inputs(0)));
          break;
        case ADAMW:
        case SGD_STEP:
          Update(at, action, segment, step, get(step.inputs(0)));
          continue;
        default:
          break;
      }
      for (int k = 0; k < step.outputs_size(); ++k) {
        const int b = buffer_of(step.outputs(k));
        const BufferRole role = BufferOf(at.role, b).role();
        if ((role == PARAM || role == MASTER) && step.kernel() != CAST) {
          Bad("P11.update", at, "step '", step.name(), "' writes ", DescribeBuffer(*TemplateOf(at.role).t, b),
              " and is no optimizer kernel");
        }
        state_[at.role][b].content.Set(segment.values(step.outputs(k)).offset(), end_of(step.outputs(k)),
                                       std::move(out[k]));
      }
    }
  }

  // A parameter that compute reads may be a cast of its master copy.
  void CopyParam(const RoleAction& at, const Action& action, int from, int to) {
    const Buffer &a = BufferOf(at.role, from), &b = BufferOf(at.role, to);
    if (b.role() != PARAM) return;
    if (a.role() != MASTER || a.tensor() != b.tensor() || state_[at.role][from].updates != 1) {
      Bad("P11.update", at, "writes ", DescribeBuffer(*TemplateOf(at.role).t, to),
          ", which is not from its updated master copy");
    }
    ++state_[at.role][to].updates;
  }

  std::string Explain(const Symbol& symbol) const {
    if (symbol.kind == Symbol::kZero) return "zero";
    if (symbol.kind != Symbol::kGradient) return "no gradient";
    std::vector<std::string> parts;
    for (const Part_& part : symbol.parts) {
      parts.push_back(absl::StrCat(TensorName(part.tensor), " use ", part.use, " of ", part.microbatches,
                                   " microbatches",
                                   data_ > 1 ? absl::StrCat(", summed over data ", part.synced, " times") : ""));
    }
    return absl::StrJoin(parts, " + ");
  }

  // Whether the symbol is the whole gradient of the tensor; else reports.
  bool WholeGradient(const RoleAction& at, int tensor, const Symbol& symbol) {
    const int uses = index_.program->tensors(tensor).uses();
    bool all = symbol.kind == Symbol::kGradient && static_cast<int>(symbol.parts.size()) == uses;
    bool synced = true;
    for (size_t i = 0; all && i < symbol.parts.size(); ++i) {
      const Part_& part = symbol.parts[i];
      all = part.tensor == tensor && part.use == static_cast<int>(i) &&
            part.microbatches == index_.program->microbatches();
      synced = synced && part.synced == (data_ > 1 ? 1 : 0);
    }
    if (!all) {
      Bad("P9.gradient", at, "needs the gradient of ", TensorName(tensor), " (", uses, " uses, ",
          index_.program->microbatches(), " microbatches), but reads ", Explain(symbol));
    } else if (!synced) {
      Bad("P9.sync", at, "the gradient of ", TensorName(tensor), " must be summed over data exactly once; it is ",
          Explain(symbol));
    }
    return all && synced;
  }

  Symbol Scale(const RoleAction& at, const Symbol& norm, Symbol gradient) {
    if (norm.kind != Symbol::kNormTotal) Bad("P11.clip", at, "scales by something that is not the global norm");
    if (gradient.kind == Symbol::kGradient) {
      if (gradient.scaled) Bad("P11.clip", at, "scales ", Explain(gradient), " twice");
      gradient.scaled = true;
    }
    return gradient;
  }

  Symbol Norm(const RoleAction& at, const Step& step, const Symbol& gradient, Symbol norms) {
    const int tensor = static_cast<int>(step.attributes().slot());
    if (tensor >= index_.program->tensors_size()) {
      Bad("P11.norm", at, "step '", step.name(), "' writes slot ", tensor, " of ", index_.program->tensors_size());
      return norms;
    }
    if (WholeGradient(at, tensor, gradient) && gradient.scaled) {
      Bad("P11.norm", at, "the norm of ", TensorName(tensor), " is taken after clipping");
    }
    Symbol one = Of(Symbol::kNorms);
    one.elements = {tensor};
    return Sum(at, norms, one);
  }

  Symbol Total(const RoleAction& at, const Step& step, const Symbol& norms) {
    if (norms.kind != Symbol::kNorms || static_cast<int>(norms.elements.size()) != index_.program->tensors_size()) {
      Bad("P11.norm", at, "the global norm needs ", index_.program->tensors_size(),
          " tensors, summed over the pipeline; it has ", norms.kind == Symbol::kNorms ? norms.elements.size() : 0);
    }
    if (step.attributes().clip_norm() != clip_) {
      Bad("P11.clip", at, "clips at ", step.attributes().clip_norm(), ", the recipe says ", clip_);
    }
    return Of(Symbol::kNormTotal);
  }

  void Update(const RoleAction& at, const Action& action, const Segment& segment, const Step& step,
              const Symbol& gradient) {
    if (action.kind() != OPTIMIZER_STEP)
      Bad("P11.update", at, "step '", step.name(), "' belongs into an OPTIMIZER_STEP");
    const auto buffer_of = [&](int value) { return action.operands(segment.values(value).operand()); };
    const int w = buffer_of(step.outputs(0));
    const Buffer& weight = BufferOf(at.role, w);
    if (weight.role() != PARAM && weight.role() != MASTER) {
      Bad("P11.update", at, "step '", step.name(), "' updates ", DescribeBuffer(*TemplateOf(at.role).t, w),
          ", which is no parameter");
      return;
    }
    const int tensor = weight.tensor();
    const int states = step.inputs_size() - 1;
    for (int k = 1; k < states; ++k) {
      const Buffer& moment = BufferOf(at.role, buffer_of(step.outputs(k)));
      if (moment.role() != (k == 1 ? MOMENT1 : MOMENT2) || moment.tensor() != tensor) {
        Bad("P11.update", at, "step '", step.name(), "' keeps its moments of ", TensorName(tensor), " in ",
            DescribeBuffer(*TemplateOf(at.role).t, buffer_of(step.outputs(k))));
      }
    }
    if (WholeGradient(at, tensor, gradient) && clip_ > 0 && !gradient.scaled) {
      Bad("P11.clip", at, "the gradient of ", TensorName(tensor), " is not scaled, but the recipe clips at ", clip_);
    }
    ++state_[at.role][w].updates;
    if (step.outputs_size() > states) {
      const int p = buffer_of(step.outputs(states));
      if (BufferOf(at.role, p).role() != PARAM || BufferOf(at.role, p).tensor() != tensor) {
        Bad("P11.update", at, "step '", step.name(), "' writes the new ", TensorName(tensor), " to ",
            DescribeBuffer(*TemplateOf(at.role).t, p));
      }
      ++state_[at.role][p].updates;
    }
  }

  void CheckEnd(int role) {
    const Template& t = *TemplateOf(role).t;
    const auto bad = [&](const char* rule, const auto&... parts) {
      const std::string text = absl::StrCat("template '", t.name(), "': ", parts...);
      if (text != last_message_) findings_->Add(rule, text);
      last_message_ = text;
    };
    for (int b = 0; b < t.buffers_size(); ++b) {
      const BufferState& state = state_[role][b];
      const BufferRole what = t.buffers(b).role();
      if (training_ && (what == PARAM || what == MASTER) && state.updates != 1) {
        bad("P11.update", DescribeBuffer(t, b), " is updated ", state.updates, " times in a step, must be once");
      }
      if (IsGrad(what) && state.needs_zero && Whole(role, b).kind != Symbol::kZero) {
        bad("P9.zero", DescribeBuffer(t, b), " is added to before it is written, but is not zero at the end of a step");
      }
      if (what == NORMS && training_) {
        const Symbol norms = Whole(role, b);
        if (norms.kind != Symbol::kNorms || static_cast<int>(norms.elements.size()) != index_.program->tensors_size()) {
          bad("P11.norm", DescribeBuffer(t, b), " does not get the norms of all tensors");
        }
      }
    }
    if (losses_part_[role]) {
      Bad("P11.loss", *losses_part_[role], "sums the losses over a part of the mesh only");
    } else if (!losses_synced_[role]) {
      bad("P11.loss", "no ALL_REDUCE sums LOCAL_LOSSES into LOSSES");
    }
  }

  // Every tensor has a copy in every pipeline.
  void CheckHolders() {
    const int axis = index_.AxisIndex("pipe");
    const int position = axis < 0 ? -1 : index_.PinnedPosition(axis);
    std::map<int, std::vector<bool>> held;
    for (int role = 0; role < static_cast<int>(state_.size()); ++role) {
      std::vector<bool>& tensors = held[position < 0 ? role : index_.WithCoordinate(role, position, 0)];
      tensors.resize(index_.program->tensors_size());
      for (const Buffer& buffer : TemplateOf(role).t->buffers()) {
        if (buffer.role() == PARAM) tensors[buffer.tensor()] = true;
      }
    }
    for (const auto& [role, tensors] : held) {
      const auto it = std::find(tensors.begin(), tensors.end(), false);
      if (it == tensors.end()) continue;
      findings_->Add("P11.update", "no template of the pipeline of template '", TemplateOf(role).t->name(),
                     "' holds tensor ", TensorName(static_cast<int>(it - tensors.begin())));
      return;
    }
  }

  const Index& index_;
  const Matching& matching_;
  const bool training_;
  Findings* findings_;
  double clip_ = 1;
  int64_t data_ = 1;
  int data_position_ = -1;
  std::vector<std::vector<BufferState>> state_;  // [role][buffer]
  std::vector<bool> losses_synced_;
  // The last sum of losses, as long as it is not over the whole mesh.
  std::vector<std::optional<RoleAction>> losses_part_;
  std::string last_message_;
};

}  // namespace

void CheckDataflow(const Index& index, const Matching& matching, const std::vector<RoleAction>& order, bool training,
                   Findings* findings) {
  Dataflow(index, matching, training, findings).Run(order);
}

}  // namespace weft::verify
