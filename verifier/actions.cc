// Checks the fields of single actions: ids, kinds, ranges and dependencies (P1, P2, P5, P13, P14).
#include "verifier/actions.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "verifier/index.h"

namespace weft::verify {
namespace {

class TemplateCheck : public ActionCheck {
 public:
  TemplateCheck(const Program& program, const VerifyOptions& options, const Template& t, Findings* findings)
      : ActionCheck(program, t, findings), segments_(program, t, findings), messages_(program, options, t, findings) {}

  void Run() {
    CheckPins();
    CheckIds();
    if (!findings_->empty()) return;
    for (const auto& [list, actions] : Lists()) {
      for (const Action& action : *actions) {
        if (findings_->full()) return;
        CheckFields(action);
        CheckDeps(action, list);
        if (IsCompute(action.kind())) {
          segments_.CheckCompute(action);
        } else if (IsTransfer(action.kind())) {
          messages_.CheckTransfer(action);
        } else {
          messages_.CheckCollective(action);
        }
        if (!IsCopy(action.kind())) CheckPlaces(action);
        absl::flat_hash_set<int> released;
        for (int b : action.releases()) {
          if (!BufferOk(action, "releases", b)) continue;
          if (t_.buffers(b).persistent()) Bad("P7.release", action, "releases persistent ", DescribeBuffer(t_, b));
          if (!released.insert(b).second) Bad("P7.release", action, "releases ", DescribeBuffer(t_, b), " twice");
        }
      }
    }
  }

 private:
  using Actions = google::protobuf::RepeatedPtrField<Action>;
  std::vector<std::pair<List, const Actions*>> Lists() const {
    return {{kPrologue, &t_.prologue()}, {kBody, &t_.body()}, {kEpilogue, &t_.epilogue()}};
  }

  void CheckPins() {
    absl::flat_hash_set<std::string> seen;
    for (const Coordinate& pin : t_.pins()) {
      const int axis = Axis(pin.axis());
      if (axis < 0 || pin.index() < 0 || pin.index() >= program_.mesh().axes(axis).size()) {
        findings_->Add("P8.pins", "template '", t_.name(), "' pins ", pin.axis(), "=", pin.index(),
                       axis < 0 ? ", but the mesh has no such axis" : ", which is beyond the axis");
      }
      if (!seen.insert(pin.axis()).second) {
        findings_->Add("P8.pins", "template '", t_.name(), "' pins ", pin.axis(), " twice");
      }
    }
  }

  void CheckIds() {
    int64_t last = -1;
    for (const auto& [list, actions] : Lists()) {
      for (const Action& action : *actions) {
        if (action.id() <= last) {
          Bad("P1.ids", action, "ids must be at least 0 and ascending in list order; the one before is ", last);
          return;
        }
        last = action.id();
        list_of_[action.id()] = list;
        by_id_[action.id()] = &action;
        if (action.kind() == ACTION_UNSPECIFIED) Bad("P2.kind", action, "has no kind");
      }
    }
  }

