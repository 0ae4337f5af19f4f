// Table rows of the kernels for attention (as one kernel and as several), rotary positions and dropout.
#include "kernels/rows.h"

namespace weft::kernels {
namespace {

constexpr AttributeRule kHeads = Within("heads", 1, kExtent, "at least 1");
constexpr AttributeRule kKvHeads = Holds("kv_heads", KvHeadsDivideHeads, "0, or a divisor of heads");
constexpr AttributeRule kByHead = Holds("qkv_by_head", ByHeadIsFused, "false where q, k and v are separate inputs");
constexpr AttributeRule kSequence = Divides("sequence", "rows", "a divisor of the rows");
constexpr AttributeRule kWindow = Holds("window", WindowIsCausal, "0, or positive with causal");
constexpr AttributeRule kDropout = Below("dropout", 1, "in [0, 1)"), kSomeDropout = Try(0.1, kDropout);

// Without kv_heads, q, k and v are side by side in one matrix.
constexpr OperandSpec kQkv = Unless("kv_heads", {"qkv", "@[rows,3*heads*h]"});
constexpr OperandSpec kQ = If("kv_heads", {"q", "[rows,heads*h]"});
constexpr OperandSpec kK = If("kv_heads", {"k", "@[rows,kv_heads*h]"});
constexpr OperandSpec kV = If("kv_heads", {"v", "@[rows,kv_heads*h]"});
constexpr OperandSpec kFirstQ = If("kv_heads", {"q", "@[rows,heads*h]"});
constexpr OperandSpec kPlainK = If("kv_heads", {"k", "[rows,kv_heads*h]"});
constexpr OperandSpec kPlainV = If("kv_heads", {"v", "[rows,kv_heads*h]"});
constexpr OperandSpec kDqkv = Unless("kv_heads", {"dqkv", "=qkv"});
constexpr OperandSpec kDq = If("kv_heads", {"dq", "=q"});
constexpr OperandSpec kDk = If("kv_heads", {"dk", "=k"});
constexpr OperandSpec kDv = If("kv_heads", {"dv", "=v"});

constexpr Few<AttributeRule, 12> kOfAttention = {
    kHeads,   kSequence, Try(1, Any("causal")), Try(0.17, Any("scale")), kDropout, Any("dropout_site"),
    kKvHeads, kWindow,   Any("column_shift"),   Any("whole_columns"),    kByHead};
constexpr Microbatch kWithDropout = {.reads = Microbatch::Reads::kWithDropout,
                                     .rows_of_sample = Microbatch::RowsOfSample::kSequenceOrRecipe};
constexpr Microbatch kOfDropout = {.reads = Microbatch::Reads::kYes,
                                   .rows_of_sample = Microbatch::RowsOfSample::kSequenceOrRecipe};
constexpr Few<AttributeRule, 12> kOfDropoutKernels = {kSomeDropout,     Any("dropout_site"),  Any("column_shift"),
                                                      Any("row_shift"), Any("whole_columns"), Any("sequence"),
                                                      Any("heads")};

constexpr KernelRow kRows[] = {
    {.kernel = ATTENTION,
     .inputs = {kQkv, kFirstQ, kPlainK, kPlainV},
     .outputs = {{"o", "[rows,heads*h]"}, {"lse", "[rows,heads]", kStatistics}},
     .attributes = kOfAttention,
     .microbatch = kWithDropout,
     .work = WorkKind::kAttention,
     .products = 2,
     .calibrated = true,
     .rules = {{"place", AttentionPlace, true}},
     .result =
         "in qkv, q, k and v are blocks of d columns; head h of q is columns [h·d/heads, (h+1)·d/heads). "
         "With three inputs, each of the `kv_heads` heads of k and v serves heads / kv_heads adjacent heads of q. o = "
         "dropout(softmax(scale·q·kᵀ + mask))·v; lse = log-sum-exp of each row of scores, head by head in each "
         "sequence: that of position s of sequence b and head h is element (b·heads + h)·sequence + s. `causal`: "
         "query i sees keys j ≤ i; with `window` w > 0 (causal only) those with i - w < j ≤ i"},
    {.kernel = ATTENTION_BACKWARD,
     .inputs = {{"do", "[rows,heads*h]"},
                kQkv,
                kFirstQ,
                kPlainK,
                kPlainV,
                {"o", "[rows,heads*h]"},
                {"lse", "[rows,heads]", kStatistics}},
     .outputs = {kDqkv, kDq, kDk, kDv},
     .attributes = kOfAttention,
     .microbatch = kWithDropout,
     .work = WorkKind::kAttention,
     .products = 5,
     .calibrated = true,
     .rules = {{"place", AttentionPlace, true}},
     .result = "probabilities are recomputed from lse; dk and dv are summed over the heads of q that share them, in "
               "ascending order"},
    {.kernel = ATTENTION_SCORES,
     .inputs = {kQkv, kQ, kK},
     .outputs = {{"s", "[rows,heads*sequence]"}},
     .attributes = {kHeads, kKvHeads, kSequence, Try(0.17, Any("scale")), kByHead},
     .work = WorkKind::kAttention,
     .products = 1,
     .calibrated = true,
     .result = "inputs as in ATTENTION; element (h, j) of row i is scale · q_i · k_j of head h, for all j of the "
               "sequence of row i"},
    {.kernel = ATTENTION_SCORES_BACKWARD,
     .inputs = {{"ds", "[rows,heads*sequence]"}, kQkv, kQ, kK},
     .outputs = {kDqkv, kDq, kDk},
     .attributes = {kHeads, kKvHeads, kSequence, Try(0.17, Any("scale")), kByHead},
     .work = WorkKind::kAttention,
     .products = 2,
     .calibrated = true,
     .result =
         "dqkv has zeros in the columns of v; dk is summed over the heads of q that share it, in ascending order"},
    {.kernel = ATTENTION_SOFTMAX,
     .inputs = {{"s", "[rows,heads*sequence]"}},
     .outputs = {MayBe("s", {"p", "=s"})},
     .attributes = {kHeads, kSequence, Any("causal"), kWindow},
     .calibrated = true,
     .result = "softmax over the keys of each head that the mask shows, 0 at the others"},
    {.kernel = ATTENTION_SOFTMAX_BACKWARD,
     .inputs = {{"dp", "[rows,heads*sequence]"}, {"p", "=dp"}},
     .outputs = {MayBe("dp", {"ds", "=dp"})},
     .attributes = {kHeads, kSequence},
     .calibrated = true,
     .result = "p·(dp - Σ dp·p)"},
    {.kernel = ATTENTION_VALUES,
     .inputs = {{"p", "[rows,heads*sequence]"}, kQkv, kV},
     .outputs = {{"o", "[rows,heads*h]"}},
     .attributes = {kHeads, kKvHeads, kSequence, kByHead},
     .work = WorkKind::kAttention,
     .products = 1,
     .calibrated = true,
     .result = "Σ over keys of p·v, head by head"},
    {.kernel = ATTENTION_VALUES_BACKWARD,
     .inputs = {{"do", "[rows,heads*h]"}, {"p", "[rows,heads*sequence]"}, kQkv, kV},
     .outputs = {{"dp", "=p"}, kDqkv, kDv},
     .attributes = {kHeads, kKvHeads, kSequence, kByHead},
     .work = WorkKind::kAttention,
     .products = 2,
     .calibrated = true,
     .result = "dqkv has zeros in the columns of q and k; dv is summed over the heads of q that share it, in ascending "
               "order"},
    {.kernel = ROPE,
     .inputs = {{"x", "[rows,d]"}},
     .outputs = {{"y", "=x"}},
     .attributes = {kSequence,
                    Even(Related(Within("head_size", 2, kExtent, "even and a divisor of the columns"), kDivides, "d")),
                    Try(10000, Above("base", 1, "above 1 and finite")), Finite("factor", 0, "at least 0 and finite"),
                    Holds("ramp_low", RampFitsFactor,
                          "below ramp_high; with factor 0, ramp_low, ramp_high and ramp_positions must be 0"),
                    Any("ramp_high"), Finite("ramp_positions", 0, "at least 0 and finite"),
                    Try(1, Above("magnitude", 0, "positive and finite")), Any("inverse")},
     .calibrated = true,
     .result =
         "with h = head_size / 2, pair (i, i + h) of every head turns by θ = (r mod sequence)·f(i): y[i] = m(x[i] cos "
         "θ - x[i+h] sin θ), y[i+h] = m(x[i+h] cos θ + x[i] sin θ), m = magnitude; with `inverse` by -θ. Angles are in "
         "double whatever the types; m cos θ and m sin θ are rounded once. f: *Rotary frequencies* below"},
    {.kernel = DROPOUT,
     .inputs = {{"x", "[rows,d]"}},
     .outputs = {{"y", "=x"}},
     .attributes = kOfDropoutKernels,
     .microbatch = kOfDropout,
     .calibrated = true,
     .rules = {{"place", DropoutPlace}},
     .result = "x/(1-p) where an element is kept, else 0; the same kernel computes the derivative. With `heads`, x is "
               "the output p of ATTENTION_SOFTMAX, and the same elements are kept as in ATTENTION"},
    {.kernel = DROPOUT_MASK,
     .inputs = {{"x", "[rows,d]"}},
     .outputs = {{"y", "=x"}, {"mask", "=x", kUint8}},
     .attributes = kOfDropoutKernels,
     .microbatch = kOfDropout,
     .calibrated = true,
     .rules = {{"place", DropoutPlace}},
     .result = "y as DROPOUT computes it; mask is 1 where an element is kept, else 0"},
    {.kernel = DROPOUT_BY_MASK,
     .inputs = {{"dy", "..."}, {"mask", "=dy", kUint8}},
     .outputs = {{"dx", "=dy"}},
     .attributes = {kSomeDropout},
     .calibrated = true,
     .result = "dy/(1-p) where mask is 1, else 0"},
};

}  // namespace

const absl::Span<const KernelRow> kAttentionRows = kRows;

}  // namespace weft::kernels
