#include "planner/try_budget.h"

#include <algorithm>

#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

int64_t ActionsOf(const Program& program) {
  int64_t actions = 0;
  for (const Template& t : program.templates()) actions += t.prologue_size() + t.body_size() + t.epilogue_size();
  return actions;
}

int64_t WorkOf(const Program& program) {
  int64_t work = ActionsOf(program);
  for (const Segment& segment : program.segments()) work += segment.steps_size();
  return work;
}

// Returns an upper bound of the compilations that a recompute takes: those that choose it (choose_recompute.h), plus
// one with the choice.
int64_t CompilationsOf(const Recompute& recompute, int64_t layers) {
  if (recompute.mode() == Recompute::INTERVAL && recompute.interval() == 0) return layers + 1;
  if (recompute.mode() != Recompute::FIT) return 1;
  int64_t count = 4;
  for (int64_t left = layers; left > 1; left /= 2) ++count;
  return count;
}

}  // namespace

int64_t MicrobatchesOfAReplica(const Recipe& recipe, const Plan& plan) {
  const int64_t replicas = std::max<int64_t>(1, AxisSize(plan.mesh(), "data"));
  const int64_t sequences = std::max<int64_t>(1, recipe.microbatch_sequences());
  return std::max<int64_t>(1, recipe.global_batch_sequences() / replicas / sequences);
}

TryBudget::TryBudget(const Program& refused, int layers)
    : actions_(ActionsOf(refused)), work_(WorkOf(refused)), layers_(layers) {}

int64_t TryBudget::WorkOfTry(const Recompute& recompute, int64_t times) const {
  const int64_t more = std::min(std::max<int64_t>(times - kFewTimes, 0), kMaxWork);
  return (work_ + more * actions_) * CompilationsOf(recompute, layers_);
}

bool TryBudget::Has(const Recompute& recompute, int64_t times) const {
  const int64_t first = work_ <= kMaxWork ? work_ : 0;
  if (spent_ <= first && times <= kFewTimes && CompilationsOf(recompute, layers_) == 1) return true;
  const int64_t work = WorkOfTry(recompute, times);
  if (times > kFewTimes && work > kMaxWork / kFewTries) return false;
  return spent_ + work <= kMaxWork;
}

void TryBudget::Spend(const Recompute& recompute, int64_t times) { spent_ += WorkOfTry(recompute, times); }

}  // namespace weft::planner
