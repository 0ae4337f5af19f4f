#include "verifier/post_validation.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "proto/util/kept_role.h"
#include "proto/util/units.h"
#include "verifier/post_validation_gathers.h"
#include "verifier/post_validation_lists.h"
#include "verifier/post_validation_scale.h"
#include "verifier/room.h"

namespace weft::verify {
namespace {

// The smallest clip_norm for which a gradient norm of 0 needs no clipping: the factor is min(1, clip_norm / 1e-6)
// (P11).
constexpr double kMinClipNorm = 1e-6;

bool OfPostValidation(const Action& action) {
  const ActionKind kind = action.kind();
  return action.if_exceeded() || kind == KEEP_STATE || kind == VALIDATE || kind == RESTORE_STATE ||
         kind == CLEAR_GRADIENTS;
}

bool IsGrad(BufferRole role) { return role == GRAD || role == GRAD_ACCUMULATOR; }

bool IsKept(const Buffer& buffer) {
  const BufferRole role = buffer.role();
  return role == KEPT_WEIGHT || role == KEPT_MOMENT1 || role == KEPT_MOMENT2 || IsKeptScale(buffer);
}

// Dependencies as (action, distance).
std::set<std::pair<int, int>> DepsOf(const Action& action) {
  std::set<std::pair<int, int>> deps;
  for (const Dependency& dep : action.deps()) deps.insert({dep.action(), dep.distance()});
  return deps;
}

class TemplateCheck {
 public:
  TemplateCheck(const Program& program, const Template& t, Findings* findings)
      : program_(program), t_(t), repairs_(Repairs(program)), findings_(findings) {
    SplitLists(program, t, &lists_);
  }

  void Run() {
    for (const Action* action : lists_.guess) guess_.insert(action->id());
    CheckTwins();
    if (findings_->empty()) CheckGuess();
    for (const Repair* repair : {&lists_.body, &lists_.epilogue}) {
      if (findings_->empty()) CheckVerdict(*repair, repair == &lists_.body);
      if (findings_->empty()) CheckClear(*repair, repair == &lists_.epilogue);
    }
    if (findings_->empty() && repairs_) CheckKept();
    if (findings_->empty() && repairs_) CheckGathersAgain(t_, lists_, findings_);
    if (findings_->empty()) CheckAssumedFactor(program_, t_, lists_, findings_);
    if (findings_->empty()) CheckWaits();
    if (findings_->empty()) CheckGradients();
  }

 private:
  template <typename... Parts>
  void Bad(const char* rule, const Action& action, const Parts&... parts) {
    findings_->Add(rule, Describe(t_, action), ": ", parts...);
  }
  const Segment& SegmentOf(const Action& action) const { return program_.segments(action.segment()); }
  const Buffer& Bound(const Action& action, int value) const {
    return t_.buffers(action.operands(SegmentOf(action).values(value).operand()));
  }
  bool IsWhole(const Action& action, int value) const {
    const Value& v = SegmentOf(action).values(value);
    return v.offset() == 0 && EndOf(v) == BytesWithoutRoom(Bound(action, value));
  }
  bool OnCompute(const Action& action) {
    for (const Step& step : SegmentOf(action).steps()) {
      if (step.stream() == COMPUTE && !step.detached()) continue;
      Bad("P15.lists", action, "step '", step.name(), "' must be on stream COMPUTE and not detached");
      return false;
    }
    return true;
  }

  void CheckTwins() {
    if (lists_.again.size() != (repairs_ ? lists_.guess.size() : 0)) {
      findings_->Add("P15.again", "template '", t_.name(), "' has ", lists_.guess.size(), " actions in the guess and ",
                     lists_.again.size(), " that repeat the guess; it must have ", repairs_ ? lists_.guess.size() : 0,
                     " of these");
      return;
    }
    for (size_t i = 0; i < lists_.again.size(); ++i) {
      Action a = *lists_.guess[i], b = *lists_.again[i];
      if (b.releases_size() > 0) Bad("P15.again", b, "releases a buffer; only its twin may release it");
      for (Action* action : {&a, &b}) {
        action->clear_id();
        action->clear_name();
        action->clear_deps();
        action->clear_releases();
        action->clear_if_exceeded();
      }
      if (a.SerializeAsString() != b.SerializeAsString()) {
        Bad("P15.again", *lists_.again[i], "does not repeat ", Describe(*lists_.guess[i]));
      }
      twin_[lists_.guess[i]->id()] = lists_.again[i]->id();
    }
  }

