#include "schedules/pipeline/closed_form.h"

#include <algorithm>

namespace weft {
namespace {

// Huang et al. 2019, arXiv:1811.06965, sec. 2.3: with K partitions and M microbatches the bubble takes (K-1)/(M+K-1) of
// the time ("O((K-1)/(M+K-1))"; exact for equal stages), and each accelerator keeps the stage inputs of all M.
ClosedForm GPipe(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  return {.makespan = {(n + p - 1) * (params.forward + params.backward), 1},
          .bubble_ratio = {p - 1, n + p - 1},
          .bubble_over_ideal = {p - 1, n},
          .peak_activations = std::vector<Ratio>(p, Ratio{n, 1})};
}

// Narayanan et al. 2021, arXiv:2104.04473, sec. 2.2: time in the bubble (p-1)(t_f + t_b), as a fraction of the ideal
// time (p-1)/m, the same as GPipe; activations for at most p microbatches on the first rank instead of m. Rank r starts
// its first backward with p-r forwards done, and each further forward follows a backward: min(p-r, m).
ClosedForm OneFOneB(const ScheduleParams& params) {
  ClosedForm form = GPipe(params);
  for (int64_t rank = 0; rank < params.ranks; ++rank) {
    form.peak_activations[rank] = {std::min<int64_t>(params.ranks - rank, params.microbatches), 1};
  }
  return form;
}

struct Entry {
  absl::string_view name;
  ClosedForm (*form)(const ScheduleParams&);
};

// Sorted by name.
constexpr Entry kEntries[] = {
    {"1f1b", OneFOneB},
    {"gpipe", GPipe},
};

}  // namespace

std::optional<ClosedForm> FindClosedForm(absl::string_view schedule, const ScheduleParams& params) {
  for (const Entry& entry : kEntries) {
    if (entry.name == schedule) return entry.form(params);
  }
  return std::nullopt;
}

}  // namespace weft
