#include "verifier/post_validation_lists.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "verifier/index.h"
#include "verifier/loss_scale.h"

namespace weft::verify {
namespace {

using Actions = google::protobuf::RepeatedPtrField<Action>;

// If the next action has this kind and condition, sets `action` to it, advances `next` and returns "". Otherwise
// returns what is wrong.
std::string TakeAction(const Actions& list, ActionKind kind, bool if_exceeded, int* next, const Action** action) {
  const std::string wanted = absl::StrCat(ActionKind_Name(kind), if_exceeded ? " with" : " without", " if_exceeded");
  if (*next >= list.size()) return absl::StrCat("the list ends, but a ", wanted, " must follow");
  const Action& found = list[*next];
  if (found.kind() != kind || found.if_exceeded() != if_exceeded) {
    return absl::StrCat(Describe(found), " is in the place of a ", wanted);
  }
  *action = &found;
  ++*next;
  return "";
}

std::string TakeRepair(const Program& program, const Actions& list, int* next, Repair* repair) {
  std::string bad = TakeAction(list, VALIDATE, false, next, &repair->validate);
  if (Repairs(program)) {
    if (bad.empty()) bad = TakeAction(list, RESTORE_STATE, true, next, &repair->restore);
    if (bad.empty() && ClipsByAction(program)) bad = TakeAction(list, SCALE_GRADIENTS, true, next, &repair->scale);
    if (bad.empty()) bad = TakeAction(list, OPTIMIZER_STEP, true, next, &repair->optimizer);
    while (bad.empty() && *next < list.size() && list[*next].kind() == ALL_GATHER && list[*next].if_exceeded()) {
      repair->gathers.push_back(&list[(*next)++]);
    }
  }
  if (bad.empty()) bad = TakeAction(list, CLEAR_GRADIENTS, false, next, &repair->clear);
  return bad;
}

}  // namespace

bool GathersWeights(const Template& t, const Action& action) {
  return action.kind() == ALL_GATHER && std::any_of(action.destinations().begin(), action.destinations().end(),
                                                    [&](int b) { return t.buffers(b).role() == PARAM; });
}

bool Clips(const Program& program) { return !program.recipe().has_clip_norm() || program.recipe().clip_norm() > 0; }

bool Repairs(const Program& program) { return Clips(program) || IsDynamicallyScaled(program); }

bool ClipsByAction(const Program& program) { return Clips(program) && !IsScaled(program); }

std::string SplitLists(const Program& program, const Template& t, PostValidationLists* lists) {
  const bool repairs = Repairs(program);
  if (t.prologue_size() > 0) return "it has a prologue";
  int next = 0;
  for (; next < t.body_size() && !t.body(next).if_exceeded(); ++next) {
    const ActionKind kind = t.body(next).kind();
    if (kind != FORWARD && !IsTransfer(kind)) break;
    lists->guess.push_back(&t.body(next));
  }
  if (std::string bad = TakeRepair(program, t.body(), &next, &lists->body); !bad.empty()) return bad;
  for (; next < t.body_size() && t.body(next).if_exceeded(); ++next) lists->again.push_back(&t.body(next));
  for (; next < t.body_size(); ++next) {
    const Action& action = t.body(next);
    const ActionKind kind = action.kind();
    if (action.if_exceeded() || kind == VALIDATE || kind == RESTORE_STATE || kind == SCALE_GRADIENTS ||
        kind == CLEAR_GRADIENTS) {
      return absl::StrCat(Describe(action), " must not be in the rest of the body");
    }
    lists->rest.push_back(&action);
    if (GathersWeights(t, action)) lists->gathers.push_back(&action);
    if (kind == KEEP_STATE && (!repairs || lists->keep != nullptr || lists->optimizer != nullptr)) {
      return absl::StrCat(Describe(action),
                          ": if updates may be taken back, there must be one KEEP_STATE, before the OPTIMIZER_STEP");
    }
    if (kind == KEEP_STATE) lists->keep = &action;
    if (kind != OPTIMIZER_STEP) continue;
    if (lists->optimizer != nullptr)
      return absl::StrCat(Describe(action), ": there must be exactly one OPTIMIZER_STEP");
    lists->optimizer = &action;
  }
  if (lists->optimizer == nullptr) return "the rest of its body has no OPTIMIZER_STEP";
  if (repairs && lists->keep == nullptr) return "the rest of its body has no KEEP_STATE";
  next = 0;
  if (std::string bad = TakeRepair(program, t.epilogue(), &next, &lists->epilogue); !bad.empty()) {
    return absl::StrCat("epilogue: ", bad);
  }
  if (next < t.epilogue_size())
    return absl::StrCat("epilogue: ", Describe(t.epilogue(next)), " must not be in the epilogue");
  return "";
}

}  // namespace weft::verify
