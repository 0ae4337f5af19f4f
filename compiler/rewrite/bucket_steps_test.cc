#include "compiler/rewrite/bucket_steps.h"

#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

// A tensor of 10 elements: SGD with a moment, a gradient that begins at byte 8 of its buffer, weights in half
// precision.
class BucketStepsTest : public testing::Test {
 protected:
  BucketStepsTest()
      : t_(Parse<Template>(R"(
          buffers { name: "master" bytes: 40 dtype: FP32 place: HOST persistent: true }
          buffers { name: "moment" bytes: 40 dtype: FP32 place: HOST persistent: true }
          buffers { name: "gradient" bytes: 48 dtype: FP32 place: DEVICE persistent: true }
          buffers { name: "weights" bytes: 20 dtype: BF16 place: DEVICE persistent: true }
          buffers { name: "bucket" bytes: 64 place: DEVICE })")),
        whole_(Parse<Segment>(R"(
          operands { name: "master" access: READ_WRITE } operands { name: "moment" access: READ_WRITE }
          operands { name: "gradient" access: READ_WRITE } operands { name: "weights" access: WRITE }
          values { name: "master" operand: 0 dtype: FP32 shape: 10 }
          values { name: "moment" operand: 1 dtype: FP32 shape: 10 }
          values { name: "gradient" operand: 2 offset: 8 dtype: FP32 shape: 10 }
          values { name: "weights" operand: 3 dtype: BF16 shape: 10 }
          steps { name: "update" kernel: SGD_STEP stream: COMPUTE inputs: 2 inputs: 0 inputs: 1 outputs: 0 outputs: 1
                  outputs: 3 work { bytes: 1000 flops: 500 } }
          steps { name: "zero" kernel: FILL stream: COMPUTE outputs: 2 work { bytes: 40 } })")) {
    update_.step = 0;
    update_.zero = 1;
    update_.elements = 10;
    update_.states = {0, 1};
  }

  Template t_;
  Segment whole_;
  const std::vector<int> operands_ = {0, 1, 2, 3};
  TensorUpdate update_;
};

TEST_F(BucketStepsTest, APieceComesIsUpdatedAndGoesBack) {
  Bucket bucket;
  bucket.elements = 8;
  BucketPiece piece;
  piece.first = 4;
  piece.count = 6;
  piece.position = 2;
  bucket.pieces = {piece};
  const std::map<int, int> gathered;
  BoundSegment fetch, step, back;
  BucketSteps(t_, whole_, operands_, gathered).Add(bucket, piece, update_, 4, &fetch, &step, &back);

  // The tensor has two states. For each, the elements from 4 on are copied to position 2 of the state's region in the
  // bucket's copy, and back.
  ASSERT_EQ(fetch.segment.steps_size(), 2);
  ASSERT_EQ(back.segment.steps_size(), 2);
  for (int k = 0; k < 2; ++k) {
    for (const BoundSegment* segment : {&fetch, &back}) {
      const Step& copy = segment->segment.steps(k);
      EXPECT_EQ(copy.kernel(), CAST);
      EXPECT_EQ(copy.stream(), segment == &fetch ? H2D : D2H);
      EXPECT_EQ(copy.work().bytes(), 6 * 4);
      const Value& host = segment->segment.values(segment == &fetch ? copy.inputs(0) : copy.outputs(0));
      const Value& device = segment->segment.values(segment == &fetch ? copy.outputs(0) : copy.inputs(0));
      EXPECT_EQ(segment->operands[host.operand()], k);
      EXPECT_EQ(segment->operands[device.operand()], 4);
      EXPECT_EQ(host.offset(), 4 * 4);
      EXPECT_EQ(device.offset(), k * 8 * 4 + 2 * 4);
      EXPECT_EQ(host.shape(0), 6);
      EXPECT_EQ(device.shape(0), 6);
    }
  }

  ASSERT_EQ(step.segment.steps_size(), 2);
  const Step& update = step.segment.steps(0);
  EXPECT_EQ(update.kernel(), SGD_STEP);
  ASSERT_EQ(update.inputs_size(), 3);
  ASSERT_EQ(update.outputs_size(), 3);
  const auto expect = [&](int v, int buffer, int64_t offset) {
    const Value& value = step.segment.values(v);
    EXPECT_EQ(step.operands[value.operand()], buffer) << value.name();
    EXPECT_EQ(value.offset(), offset) << value.name();
    EXPECT_EQ(value.shape(0), 6) << value.name();
  };
  expect(update.inputs(0), 2, 8 + 4 * 4);
  expect(update.inputs(1), 4, 2 * 4);
  expect(update.inputs(2), 4, 8 * 4 + 2 * 4);
  expect(update.outputs(2), 3, 4 * 2);
  // The states are updated in place.
  EXPECT_EQ(update.outputs(0), update.inputs(1));
  EXPECT_EQ(update.outputs(1), update.inputs(2));
  EXPECT_EQ(update.work().bytes(), 600);
  EXPECT_EQ(update.work().flops(), 300);
  const Step& zero = step.segment.steps(1);
  EXPECT_EQ(zero.kernel(), FILL);
  expect(zero.outputs(0), 2, 8 + 4 * 4);
  EXPECT_EQ(zero.work().bytes(), 24);
}

TEST_F(BucketStepsTest, WeightsThatAreGatheredAreWrittenToTheirCopy) {
  // The original kernel updates the weights in place and has no other output for them.
  whole_.mutable_steps(0)->mutable_outputs()->RemoveLast();
  update_.zero = -1;
  Bucket bucket;
  bucket.elements = 10;
  BucketPiece piece;
  piece.count = 10;
  bucket.pieces = {piece};
  const std::map<int, int> gathered = {{0, 3}};
  BoundSegment fetch, step, back;
  BucketSteps(t_, whole_, operands_, gathered).Add(bucket, piece, update_, 4, &fetch, &step, &back);
  ASSERT_EQ(step.segment.steps_size(), 1);
  const Step& update = step.segment.steps(0);
  ASSERT_EQ(update.outputs_size(), 3);
  EXPECT_EQ(step.operands[step.segment.values(update.outputs(2)).operand()], 3);
  // The work counts the bytes that are now written in addition.
  EXPECT_EQ(update.work().bytes(), 1000 + 10 * 4);
}

}  // namespace
}  // namespace weft
