#include "compiler/rewrite/post_validation.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/rewrite/guess.h"
#include "compiler/rewrite/validation_segments.h"
#include "proto/edit/program_edit.h"
#include "proto/util/kept_role.h"

namespace weft {
namespace {

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("plan.post_validation = true: ", parts...));
}

// Rewrites one template. New actions get ids above all others; at the end all actions are renumbered.
class TemplateRewriter {
 public:
  TemplateRewriter(const std::vector<bool>& in_guess, int64_t evaluation_bytes, Program* program, Template* t)
      : in_guess_(in_guess), evaluation_bytes_(evaluation_bytes), program_(*program), t_(*t) {}

  absl::Status Run() {
    if (absl::Status status = FindEnd(); !status.ok()) return status;
    absl::StatusOr<ValidationSegments> made =
        MakeValidationSegments({optimizer_, clip_, repairs_, evaluation_bytes_}, &program_, &t_);
    if (!made.ok()) return Refuse(Text(made.status().message()));
    segments_ = *std::move(made);
    next_ = NextActionId(t_);
    for (int a = 0; a < t_.body_size(); ++a) {
      if (in_guess_[a] && repairs_) twin_[t_.body(a).id()] = next_++;
    }
    MakeBody();
    MakeEpilogue();
    t_.mutable_body()->Assign(std::make_move_iterator(body_.begin()), std::make_move_iterator(body_.end()));
    t_.mutable_epilogue()->Assign(std::make_move_iterator(epilogue_.begin()), std::make_move_iterator(epilogue_.end()));
    NumberActions(&t_);
    return absl::OkStatus();
  }

 private:
  // Maps (id, distance) of a dependency to true if the action also waits for detached steps.
  using Deps = std::map<std::pair<int, int>, bool>;

  std::string Text(absl::string_view what) const {
    return absl::StrCat("template '", t_.name(), "' ", what, "; leave the field out");
  }

  // Finds the actions that end the iteration.
  absl::Status FindEnd() {
    int optimizers = 0, clips = 0;
    for (int a = 0; a < t_.body_size(); ++a) {
      const Action& action = t_.body(a);
      if (action.kind() == OPTIMIZER_STEP && ++optimizers) optimizer_ = a;
      if (action.kind() == SCALE_GRADIENTS && ++clips) clip_ = a;
      bool weights = false;
      for (int b : action.destinations()) {
        const BufferRole role = t_.buffers(b).role();
        if (role == NORMS) norm_syncs_.push_back(action.id());
        weights = weights || KeptRoleOf(role) != NO_ROLE;
      }
      if (weights && action.kind() != ALL_GATHER) {
        return Refuse(Text(absl::StrCat("writes weights in '", action.name(), "'")));
      }
      if (weights) gathers_.push_back(a);
    }
    for (const Segment& segment : program_.segments()) {
      for (const Step& step : segment.steps()) dynamic_ = dynamic_ || step.kernel() == UPDATE_LOSS_SCALE;
    }
    repairs_ = dynamic_ || program_.recipe().clip_norm() > 0;
    if (optimizers != 1 || clips > 1 || norm_syncs_.empty()) {
      return Refuse(Text("needs exactly one optimizer step with a norm; a rank without weights has none"));
    }
    for (int a : {optimizer_, clip_}) {
      if (a < 0) continue;
      for (const Step& step : program_.segments(t_.body(a).segment()).steps()) {
        if (step.stream() == COMPUTE && !step.detached()) continue;
        return Refuse(Text("runs its optimizer on several streams (plan.offload)"));
      }
    }
    for (int a = 0; a < t_.body_size(); ++a) {
      if (!in_guess_[a] || t_.body(a).kind() != FORWARD) continue;
      for (const Step& step : program_.segments(t_.body(a).segment()).steps()) {
        if (step.detached()) return Refuse(Text("has forwards with detached steps"));
      }
    }
    return absl::OkStatus();
  }

  // Makes a compute action without adding it to a list.
  Action Compute(ActionKind kind, absl::string_view name, const AddedSegment& added) {
    Action action;
    action.set_id(next_++);
    action.set_kind(kind);
    action.set_stage(t_.body(optimizer_).stage());
    action.set_name(absl::StrCat(name, " s", action.stage()));
    action.set_segment(added.index);
    for (int b : added.operands) action.add_operands(b);
    return action;
  }

  int Id(int action) const { return action < 0 ? -1 : t_.body(action).id(); }
  static void SetDeps(const Deps& deps, Action* action) {
    action->clear_deps();
    for (const auto& [on, detached] : deps) AddDependency(on.first, on.second, detached, action);
  }

