// Checks the bytes of activations that a GPT-2 layer keeps from its forward to its backward against Korthikanti et al.
// 2022 (arXiv:2205.05198), Table 2. With sequences of s rows, microbatches of b sequences, h columns, a heads, t ranks
// of tensor parallelism, 2 bytes per element and 1 byte per element of a dropout mask:
//
//                                            no recomputation              scores to p.v recomputed   all recomputed
//   one rank                                 sbh (34 + 5as/h)              34 sbh                     2 sbh
//   tensor parallelism                       sbh (10 + 24/t + 5as/(ht))    sbh (10 + 24/t)            2 sbh
//   and sequence parallelism                 sbh/t (34 + 5as/h)            34 sbh/t                   2 sbh/t
//
// A layer also keeps the mean and reciprocal deviation of each row of both norms, 4 bytes each, for the rows that a
// rank has: 16 sb, or 16 sb/t with sequence parallelism; nothing if everything is recomputed.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/models/import_hf.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "planner/compile.h"

namespace weft {
namespace {

struct Shape {
  int64_t s, b, h, a;
};

absl::StatusOr<Program> CompileLayers(const Shape& shape, int layers, int64_t t, const std::string& plan_fields,
                                      double dropout) {
  const absl::StatusOr<ModelGraph> model = ImportHuggingFaceConfig(
      absl::StrCat(R"({"model_type": "gpt2", "vocab_size": 1024, "n_positions": )", shape.s, R"(, "n_embd": )", shape.h,
                   R"(, "n_head": )", shape.a, R"(, "n_layer": )", layers, "}"),
      "gpt2");
  if (!model.ok()) return model.status();
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  using google::protobuf::TextFormat;
  EXPECT_TRUE(TextFormat::ParseFromString(
      absl::StrCat("sequence_length: ", shape.s, " global_batch_sequences: ", 4 * shape.b, " microbatch_sequences: ",
                   shape.b, " dropout: ", dropout, " seed: 1 steps: 10 lr { peak: 0.01 } adamw {}"),
      &recipe));
  EXPECT_TRUE(
      TextFormat::ParseFromString(absl::StrCat("mesh { axes { name: 'x' size: ", t,
                                               " } } schedule { name: '1f1b' } precision { compute: BF16 "
                                               "params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32 } ",
                                               plan_fields),
                                  &plan));
  EXPECT_TRUE(TextFormat::ParseFromString(
      "name: 'test' nodes: 1 devices_per_node: 16 device { name: 'cpu' memory_bytes: 1000000000000 "
      "memory_bytes_per_second: 1e12 peaks { dtype: FP32 flops_per_second: 1e13 } "
      "peaks { dtype: BF16 flops_per_second: 1e14 } } "
      "intra_node { bytes_per_second: 1e11 latency_seconds: 1e-6 }",
      &cluster));
  return planner::CompilePlan(*model, recipe, plan, cluster, {});
}

// Returns the size of the operand `saved` in the forward of the only stage: the activations that the backward needs.
int64_t SavedBytes(const absl::StatusOr<Program>& program) {
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return 0;
  int64_t bytes = -1;
  for (const Segment& segment : program->segments()) {
    if (segment.name() != "stage0.forward") continue;
    for (const Operand& operand : segment.operands()) {
      if (operand.name() == "saved") bytes = operand.bytes();
    }
  }
  EXPECT_GE(bytes, 0);
  return bytes;
}

// Returns the bytes of saved activations that one more layer adds.
int64_t LayerBytes(const Shape& shape, int64_t t, const std::string& plan_fields, double dropout = 0.1) {
  return SavedBytes(CompileLayers(shape, 3, t, plan_fields, dropout)) -
         SavedBytes(CompileLayers(shape, 2, t, plan_fields, dropout));
}

constexpr char kPaper[] = "attention: MATERIALIZED dropout_masks: true ";
constexpr char kSelective[] = "recompute { mode: SELECTIVE } ";
constexpr char kFull[] = "recompute { mode: FULL } ";
constexpr char kSequence[] = "sequence_parallel: true ";

class ActivationMemoryTest : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    const Shape& p = GetParam();
    sbh_ = p.s * p.b * p.h;
    pairs_ = 5 * p.a * p.s * p.s * p.b;
    statistics_ = 16 * p.s * p.b;
  }
  // Checks that `bytes` is `formula`, the paper's figure, plus `besides`, which the paper does not count. `besides`
  // must be at most 2 % of `formula`.
  static void Expect(int64_t bytes, int64_t formula, int64_t besides, const std::string& what) {
    EXPECT_EQ(bytes, formula + besides) << what;
    EXPECT_LE(besides * 50, formula) << what;
  }
  int64_t Bytes(int64_t t, const std::string& fields) {
    return LayerBytes(GetParam(), t, absl::StrCat(kPaper, fields));
  }

