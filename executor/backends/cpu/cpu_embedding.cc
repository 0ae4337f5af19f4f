// LOAD_TOKENS, LOAD_TARGETS, token and position embeddings.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/numerics/philox.h"
#include "proto/util/status.h"

namespace weft::exec::cpu {
namespace {

// For masked language models, these functions choose the positions of a sample that are predicted, and the tokens that
// the model sees there (docs/kernels.md, "Masked tokens").

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

// MaskTokens and MaskTargets each replace the tokens of one sample; `sample` is its number in the whole run. MaskTokens
// writes the tokens that the model sees. MaskTargets writes the targets: -1 where nothing is predicted, else the
// original token.
void MaskTokens(const Call& call, int64_t sample, absl::Span<int32_t> tokens) {
  const StepAttributes& a = call.attributes();
  const PhiloxKey key = MakePhiloxKey(call.context.seed, PhiloxPurpose::kMasking);
  const uint64_t s = static_cast<uint64_t>(sample);
  for (uint64_t position : MaskedPositions(call, key, s, static_cast<int64_t>(tokens.size()))) {
    const int64_t p = static_cast<int64_t>(position);
    const uint32_t action = Word(key, p, kAction, s);
    // On average, eight of ten masked positions show the mask token, one shows a random token, and one keeps its token.
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

absl::Status LoadSamples(const Call& call, bool targets) {
  const StepContext& context = call.context;
  if (context.data == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("step '", call.step.name(), "': no data source is open"));
  }
  const int64_t sequence = Elements(call.out[0]) / context.microbatch_sequences;
  auto* out = static_cast<int32_t*>(call.out[0].data);
  const bool masked = call.attributes().masked() != 0;
  if (call.attributes().masked() > sequence) {
    return absl::InvalidArgumentError(absl::StrCat("step '", call.step.name(), "': masked is ",
                                                   call.attributes().masked(), "; a sequence has ", sequence,
                                                   " tokens"));
  }
  for (int64_t i = 0; i < context.microbatch_sequences; ++i) {
    const absl::Span<int32_t> wanted = absl::MakeSpan(out + i * sequence, sequence);
    const absl::Span<int32_t> none;
    const int64_t sample = context.SampleOf(i);
    if (masked) {
      WEFT_RETURN_IF_ERROR(context.data->Sample(sample, wanted, none));
      targets ? MaskTargets(call, sample, wanted) : MaskTokens(call, sample, wanted);
    } else {
      WEFT_RETURN_IF_ERROR(context.data->Sample(sample, targets ? none : wanted, targets ? wanted : none));
    }
  }
  return absl::OkStatus();
}

// Returns OutOfRange if a token of input 0 is negative or not below `vocabulary`, the number of rows of the table.
absl::Status CheckTokens(const Call& call, int64_t vocabulary) {
  // If ranks split the table, another rank may hold the row of a token.
  if (call.attributes().has_column_shift()) vocabulary = std::numeric_limits<int32_t>::max();
  const auto* tokens = static_cast<const int32_t*>(call.in[0].data);
  for (int64_t i = 0; i < Elements(call.in[0]); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocabulary) {
      return absl::OutOfRangeError(absl::StrCat("step '", call.step.name(), "': token ", i, " is ", tokens[i],
                                                "; the table has ", vocabulary, " rows"));
    }
  }
  return absl::OkStatus();
}

// Returns the row of the table for a token; negative if another rank holds it.
int64_t TableRow(const Call& call, int32_t token, int64_t table_rows) {
  const int64_t row = token - call.context.column_shift;
  return row < table_rows ? row : -1;
}

// Adds rows of dy to rows of a table, skipping those with a negative target row. Threads split the columns, so each
// element sums over ascending rows. A table stored as T is the accumulator itself. Any other table is summed in scratch
// memory, so that its elements are rounded once.
template <typename T, typename RowOf>
void ScatterRows(const Call& call, const TensorView& dy, RowOf row_of) {
  const Loops<T>& loops = GetLoops<T>(call);
  const TensorView& table = call.out[0];
  const int64_t d = Columns(dy), rows = Rows(dy), table_rows = Rows(table);
  const bool accumulate = call.step.accumulate();
  const bool in_place = table.dtype == (sizeof(T) == 8 ? FP64 : FP32);
  T* sums = in_place ? static_cast<T*>(table.data) : call.workspace.shared.Get<T>(table_rows * d);
  constexpr int64_t kColumns = 64;
  call.pool().Run((d + kColumns - 1) / kColumns, [&](int64_t task, int) {
    const int64_t first = task * kColumns, count = std::min(kColumns, d - first);
    if (!in_place || !accumulate) {
      for (int64_t row = 0; row < table_rows; ++row) std::fill_n(sums + row * d + first, count, T(0));
    }
    T buffer[kColumns];
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t to = row_of(row);
      if (to < 0) continue;
      loops.accumulate(Read(call, dy, row * d + first, count, buffer), count, sums + to * d + first);
    }
  });
  if (in_place) return;
  ForChunks(call, table_rows * d,
            [&](int64_t first, int64_t count) { Write(call, table, first, count, accumulate, sums + first); });
}

}  // namespace

absl::Status LoadTokens(const Call& call) { return LoadSamples(call, false); }

absl::Status LoadTargets(const Call& call) { return LoadSamples(call, true); }

absl::Status Embedding(const Call& call) {
  const TensorView& table = call.in[1];
  WEFT_RETURN_IF_ERROR(CheckTokens(call, Rows(table)));
  const auto* tokens = static_cast<const int32_t*>(call.in[0].data);
  const int64_t d = Columns(table);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, Rows(call.out[0]), d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(d);
      const int64_t from = TableRow(call, tokens[row], Rows(table));
      const T* x = buffer;
      if (from < 0) {
        std::fill_n(buffer, d, T(0));
      } else {
        x = Read(call, table, from * d, d, buffer);
      }
      GetLoops<T>(call).store(x, StorageOf(call.out[0]), d, At(call.out[0], row * d));
    });
  });
  return absl::OkStatus();
}

absl::Status EmbeddingBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTokens(call, Rows(call.out[0])));
  const auto* tokens = static_cast<const int32_t*>(call.in[0].data);
  WithComputeType(call.in, [&]<typename T>() {
    ScatterRows<T>(call, call.in[1], [&](int64_t row) { return TableRow(call, tokens[row], Rows(call.out[0])); });
  });
  return absl::OkStatus();
}

absl::Status PositionEmbedding(const Call& call) {
  const int64_t sequence = call.attributes().sequence(), d = Columns(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, Rows(call.out[0]), d, [&](int64_t row, int thread) {
      const T* x = Read(call, call.in[0], (call.context.row_shift + row) % sequence * d, d,
                        call.workspace.thread[thread].Get<T>(d));
      GetLoops<T>(call).store(x, StorageOf(call.out[0]), d, At(call.out[0], row * d));
    });
  });
  return absl::OkStatus();
}

absl::Status PositionEmbeddingBackward(const Call& call) {
  const int64_t sequence = call.attributes().sequence();
  WithComputeType(call.in, [&]<typename T>() {
    ScatterRows<T>(call, call.in[0], [&](int64_t row) { return (call.context.row_shift + row) % sequence; });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
