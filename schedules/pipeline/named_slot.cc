#include "schedules/pipeline/named_slot.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace weft {
namespace {

constexpr absl::string_view kKinds = "FBIW";

bool ConsumeNumber(absl::string_view* text, int* number) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit((*text)[digits])) ++digits;
  if (digits == 0 || !absl::SimpleAtoi(text->substr(0, digits), number)) return false;
  text->remove_prefix(digits);
  return true;
}

// Reads a name such as "F l1 s2 m3" at the beginning of `text`.
bool ReadSlotName(absl::string_view text, Slot* slot) {
  const size_t kind = text.empty() ? absl::string_view::npos : kKinds.find(text[0]);
  if (kind == absl::string_view::npos) return false;
  slot->kind = static_cast<SlotKind>(kind);
  text.remove_prefix(1);
  int lane = 0;
  if (absl::ConsumePrefix(&text, " l") && !ConsumeNumber(&text, &lane)) return false;
  slot->lane = static_cast<int16_t>(lane);
  return absl::ConsumePrefix(&text, " s") && ConsumeNumber(&text, &slot->stage) && absl::ConsumePrefix(&text, " m") &&
         ConsumeNumber(&text, &slot->microbatch);
}

// The number directly after `word`, or -1.
int NumberBehind(absl::string_view text, absl::string_view word) {
  const size_t at = text.find(word);
  if (at == absl::string_view::npos) return -1;
  text.remove_prefix(at + word.size());
  int number = -1;
  return ConsumeNumber(&text, &number) ? number : -1;
}

}  // namespace

std::optional<NamedSlot> FirstNamedSlot(absl::string_view message, const PipelineSchedule& schedule) {
  NamedSlot named;
  size_t at = 0;
  while (at < message.size() &&
         !((at == 0 || !absl::ascii_isalnum(message[at - 1])) && ReadSlotName(message.substr(at), &named.slot))) {
    ++at;
  }
  if (at == message.size()) return std::nullopt;
  const int ranks = static_cast<int>(schedule.order.size());
  // "rank 1, slot F s0 m0: ..." names the rank of the list. A cycle names many ranks.
  const int rank = absl::ConsumePrefix(&message, "rank ") ? NumberBehind(message, "") : -1;
  for (int r = 0; r < ranks; ++r) {
    if (rank >= 0 && r != rank) continue;
    bool again = false;
    for (size_t i = 0; i < schedule.order[r].size(); ++i) {
      const Slot& slot = schedule.order[r][i];
      if (slot.kind != named.slot.kind || slot.stage != named.slot.stage || slot.microbatch != named.slot.microbatch ||
          slot.lane != named.slot.lane) {
        continue;
      }
      named.rank = r;
      named.index = static_cast<int64_t>(i);
      if (again) return named;
      again = true;
    }
    if (named.index >= 0) return named;
  }
  named.rank = NumberBehind(message, "expected on rank ");
  if (named.rank < 0 || named.rank >= ranks) return std::nullopt;
  return named;
}

}  // namespace weft
