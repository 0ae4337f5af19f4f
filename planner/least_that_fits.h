// Finds which of several changes are needed if none of them is enough alone.
#ifndef WEFT_PLANNER_LEAST_THAT_FITS_H_
#define WEFT_PLANNER_LEAST_THAT_FITS_H_

#include <functional>
#include <optional>
#include <vector>

namespace weft::planner {

enum class TryOutcome {
  kFits,
  kDoesNotFit,
  // These changes cannot be combined.
  kRefused,
  // Not tried: it would take too long. A weaker change may take less time.
  kTooLong,
  // Not tried, and nothing else will be tried.
  kStopped,
};

// The strength of every change: 0 = not made.
using Strengths = std::vector<int>;

// Returns changes that together fit and are no more and no stronger than needed; nothing if even the strongest do not
// fit. The search first tries all of `strongest`. If these changes cannot be combined, it collects as many as can. Then
// it weakens one change after the other, from the first to the last, each as far as the result still fits. It uses a
// binary search, which assumes that a stronger change needs less memory. If a try would take too long, the change
// `slow` is made weaker first. The result was tried and fits. Number of tries: one; if the changes cannot be combined,
// one for every change and each half of its strength; and log2 of the strength of each change.
std::optional<Strengths> LeastThatFits(const Strengths& strongest, int slow,
                                       const std::function<TryOutcome(const Strengths&)>& attempt);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_LEAST_THAT_FITS_H_