  // The product s b h, the bytes of the term 5as/h (5as/h times sbh), and the bytes of the norms' statistics.
  int64_t sbh_ = 0, pairs_ = 0, statistics_ = 0;
};

TEST_P(ActivationMemoryTest, OneRank) {
  Expect(Bytes(1, ""), 34 * sbh_ + pairs_, statistics_, "none");
  Expect(Bytes(1, kSelective), 34 * sbh_, statistics_, "selective");
  Expect(Bytes(1, kFull), 2 * sbh_, 0, "full");
}

TEST_P(ActivationMemoryTest, TensorParallelism) {
  for (int64_t t : {2, 4}) {
    const std::string what = absl::StrCat("t = ", t);
    Expect(Bytes(t, ""), 10 * sbh_ + 24 * sbh_ / t + pairs_ / t, statistics_, what + " none");
    Expect(Bytes(t, kSelective), 10 * sbh_ + 24 * sbh_ / t, statistics_, what + " selective");
    Expect(Bytes(t, kFull), 2 * sbh_, 0, what + " full");
  }
}

TEST_P(ActivationMemoryTest, SequenceParallelism) {
  for (int64_t t : {2, 4}) {
    const std::string what = absl::StrCat("t = ", t);
    Expect(Bytes(t, kSequence), (34 * sbh_ + pairs_) / t, statistics_ / t, what + " none");
    Expect(Bytes(t, absl::StrCat(kSequence, kSelective)), 34 * sbh_ / t, statistics_ / t, what + " selective");
    Expect(Bytes(t, absl::StrCat(kSequence, kFull)), 2 * sbh_ / t, 0, what + " full");
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ActivationMemoryTest,
                         testing::Values(Shape{128, 2, 256, 4}, Shape{1024, 1, 1024, 16}, Shape{64, 4, 512, 8}),
                         [](const testing::TestParamInfo<Shape>& info) {
                           return absl::StrCat("s", info.param.s, "b", info.param.b, "h", info.param.h, "a",
                                               info.param.a);
                         });

// Checks the bytes that a layer keeps under plan settings that the paper does not have, by the same terms.
TEST(ActivationMemory, OtherForms) {
  const Shape p{128, 2, 256, 4};
  const int64_t sbh = p.s * p.b * p.h, pairs = p.a * p.s * p.s * p.b, statistics = 16 * p.s * p.b;
  // Fused attention keeps a log-sum-exp of 4 bytes per row and head, and draws its dropout again.
  const int64_t lse = 4 * p.a * p.s * p.b;
  EXPECT_EQ(LayerBytes(p, 1, "dropout_masks: true"), 34 * sbh + statistics + lse);
  EXPECT_EQ(LayerBytes(p, 1, ""), 32 * sbh + statistics + lse);
  // Without stored masks, a layer keeps the probabilities before and after dropout.
  EXPECT_EQ(LayerBytes(p, 1, "attention: MATERIALIZED"), 32 * sbh + 4 * pairs + statistics);
  // Without dropout, both probabilities are the same and there are no masks.
  EXPECT_EQ(LayerBytes(p, 1, kPaper, 0), 32 * sbh + 2 * pairs + statistics);
}

}  // namespace
}  // namespace weft
