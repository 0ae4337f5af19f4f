#include "executor/faults/injected_failure.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"

namespace weft::exec {

absl::Status CheckInjectedFailure(const Program& program, const InjectedFailure& failure, int64_t repetitions,
                                  int64_t last_step, int64_t check_replicas) {
  const auto refused = [](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("--inject-failure: ", parts...));
  };
  const int64_t ranks = MeshRanks(program.mesh());
  const int index = failure.rank < 0 || failure.rank >= ranks ? -1 : TemplateOfRank(program, failure.rank);
  if (index < 0) {
    return refused("rank ", failure.rank, ": the last rank of this program is ", ranks - 1);
  }
  if (failure.flip) {
    if (check_replicas <= 0)
      return refused("flip needs --check-replicas N, because nothing else detects a flipped bit");
    const int64_t last_look = last_step / check_replicas * check_replicas;
    if (last_look == 0) {
      return refused("--check-replicas=", check_replicas, " compares nothing in ", last_step,
                     " steps; nearest valid: ", last_step);
    }
    if (failure.repetition <= last_look) return absl::OkStatus();
    return refused("step ", failure.repetition, ": replicas are compared for the last time after step ", last_look,
                   "; nearest valid: ", last_look);
  }
  // Prologue and epilogue count as repetition 0.
  const Template& t = program.templates(index);
  std::vector<int32_t> known;
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    if (list != &t.body() && failure.repetition > 0) continue;
    for (const Action& action : *list) known.push_back(action.id());
  }
  if (failure.repetition >= std::max<int64_t>(repetitions, 1)) {
    return refused("step ", failure.repetition, ": this run has ", repetitions, repetitions == 1 ? " step" : " steps",
                   ", counted from 0; nearest valid: ", std::max<int64_t>(repetitions, 1) - 1);
  }
  if (std::find(known.begin(), known.end(), failure.action) != known.end()) return absl::OkStatus();
  if (known.empty()) return refused("rank ", failure.rank, " has no actions");
  const int32_t nearest = *std::min_element(known.begin(), known.end(), [&](int32_t a, int32_t b) {
    const int64_t to_a = std::abs(int64_t{a} - failure.action), to_b = std::abs(int64_t{b} - failure.action);
    return to_a != to_b ? to_a < to_b : a < b;
  });
  return refused("action ", failure.action, ": rank ", failure.rank,
                 " has no action of that number (weft inspect PROGRAM ", "--rank ", failure.rank,
                 " lists them); nearest valid: ", nearest);
}

}  // namespace weft::exec