  bool HasStepsBeside(const Action& action) const {
    // Transfers and collectives have no segment.
    if (action.operands().empty()) return false;
    const auto& steps = program_.segments(action.segment()).steps();
    return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.stream() != COMPUTE; });
  }

  // True for a collective without dependencies in its own repetition: it waits only for its communicator.
  static bool WaitsByOrderAlone(const Action& action) {
    return IsCollective(action.kind()) && std::none_of(action.deps().begin(), action.deps().end(),
                                                       [](const Dependency& dep) { return dep.distance() == 0; });
  }

  // Returns the new dependencies of an action. `guess`: true if the action belongs to the guess (guess.h) rather than
  // to the rest of the body.
  Deps NewDeps(const Action& action, bool guess) const {
    Deps deps;
    for (const Dependency& dep : action.deps()) {
      const int on = dep.action() == Id(clip_) ? Id(optimizer_) : dep.action();
      if (on == action.id() && dep.distance() == 0) continue;
      deps[{on, dep.distance()}] |= dep.detached();
      const auto twin = twin_.find(on);
      if (twin != twin_.end() && (!guess || dep.distance() > 0)) deps[{twin->second, dep.distance()}] |= dep.detached();
      if (on == Id(optimizer_) && dep.distance() > 0 && !guess) deps[{clear_id_, dep.distance() - 1}] |= false;
      AddGatherAgain(dep, guess, &deps);
    }
    return deps;
  }

  // An action that waits for weights gathered in an earlier repetition also waits for the all-gather that a repair
  // repeats.
  void AddGatherAgain(const Dependency& dep, bool guess, Deps* deps) const {
    const auto again = gathered_again_.find(dep.action());
    if (again != gathered_again_.end() && dep.distance() > 0 && !guess) {
      (*deps)[{again->second, dep.distance() - 1}] |= false;
    }
  }

  Action Conditional(Action action, absl::string_view suffix) {
    action.set_id(next_++);
    action.set_if_exceeded(true);
    action.clear_deps();
    action.clear_releases();
    absl::StrAppend(action.mutable_name(), suffix);
    return action;
  }

  // Appends the all-gathers of weights that follow a repeated update. `list` ends with the update.
  void GatherAgain(int validate, bool body, std::vector<Action>* list) {
    const int stepped = list->back().id();
    for (int a : gathers_) {
      list->push_back(Conditional(t_.body(a), " again"));
      SetDeps({{{validate, 0}, false}, {{stepped, 0}, false}}, &list->back());
      if (body) gathered_again_[t_.body(a).id()] = list->back().id();
    }
  }

  void MakeBody() {
    Action validate = Compute(VALIDATE, "validate", segments_.validate);
    Action clear = Compute(CLEAR_GRADIENTS, "clear gradients", segments_.clear);
    clear_id_ = clear.id();
    std::vector<Action> list;
    Deps all;
    for (int a = 0; a < t_.body_size(); ++a) {
      if (!in_guess_[a]) continue;
      list.push_back(t_.body(a));
      SetDeps(NewDeps(t_.body(a), true), &list.back());
      all[{t_.body(a).id(), 0}] = false;
    }
    const int guess = static_cast<int>(list.size());
    for (int sync : norm_syncs_) all[{sync, 1}] = false;
    if (repairs_) {
      for (int a : gathers_) all[{Id(a), 1}] = false;
    }
    SetDeps(all, &validate);
    const int validate_id = validate.id();
    list.push_back(std::move(validate));
    if (repairs_) {
      Action restore = Compute(RESTORE_STATE, "restore", segments_.restore);
      list.push_back(Conditional(std::move(restore), ""));
      if (clip_ >= 0) list.push_back(Conditional(t_.body(clip_), " again"));
      list.push_back(Conditional(t_.body(optimizer_), " again"));
      const int stepped = list.back().id();
      GatherAgain(validate_id, true, &list);
      list.push_back(std::move(clear));
      for (int i = 0; i < guess; ++i) {
        const Action original = list[i];
        Action again = original;
        again.set_id(twin_.at(original.id()));
        again.set_if_exceeded(true);
        again.clear_releases();
        absl::StrAppend(again.mutable_name(), " again");
        Deps deps = {{{validate_id, 0}, false}, {{stepped, 0}, false}};
        for (const Dependency& dep : original.deps()) {
          const auto twin = twin_.find(dep.action());
          const int on = dep.distance() == 0 && twin != twin_.end() ? twin->second : dep.action();
          deps[{on, dep.distance()}] |= dep.detached();
          AddGatherAgain(dep, false, &deps);
        }
        SetDeps(deps, &again);
        list.push_back(std::move(again));
      }
    } else {
      list.push_back(std::move(clear));
    }
    for (int a = 0; a < t_.body_size(); ++a) {
      if (in_guess_[a] || a == clip_) continue;
      if (a == optimizer_ && repairs_) list.push_back(Compute(KEEP_STATE, "keep", segments_.keep));
      list.push_back(t_.body(a));
      Deps deps = NewDeps(t_.body(a), false);
      if (a == optimizer_) {
        if (clip_ >= 0) deps.merge(NewDeps(t_.body(clip_), false));
        deps.erase(std::pair(Id(optimizer_), 0));
        for (int sync : norm_syncs_) deps.erase(std::pair(sync, 0));
      }
      // Compute actions run after the clearing of gradients because they follow it in the list. Actions that run beside
      // compute need an explicit dependency.
      if (HasStepsBeside(t_.body(a)) || WaitsByOrderAlone(t_.body(a))) deps.emplace(std::pair(clear_id_, 0), false);
      SetDeps(deps, &list.back());
    }
    body_ = std::move(list);
  }

  void MakeEpilogue() {
    Action validate = Compute(VALIDATE, "validate last", segments_.validate);
    Deps deps;
    for (int sync : norm_syncs_) deps[{sync, 0}] = false;
    if (repairs_) {
      for (int a : gathers_) deps[{Id(a), 0}] = false;
    }
    SetDeps(deps, &validate);
    const int validate_id = validate.id();
    epilogue_.push_back(std::move(validate));
    if (repairs_) {
      epilogue_.push_back(Conditional(Compute(RESTORE_STATE, "restore last", segments_.restore), ""));
      if (clip_ >= 0) epilogue_.push_back(Conditional(t_.body(clip_), " again"));
      epilogue_.push_back(Conditional(t_.body(optimizer_), " again"));
      GatherAgain(validate_id, false, &epilogue_);
    }
    epilogue_.push_back(Compute(CLEAR_GRADIENTS, "clear last", segments_.settle));
  }

  const std::vector<bool>& in_guess_;
  const int64_t evaluation_bytes_;
  Program& program_;
  Template& t_;
  // Indices of the optimizer step and the clipping in the body; `clip_` is -1 if no action clips.
  int optimizer_ = -1, clip_ = -1;
  // `dynamic_`: true if the loss scale is dynamic, that is, changes during training. `repairs_`: true if updates may be
  // taken back.
  bool dynamic_ = false, repairs_ = false;
  // All-gathers of weights after the optimizer (ZeRO 1 and 2).
  std::vector<int> gathers_;
  // Ids of the actions that sum the norms.
  std::vector<int> norm_syncs_;
  ValidationSegments segments_;
  int next_ = 0, clear_id_ = -1;
  // Maps the id of an action of the guess to the id of the action that repeats it in a repair. Empty if updates are
  // never taken back.
  std::map<int, int> twin_;
  // Maps the id of an all-gather of weights to the id of the conditional all-gather that repeats it in the body.
  std::map<int, int> gathered_again_;
  std::vector<Action> body_, epilogue_;
};

}  // namespace

