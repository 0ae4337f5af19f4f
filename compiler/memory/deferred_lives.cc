#include "compiler/memory/deferred_lives.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {

std::vector<ArenaItem> LivesOfDeferred(absl::Span<const DeferredValue> values, int steps) {
  constexpr int64_t kMax = int64_t{1} << 60;
  struct Layer {
    int first_step = 0;
    int64_t bytes = 0;
  };
  std::map<int64_t, Layer> by_number;
  for (const DeferredValue& value : values) {
    auto [layer, added] = by_number.try_emplace(value.layer, Layer{value.first_step, 0});
    layer->second.first_step = std::min(layer->second.first_step, value.first_step);
    layer->second.bytes = std::min(kMax, layer->second.bytes + std::min(kMax, value.bytes));
  }
  // The layers in the order of their first steps.
  std::vector<std::pair<int64_t, Layer>> layers(by_number.begin(), by_number.end());
  std::sort(layers.begin(), layers.end(),
            [](const auto& a, const auto& b) { return a.second.first_step < b.second.first_step; });
  int64_t largest = 0;
  for (const auto& [number, layer] : layers) largest = std::max(largest, layer.bytes);
  std::map<int64_t, int> end;
  for (size_t i = 0; i < layers.size(); ++i) {
    int64_t kept = 0;
    size_t over = i;
    while (over < layers.size() && kept + layers[over].second.bytes <= 2 * largest) kept += layers[over++].second.bytes;
    end[layers[i].first] = over < layers.size() ? layers[over].second.first_step : steps;
  }
  std::vector<ArenaItem> items;
  for (const DeferredValue& value : values) {
    items.push_back({value.bytes, value.first_step, std::max(value.last_step, end[value.layer] - 1)});
  }
  return items;
}

}  // namespace weft
