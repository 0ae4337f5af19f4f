// An independent, slow check for tests: it runs the ranks' lists as they are.
#ifndef WEFT_SCHEDULES_PIPELINE_NAIVE_RUN_H_
#define WEFT_SCHEDULES_PIPELINE_NAIVE_RUN_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// Finds start times that satisfy every dependency, or the reason why there are none. An asynchronous list is repeated
// three times; `start` then contains the start times of all three repetitions, one after the other.
class NaiveRun {
 public:
  NaiveRun(const PipelineSchedule& schedule, int microbatches, const SlotCosts& costs)
      : schedule_(schedule), microbatches_(microbatches), costs_(costs) {
    const int repetitions = schedule.asynchrony ? 3 : 1;
    for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
      std::vector<Step> steps;
      for (int list = schedule.asynchrony ? -1 : 0; list < repetitions; ++list) {
        for (const Slot& slot : schedule.order[rank]) {
          const int repetition = list + slot.ahead;
          if (repetition >= 0 && repetition < repetitions) steps.push_back({slot, static_cast<int>(rank), repetition});
        }
      }
      ranks_.push_back(steps);
    }
    problem_ = EachExactlyOnce(repetitions);
    if (problem_.empty() && schedule.message_driven) problem_ = FindEarlier();
    if (problem_.empty()) problem_ = schedule.message_driven ? TryChoices() : Relax();
  }

  // The reason why the run does not complete; empty if it completes.
  const std::string& problem() const { return problem_; }
  // Start times per rank, not for message-driven schedules. Their unit is 1 / (stages * ranks) of the unit of the
  // costs, so they are always integers.
  const std::vector<std::vector<int64_t>>& start() const { return start_; }

 private:
  struct Step {
    Slot slot;
    int rank;
    int repetition;
  };
  // A result that a step makes or needs: kind, stage, microbatch, repetition. B makes what I and W make.
  using StepResult = std::tuple<char, int, int, int>;

  static std::vector<StepResult> Makes(const Step& step) {
    std::vector<StepResult> results;
    for (int m = step.slot.microbatch; m < step.slot.microbatch + step.slot.width; ++m) {
      const SlotKind kind = step.slot.kind;
      if (kind == SlotKind::kForward) results.push_back({'F', step.slot.stage, m, step.repetition});
      if (kind == SlotKind::kBackward || kind == SlotKind::kBackwardInput) {
        results.push_back({'I', step.slot.stage, m, step.repetition});
      }
      if (kind == SlotKind::kBackward || kind == SlotKind::kBackwardWeight) {
        results.push_back({'W', step.slot.stage, m, step.repetition});
      }
    }
    return results;
  }

  std::vector<StepResult> Needs(const Step& step) const {
    std::vector<StepResult> results;
    const int s = step.slot.stage, k = step.repetition;
    for (int m = step.slot.microbatch; m < step.slot.microbatch + step.slot.width; ++m) {
      if (step.slot.kind == SlotKind::kForward) {
        if (s > 0) results.push_back({'F', s - 1, m, k});
        if (auto earlier = earlier_.find({s, m}); earlier != earlier_.end()) {
          results.push_back({'W', s, earlier->second, k});
        }
      } else if (step.slot.kind == SlotKind::kBackwardWeight) {
        results.push_back({'I', s, m, k});
      } else {
        results.push_back({'F', s, m, k});
        if (s + 1 < schedule_.stages) results.push_back({'I', s + 1, m, k});
      }
    }
    return results;
  }

  std::string EachExactlyOnce(int repetitions) {
    int64_t made = 0;
    std::map<int, int> lane_of;
    std::map<int, std::pair<int, int>> group_of;
    std::set<int> backwards_in_pairs;
    for (const std::vector<Step>& steps : ranks_) {
      for (size_t i = 0; i < steps.size(); ++i) {
        const Step& step = steps[i];
        const Slot& slot = step.slot;
        if (slot.lane < 0 || slot.lane >= schedule_.lanes || slot.stage < 0 || slot.stage >= schedule_.stages) {
          return "no such stage";
        }
        if (schedule_.placement[slot.lane][slot.stage] != step.rank) return "elsewhere";
        if (slot.width < 1 || slot.width > 2 || (slot.width == 2 && slot.kind != SlotKind::kForward)) return "width";
        if (slot.paired && (slot.kind != SlotKind::kForward || slot.width != 1 || i + 1 == steps.size() ||
                            steps[i + 1].slot.kind != SlotKind::kBackward || steps[i + 1].slot.paired)) {
          return "no pair";
        }
        if (slot.paired) backwards_in_pairs.insert(steps[i + 1].slot.microbatch);
        for (const StepResult& result : Makes(step)) {
          const int m = std::get<2>(result);
          if (m < 0 || m >= microbatches_) return "no such microbatch";
          if (lane_of.emplace(m, slot.lane).first->second != slot.lane) return "two lanes";
          const std::pair<int, int> group = {slot.microbatch, slot.width};
          if (slot.kind == SlotKind::kForward && group_of.emplace(m, group).first->second != group) return "two widths";
          if (!maker_.emplace(result, step.rank).second) return "twice";
          ++made;
        }
      }
    }
    for (const int m : backwards_in_pairs) {
      auto group = group_of.find(m);
      if (group != group_of.end() && group->second.second != 1) return "half of a wide forward in a pair";
    }
    return made == int64_t{3} * schedule_.stages * microbatches_ * repetitions ? "" : "missing";
  }

  // For each microbatch of a stage, the microbatch that must end there before it may enter: the one `limit` places
  // before it in the stage's own list of forwards.
  std::string FindEarlier() {
    std::map<int, std::vector<int>> forwards;
    for (const std::vector<Step>& steps : ranks_) {
      for (const Step& step : steps) {
        if (step.slot.kind == SlotKind::kForward) forwards[step.slot.stage].push_back(step.slot.microbatch);
      }
    }
    for (const auto& [stage, order] : forwards) {
      if (order != forwards[0]) return "more than one order";
      for (size_t i = schedule_.message_driven->limit; i < order.size(); ++i) {
        earlier_[{stage, order[i]}] = order[i - schedule_.message_driven->limit];
      }
    }
    return "";
  }

  // Raises every start until no start has to be raised: the longest path, by brute force.
  std::string Relax() {
    const int64_t ranks = static_cast<int64_t>(ranks_.size());
    std::map<StepResult, int64_t> end;
    int64_t steps = 0;
    for (const std::vector<Step>& list : ranks_) {
      start_.emplace_back(list.size(), 0);
      steps += static_cast<int64_t>(list.size());
    }
    bool raised = true;
    for (int64_t round = 0; raised; ++round) {
      if (round > steps + 1) return "cycle";
      raised = false;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        int64_t free = 0;
        for (size_t i = 0; i < ranks_[rank].size();) {
          const size_t count = ranks_[rank][i].slot.paired ? 2 : 1;
          int64_t start = std::max(free, start_[rank][i]);
          for (size_t j = i; j < i + count; ++j) {
            for (const StepResult& need : Needs(ranks_[rank][j])) {
              // Each step takes one tick more (below), so that cycles of steps that cost nothing are found too.
              const int64_t p2p = maker_.at(need) == rank ? 0 : costs_.p2p * ranks * schedule_.stages * kTick;
              start = std::max(start, end[need] + p2p);
            }
          }
          if (start > start_[rank][i]) raised = true;
          free = start + (count == 2 ? Pair() : Cost(ranks_[rank][i].slot)) * ranks * ranks * kTick + 1;
          for (size_t j = i; j < i + count; ++j) {
            start_[rank][j] = start;
            for (const StepResult& result : Makes(ranks_[rank][j])) {
              raised = raised || end[result] < free;
              end[result] = std::max(end[result], free);
            }
          }
          i += count;
        }
      }
    }
    for (std::vector<int64_t>& list : start_) {
      for (int64_t& start : list) start /= kTick;
    }
    return "";
  }

  // A message-driven schedule must complete whatever the ranks choose.
  std::string TryChoices() {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      std::mt19937 random(seed);
      std::set<StepResult> done;
      std::vector<std::vector<Step>> queues;
      for (const std::vector<Step>& list : ranks_) {
        for (bool forward : {true, false}) {
          std::vector<Step>& queue = queues.emplace_back();
          for (const Step& step : list) {
            if ((step.slot.kind == SlotKind::kForward) == forward) queue.push_back(step);
          }
        }
      }
      std::vector<size_t> at(queues.size());
      for (;;) {
        std::vector<size_t> ready;
        for (size_t q = 0; q < queues.size(); ++q) {
          if (at[q] == queues[q].size()) continue;
          const std::vector<StepResult> needs = Needs(queues[q][at[q]]);
          if (std::all_of(needs.begin(), needs.end(), [&](const StepResult& t) { return done.count(t) > 0; })) {
            ready.push_back(q);
          }
        }
        if (ready.empty()) break;
        const size_t q = ready[random() % ready.size()];
        for (const StepResult& result : Makes(queues[q][at[q]++])) done.insert(result);
      }
      for (size_t q = 0; q < queues.size(); ++q) {
        if (at[q] < queues[q].size()) return "stuck";
      }
    }
    return "";
  }

  int64_t Cost(const Slot& slot) const {
    switch (slot.kind) {
      case SlotKind::kForward:
        return costs_.forward * slot.width;
      case SlotKind::kBackward:
        return costs_.backward;
      case SlotKind::kBackwardInput:
        return costs_.backward - costs_.weight;
      case SlotKind::kBackwardWeight:
        return costs_.weight;
    }
    return 0;
  }
  int64_t Pair() const { return costs_.pair != 0 ? costs_.pair : costs_.forward + costs_.backward; }

  // Ticks per unit of time. A run has fewer steps than this.
  static constexpr int64_t kTick = int64_t{1} << 20;

  const PipelineSchedule& schedule_;
  const int microbatches_;
  const SlotCosts costs_;
  std::vector<std::vector<Step>> ranks_;
  std::map<StepResult, int> maker_;
  // Maps (stage, microbatch) to the microbatch that must end first. For message-driven schedules only.
  std::map<std::pair<int, int>, int> earlier_;
  std::vector<std::vector<int64_t>> start_;
  std::string problem_;
};

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_NAIVE_RUN_H_
