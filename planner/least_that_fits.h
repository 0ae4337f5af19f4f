// Finds which of several changes are needed together, for the case that no single change is enough.
#ifndef WEFT_PLANNER_LEAST_THAT_FITS_H_
#define WEFT_PLANNER_LEAST_THAT_FITS_H_

#include <functional>
#include <optional>
#include <vector>

namespace weft::planner {

enum class TryOutcome {
  kFits,
  kDoesNotFit,
  // Tried: these changes cannot be combined.
  kRefused,
  // Not tried, because it would take too long. A weaker change may take less time.
  kTooLong,
  // Not tried, because the search has ended. Nothing else will be tried.
  kStopped,
};

// The strength of every change: 0 = the change is not made.
using Strengths = std::vector<int>;

// Returns changes that together fit and are no more and no stronger than needed. Returns nothing if even the strongest
// do not fit.
//
// The search first tries all of `strongest`. If these changes cannot be combined, it adds one change after the other
// and leaves out those that cannot be combined with the earlier ones. Then it weakens one change after the other, from
// the first to the last, each as far as the result still fits. For this it uses a binary search, which assumes that a
// stronger change needs less memory. If a try would take too long, the change `slow` is made weaker first. The result
// was tried and fits.
//
// The number of tries is one, plus log2 of the strength of each change. If the changes cannot be combined, add one try
// for every change and for each time that its strength is halved.
std::optional<Strengths> LeastThatFits(const Strengths& strongest, int slow,
                                       const std::function<TryOutcome(const Strengths&)>& attempt);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_LEAST_THAT_FITS_H_
