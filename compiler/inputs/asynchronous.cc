#include "compiler/inputs/asynchronous.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule_text.h"

namespace weft {
namespace {

// Builds the schedule with the number of microbatches that one list needs. A list may have more microbatches than an
// iteration, because PipeDream updates the weights after each microbatch.
absl::StatusOr<PipelineSchedule> BuildList(const ScheduleChoice& choice, int microbatches) {
  ScheduleParams params = choice.params;
  params.microbatches = microbatches;
  if (!choice.definition.empty()) return ScheduleFromDefinition(choice.definition, params);
  absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(choice.name);
  if (!entry.ok()) return entry.status();
  return BuildSchedule(**entry, params);
}

// True if the schedule may be asynchronous. Schedules that flush can be costly to build, so this builds only the
// smallest schedule of this name.
bool MayBeAsynchronous(const ScheduleChoice& choice) {
  if (!choice.definition.empty()) return true;
  ScheduleChoice smallest = choice;
  smallest.params.ranks = 1;
  const absl::StatusOr<PipelineSchedule> schedule = BuildList(smallest, 1);
  return schedule.ok() && schedule->asynchrony;
}

// Checks the form that ExportAsynchronous relies on. Rank i holds stage i. A rank's list alternates between forwards
// and backwards. The forwards are in ascending order of microbatches, and so are the backwards. The forwards run some
// microbatches ahead of the backwards.
absl::Status CheckForm(const AsynchronousPlan& made, const std::string& name) {
  const PipelineSchedule& schedule = made.schedule;
  const int microbatches = made.microbatches_per_order;
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", name, " updates the weights without a flush, so it must ", why));
  };
  const int ranks = static_cast<int>(schedule.order.size());
  if (schedule.stages != ranks || schedule.lanes != 1) return refuse("have one stage on each rank and one lane");
  if (schedule.message_driven) return refuse("have a static order");
  for (int rank = 0; rank < ranks; ++rank) {
    if (schedule.placement[0][rank] != rank) return refuse("have stage i on rank i");
    int ahead = 0, forwards = 0, backwards = 0;
    for (const Slot& slot : schedule.order[rank]) ahead += slot.kind == SlotKind::kForward && slot.ahead > 0;
    for (const Slot& slot : schedule.order[rank]) {
      if (slot.width != 1 || slot.paired || (slot.kind != SlotKind::kForward && slot.kind != SlotKind::kBackward)) {
        return refuse("have no forwards of two microbatches, no backwards in two halves, and no pairs that overlap");
      }
      const bool forward = slot.kind == SlotKind::kForward;
      const int next = forward ? ahead + forwards++ : backwards++;
      if (slot.microbatch + (slot.ahead > 0 ? microbatches : 0) != next || (!forward && slot.ahead > 0) ||
          forwards - backwards > 1 || backwards > forwards) {
        return refuse(absl::StrCat("run forwards and backwards in turn, in ascending order; rank ", rank,
                                   " breaks this order at microbatch ", slot.microbatch));
      }
    }
    if (schedule.asynchrony->uses == Asynchrony::Uses::kNewest && schedule.asynchrony->versions[rank] <= ahead) {
      return refuse(absl::StrCat("keep a version of the weights for each microbatch in flight; rank ", rank, " has ",
                                 schedule.asynchrony->versions[rank], " versions for ", ahead + 1, " microbatches"));
    }
    const int limit = rank + 1 == ranks ? 0 : microbatches - 1;
    if (ahead > limit)
      return refuse(absl::StrCat("be at most ", limit, " microbatches ahead; rank ", rank, " is ", ahead));
    const bool previous = schedule.asynchrony->uses == Asynchrony::Uses::kPrevious;
    if (previous && ahead > made.microbatches_per_step) {
      return refuse(absl::StrCat("be at most one update ahead with two versions; rank ", rank, " is ", ahead,
                                 " microbatches ahead"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAsked(const Recipe& recipe, const Plan& plan, const std::string& name, const AsynchronousPlan& made) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name, " updates the weights without a flush: ", what));
  };
  if (!recipe.has_clip_norm() || recipe.clip_norm() > 0) {
    return refuse(absl::StrCat("it has no gradient norm over all ranks, so it cannot clip at recipe.clip_norm = ",
                               recipe.has_clip_norm() ? recipe.clip_norm() : 1.0, "; set recipe.clip_norm=0"));
  }
  if (plan.loss_scale().growth_interval() > 0) {
    return refuse(
        "it has no gradient norm, so a dynamic loss scale cannot detect overflows; set plan.loss_scale.fixed (e.g. "
        "1024), or compute in BF16 or FP32");
  }
  if (plan.accumulation() == EXACT) {
    return refuse("plan.accumulation = EXACT is not supported; allowed: IN_ORDER");
  }
  if (plan.transfer_order() != BY_EDGE || plan.transfer_placement() != EARLY || plan.group_transfers()) {
    return refuse(
        "it needs plan.transfer_order = BY_EDGE, plan.transfer_placement = EARLY and plan.group_transfers = false");
  }
  const int64_t steps = made.steps_per_repetition;
  if (recipe.steps() % steps != 0) {
    const int64_t below = recipe.steps() / steps * steps;
    return refuse(absl::StrCat("recipe.steps = ", recipe.steps(), "; allowed: multiples of ", steps,
                               " (the optimizer steps of a repetition); nearest valid: ",
                               below > 0 && recipe.steps() - below <= steps / 2 ? below : below + steps));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<AsynchronousPlan>> AsynchronousOf(const ScheduleChoice& choice, const Recipe& recipe,
                                                               const Plan& plan) {
  AsynchronousPlan made;
  made.microbatches_per_step = choice.params.microbatches;
  made.microbatches_per_order = std::max(choice.params.microbatches, choice.params.ranks);
  // If the schedule flushes, other checks report its errors.
  if (!MayBeAsynchronous(choice)) return std::optional<AsynchronousPlan>();
  // Largest number of pairs (stage, microbatch) in a repetition. A program has at least one action per pair, and a
  // repetition may run the list twice.
  constexpr int64_t kMaxPairs = int64_t{1} << 18;
  const int64_t pairs = 2 * int64_t{made.microbatches_per_order} * choice.params.ranks;
  if (choice.definition.empty() && pairs > kMaxPairs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", choice.name, "' on ", choice.params.ranks, " pipe ranks repeats after up to ",
        2 * int64_t{made.microbatches_per_order}, " microbatches; at most ", kMaxPairs / choice.params.ranks,
        " microbatches can be compiled on this number of ranks; use fewer pipe ranks"));
  }
  absl::StatusOr<PipelineSchedule> schedule = BuildList(choice, made.microbatches_per_order);
  if (!schedule.ok() || !schedule->asynchrony) return std::optional<AsynchronousPlan>();
  made.schedule = *std::move(schedule);
  const std::string name =
      choice.definition.empty() ? absl::StrCat("'", choice.name, "'") : "of plan.schedule.definition";
  const Asynchrony& asynchrony = *made.schedule.asynchrony;
  const int64_t sequences = std::max<int64_t>(1, recipe.microbatch_sequences()) * AxisSize(plan.mesh(), "data");
  const auto refuse_batch = [&](const std::string& what, int64_t microbatches) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, " ", what, ": recipe.global_batch_sequences = ", recipe.global_batch_sequences(), " makes ",
        made.microbatches_per_step,
        " microbatches per step and data replica; nearest valid: ", microbatches * sequences));
  };
  if (asynchrony.microbatches_per_update != made.microbatches_per_step) {
    if (asynchrony.microbatches_per_update == 1) return refuse_batch("updates after every microbatch", 1);
    return refuse_batch(absl::StrCat("needs at least ", asynchrony.microbatches_per_update, " microbatches per update"),
                        asynchrony.microbatches_per_update);
  }
  if (asynchrony.uses == Asynchrony::Uses::kNewest && made.microbatches_per_step != 1) {
    return refuse_batch("uses the newest weights of each rank, so it needs one microbatch per update", 1);
  }
  if (static_cast<int>(made.schedule.order.size()) != choice.params.ranks) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name, " is for ", made.schedule.order.size(),
                                                   " ranks; the pipe axis of plan.mesh has ", choice.params.ranks));
  }
  if (absl::Status status = CheckSchedule(made.schedule, made.microbatches_per_order); !status.ok()) return status;
  if (absl::Status status = CheckForm(made, name); !status.ok()) return status;
  // If two copies of the weights take turns, a repetition needs an even number of updates.
  const int updates = made.microbatches_per_order / made.microbatches_per_step;
  const int times = asynchrony.uses == Asynchrony::Uses::kPrevious && updates % 2 != 0 ? 2 : 1;
  made.microbatches = times * made.microbatches_per_order;
  made.steps_per_repetition = times * updates;
  if (absl::Status status = CheckAsked(recipe, plan, name, made); !status.ok()) return status;
  return std::optional<AsynchronousPlan>(std::move(made));
}

}  // namespace weft
