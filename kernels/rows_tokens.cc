// Samples, embeddings and losses of tokens.
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
     .rules = {{"masking", Masking, true}}},
    {.kernel = LOAD_TARGETS,
     .outputs = {Int32(Ints::kTargets, {"targets", "[rows]"})},
     .attributes = {Any("masked"), Any("mask_token"), Any("vocabulary")},
     .microbatch = kOfSequences,
     .family = Family::kLoad,
     .calibrated = true,
     .rules = {{"masking", Masking, true}}},
    {.kernel = EMBEDDING,
     .inputs = {Int32(Ints::kTokens, {"tokens", "@[rows]"}), Moves("[rows,d]", {"table", "@[V,d]"})},
     .outputs = {{"y", "[rows,d]"}},
     .attributes = {Any("column_shift")},
     .calibrated = true,
     .rules = {{"table_holds_vocabulary", TableHoldsVocabulary, true}}},
    {.kernel = EMBEDDING_BACKWARD,
     .inputs = {Int32(Ints::kTokens, {"tokens", "@[rows]"}), {"dy", "[rows,d]"}},
     .outputs = {Acc({"dtable", "@[V,d]", kSum})},
     .attributes = {Any("column_shift")},
     .calibrated = true,
     .rules = {{"table_holds_vocabulary", TableHoldsVocabulary, true}}},
    {.kernel = POSITION_EMBEDDING,
     .inputs = {Moves("[sequence,d]", {"table", "@[M,d]"})},
     .outputs = {{"y", "[rows,d]"}},
     .attributes = {Any("sequence"), Any("row_shift")},
     .calibrated = true,
     .rules = {{"positions_fit", PositionsFit}}},
    {.kernel = POSITION_EMBEDDING_BACKWARD,
     .inputs = {{"dy", "[rows,d]"}},
     .outputs = {Acc({"dtable", "@[M,d]", kSum})},
     .attributes = {Any("sequence"), Any("row_shift")},
     .calibrated = true,
     .rules = {{"positions_fit", PositionsFit}}},
    {.kernel = CROSS_ENTROPY,
     .inputs = {{"logits", "@[rows,V]"}, Int32(Ints::kTargets, {"targets", "[rows]"})},
     .outputs = {{"lse", "[rows]", kStatistics}, Part({"losses", "[losses]", kFp64})},
     .attributes = {Try(kOfSizes, Any("vocabulary")), Try(1e-3, From("loss_weight", 0, "at least 0"))},
     .microbatch = kReadsMicrobatch,
     .family = Family::kLoss,
     .calibrated = true,
     .rules = {{"vocabulary", VocabularyIsThePrograms, true}}},
    {.kernel = CROSS_ENTROPY_BACKWARD,
     .inputs = {{"logits", "@[rows,V]"},
                {"lse", "[rows]", kStatistics},
                Int32(Ints::kTargets, {"targets", "[rows]"}),
                Scalar(Optional({"scale", "[3]", kFp64}))},
     .outputs = {{"dlogits", "=logits"}},
     .attributes = {Try(kOfSizes, Any("vocabulary")), Try(1e-3, From("loss_weight", 0, "at least 0")),
                    Any("column_shift")},
     .calibrated = true,
     .rules = {{"vocabulary", VocabularyIsThePrograms, true}}},
    {.kernel = CROSS_ENTROPY_PARTIAL,
     .inputs = {{"logits", "@[rows,V]"}, Int32(Ints::kTargets, {"targets", "[rows]"})},
     .outputs = {{"partial", "[rows,2]", kStatistics}},
     .attributes = {Any("vocabulary"), Any("column_shift")},
     .rules = {{"vocabulary", VocabularyIsThePrograms, true}}},
    {.kernel = CROSS_ENTROPY_COMBINE,
     .inputs = {{"partials", "[parts*rows,2]", kStatistics}, Int32(Ints::kTargets, {"targets", "@[rows]"})},
     .outputs = {{"lse", "[rows]", kStatistics}, Part({"losses", "[losses]", kFp64})},
     .attributes = {Try(1e-3, From("loss_weight", 0, "at least 0"))},
     .microbatch = kReadsMicrobatch,
     .family = Family::kLoss},
};

}  // namespace

const absl::Span<const KernelRow> kTokenRows = kRows;

}  // namespace weft::kernels
