// The plans that people try first, so that a report can say how they compare with the best plan.
#ifndef WEFT_PLANNER_SEARCH_POPULAR_CHOICES_H_
#define WEFT_PLANNER_SEARCH_POPULAR_CHOICES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"

namespace weft::planner {

struct PopularChoice {
  // For reports, e.g. "ZeRO 3 alone".
  absl::string_view name;
  // Whether a plan of a space is of this kind; `per_node` = devices of a node.
  bool (*includes)(const Plan& plan, int64_t per_node);
};

// No plan is of two kinds.
absl::Span<const PopularChoice> PopularChoices();

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_POPULAR_CHOICES_H_
