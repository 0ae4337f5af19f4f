// What of several changes is needed, where none of them is enough by itself.
#ifndef WEFT_PLANNER_LEAST_THAT_FITS_H_
#define WEFT_PLANNER_LEAST_THAT_FITS_H_

#include <functional>
#include <optional>
#include <vector>

namespace weft::planner {

enum class TryOutcome {
  kFits,
  kDoesNotFit,
  // What is tried cannot be at once.
  kRefused,
  // Not tried: it takes longer than a weaker one.
  kTooLong,
  // Neither this nor another is tried any more.
  kStopped,
};

// Of every change how strong it is: 0 leaves all as it is.
using Strengths = std::vector<int>;

// Weaker in turn from `strongest` on, first as many changes as go together, and of these no more and no stronger ones
// than are needed: the first change is spared first, each to the weakest that does with the others (found by halves, as
// stronger is taken to need less). Nothing where even the strongest do not fit. `slow` is the change that is made
// weaker first where a try would take too long; what is told was tried and fits. The tries: one, and where they do not
// go together one for every change and each half of its strength, and log2 of the strengths of each.
std::optional<Strengths> LeastThatFits(const Strengths& strongest, int slow,
                                       const std::function<TryOutcome(const Strengths&)>& attempt);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_LEAST_THAT_FITS_H_
