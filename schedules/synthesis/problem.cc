#include "schedules/synthesis/problem.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/params.h"

namespace weft {
namespace {

// The largest problem, in slots: searches keep several numbers for each slot.
constexpr int64_t kMaxSearchedSlots = int64_t{1} << 20;
constexpr int64_t kMaxActivations = int64_t{1} << 50;

absl::Status CheckLane(const SynthesisProblem& problem, const std::vector<int>& lane) {
  if (static_cast<int>(lane.size()) != problem.stages()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a placement has ", lane.size(), " stages; the problem has ", problem.stages()));
  }
  for (const int rank : lane) {
    if (absl::Status status = CheckRange("a placement's rank", rank, 0, problem.ranks - 1); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const SynthesisProblem& problem) {
  if (!problem.memory_cap) return absl::OkStatus();
  if (static_cast<int>(problem.activations.size()) != problem.stages()) {
    return absl::InvalidArgumentError(absl::StrCat("activations of ", problem.activations.size(),
                                                   " stages are given; the problem has ", problem.stages()));
  }
  for (const int64_t held : problem.activations) {
    if (absl::Status status = CheckRange("a stage's activations", held, 0, kMaxActivations); !status.ok())
      return status;
  }
  // With room for one microbatch in all stages of each rank, the microbatches can run one after the other.
  for (const Placement& placement : problem.placements) {
    for (const std::vector<int>& lane : placement) {
      std::vector<int64_t> one(problem.ranks);
      for (int stage = 0; stage < problem.stages(); ++stage) one[lane[stage]] += problem.activations[stage];
      const auto most = std::max_element(one.begin(), one.end());
      if (*most <= *problem.memory_cap) continue;
      return absl::InvalidArgumentError(absl::StrCat("the memory cap is ", *problem.memory_cap, ", but rank ",
                                                     most - one.begin(), " needs ", *most,
                                                     " for one microbatch; nearest valid: ", *most));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Placement> KnownPlacements(int ranks, int stages, bool replicas) {
  if (ranks < 1 || stages < 1 || stages % ranks != 0) return {};
  std::vector<Placement> placements = {LoopedPlacement(ranks, stages)};
  if (Placement snake = SnakePlacement(ranks, stages); snake != placements[0]) placements.push_back(std::move(snake));
  if (!replicas || ranks % 2 != 0) return placements;
  const size_t one_lane = placements.size();
  for (size_t i = 0; i < one_lane; ++i) {
    const std::vector<int> lane = placements[i][0];
    placements.push_back({lane, ReversedLane(lane, ranks)});
  }
  return placements;
}

absl::Status CheckProblem(const SynthesisProblem& problem) {
  if (absl::Status status = CheckRange("ranks", problem.ranks, 1, kMaxSearchedSlots); !status.ok()) return status;
  if (absl::Status status = CheckRange("stages", problem.stages(), 1, kMaxSearchedSlots); !status.ok()) return status;
  const int64_t most = std::max<int64_t>(1, kMaxSearchedSlots / 3 / problem.stages());
  if (absl::Status status = CheckRange("microbatches", problem.microbatches, 1, most); !status.ok()) return status;
  __int128 longest = 0;
  for (const StageCosts& stage : problem.costs) {
    for (const auto& [name, cost, read] : {std::tuple<const char*, int64_t, bool>{"forward", stage.forward, true},
                                           {"backward", stage.backward, true},
                                           {"input", stage.backward_input, problem.split},
                                           {"weight", stage.backward_weight, problem.split}}) {
      if (!read) continue;
      if (absl::Status status = CheckRange(name, cost, 0, kMaxSlotCost); !status.ok()) return status;
      longest += __int128{cost} * problem.microbatches;
    }
    longest += __int128{2} * problem.p2p * problem.microbatches;
  }
  if (absl::Status status = CheckRange("p2p", problem.p2p, 0, kMaxSlotCost); !status.ok()) return status;
  if (longest > int64_t{1} << 60) {
    return absl::InvalidArgumentError(
        absl::StrCat("the times of all slots together are too large for ", problem.microbatches, " microbatches"));
  }
  if (problem.placements.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no placement is given for ", problem.stages(), " stages on ",
                                                   problem.ranks, " ranks; known ones need a multiple of ",
                                                   problem.ranks, " stages"));
  }
  for (const Placement& placement : problem.placements) {
    if (absl::Status status = CheckRange("a placement's lanes", placement.size(), 1, 2); !status.ok()) return status;
    for (const std::vector<int>& lane : placement) {
      if (absl::Status status = CheckLane(problem, lane); !status.ok()) return status;
    }
  }
  return CheckMemory(problem);
}

std::vector<int64_t> PeakMemory(const PipelineSchedule& schedule, const std::vector<int64_t>& activations) {
  std::vector<int64_t> peaks;
  for (const std::vector<Slot>& order : schedule.order) {
    int64_t held = 0, peak = 0;
    for (const Slot& slot : order) {
      if (slot.kind == SlotKind::kForward) held += activations[slot.stage];
      peak = std::max(peak, held);
      if (slot.kind == SlotKind::kBackward || slot.kind == SlotKind::kBackwardWeight) held -= activations[slot.stage];
    }
    peaks.push_back(peak);
  }
  return peaks;
}

absl::StatusOr<ScheduleTiming> CheckSolution(const SynthesisProblem& problem, const PipelineSchedule& schedule) {
  if (absl::Status status = CheckSchedule(schedule, problem.microbatches); !status.ok()) return status;
  if (absl::Status status = CheckAccumulationOrder(schedule); !status.ok()) return status;
  const auto refuse = [](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("no solution: ", why));
  };
  if (static_cast<int>(schedule.order.size()) != problem.ranks || schedule.stages != problem.stages()) {
    return refuse("it has another number of ranks or stages");
  }
  if (std::count(problem.placements.begin(), problem.placements.end(), schedule.placement) == 0) {
    return refuse("it uses a placement that is not allowed");
  }
  if (schedule.message_driven || schedule.asynchrony) return refuse("it is not static, or does not flush");
  for (const std::vector<Slot>& order : schedule.order) {
    for (const Slot& slot : order) {
      if (slot.width != 1 || slot.paired) return refuse("it has a pair or a doubled forward");
      if (!problem.split && (slot.kind == SlotKind::kBackwardInput || slot.kind == SlotKind::kBackwardWeight)) {
        return refuse("it runs a backward in halves");
      }
    }
  }
  if (problem.memory_cap) {
    const std::vector<int64_t> peaks = PeakMemory(schedule, problem.activations);
    for (int rank = 0; rank < problem.ranks; ++rank) {
      if (peaks[rank] <= *problem.memory_cap) continue;
      return refuse(absl::StrCat("rank ", rank, " holds ", peaks[rank], "; the memory cap is ", *problem.memory_cap));
    }
  }
  return TimeSchedule(schedule, problem.microbatches, problem.costs, problem.p2p);
}

}  // namespace weft
