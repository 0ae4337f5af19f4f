#include "simulator/runtime/cast_gathers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

// The segment has a gather of four parts of [2 x 8] and two products that read it. Then come a layer's own tensor in
// the same place, a product that reads that tensor, and a gather of weights.
Program Gathered() {
  Program program;
  const absl::Status read = ParseMessage(R"(segments {
    name: "s"
    values { operand: 0 shape: 2 shape: 8 } values { operand: 1 shape: 8 shape: 8 } values { operand: 2 shape: 8 }
    steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: TENSOR } }
    steps { kernel: MATMUL inputs: [1, 2] outputs: 2 }
    steps { kernel: MATMUL inputs: [2, 1] outputs: 2 }
    steps { kernel: GELU inputs: 2 outputs: 1 }
    steps { kernel: MATMUL inputs: [1, 2] outputs: 2 }
    steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: GATHER_WEIGHTS } } })",
                                         "test", &program);
  EXPECT_TRUE(read.ok()) << read;
  return program;
}

TEST(CastGathers, ProductsThatReadThemAreKnownUntilTheyAreOverwritten) {
  EXPECT_THAT(GatheredFactors(Gathered()), ElementsAre(FieldsAre(0, 1, 0), FieldsAre(0, 2, 1)));
}

TEST(CastGathers, GathersOfALayerMoveFewerBytesAndProductsStay) {
  Program program = Gathered();
  ScaleGathers(0.5, false, &program);
  const Segment& segment = program.segments(0);
  EXPECT_THAT(segment.values(segment.steps(0).inputs(0)).shape(), ElementsAre(8));
  EXPECT_THAT(segment.values(segment.steps(0).outputs(0)).shape(), ElementsAre(32));
  EXPECT_THAT(segment.values(segment.steps(1).inputs(0)).shape(), ElementsAre(8, 8));
  EXPECT_THAT(segment.values(segment.steps(5).outputs(0)).shape(), ElementsAre(8, 8));
  // After scaling, GatheredFactors still finds the same factors.
  EXPECT_THAT(GatheredFactors(program), ElementsAre(FieldsAre(0, 1, 0), FieldsAre(0, 2, 1)));
}

// Only the product that makes logits reads the gather of the head, and no product reads the gather of the embedding.
TEST(CastGathers, KeepsGathersOfHeadAndEmbedding) {
  constexpr char kHead[] = R"(segments { name: "s"
    values { operand: 0 shape: 2 shape: 8 } values { operand: 1 shape: 8 shape: 8 } values { operand: 2 shape: 8 }
    steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: TENSOR } }
    steps { kernel: MATMUL inputs: [1, 0] outputs: 2 }
    steps { kernel: CROSS_ENTROPY inputs: 2 outputs: 2 }
    steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: TENSOR } }
    steps { kernel: EMBEDDING_BACKWARD inputs: 1 outputs: 2 }
    steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: TENSOR } }
    steps { kernel: MATMUL inputs: [1, 0] outputs: 2 } })";
  Program program;
  const absl::Status read = ParseMessage(kHead, "test", &program);
  ASSERT_TRUE(read.ok()) << read;
  ScaleGathers(0.5, false, &program);
  const Segment& segment = program.segments(0);
  EXPECT_THAT(segment.values(segment.steps(0).outputs(0)).shape(), ElementsAre(8, 8));
  EXPECT_THAT(segment.values(segment.steps(3).outputs(0)).shape(), ElementsAre(8, 8));
  EXPECT_THAT(segment.values(segment.steps(5).outputs(0)).shape(), ElementsAre(32));

  // If the head is a product like any other, its gather is scaled like any other.
  Program whole;
  ASSERT_TRUE(ParseMessage(kHead, "test", &whole).ok());
  ScaleGathers(0.5, true, &whole);
  EXPECT_THAT(whole.segments(0).values(whole.segments(0).steps(0).outputs(0)).shape(), ElementsAre(32));
  EXPECT_THAT(whole.segments(0).values(whole.segments(0).steps(3).outputs(0)).shape(), ElementsAre(8, 8));
}

// A gather in pieces is several steps that write to one place.
TEST(CastGathers, AllPiecesAreSmaller) {
  Program program;
  const absl::Status read = ParseMessage(R"(segments { name: "s"
    values { operand: 0 shape: 16 } values { operand: 1 shape: 16 } values { operand: 1 shape: 48 }
    values { operand: 1 shape: 64 } values { operand: 2 shape: 8 }
    steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: TENSOR } }
    steps { kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 2 collective { purpose: TENSOR } }
    steps { kernel: MATMUL inputs: [3, 0] outputs: 4 } })",
                                         "test", &program);
  ASSERT_TRUE(read.ok()) << read;
  ScaleGathers(0.5, false, &program);
  const Segment& segment = program.segments(0);
  EXPECT_THAT(segment.values(segment.steps(0).outputs(0)).shape(), ElementsAre(8));
  EXPECT_THAT(segment.values(segment.steps(1).outputs(0)).shape(), ElementsAre(24));
}

TEST(CastGathers, ARuntimeStatesThemForItsDevices) {
  Runtime runtime;
  EXPECT_EQ(GatheredBytes(runtime, 90), 1);
  KernelForm* form = runtime.add_kernels();
  form->set_kernel("GROUP_ALL_GATHER");
  EXPECT_EQ(GatheredBytes(runtime, 90), 1);
  form->set_bytes(0.5);
  EXPECT_EQ(GatheredBytes(runtime, 90), 0.5);
  form->set_from_compute_capability(90);
  EXPECT_EQ(GatheredBytes(runtime, 80), 1);
  form->set_below_compute_capability(100);
  EXPECT_EQ(GatheredBytes(runtime, 90), 0.5);
  EXPECT_EQ(GatheredBytes(runtime, 100), 1);
}

TEST(CastGathers, ATimeAtTheLossKeepsItsFactorsWide) {
  Runtime runtime;
  EXPECT_TRUE(CastsAtLoss(runtime, 90));
  KernelForm* product = runtime.add_kernels();
  product->set_kernel("MATMUL");
  product->set_from_compute_capability(90);
  EXPECT_TRUE(CastsAtLoss(runtime, 90));
  product->set_loss_time(1.2);
  EXPECT_FALSE(CastsAtLoss(runtime, 90));
  EXPECT_TRUE(CastsAtLoss(runtime, 80));
}

}  // namespace
}  // namespace weft::sim