absl::Status PostValidate(Program* program) {
  if (program->steps_per_repetition() > 0) {
    return Refuse("schedule '", program->schedule(), "' updates the weights without a flush and takes no norms");
  }
  if (program->compute_order() != STATIC_ORDER) {
    return Refuse("schedule '", program->schedule(),
                  "' is message-driven; set plan.schedule.freeze, or use a static schedule");
  }
  // The smallest clip norm. With a smaller value, the factor for a norm of zero would be below 1, and the verdict on a
  // zero gradient would be wrong (P11, P15).
  constexpr double kMinClipNorm = 1e-6;
  const double clip_norm = program->recipe().clip_norm();
  if (clip_norm > 0 && clip_norm < kMinClipNorm) {
    return Refuse("recipe.clip_norm = ", clip_norm, " must be 0 or at least ", kMinClipNorm,
                  "; nearest valid: ", clip_norm < kMinClipNorm / 2 ? 0 : kMinClipNorm);
  }
  const std::vector<std::vector<bool>> guess = GuessOf(*program);
  std::set<int> segments;
  for (const Template& t : program->templates()) {
    if (t.prologue_size() > 0 || t.epilogue_size() > 0 || t.body().empty()) {
      return Refuse("template '", t.name(), "' must have actions in its body, and neither prologue nor epilogue");
    }
    for (const Action& action : t.body()) {
      if (action.kind() == OPTIMIZER_STEP && !segments.insert(action.segment()).second) {
        return Refuse("template '", t.name(), "' shares the segment of its optimizer step with another action");
      }
    }
  }
  for (int t = 0; t < program->templates_size(); ++t) {
    int64_t evaluation_bytes = 0;
    for (const Template& other : program->evaluation().templates()) {
      if (other.name() == program->templates(t).name()) evaluation_bytes = other.device_arena_bytes();
    }
    TemplateRewriter rewriter(guess[t], evaluation_bytes, program, program->mutable_templates(t));
    if (absl::Status status = rewriter.Run(); !status.ok()) return status;
  }
  program->set_post_validation(true);
  return absl::OkStatus();
}

}  // namespace weft
