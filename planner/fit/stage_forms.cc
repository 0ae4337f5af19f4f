#include "planner/fit/stage_forms.h"

#include <algorithm>
#include <numeric>

namespace weft::planner {

std::vector<int32_t> StageForms::LayersPerForm() const {
  std::vector<int32_t> sums;
  for (const std::vector<int32_t>& form : layers) sums.push_back(std::accumulate(form.begin(), form.end(), 0));
  return sums;
}

std::vector<int32_t> StageForms::LayersPerRun() const {
  std::vector<int32_t> sums(layers.empty() ? 0 : layers[0].size());
  for (const std::vector<int32_t>& form : layers) {
    for (size_t run = 0; run < form.size(); ++run) sums[run] += form[run];
  }
  return sums;
}

StageForms FormsOfStages(absl::Span<const LayerRun> runs, absl::Span<const int32_t> layers_per_stage,
                         ShortenFn shorten) {
  StageForms forms;
  int32_t begin = 0;
  for (const int32_t layers : layers_per_stage) {
    const int32_t end = begin + layers;
    std::vector<int32_t> form;
    for (const LayerRun& run : runs) {
      const int32_t from = std::max(begin, run.first), to = std::min(end, run.first + run.layers);
      form.push_back(std::max(0, to - from));
    }
    const bool mixed = std::count(form.begin(), form.end(), 0) + 1 < static_cast<int>(form.size());
    for (int32_t& count : form) count = count == 0 ? 0 : shorten(count, mixed);
    begin = end;
    const auto found = std::find(forms.layers.begin(), forms.layers.end(), form);
    forms.form_of_stage.push_back(static_cast<int>(found - forms.layers.begin()));
    if (found == forms.layers.end()) forms.layers.push_back(std::move(form));
  }
  return forms;
}

}  // namespace weft::planner
