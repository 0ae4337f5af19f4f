// Finds changes that make a plan fit, and changes for which a plan that fits leaves room.
#ifndef WEFT_PLANNER_FIT_CHANGES_H_
#define WEFT_PLANNER_FIT_CHANGES_H_

#include <vector>

#include "planner/fit/fit.h"
#include "planner/fit/memory_estimate.h"
#include "planner/remedies.h"
#include "proto/fit_report.pb.h"

namespace weft::planner {

// Returns the remedies of a plan that does not fit, gentler ones first, at most options.wanted. Each was compiled and
// fits, or its estimate shows that it fits.
std::vector<FitChange> RemediesOf(const FitOptions& options, const Shortage& shortage, MemoryEstimator* estimator);

// Returns changes that mostly save time, with the memory that they take: less recompute, larger microbatches, a lower
// ZeRO stage, states on the device. Each fits even if its estimate is too low by the error of estimates.
std::vector<FitChange> RelaxationsOf(const FitOptions& options, MemoryEstimator* estimator);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_CHANGES_H_
