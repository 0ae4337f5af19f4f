#include "executor/collective/collective_check.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/interface/channels.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "schedules/collective/plan.h"

namespace weft::exec {
namespace {

// Checks that a collective of this many members can run as messages between them. Builds the plan only to get the
// error.
absl::Status HasMessages(const std::string& algorithm, int64_t members) {
  WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* entry, FindCollective(algorithm));
  // Build refuses both cases before it builds anything.
  return entry->in_switch() || members > kMaxPlanMembers ? entry->Build(members).status() : absl::OkStatus();
}

class Checker {
 public:
  Checker(const Program& program, absl::string_view transport, bool native)
      : program_(program), transport_(transport), native_(native) {}

  absl::Status CheckAll() const {
    for (const Template& t : program_.templates()) {
      for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
        for (const Action& action : *list) WEFT_RETURN_IF_ERROR(CheckAction(t, action));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckAction(const Template& t, const Action& action) const {
    if (IsCollective(action)) {
      bool ours = !native_;
      for (int i = 0; i < action.sources_size(); ++i) {
        ours |= IsOurs(action.kind() != ALL_GATHER, t.buffers(action.sources(i)).dtype());
      }
      return Check(action, "", action.group(), action.algorithm(), ours);
    }
    if (!IsCompute(action)) return absl::OkStatus();
    const Segment& segment = program_.segments(action.segment());
    for (const Step& step : segment.steps()) {
      if (!IsCollective(step)) continue;
      bool ours = !native_;
      for (const int value : step.inputs()) {
        ours |= IsOurs(step.kernel() != GROUP_ALL_GATHER, segment.values(value).dtype());
      }
      const Collective& collective = step.collective();
      WEFT_RETURN_IF_ERROR(
          Check(action, absl::StrCat(", step '", step.name(), "'"), collective.group(), collective.algorithm(), ours));
    }
    return absl::OkStatus();
  }

  // True if the collective runs as weft's own messages on any transport.
  static bool IsOurs(bool reduces, DType dtype) { return reduces && dtype == EXACT192; }

  absl::Status Check(const Action& action, absl::string_view step, const Group& group, const std::string& algorithm,
                     bool ours) const {
    if (!ours) return absl::OkStatus();
    const absl::Status status = HasMessages(algorithm, GroupSize(program_.mesh(), group));
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat("action ", action.id(), " '", action.name(), "'", step,
                                                    " with transport '", transport_, "': ", status.message()));
  }

  const Program& program_;
  const absl::string_view transport_;
  const bool native_;
};

}  // namespace

absl::Status CheckCollectives(const Program& program, absl::string_view transport, bool native) {
  WEFT_RETURN_IF_ERROR(Checker(program, transport, native).CheckAll());
  return program.has_evaluation() ? CheckCollectives(program.evaluation(), transport, native) : absl::OkStatus();
}

}  // namespace weft::exec
