#include "planner/least_that_fits.h"

#include <cstddef>

namespace weft::planner {

std::optional<Strengths> LeastThatFits(const Strengths& strongest, int slow,
                                       const std::function<TryOutcome(const Strengths&)>& attempt) {
  // Tries the changes. While a try would take too long, makes the change `slow` weaker and tries again.
  const auto in_time = [&](Strengths* strengths) {
    TryOutcome outcome = attempt(*strengths);
    while (outcome == TryOutcome::kTooLong && (*strengths)[slow] > 0) {
      --(*strengths)[slow];
      outcome = attempt(*strengths);
    }
    return outcome;
  };
  Strengths now = strongest;
  TryOutcome outcome = in_time(&now);
  const auto is_out = [](TryOutcome of) { return of == TryOutcome::kRefused || of == TryOutcome::kTooLong; };
  if (is_out(outcome)) {
    // Collect the changes that are compatible with the earlier ones, each as strong as possible.
    Strengths together(strongest.size(), 0);
    for (size_t i = 0; i < strongest.size() && outcome != TryOutcome::kFits; ++i) {
      if (strongest[i] == 0) continue;
      Strengths more = together;
      more[i] = strongest[i];
      TryOutcome with = in_time(&more);
      while (is_out(with) && more[i] > 1) {
        more[i] = more[i] > 3 ? more[i] / 2 : more[i] - 1;
        with = in_time(&more);
      }
      if (with == TryOutcome::kStopped) return std::nullopt;
      if (is_out(with)) continue;
      together = more;
      outcome = with;
    }
    now = together;
  }
  if (outcome != TryOutcome::kFits) return std::nullopt;
  for (size_t i = 0; i < now.size(); ++i) {
    for (int low = 0; low < now[i];) {
      Strengths weaker = now;
      weaker[i] = low + (now[i] - low) / 2;
      switch (attempt(weaker)) {
        case TryOutcome::kFits:
          now = weaker;
          break;
        case TryOutcome::kStopped:
          return now;
        case TryOutcome::kDoesNotFit:
        case TryOutcome::kRefused:
        case TryOutcome::kTooLong:
          low = weaker[i] + 1;
      }
    }
  }
  return now;
}

}  // namespace weft::planner
