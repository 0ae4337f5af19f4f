#include "simulator/joined_steps.h"

namespace weft {

int32_t JoinedSteps::IndexOf(const Action& action) {
  if (!joins_) return -1;
  // They follow from the segment and from which of its operands share bytes: mostly none.
  std::vector<int64_t> key = {action.segment(), RunsUpdates(action.kind())};
  if (!places_.AreApart(action)) {
    for (const int b : action.operands()) key.push_back(AddressOf(template_.buffers(b)));
  }
  const auto [of_key, fresh] = index_of_key_.try_emplace(std::move(key), -1);
  if (!fresh) return of_key->second;
  std::vector<StepRange> ranges = FindStepRuns(action.kind(), PlacedStepsOf(program_, template_, action));
  if (ranges.empty()) return -1;
  const auto [found, is_new] = index_of_list_.try_emplace(ranges, static_cast<int32_t>(lists_.size()));
  if (is_new) lists_.push_back(std::make_shared<const std::vector<StepRange>>(std::move(ranges)));
  return of_key->second = found->second;
}

}  // namespace weft