  void CheckGuess() {
    for (const Action* action : lists_.guess) {
      for (const Dependency& dep : action->deps()) {
        if (dep.distance() == 0 && !guess_.contains(dep.action())) {
          Bad("P15.closed", *action, "is part of the guess and waits for action ", dep.action(), ", which is not");
        }
      }
      for (int b : action->destinations()) {
        if (t_.buffers(b).persistent()) Bad("P15.closed", *action, "receives into persistent ", DescribeBuffer(t_, b));
      }
      if (action->kind() != FORWARD) continue;
      const Segment& segment = SegmentOf(*action);
      for (const Step& step : segment.steps()) {
        if (step.detached()) Bad("P15.closed", *action, "step '", step.name(), "' is detached");
      }
      for (int o = 0; o < segment.operands_size(); ++o) {
        const Buffer& buffer = t_.buffers(action->operands(o));
        if (buffer.persistent() && segment.operands(o).access() != READ && buffer.role() != LOCAL_LOSSES) {
          Bad("P15.closed", *action, "writes ", DescribeBuffer(t_, action->operands(o)),
              ", which RESTORE_STATE does not restore");
        }
      }
    }
  }

  void CheckVerdict(const Repair& repair, bool body) {
    const Action& validate = *repair.validate;
    const Segment& segment = SegmentOf(validate);
    if (!OnCompute(validate)) return;
    // The plain programs contain only the VALIDATE of the body.
    if (!body) CheckSame("P15.verdict", validate, *lists_.body.validate);
    for (const Step& step : segment.steps()) {
      if (step.kernel() == NORM_TOTAL && Bound(validate, step.inputs(0)).role() == NORMS &&
          Bound(validate, step.outputs(0)).role() == NORM) {
        continue;
      }
      return Bad("P15.verdict", validate, "step '", step.name(), "' does not take NORM of NORMS");
    }
    const std::set<std::pair<int, int>> deps = DepsOf(validate);
    const int distance = body ? 1 : 0;
    bool any = false;
    for (const Action* action : lists_.rest) {
      const bool sums = std::any_of(action->destinations().begin(), action->destinations().end(),
                                    [&](int b) { return t_.buffers(b).role() == NORMS; });
      if (!sums) continue;
      any = true;
      if (!deps.contains({action->id(), distance})) {
        Bad("P15.verdict", validate, "does not wait for ", Describe(*action), " at distance ", distance);
      }
    }
    if (!any) Bad("P15.verdict", validate, "nothing sums NORMS before it");
    if (!body) return;
    for (const Action* action : lists_.guess) {
      if (!deps.contains({action->id(), 0})) Bad("P15.verdict", validate, "does not wait for ", Describe(*action));
    }
  }

  // True for a buffer without a role that the update only reads. With ZeRO 1, it is the rank's part of a gradient.
  bool IsGradientPart(int buffer) const {
    const auto& operands = lists_.optimizer->operands();
    const auto found = std::find(operands.begin(), operands.end(), buffer);
    return t_.buffers(buffer).role() == NO_ROLE && found != operands.end() &&
           SegmentOf(*lists_.optimizer).operands(static_cast<int>(found - operands.begin())).access() == READ;
  }

  // The buffers that the action makes zero. Reports every step that does something else.
  std::set<int> Zeroed(const Action& clear, bool norms) {
    std::set<int> buffers;
    if (!OnCompute(clear)) return buffers;
    for (const Step& step : SegmentOf(clear).steps()) {
      const bool whole = step.kernel() == FILL && step.attributes().value() == 0 && IsWhole(clear, step.outputs(0));
      if (whole) {
        const int buffer = clear.operands(SegmentOf(clear).values(step.outputs(0)).operand());
        const BufferRole role = t_.buffers(buffer).role();
        if (!IsGrad(role) && !(norms && role == NORMS) && !IsGradientPart(buffer)) {
          Bad("P15.clear", clear, "step '", step.name(), "' clears a buffer that it must not clear");
        }
        buffers.insert(buffer);
      } else {
        Bad("P15.clear", clear, "step '", step.name(), "' does not clear a whole buffer");
      }
    }
    return buffers;
  }

