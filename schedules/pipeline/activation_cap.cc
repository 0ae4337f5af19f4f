#include "schedules/pipeline/activation_cap.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/pipeline/activations.h"
#include "schedules/pipeline/check.h"

namespace weft {
namespace {

std::string Number(const Ratio& ratio) {
  return absl::StrCat(static_cast<double>(ratio.numerator) / static_cast<double>(ratio.denominator));
}

bool Exceeds(const Ratio& held, const Ratio& cap) {
  return static_cast<__int128>(held.numerator) * cap.denominator >
         static_cast<__int128>(cap.numerator) * held.denominator;
}

absl::Status Refusal(const Ratio& cap, const std::string& where, const std::string& how, const Ratio& held) {
  return absl::InvalidArgumentError(
      absl::StrCat("activation cap = ", Number(cap), " microbatches: ", where, how, Number(held), " microbatches"));
}

// Compares the cap with the most that each rank may hold: `limit` microbatches for each of its stages.
absl::Status CheckMessageDriven(const PipelineSchedule& schedule, int microbatches, const Ratio& cap) {
  const int64_t ranks = static_cast<int64_t>(schedule.order.size());
  const int64_t under_way = std::min(schedule.message_driven->limit, microbatches);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t stages = std::count(schedule.placement[0].begin(), schedule.placement[0].end(), rank);
    const Ratio held = {under_way * stages * ranks, schedule.stages};
    if (!Exceeds(held, cap)) continue;
    return Refusal(cap,
                   absl::StrCat("rank ", rank, ", message-driven with at most ", under_way, " microbatches in flight"),
                   ", may hold ", held);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckActivations(const PipelineSchedule& schedule, int microbatches, const Ratio& cap) {
  if (absl::Status status = CheckSchedule(schedule, microbatches); !status.ok()) return status;
  if (schedule.message_driven) return CheckMessageDriven(schedule, microbatches, cap);
  const int64_t ranks = static_cast<int64_t>(schedule.order.size());
  absl::Status status;
  // The activations of one stage are the fraction ranks / stages of the activations of a whole rank.
  ForEachHeld(schedule, microbatches, [&](int rank, const Slot& slot, int64_t stages) {
    const Ratio held = {stages * ranks, schedule.stages};
    if (!status.ok() || !Exceeds(held, cap)) return;
    status = Refusal(cap, absl::StrCat("rank ", rank, ", slot ", SlotName(schedule, slot)), ": it then holds ", held);
  });
  return status;
}

}  // namespace weft
