#include "verifier/post_validation_gathers.h"

#include <map>
#include <set>
#include <string>
#include <utility>

namespace weft::verify {
namespace {

// Dependencies as (action, distance).
std::set<std::pair<int, int>> DepsOf(const Action& action) {
  std::set<std::pair<int, int>> deps;
  for (const Dependency& dep : action.deps()) deps.insert({dep.action(), dep.distance()});
  return deps;
}

// The action without the fields that depend on its place in the lists.
std::string Content(Action action) {
  action.clear_id();
  action.clear_name();
  action.clear_deps();
  action.clear_releases();
  action.clear_if_exceeded();
  return action.SerializeAsString();
}

class GatherCheck {
 public:
  GatherCheck(const Template& t, const PostValidationLists& lists, Findings* findings)
      : t_(t), lists_(lists), findings_(findings) {}

  void Run() {
    CheckRepair(lists_.body, 1);
    CheckRepair(lists_.epilogue, 0);
    if (!findings_->empty()) return;
    std::map<int, int> twin;
    for (size_t i = 0; i < lists_.gathers.size(); ++i) twin[lists_.gathers[i]->id()] = lists_.body.gathers[i]->id();
    for (const auto* part : {&lists_.again, &lists_.rest}) {
      for (const Action* action : *part) CheckWaits(*action, twin);
    }
  }

 private:
  template <typename... Parts>
  void Bad(const Action& action, const Parts&... parts) {
    findings_->Add("P15.gather", Describe(t_, action), ": ", parts...);
  }

  // VALIDATE judges gathers that ran `distance` repetitions before the repair.
  void CheckRepair(const Repair& repair, int distance) {
    if (repair.gathers.size() != lists_.gathers.size()) {
      return Bad(*repair.validate, "is followed by ", repair.gathers.size(),
                 " ALL_GATHERs of weights; the optimizer by ", lists_.gathers.size());
    }
    const std::set<std::pair<int, int>> known = DepsOf(*repair.validate);
    for (size_t i = 0; i < repair.gathers.size(); ++i) {
      const Action &again = *repair.gathers[i], &gather = *lists_.gathers[i];
      if (Content(again) != Content(gather)) Bad(again, "is not ", Describe(gather), " again");
      if (again.releases_size() > 0 || gather.releases_size() > 0) Bad(again, "releases a buffer that is read again");
      for (int b : again.sources()) {
        if (!t_.buffers(b).persistent()) Bad(again, "gathers ", DescribeBuffer(t_, b), ", which is not persistent");
      }
      const std::set<std::pair<int, int>> deps = DepsOf(again);
      for (const Action* first : {repair.validate, repair.optimizer}) {
        if (!deps.contains({first->id(), 0})) Bad(again, "does not wait for ", Describe(*first));
      }
      // VALIDATE must wait for the gather, so that nothing that the gather reads changes before it is finished.
      if (!known.contains({gather.id(), distance})) {
        Bad(*repair.validate, "does not wait for ", Describe(gather), " at distance ", distance);
      }
    }
  }

  void CheckWaits(const Action& action, const std::map<int, int>& twin) {
    const std::set<std::pair<int, int>> deps = DepsOf(action);
    for (const auto& [id, distance] : deps) {
      const auto again = twin.find(id);
      if (again == twin.end() || distance == 0 || deps.contains({again->second, distance - 1})) continue;
      Bad(action, "waits for action ", id, " of an earlier repetition, so it must wait for action ", again->second,
          " at distance ", distance - 1);
    }
  }

  const Template& t_;
  const PostValidationLists& lists_;
  Findings* findings_;
};

}  // namespace

void CheckGathersAgain(const Template& t, const PostValidationLists& lists, Findings* findings) {
  GatherCheck(t, lists, findings).Run();
}

}  // namespace weft::verify