  void CheckClear(const Repair& repair, bool epilogue) {
    const std::set<int> zeroed = Zeroed(*repair.clear, epilogue);
    if (!epilogue || !findings_->empty()) return;
    std::set<int> wanted = Zeroed(*lists_.body.clear, false);
    for (int b = 0; b < t_.buffers_size(); ++b) {
      if (t_.buffers(b).role() == NORMS) wanted.insert(b);
    }
    if (zeroed != wanted) Bad("P15.clear", *repair.clear, "must clear the same buffers as in the body, and NORMS");
  }

  // The copies that the action makes, as (from, to). Reports every step that does something else.
  std::set<std::pair<int, int>> Copies(const Action& action) {
    std::set<std::pair<int, int>> copies;
    if (!OnCompute(action)) return copies;
    const Segment& segment = SegmentOf(action);
    for (const Step& step : segment.steps()) {
      // CheckAssumedFactor checks this step (P15.scale).
      if (step.kernel() == NORM_TOTAL && action.kind() == KEEP_STATE) continue;
      const bool copy = step.kernel() == CAST && IsWhole(action, step.inputs(0)) && IsWhole(action, step.outputs(0)) &&
                        segment.values(step.inputs(0)).dtype() == segment.values(step.outputs(0)).dtype();
      const auto bound = [&](int value) { return action.operands(segment.values(value).operand()); };
      if (copy) {
        copies.insert({bound(step.inputs(0)), bound(step.outputs(0))});
      } else {
        Bad("P15.kept", action, "step '", step.name(), "' does not copy a whole buffer as it is");
      }
    }
    return copies;
  }

  void CheckKept() {
    const std::set<std::pair<int, int>> kept = Copies(*lists_.keep);
    const Segment& update = SegmentOf(*lists_.optimizer);
    if (!OnCompute(*lists_.optimizer)) return;
    std::set<int> updated, sources;
    for (int o = 0; o < update.operands_size(); ++o) {
      const int b = lists_.optimizer->operands(o);
      if (!t_.buffers(b).persistent()) Bad("P15.kept", *lists_.optimizer, "uses ", DescribeBuffer(t_, b));
      if (update.operands(o).access() == READ_WRITE) updated.insert(b);
    }
    std::set<std::pair<int, int>> back;
    for (const auto& [from, to] : kept) {
      const Buffer &a = t_.buffers(from), &b = t_.buffers(to);
      if (!IsKept(b) || IsKept(a) || b.role() != KeptRoleOf(a.role()) || a.tensor() != b.tensor()) {
        Bad("P15.kept", *lists_.keep, "copies ", DescribeBuffer(t_, from), " to ", DescribeBuffer(t_, to),
            ", whose role or tensor does not match");
      }
      sources.insert(from);
      back.insert({to, from});
    }
    if (sources != updated || kept.size() != sources.size()) {
      Bad("P15.kept", *lists_.keep, "must copy, exactly once, each buffer that ", Describe(*lists_.optimizer),
          " reads and writes");
    }
    for (const Repair* repair : {&lists_.body, &lists_.epilogue}) {
      if (Copies(*repair->restore) != back) {
        Bad("P15.kept", *repair->restore, "must copy back all that ", Describe(*lists_.keep), " copied");
      }
      CheckSame("P15.kept", *repair->optimizer, *lists_.optimizer);
      if (repair->scale == nullptr) continue;
      CheckSame("P15.kept", *repair->scale, *lists_.body.scale);
      OnCompute(*repair->scale);
    }
    for (const auto* list : {&t_.body(), &t_.epilogue()}) {
      for (const Action& action : *list) {
        if (action.kind() == KEEP_STATE || action.kind() == RESTORE_STATE) continue;
        // Gathers of weights are done again (P15.gather), so they may write weights.
        if (action.kind() != OPTIMIZER_STEP && !GathersWeights(t_, action)) CheckLeavesState(action);
        for (const auto* buffers : {&action.operands(), &action.sources(), &action.destinations()}) {
          for (int b : *buffers) {
            const bool verdict = action.kind() == VALIDATE && IsKeptScale(t_.buffers(b));
            if (IsKept(t_.buffers(b)) && !verdict) Bad("P15.kept", action, "uses ", DescribeBuffer(t_, b));
          }
        }
      }
    }
  }

