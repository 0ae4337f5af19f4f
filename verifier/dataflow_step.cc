// The end of an optimizer step in the symbolic run: gradient norms, clipping, the optimizer, and the conditions that
// must hold afterwards.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "kernels/traits.h"
#include "proto/util/units.h"
#include "verifier/dataflow.h"

namespace weft::verify {
namespace {

int ItemBytes(const Value& value) { return static_cast<int>(DTypeBytes(value.dtype())); }

}  // namespace

void Dataflow::EndOfStep(const RoleAction& at, const Action& action) {
  const Segment& segment = index_.program->segments(action.segment());
  const SegmentUse& use = index_.segments[action.segment()];
  for (int o = 0; o < action.operands_size(); ++o) {
    const int b = action.operands(o);
    if (IsGrad(BufferOf(at.role, b).role())) Touch(at.role, b, !use.operands[o].first_reads.empty());
  }
  const auto buffer_of = [&](int value) { return action.operands(segment.values(value).operand()); };
  const auto end_of = [&](int value) { return EndOf(segment.values(value)); };
  const auto get = [&](int value) {
    const Value& v = segment.values(value);
    return state_[at.role][buffer_of(value)].content.Get(v.offset(), end_of(value)).InValue(v.offset(), ItemBytes(v));
  };
  // Like `get`, for a value that the step overwrites. It moves the symbol out of the buffer, so usually nothing is
  // copied.
  const auto take = [&](int value) {
    const Value& v = segment.values(value);
    Symbol* const there = state_[at.role][buffer_of(value)].content.Find(v.offset(), end_of(value));
    return there == nullptr ? get(value) : std::exchange(*there, Symbol()).InValue(v.offset(), ItemBytes(v));
  };
  const auto set = [&](int value, Symbol symbol) {
    const Value& v = segment.values(value);
    state_[at.role][buffer_of(value)].content.Set(v.offset(), end_of(value),
                                                  std::move(symbol).InBuffer(v.offset(), ItemBytes(v)));
  };
  for (const Step& step : segment.steps()) {
    std::vector<Symbol> out(step.outputs_size());
    switch (step.kernel()) {
      case CAST:
      case EXACT_ROUND: {
        const Value& source = segment.values(step.inputs(0));
        std::optional<Symbol> weights = WeightsIn(at.role, buffer_of(step.inputs(0)));
        out[0] = weights ? std::move(*weights).InValue(source.offset(), ItemBytes(source)) : get(step.inputs(0));
        CopyParam(at, action, segment, step, out[0]);
        break;
      }
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
        out[0] = Norm(at, step, get(step.inputs(0)), take(step.outputs(0)),
                      *ElementCount(segment.values(step.inputs(0)).shape()));
        break;
      case NORM_TOTAL:
        out[0] = Total(at, step, get(step.inputs(0)));
        break;
      case UPDATE_LOSS_SCALE:
        if (get(step.inputs(0)).kind != Symbol::kNormTotal) {
          Bad("P11.scale", at, "step '", step.name(),
              "' updates the loss scale from a value that is not the global norm of the step");
        }
        break;
      case ADAMW:
      case SGD_STEP: {
        Symbol gradient = get(step.inputs(0));
        const int norm = kernels::OptimizerStates(step) + 1;
        if (norm < step.inputs_size()) gradient = Scale(at, get(step.inputs(norm)), std::move(gradient));
        Symbol weights = Update(at, action, segment, step, gradient);
        // The weights' copy for compute may be written to a separate buffer, from which a collective gathers it.
        const int copy = step.outputs(step.outputs_size() - 1);
        if (step.outputs_size() > kernels::OptimizerStates(step) &&
            BufferOf(at.role, buffer_of(copy)).role() == NO_ROLE) {
          set(copy, std::move(weights));
        }
        continue;
      }
      default:
        break;
    }
    for (int k = 0; k < step.outputs_size(); ++k) {
      const int b = buffer_of(step.outputs(k));
      const BufferRole role = BufferOf(at.role, b).role();
      if ((role == PARAM || role == MASTER) && step.kernel() != CAST) {
        Bad("P11.update", at, "step '", step.name(), "' writes ", DescribeBuffer(*TemplateOf(at.role).t, b),
            ", but it is not an optimizer kernel");
      }
      set(step.outputs(k), std::move(out[k]));
    }
  }
}

void Dataflow::Updated(const RoleAction& at, int b, int64_t begin, int64_t end) {
  BufferState& state = state_[at.role][b];
  if (state.updated.Overlaps(begin, end)) {
    Bad("P11.update", at, "updates bytes of ", DescribeBuffer(*TemplateOf(at.role).t, b), " a second time");
  }
  state.updated.Add(begin, end);
  if (!state.updated.Covers(0, state.extent)) return;
  ++state.updates;
  state.updated.clear();
}

void Dataflow::CopyParam(const RoleAction& at, const Action& action, const Segment& segment, const Step& step,
                         const Symbol& content) {
  const Value &source = segment.values(step.inputs(0)), &destination = segment.values(step.outputs(0));
  const int from = action.operands(source.operand()), to = action.operands(destination.operand());
  const Buffer &a = BufferOf(at.role, from), &b = BufferOf(at.role, to);
  if (b.role() != PARAM) return;
  if (IsAsynchronous(*index_.program)) {
    Bad("P14.version", at, "casts the new weights, but the optimizer's kernel must write them");
  }
  const bool updated = a.role() == NO_ROLE || (a.role() == MASTER && state_[at.role][from].updates == 1);
  const bool same_elements = content.element == destination.offset() / ItemBytes(destination);
  if (!updated || !same_elements || content.kind != Symbol::kWeights || content.tensor != b.tensor() ||
      content.ranges != RangeCuts(*index_.program, b.shard())) {
    Bad("P11.update", at, "writes ", DescribeBuffer(*TemplateOf(at.role).t, to),
        ", but not from its updated master copy");
  }
  Updated(at, to, destination.offset(), EndOf(destination));
}

std::string Dataflow::Explain(const Symbol& symbol) const {
  if (symbol.kind == Symbol::kZero) return "zero";
  if (symbol.kind != Symbol::kGradient) return "no gradient";
  std::vector<std::string> parts;
  for (const GradientPart& part : symbol.parts) {
    parts.push_back(absl::StrCat(TensorName(part.tensor), " use ", part.use, " of ", part.microbatches, " microbatches",
                                 part.pipes.empty() ? "" : absl::StrCat(" of pipe ", absl::StrJoin(part.pipes, ",")),
                                 sample_axes_.empty() && part.sums.empty()
                                     ? ""
                                     : absl::StrCat(", summed over ", DescribeCuts(*index_.program, part.sums))));
  }
  return absl::StrJoin(parts, " + ");
}

bool Dataflow::WholeGradient(const RoleAction& at, int tensor, const Symbol& symbol) {
  const int uses = index_.program->tensors(tensor).uses();
  bool all = symbol.kind == Symbol::kGradient && static_cast<int>(symbol.parts.size()) == uses;
  bool synced = true;
  for (size_t i = 0; all && i < symbol.parts.size(); ++i) {
    const GradientPart& part = symbol.parts[i];
    all = part.tensor == tensor && part.use == static_cast<int>(i) &&
          part.microbatches == MicrobatchesPerStep(*index_.program);
    // The gradient must be summed once over ranks with other samples, and not over ranks with other parts.
    for (int axis : sample_axes_) synced = synced && SumsAll(part.sums, axis);
    for (const AxisCut& cut : dimensions_[tensor]) synced = synced && !SumsAny(part.sums, cut.axis);
    all = all && part.ranges == symbol.parts[0].ranges;
  }
  if (!all) {
    Bad("P9.gradient", at, "needs the gradient of ", TensorName(tensor), " (", uses, " uses, ",
        MicrobatchesPerStep(*index_.program), " microbatches), but reads ", Explain(symbol));
  } else if (!synced) {
    std::vector<std::string> axes;
    for (int axis : sample_axes_) axes.push_back(index_.program->mesh().axes(axis).name());
    Bad("P9.sync", at, "the gradient of ", TensorName(tensor), " must be summed over ", absl::StrJoin(axes, " and "),
        axes.empty() ? "no axis that cuts it" : " exactly once, and over no axis that cuts it", "; it is ",
        Explain(symbol));
  }
  return all && synced;
}

Symbol Dataflow::Scale(const RoleAction& at, const Symbol& norm, Symbol gradient) {
  if (norm.kind != Symbol::kNormTotal) Bad("P11.clip", at, "scales by a value that is not the global norm");
  if (gradient.kind == Symbol::kGradient) {
    if (gradient.scaled) Bad("P11.clip", at, "scales ", Explain(gradient), " twice");
    gradient.scaled = true;
  }
  return gradient;
}

Symbol Dataflow::Norm(const RoleAction& at, const Step& step, const Symbol& gradient, Symbol norms, int64_t elements) {
  const int tensor = static_cast<int>(step.attributes().slot());
  if (tensor >= index_.program->tensors_size()) {
    Bad("P11.norm", at, "step '", step.name(), "' writes slot ", tensor, " of ", index_.program->tensors_size());
    return norms;
  }
  const bool whole = WholeGradient(at, tensor, gradient);
  if (whole && gradient.scaled) Bad("P11.norm", at, "the norm of ", TensorName(tensor), " is taken after clipping");
  if (whole) {
    const int64_t all = PartElements(*index_.program, tensor, dimensions_[tensor], gradient.parts[0].ranges);
    if (elements != all || gradient.element != 0) {
      Bad("P11.norm", at, "step '", step.name(), "' takes the norm of ", elements, " elements of ", TensorName(tensor),
          " from ", gradient.element, " on; it must be of all ", all, " of the part that the rank holds");
    }
  }
  Symbol one = SymbolOf(Symbol::kNorms);
  NormPart part{tensor, dimensions_[tensor], {}};
  if (whole) part.cuts.insert(part.cuts.end(), gradient.parts[0].ranges.begin(), gradient.parts[0].ranges.end());
  for (const std::string& axis : step.attributes().counted_once()) {
    if (index_.AxisSize(axis) > 1) part.counted.push_back(index_.AxisIndex(axis));
  }
  std::sort(part.counted.begin(), part.counted.end());
  one.norms = {part};
  return Sum(at, std::move(norms), one);
}

std::string Dataflow::NormsFault(const Symbol& norms) const {
  const int tensors = index_.program->tensors_size();
  const int has = norms.kind == Symbol::kNorms ? static_cast<int>(norms.norms.size()) : 0;
  if (has != tensors) return absl::StrCat("it needs ", tensors, " tensors, summed over the pipeline, but has ", has);
  for (const NormPart& part : norms.norms) {
    // SumNorms has checked each sum against the cuts of the part, so only missing sums remain to be found.
    for (const AxisCut& cut : part.cuts) {
      if (std::find(norms.sums.begin(), norms.sums.end(), cut) == norms.sums.end()) {
        return absl::StrCat("it lacks parts of ", TensorName(part.tensor), ": the gradient is cut over ",
                            DescribeCuts(*index_.program, part.cuts), ", but the norms are summed over ",
                            DescribeCuts(*index_.program, norms.sums));
      }
    }
    for (int axis : part.counted) {
      if (!SumsAll(norms.sums, axis)) {
        return absl::StrCat("it lacks ", TensorName(part.tensor), " on most ranks: the tensor is counted once on ",
                            index_.program->mesh().axes(axis).name(), ", but the norms are summed over ",
                            DescribeCuts(*index_.program, norms.sums));
      }
    }
  }
  return "";
}

Symbol Dataflow::Total(const RoleAction& at, const Step& step, const Symbol& norms) {
  // An asynchronous program computes no norm, so `norms` is zero and the factor is that of a zero gradient (P14).
  const bool nothing = IsAsynchronous(*index_.program) && norms.kind == Symbol::kZero;
  if (const std::string fault = nothing ? "" : NormsFault(norms); !fault.empty()) {
    Bad("P11.norm", at, "the global norm is wrong: ", fault);
  }
  if (step.attributes().clip_norm() != clip_) {
    Bad("P11.clip", at, "clips at ", step.attributes().clip_norm(), ", the recipe says ", clip_);
  }
  return SymbolOf(Symbol::kNormTotal);
}

Dataflow::Target Dataflow::TargetOf(int role, const Action& action, const Value& value) const {
  Target target{action.operands(value.operand()), value.offset()};
  if (BufferOf(role, target.buffer).role() != NO_ROLE) return target;
  const Symbol symbol = state_[role][target.buffer].content.Get(value.offset(), EndOf(value));
  if (symbol.kind != Symbol::kState) return target;
  return {symbol.buffer, value.offset() + symbol.shift, true, symbol.updated};
}

Symbol Dataflow::Update(const RoleAction& at, const Action& action, const Segment& segment, const Step& step,
                        const Symbol& gradient) {
  if (action.kind() != OPTIMIZER_STEP) Bad("P11.update", at, "step '", step.name(), "' must be in an OPTIMIZER_STEP");
  const Value& new_weight = segment.values(step.outputs(0));
  const Target target = TargetOf(at.role, action, new_weight);
  const Buffer& weight = BufferOf(at.role, target.buffer);
  if (weight.role() != PARAM && weight.role() != MASTER) {
    Bad("P11.update", at, "step '", step.name(), "' updates ", DescribeBuffer(*TemplateOf(at.role).t, target.buffer),
        ", which is not a parameter");
    return {};
  }
  Symbol result = SymbolOf(Symbol::kWeights);
  result.tensor = weight.tensor();
  result.ranges = RangeCuts(*index_.program, weight.shard());
  const int tensor = weight.tensor();
  const int64_t element = target.begin / DTypeBytes(new_weight.dtype());
  result.element = element;
  // All values of the tensor that the step uses must cover the same elements.
  const auto check_element = [&](const Value& value, int64_t first) {
    if (first == element) return;
    Bad("P11.update", at, "step '", step.name(), "' updates the elements of ", TensorName(tensor), " from ", element,
        " on, with '", value.name(), "' of those from ", first, " on");
  };
  // Input 0 is the gradient, then come the values that are updated in place. Other inputs concern the whole step.
  const int states = kernels::OptimizerStates(step);
  for (int k = 0; k < states; ++k) {
    const Value& value = segment.values(step.outputs(k));
    const Target one = TargetOf(at.role, action, value);
    const Buffer& buffer = BufferOf(at.role, one.buffer);
    if (k > 0 && (buffer.role() != (k == 1 ? MOMENT1 : MOMENT2) || buffer.tensor() != tensor)) {
      Bad("P11.update", at, "step '", step.name(), "' keeps its moments of ", TensorName(tensor), " in ",
          DescribeBuffer(*TemplateOf(at.role).t, one.buffer));
    }
    check_element(value, one.begin / ItemBytes(value));
    if (!one.fetched) continue;
    if (one.updated) {
      Bad("P11.host", at, "step '", step.name(), "' updates bytes of ",
          DescribeBuffer(*TemplateOf(at.role).t, one.buffer), " a second time");
    }
    Symbol state = SymbolOf(Symbol::kState);
    state.buffer = one.buffer;
    state.shift = one.begin - value.offset();
    state.updated = true;
    state_[at.role][action.operands(value.operand())].content.Set(value.offset(), EndOf(value), state);
  }
  if (WholeGradient(at, tensor, gradient)) {
    if (clip_ > 0 && !gradient.scaled) {
      Bad("P11.clip", at, "the gradient of ", TensorName(tensor), " is not scaled, but the recipe clips at ", clip_);
    }
    if (scaled_ && !gradient.scaled) {
      Bad("P11.scale", at, "the gradient of ", TensorName(tensor),
          " still contains the loss scale; SCALE or the update must divide by it");
    }
    if (gradient.parts[0].ranges != result.ranges) {
      Bad("P9.scatter", at, "updates ", DescribeBuffer(*TemplateOf(at.role).t, target.buffer),
          ", whose ranges are cut over ", DescribeCuts(*index_.program, result.ranges),
          ", with a gradient that is cut over ", DescribeCuts(*index_.program, gradient.parts[0].ranges));
    }
  }
  if (gradient.kind == Symbol::kGradient) check_element(segment.values(step.inputs(0)), gradient.element);
  if (const StepAttributes& a = step.attributes();
      a.rounding_site() > 0 && (a.rounding_site() != static_cast<uint32_t>(tensor) + 1 ||
                                a.first_element() != element || weight.role() != MASTER)) {
    Bad("P11.round", at, "step '", step.name(), "' rounds with random numbers for the elements from ",
        a.first_element(), " on of rounding_site ", a.rounding_site(), "; but it updates the elements from ", element,
        " on of ", DescribeBuffer(*TemplateOf(at.role).t, target.buffer), ", whose rounding_site is ", tensor + 1);
  }
  if (!target.fetched) Updated(at, target.buffer, target.begin, target.begin + EndOf(new_weight) - new_weight.offset());
  if (IsAsynchronous(*index_.program)) {
    UpdateVersion(at, action, step, target, gradient);
    result.version = state_[at.role][target.buffer].version;
  }
  if (step.outputs_size() > states) {
    const Value& copy = segment.values(step.outputs(states));
    const int p = action.operands(copy.operand());
    // If the copy goes to a buffer that is gathered later, its symbol shows which elements it has.
    if (BufferOf(at.role, p).role() == NO_ROLE) return result;
    check_element(copy, copy.offset() / ItemBytes(copy));
    if (BufferOf(at.role, p).role() != PARAM || BufferOf(at.role, p).tensor() != tensor ||
        RangeCuts(*index_.program, BufferOf(at.role, p).shard()) != result.ranges) {
      Bad("P11.update", at, "step '", step.name(), "' writes the new ", TensorName(tensor), " to ",
          DescribeBuffer(*TemplateOf(at.role).t, p));
    }
    Updated(at, p, copy.offset(), EndOf(copy));
    if (IsAsynchronous(*index_.program)) Publish(at, p, result);
  }
  return result;
}

void Dataflow::UpdateVersion(const RoleAction& at, const Action& action, const Step& step, const Target& weight,
                             const Symbol& gradient) {
  BufferState& master = state_[at.role][weight.buffer];
  const Buffer& buffer = BufferOf(at.role, weight.buffer);
  const int now = repetition_ * StepsPerRepetition(*index_.program) + action.step();
  if (weight.fetched || !master.updated.empty()) {
    Bad("P14.version", at, "step '", step.name(), "' updates a part of ",
        DescribeBuffer(*TemplateOf(at.role).t, weight.buffer),
        "; an asynchronous program updates whole tensors on the device");
    return;
  }
  if (buffer.role() != MASTER || master.unpublished) {
    Bad("P14.version", at, "step '", step.name(), "' must update MASTER, ",
        master.unpublished ? "but no PARAM has received its previous update" : "and write the new weights to a PARAM");
    return;
  }
  master.unpublished = true;
  if (master.version != now || (gradient.kind == Symbol::kGradient && gradient.parts[0].step != now)) {
    Bad("P14.step", at, "is of optimizer step ", now, ", but ", TensorName(buffer.tensor()), " has had ",
        master.version, " updates and the gradient is of step ",
        gradient.kind == Symbol::kGradient ? absl::StrCat(gradient.parts[0].step) : "none");
  }
  ++master.version;
}

void Dataflow::CheckEnd(int role) {
  const Template& t = *TemplateOf(role).t;
  const auto bad = [&](const char* rule, const auto&... parts) {
    const std::string text = absl::StrCat("template '", t.name(), "': ", parts...);
    if (text != last_message_) findings_->Add(rule, text);
    last_message_ = text;
  };
  for (int b = 0; b < t.buffers_size(); ++b) {
    const BufferState& state = state_[role][b];
    const BufferRole what = t.buffers(b).role();
    const bool asynchronous = IsAsynchronous(*index_.program);
    const int steps = StepsPerRepetition(*index_.program);
    // The PARAM copies of an asynchronous program take turns, so they are not updated in every step.
    const bool updated = what == MASTER || (what == PARAM && !asynchronous);
    if (training_ && updated && state.updated.empty() && state.updates != steps) {
      bad("P11.update", DescribeBuffer(t, b), " is updated ", state.updates, " times in a ",
          asynchronous ? absl::StrCat("repetition; allowed: ", steps, " times") : "step; allowed: once");
    }
    if (training_ && t.buffers(b).place() == HOST && (what == MASTER || what == MOMENT1 || what == MOMENT2) &&
        !state.returned.Covers(0, t.buffers(b).bytes())) {
      bad("P11.host", "a step must fetch, update and copy back all of ", DescribeBuffer(t, b));
    } else if (training_ && !state.updated.empty()) {
      bad("P11.update", "a part of ", DescribeBuffer(t, b), " is not updated in a step");
    }
    if (state.unpublished) {
      bad("P14.version", "the last update of ", DescribeBuffer(t, b), " is written to no PARAM");
    }
    if (IsGrad(what) && state.needs_zero && Whole(role, b).kind != Symbol::kZero) {
      bad("P9.zero", DescribeBuffer(t, b), " is added to before it is written, but is not zero at the end of a step");
    }
    if (what == NORMS && training_) {
      if (const std::string fault = NormsFault(Whole(role, b)); !fault.empty()) {
        bad("P11.norm", DescribeBuffer(t, b), " does not get the norms of all tensors: ", fault);
      }
    }
  }
  if (losses_part_[role]) {
    Bad("P11.loss", *losses_part_[role], "sums the losses over a part of the mesh only");
  } else if (!losses_synced_[role]) {
    bad("P11.loss", "no ALL_REDUCE sums LOCAL_LOSSES into LOSSES");
  }
}

void Dataflow::CheckHolders() {
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

}  // namespace weft::verify