  void CheckFields(const Action& action) {
    const ActionKind kind = action.kind();
    const auto unused = [&](bool set, const char* field) {
      if (set) Bad("P2.fields", action, "a ", ActionKind_Name(kind), " must not have ", field);
    };
    unused(!IsCompute(kind) && action.segment() != 0, "segment");
    unused(!IsCompute(kind) && action.operands_size() > 0, "operands");
    unused(!IsTransfer(kind) && action.has_peer(), "peer");
    unused(!IsTransfer(kind) && action.direction() != DIRECTION_UNSPECIFIED, "direction");
    unused(!IsTransfer(kind) && action.skip() != 0, "skip");
    unused(!IsTransfer(kind) && action.transfer_group() != 0, "transfer_group");
    unused(kind != FORWARD_BACKWARD && action.has_backward(), "backward");
    // Only forwards and the transfers of their results may be wide.
    unused(kind != FORWARD && !IsTransfer(kind) && action.width() != 0, "width");
    unused(IsTransfer(kind) && action.direction() == FROM_LOSS && action.width() > 1, "width from the loss");
    const bool collective = IsCollective(kind);
    unused(!collective && action.has_group(), "group");
    unused(!collective && action.purpose() != PURPOSE_UNSPECIFIED, "purpose");
    unused(!collective && !action.algorithm().empty(), "algorithm");
    unused(!collective && kind != SEND && action.sources_size() > 0, "sources");
    unused(!collective && kind != RECV && action.destinations_size() > 0, "destinations");
    const bool per_microbatch = IsMicrobatch(kind) || IsTransfer(kind) || IsCopy(kind);
    CheckRange(action, "", action.stage(), action.microbatch(), action.lane(),
               per_microbatch ? program_.microbatches() : 1);
    CheckStepOf(action);
    const int left = program_.microbatches() - action.microbatch();
    if (action.width() < 0 || action.width() > Limits::kWidth || Width(action) > std::max(1, left)) {
      Bad("P13.range", action, "width ", action.width(), " is not in [0, ", std::min(Limits::kWidth, left),
          "]: microbatches ", action.microbatch(), " to ", program_.microbatches() - 1, ", at most ", Limits::kWidth);
    }
    if (kind == FORWARD_BACKWARD) CheckPair(action);
    if (IsTransfer(kind)) CheckSkip(action);
    if (action.transfer_group() < 0) {
      Bad("P13.range", action, "transfer_group ", action.transfer_group(), " is negative");
    }
  }

  // Rule P14: only forwards, backwards and OPTIMIZER_STEP of an asynchronous program may set `step`. It must match the
  // microbatch; for OPTIMIZER_STEP it must be one of the repetition's steps.
  void CheckStepOf(const Action& action) {
    const ActionKind kind = action.kind();
    const int steps = program_.steps_per_repetition();
    if (steps == 0 || (!IsMicrobatch(kind) && kind != OPTIMIZER_STEP)) {
      if (action.step() != 0) {
        Bad("P14.step", action, "step is ", action.step(),
            "; only forwards, backwards and OPTIMIZER_STEP of an asynchronous program have a step");
      }
      if (steps > 0 && (kind == GRAD_NORM || kind == SCALE_GRADIENTS)) {
        Bad("P14.program", action, "an asynchronous program must not take norms");
      }
      return;
    }
    if (kind == FORWARD_BACKWARD || Width(action) > 1) {
      Bad("P14.program", action,
          "an asynchronous program must have no FORWARD_BACKWARD and no forward of two microbatches");
    }
    if (kind == OPTIMIZER_STEP) {
      if (action.step() < 0 || action.step() >= steps) {
        Bad("P14.step", action, "step ", action.step(), " is not in [0, ", steps, ")");
      }
      return;
    }
    const int own = action.microbatch() / MicrobatchesPerStep(program_);
    if (action.step() == own || (kind == FORWARD && action.step() == own + steps)) return;
    Bad("P14.step", action, "step is ", action.step(), ", but microbatch ", action.microbatch(), " is of step ", own,
        kind == FORWARD ? absl::StrCat(", or ", own + steps, " if it is ahead") : "");
  }

  void CheckRange(const Action& action, const char* of, int stage, int microbatch, int lane, int microbatches) {
    if (stage < 0 || stage >= program_.stages()) {
      Bad("P13.range", action, of, "stage ", stage, " is not in [0, ", program_.stages(), ")");
    }
    if (microbatch < 0 || microbatch >= microbatches) {
      Bad("P13.range", action, of, "microbatch ", microbatch, " is not in [0, ", microbatches, ")");
    }
    if (lane < 0 || lane >= Limits::kLanes) {
      Bad("P13.range", action, of, "lane ", lane, " is not in [0, ", Limits::kLanes, ")");
    }
  }

