#include "executor/backends/cpu/cpu_masking.h"

#include <algorithm>

#include "executor/numerics/philox.h"

namespace weft::exec::cpu {
namespace {

// Purpose of a random word; it is the second word of the Philox counter.
enum Draw : uint32_t { kOrder = 0, kAction = 1, kToken = 2 };

uint32_t Word(PhiloxKey key, int64_t position, Draw draw, uint64_t sample) {
  return Philox4x32(key, {static_cast<uint32_t>(position / 4), draw, static_cast<uint32_t>(sample),
                          static_cast<uint32_t>(sample >> 32)})[position % 4];
}

// Returns the masked positions of a sample in no particular order, in workspace memory. They are the positions with the
// smallest random words; of two equal words the lower position comes first.
absl::Span<const uint64_t> MaskedPositions(const Call& call, PhiloxKey key, uint64_t sample, int64_t sequence) {
  const int64_t blocks = (sequence + 3) / 4;
  uint64_t* order = call.workspace.shared.Get<uint64_t>(sequence + 2 * blocks);
  auto* words = reinterpret_cast<uint32_t*>(order + sequence);
  call.workspace.loops.philox(key.low, key.high, 0, kOrder, static_cast<uint32_t>(sample),
                              static_cast<uint32_t>(sample >> 32), blocks, words);
  for (int64_t i = 0; i < sequence; ++i) order[i] = uint64_t{words[i]} << 32 | static_cast<uint64_t>(i);
  const int64_t masked = call.attributes().masked();
  if (masked < sequence) std::nth_element(order, order + masked, order + sequence);
  for (int64_t i = 0; i < masked; ++i) order[i] &= 0xffffffff;
  return {order, static_cast<size_t>(masked)};
}

}  // namespace

void MaskTokens(const Call& call, int64_t sample, absl::Span<int32_t> tokens) {
  const StepAttributes& a = call.attributes();
  const PhiloxKey key = MakePhiloxKey(call.context.seed, PhiloxPurpose::kMasking);
  const uint64_t s = static_cast<uint64_t>(sample);
  for (uint64_t position : MaskedPositions(call, key, s, static_cast<int64_t>(tokens.size()))) {
    const int64_t p = static_cast<int64_t>(position);
    const uint32_t action = Word(key, p, kAction, s);
    // Of ten masked positions, eight show the mask token, one shows a random token, one keeps its token.
    if (action < 3435973836u) {
      tokens[position] = static_cast<int32_t>(a.mask_token());
    } else if (action < 3865470566u) {
      const uint64_t word = Word(key, p, kToken, s);
      tokens[position] = static_cast<int32_t>(word * static_cast<uint64_t>(a.vocabulary()) >> 32);
    }
  }
}

void MaskTargets(const Call& call, int64_t sample, absl::Span<int32_t> tokens) {
  const PhiloxKey key = MakePhiloxKey(call.context.seed, PhiloxPurpose::kMasking);
  // First mark the targets that remain: replace each by -2 - token, which is below -1.
  for (uint64_t position :
       MaskedPositions(call, key, static_cast<uint64_t>(sample), static_cast<int64_t>(tokens.size()))) {
    tokens[position] = -2 - tokens[position];
  }
  for (int32_t& token : tokens) token = token <= -2 ? -2 - token : -1;
}

}  // namespace weft::exec::cpu
