// Common base of the checks of single actions. Internal to the verifier.
#ifndef WEFT_VERIFIER_ACTIONS_H_
#define WEFT_VERIFIER_ACTIONS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/program.pb.h"
#include "proto/util/groups.h"
#include "verifier/index.h"
#include "verifier/room.h"

namespace weft::verify {

// Checks actions of one template, which must outlive the check.
class ActionCheck {
 public:
  ActionCheck(const Program& program, const Template& t, Findings* findings)
      : program_(program), t_(t), findings_(findings) {}

 protected:
  template <typename... Parts>
  void Bad(const char* rule, const Action& action, const Parts&... parts) {
    findings_->Add(rule, Describe(t_, action), ": ", parts...);
  }

  bool BufferOk(const Action& action, const char* field, int b) {
    if (b >= 0 && b < t_.buffers_size()) return true;
    Bad("P2.buffer", action, field, " names buffer ", b, ", the template has ", t_.buffers_size());
    return false;
  }

  // Index of the mesh axis with this name; -1 if there is none.
  int Axis(const std::string& name) const {
    const auto& axes = program_.mesh().axes();
    const auto it = std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& axis) { return axis.name() == name; });
    return it == axes.end() ? -1 : static_cast<int>(it - axes.begin());
  }

  // `where` names the place of the group in the action.
  void CheckGroup(const Action& action, const std::string& where, const Group& group) {
    std::string fault = GroupFault(program_.mesh(), group);
    if (fault.empty()) fault = GroupFaultIn(program_, t_, group);
    if (!fault.empty()) Bad("P8.group", action, where, fault);
  }

  const Program& program_;
  const Template& t_;
  Findings* findings_;
};

// action_segments.cc: checks segments and operands of actions.
class ActionSegments : public ActionCheck {
 public:
  ActionSegments(const Program& program, const Template& t, Findings* findings)
      : ActionCheck(program, t, findings), room_(t) {}

  void CheckCompute(const Action& action);
  // True if some of the action's steps are detached.
  bool HasDetached(const Action& action) const;

 private:
  void CheckOperands(const Action& action, const Segment& segment);
  void CheckCopies(const Action& action, const Segment& segment);
  bool CheckMicrobatches(const Action& action, const Segment& segment, const Step& step);

  // For each segment that was checked with an action so far, the steps that read the microbatch.
  absl::flat_hash_map<int, std::vector<int>> microbatch_steps_;
  RoomOfSteps room_;
  std::vector<int> operand_of_;  // For the current action, by buffer: its first operand, or -1.
};

// action_messages.cc: checks transfers and collectives.
class ActionMessages : public ActionCheck {
 public:
  ActionMessages(const Program& program, const VerifyOptions& options, const Template& t, Findings* findings)
      : ActionCheck(program, t, findings), options_(options) {}

  void CheckTransfer(const Action& action);
  void CheckCollective(const Action& action);

 private:
  bool Pinned(const std::string& axis) const;
  bool MessageOk(const Action& action, const char* field, int b);

  const VerifyOptions& options_;
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_ACTIONS_H_