  void CheckLeavesState(const Action& action) {
    const auto check = [&](int b) {
      const BufferRole role = t_.buffers(b).role();
      if (role == PARAM || KeptRoleOf(role) != NO_ROLE) {
        Bad("P15.kept", action, "writes ", DescribeBuffer(t_, b),
            "; only OPTIMIZER_STEP and the gathers of its results may");
      }
    };
    for (int b : action.destinations()) check(b);
    for (int o = 0; IsCompute(action.kind()) && o < action.operands_size(); ++o) {
      if (SegmentOf(action).operands(o).access() != READ) check(action.operands(o));
    }
  }

  void CheckSame(const char* rule, const Action& action, const Action& wanted) {
    const bool same =
        action.segment() == wanted.segment() && std::equal(action.operands().begin(), action.operands().end(),
                                                           wanted.operands().begin(), wanted.operands().end());
    if (!same) Bad(rule, action, "must have the segment and buffers of ", Describe(wanted));
  }

  void CheckWaits() {
    const int optimizer = lists_.optimizer->id();
    for (size_t i = 0; i < lists_.again.size(); ++i) {
      const Action& again = *lists_.again[i];
      const std::set<std::pair<int, int>> deps = DepsOf(again);
      std::set<std::pair<int, int>> wanted = {{lists_.body.validate->id(), 0}, {lists_.body.optimizer->id(), 0}};
      for (const auto& [id, distance] : DepsOf(*lists_.guess[i])) {
        wanted.insert({distance == 0 ? twin_.at(id) : id, distance});
      }
      for (const auto& [id, distance] : wanted) {
        if (!deps.contains({id, distance})) {
          Bad("P15.again", again, "must wait for action ", id, " at distance ", distance);
          return;
        }
      }
    }
    for (const Action& action : t_.body()) {
      if (&action == lists_.body.validate || action.if_exceeded()) continue;
      const bool guess = guess_.contains(action.id());
      const std::set<std::pair<int, int>> deps = DepsOf(action);
      for (const auto& [id, distance] : deps) {
        const auto twin = twin_.find(id);
        if (twin != twin_.end() && (!guess || distance > 0) && !deps.contains({twin->second, distance})) {
          Bad("P15.again", action, "waits for action ", id, ", so it must wait for action ", twin->second,
              " at the same distance");
        }
        if (id == optimizer && distance > 0 && !guess && !deps.contains({lists_.body.clear->id(), distance - 1})) {
          Bad("P15.clear", action, "waits for ", Describe(*lists_.optimizer), " of an earlier repetition, so it must ",
              "wait for ", Describe(*lists_.body.clear), " too");
        }
      }
    }
  }

  // The repair of an update may need gradients and other buffers until CLEAR_GRADIENTS. Checks that other actions that
  // use these buffers off the compute stream wait for CLEAR_GRADIENTS.
  void CheckGradients() {
    std::set<int> repaired;
    for (const Action* action : {lists_.body.scale, lists_.body.optimizer, lists_.body.clear}) {
      if (action != nullptr) repaired.insert(action->operands().begin(), action->operands().end());
    }
    for (int b = 0; b < t_.buffers_size(); ++b) {
      if (t_.buffers(b).role() == NORMS) repaired.insert(b);
    }
    std::map<int, const Action*> rest;
    for (const Action* action : lists_.rest) rest[action->id()] = action;
    const auto on_compute = [&](const Action& action) {
      return std::any_of(SegmentOf(action).steps().begin(), SegmentOf(action).steps().end(),
                         [](const Step& step) { return step.stream() == COMPUTE && !step.detached(); });
    };
    for (const Action* action : lists_.rest) {
      const auto touches = [&](const auto& buffers) {
        return std::any_of(buffers.begin(), buffers.end(), [&](int b) { return repaired.contains(b); });
      };
      bool beside = touches(action->sources()) || touches(action->destinations());
      if (IsCompute(action->kind())) {
        const Segment& segment = SegmentOf(*action);
        for (const Step& step : segment.steps()) {
          if (step.stream() == COMPUTE) continue;
          for (const auto* values : {&step.inputs(), &step.outputs()}) {
            for (int v : *values) beside = beside || repaired.contains(action->operands(segment.values(v).operand()));
          }
        }
      }
      if (!beside) continue;
      // Follow transfers and collectives to an action that computes after CLEAR_GRADIENTS.
      std::vector<const Action*> open = {action};
      std::set<int> seen;
      bool found = false;
      while (!open.empty() && !found) {
        const Action& at = *open.back();
        open.pop_back();
        for (const Dependency& dep : at.deps()) {
          if (dep.distance() != 0) continue;
          found = found || dep.action() == lists_.body.clear->id();
          const auto on = rest.find(dep.action());
          if (on == rest.end() || !seen.insert(dep.action()).second) continue;
          if (!IsCompute(on->second->kind())) {
            open.push_back(on->second);
          } else {
            found = found || on_compute(*on->second);
          }
        }
      }
      if (!found) {
        Bad("P15.clear", *action,
            "uses, on another stream, a buffer that the optimizer step may still need, and does not wait for ",
            Describe(*lists_.body.clear));
      }
    }
  }

