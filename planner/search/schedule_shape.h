// The facts about a schedule that bounds of plans need.
#ifndef WEFT_PLANNER_SEARCH_SCHEDULE_SHAPE_H_
#define WEFT_PLANNER_SEARCH_SCHEDULE_SHAPE_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft::planner {

// Facts about a schedule that bounds need. They are much shorter than the schedule's lists.
struct ScheduleShape {
  int stages = 0;
  // placement[lane][stage] = pipe rank.
  std::vector<std::vector<int>> placement;
  // microbatches[lane] = number of microbatches that run through the lane.
  std::vector<int64_t> microbatches = {};
  // The microbatches that a rank holds while it runs a backward of `stage`, or the input half of one.
  struct Held {
    int stage = 0;
    // Pairs (stage, number of microbatches). `saved` counts the microbatches whose activations are kept.
    // `saved_gradients` counts those whose input half has begun and whose weight half has not ended.
    std::vector<std::pair<int, int64_t>> saved;
    std::vector<std::pair<int, int64_t>> saved_gradients;

    friend bool operator==(const Held&, const Held&) = default;
  };
  // By pipe rank: the moments at which the rank holds the most microbatches, at most kMaxMoments of them.
  std::vector<std::vector<Held>> held = {};
  // By pipe rank: (stage, number of its forwards that run as one action with a backward).
  std::vector<std::map<int, int64_t>> paired_forwards = {};
  // The most microbatches that one forward computes at once.
  int64_t widest = 1;
  bool split_backward = false;
  bool whole_backward = false;
};

inline constexpr int kMaxMoments = 16;

// `schedule` must be static, flush and have passed CheckSchedule. `frees_between_halves`: activations are freed after
// the input half of a backward (RuntimeMemory).
ScheduleShape ShapeOf(const PipelineSchedule& schedule, bool frees_between_halves);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_SCHEDULE_SHAPE_H_