  void CheckPair(const Action& action) {
    if (!action.has_backward()) return Bad("P5.pair", action, "a FORWARD_BACKWARD needs the field backward");
    const StageMicrobatch& b = action.backward();
    CheckRange(action, "backward.", b.stage(), b.microbatch(), b.lane(), program_.microbatches());
    if (b.stage() == action.stage() && b.microbatch() == action.microbatch()) {
      Bad("P5.pair", action, "forward and backward are both of stage ", b.stage(), ", microbatch ", b.microbatch(),
          "; the halves of a pair cannot wait for each other");
    }
    if (IsMessageDriven(program_)) {
      Bad("P6.pair", action,
          "a message-driven program must not have a FORWARD_BACKWARD, because the order of its halves is not known");
    }
  }

  void CheckSkip(const Action& action) {
    const int skip = action.skip();
    if (skip == 0) return;
    if (skip < 0 || skip > program_.skips_size()) {
      return Bad("P4.skip", action, "skip ", skip, " is not in [0, ", program_.skips_size(), "], the program's skips");
    }
    const SkipEdge& edge = program_.skips(skip - 1);
    const bool makes = (action.kind() == SEND) == (action.direction() == TOWARDS_LOSS);
    const int stage = makes ? edge.from_stage() : edge.to_stage();
    if (action.stage() != stage) {
      Bad("P4.skip", action, "stage is ", action.stage(), ", but this end of skip '", edge.name(), "' is stage ",
          stage);
    }
  }

  void CheckDeps(const Action& action, List list) {
    static constexpr const char* kNames[] = {"prologue", "body", "epilogue"};
    for (const Dependency& dep : action.deps()) {
      const auto it = list_of_.find(dep.action());
      if (it == list_of_.end()) {
        Bad("P1.deps", action, "depends on action ", dep.action(), ", which the template does not have");
        continue;
      }
      const List from = it->second;
      if (dep.distance() < 0 || dep.distance() > Limits::kDistance) {
        Bad("P1.deps", action, "distance ", dep.distance(), " is not in [0, ", Limits::kDistance, "]");
      } else if (dep.distance() > 0 && (from != kBody || list != kBody)) {
        Bad("P1.deps", action, "distance ", dep.distance(), " needs both ends in the body; action ", dep.action(),
            " is in the ", kNames[from]);
      } else if (from != list && from + 1 != list) {
        Bad("P1.deps", action, "an action of the ", kNames[list], " cannot depend on action ", dep.action(), " of the ",
            kNames[from]);
      }
      if (dep.action() == action.id() && dep.distance() == 0) Bad("P1.deps", action, "depends on itself");
      if (dep.detached() && !segments_.HasDetached(*by_id_.at(dep.action()))) {
        Bad("P2.detached", action, "waits for the detached steps of ", Describe(*by_id_.at(dep.action())),
            ", which has none");
      }
    }
  }

  // Rule P7: only copies (FETCH and OFFLOAD) touch host memory.
  void CheckPlaces(const Action& action) {
    for (const auto* list : {&action.operands(), &action.sources(), &action.destinations()}) {
      for (const int b : *list) {
        if (b < 0 || b >= t_.buffers_size() || t_.buffers(b).place() != HOST) continue;
        return Bad("P7.host", action, "touches ", DescribeBuffer(t_, b),
                   ", which is in host memory; only FETCH and OFFLOAD may touch host memory");
      }
    }
  }

  ActionSegments segments_;
  ActionMessages messages_;
  absl::flat_hash_map<int, List> list_of_;
  absl::flat_hash_map<int, const Action*> by_id_;
};

}  // namespace

std::string Describe(const Action& action) { return absl::StrCat("action ", action.id(), " '", action.name(), "'"); }

std::string Describe(const Template& t, const Action& action) {
  return absl::StrCat("template '", t.name(), "', ", Describe(action));
}

void CheckActions(const Program& program, const VerifyOptions& options, Findings* findings) {
  for (const Template& t : program.templates()) {
    if (findings->full()) return;
    TemplateCheck(program, options, t, findings).Run();
  }
}

}  // namespace weft::verify