  const Program& program_;
  const Template& t_;
  const bool repairs_;
  Findings* findings_;
  PostValidationLists lists_;
  std::set<int> guess_;
  std::map<int, int> twin_;
};

}  // namespace

void CheckPostValidationForm(const Program& program, Findings* findings) {
  if (program.post_validation()) {
    if (IsAsynchronous(program)) findings->Add("P15.program", "an asynchronous program must not set post_validation");
    if (IsMessageDriven(program))
      findings->Add("P15.program", "a program with post_validation must have compute_order = STATIC_ORDER");
    const double clip_norm = program.recipe().clip_norm();
    if (clip_norm > 0 && clip_norm < kMinClipNorm) {
      findings->Add("P15.program", "recipe.clip_norm = ", clip_norm, " must be 0 or at least ", kMinClipNorm,
                    " with post_validation: the verdict on a norm of 0 would be wrong; nearest valid: ",
                    clip_norm < kMinClipNorm / 2 ? 0 : kMinClipNorm);
    }
    for (const Template& t : program.templates()) {
      PostValidationLists lists;
      const std::string bad = SplitLists(program, t, &lists);
      if (!bad.empty()) findings->Add("P15.lists", "template '", t.name(), "': ", bad);
    }
    return;
  }
  for (const Template& t : program.templates()) {
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        if (!OfPostValidation(action)) continue;
        findings->Add("P15.program", Describe(t, action), ": only programs with post_validation have ",
                      action.if_exceeded() ? "if_exceeded" : ActionKind_Name(action.kind()));
        return;
      }
    }
  }
}

void CheckPostValidation(const Index& index, const Matching& matching, Findings* findings) {
  const auto action_of = [&](const RoleAction& at) -> const Action& {
    return *index.templates[index.role_template[at.role]].actions[at.action].action;
  };
  // All members of a rendezvous must belong to the same part: to the guess, to its repetition, to the repeated gathers,
  // or to none of these.
  std::map<const Action*, int> part;
  for (const Template& t : index.program->templates()) {
    PostValidationLists lists;
    SplitLists(*index.program, t, &lists);
    for (const Action* action : lists.guess) part[action] = 1;
    for (const Action* action : lists.again) part[action] = 2;
    for (const Repair* repair : {&lists.body, &lists.epilogue}) {
      for (const Action* action : repair->gathers) part[action] = 3;
    }
  }
  for (const Rendezvous& members : matching.rendezvous) {
    for (const RoleAction& member : members) {
      const Action &first = action_of(members[0]), &other = action_of(member);
      if (part[&first] == part[&other]) continue;
      findings->Add("P15.closed", Describe(*index.templates[index.role_template[members[0].role]].t, first), " and ",
                    Describe(*index.templates[index.role_template[member.role]].t, other),
                    " belong together, but only one is in the guess, or only one is repeated after a wrong guess");
      return;
    }
  }
  // If only some members of a group were left out, the others would wait for them.
  for (const TemplateIndex& t : index.templates) {
    for (const TransferGroup& group : t.groups) {
      const Action& first = *t.actions[group.first].action;
      for (int i = group.first + 1; i < group.first + group.size; ++i) {
        const Action& other = *t.actions[i].action;
        if (part[&first] == part[&other]) continue;
        findings->Add("P15.closed", Describe(*t.t, first), " and ", Describe(other), " are of one transfer group, ",
                      "but only one is in the guess, or only one is repeated after a wrong guess");
        return;
      }
    }
  }
  for (const Template& t : index.program->templates()) {
    if (findings->empty()) TemplateCheck(*index.program, t, findings).Run();
  }
}

}  // namespace weft::verify
