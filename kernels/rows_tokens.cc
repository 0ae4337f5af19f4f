// Table rows of the kernels that load samples, and of the kernels for embeddings and losses of tokens.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr Microbatch kOfSequences = {.reads = Microbatch::Reads::kYes, .whole = true};

constexpr KernelRow kRows[] = {
    {.kernel = LOAD_TOKENS,
     .outputs = {Int32(Ints::kTokens, {"tokens", "[rows]"})},
     .attributes = {Any("masked"), Any("mask_token"), Any("vocabulary")},
     .microbatch = kOfSequences,
     .family = Family::kLoad,
     .calibrated = true,
     .rules = {{"masking", Masking}},
     .result = "token ids of the step's microbatches; with `masked` > 0 as a masked language model sees them (*Masked "
               "tokens* below)"},
    {.kernel = LOAD_TARGETS,
     .outputs = {Int32(Ints::kTargets, {"targets", "[rows]"})},
     .attributes = {Any("masked"), Any("mask_token"), Any("vocabulary")},
     .microbatch = kOfSequences,
     .family = Family::kLoad,
     .calibrated = true,
     .rules = {{"masking", Masking}},
     .result = "next token at every position; -1 = does not count. With `masked` > 0 the token at each masked "
               "position, -1 at all others"},
    {.kernel = EMBEDDING,
     .inputs = {Int32(Ints::kTokens, {"tokens", "@[rows]"}), Moves("[rows,d]", {"table", "@[V,d]"})},
     .outputs = {{"y", "[rows,d]"}},
     .attributes = {Any("column_shift")},
     .calibrated = true,
     .rules = {{"table_holds_vocabulary", TableHoldsVocabulary, true}},
     .result = "y[r] = table[tokens[r]]"},
    {.kernel = EMBEDDING_BACKWARD,
     .inputs = {Int32(Ints::kTokens, {"tokens", "@[rows]"}), {"dy", "[rows,d]"}},
     .outputs = {Acc({"dtable", "@[V,d]", kSum})},
     .attributes = {Any("column_shift")},
     .calibrated = true,
     .rules = {{"table_holds_vocabulary", TableHoldsVocabulary, true}},
     .result = "dtable[tokens[r]] += dy[r], ascending r"},
    {.kernel = POSITION_EMBEDDING,
     .inputs = {Moves("[sequence,d]", {"table", "@[M,d]"})},
     .outputs = {{"y", "[rows,d]"}},
     .attributes = {Any("sequence"), Any("row_shift")},
     .calibrated = true,
     .rules = {{"positions_fit", PositionsFit}},
     .result = "y[r] = table[r mod sequence]"},
    {.kernel = POSITION_EMBEDDING_BACKWARD,
     .inputs = {{"dy", "[rows,d]"}},
     .outputs = {Acc({"dtable", "@[M,d]", kSum})},
     .attributes = {Any("sequence"), Any("row_shift")},
     .calibrated = true,
     .rules = {{"positions_fit", PositionsFit}},
     .result = "sum over sequences, ascending"},
    {.kernel = CROSS_ENTROPY,
     .inputs = {{"logits", "@[rows,V]"}, Int32(Ints::kTargets, {"targets", "[rows]"})},
     .outputs = {{"lse", "[rows]", kStatistics}, Part({"losses", "[losses]", kFp64})},
     .attributes = {Try(kFromSampleExtents, Any("vocabulary")), Try(1e-3, From("loss_weight", 0, "at least 0"))},
     .microbatch = kReadsMicrobatch,
     .family = Family::kLoss,
     .calibrated = true,
     .rules = {{"vocabulary", VocabularyIsThePrograms}},
     .result = "lse over the first `vocabulary` columns; losses[g], g of the step's one microbatch, = loss_weight × Σ "
               "over rows with target ≥ 0, ascending, of (lse - logit[target]); other elements are left as they are"},
    {.kernel = CROSS_ENTROPY_BACKWARD,
     .inputs = {{"logits", "@[rows,V]"},
                {"lse", "[rows]", kStatistics},
                Int32(Ints::kTargets, {"targets", "[rows]"}),
                Scalar(Optional({"scale", "[3]", kFp64}))},
     .outputs = {{"dlogits", "=logits"}},
     .attributes = {Try(kFromSampleExtents, Any("vocabulary")), Try(1e-3, From("loss_weight", 0, "at least 0")),
                    Any("column_shift")},
     .calibrated = true,
     .rules = {{"vocabulary", VocabularyIsThePrograms}},
     .result = "loss_weight × (softmax - onehot); 0 in padded columns and in rows that do not count; with `scale` the "
               "weight is loss_weight × scale[0], rounded to the compute type once"},
    {.kernel = CROSS_ENTROPY_PARTIAL,
     .inputs = {{"logits", "@[rows,V]"}, Int32(Ints::kTargets, {"targets", "[rows]"})},
     .outputs = {{"partial", "[rows,2]", kStatistics}},
     .attributes = {Any("vocabulary"), Any("column_shift")},
     .rules = {{"vocabulary", VocabularyIsThePrograms}},
     .result = "for the n columns that begin at column_shift: log-sum-exp of those below `vocabulary` (-∞ if there is "
               "none), and the logit of the target, 0 if it is not among them"},
    {.kernel = CROSS_ENTROPY_COMBINE,
     .inputs = {{"partials", "[parts*rows,2]", kStatistics}, Int32(Ints::kTargets, {"targets", "@[rows]"})},
     .outputs = {{"lse", "[rows]", kStatistics}, Part({"losses", "[losses]", kFp64})},
     .attributes = {Try(1e-3, From("loss_weight", 0, "at least 0"))},
     .microbatch = kReadsMicrobatch,
     .family = Family::kLoss,
     .result = "for the g parts of a row, in order: log-sum-exp of the first numbers, sum of the second; then as "
               "CROSS_ENTROPY"},
};

}  // namespace

const absl::Span<const KernelRow> kTokenRows = kRows;

}  // namespace weft::kernels
