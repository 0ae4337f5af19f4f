#include "compiler/rewrite/saved_split.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;
using ::testing::IsEmpty;

const LayerNames& Names() {
  static const LayerNames& names = *new LayerNames(Parse<ModelGraph>(R"(
    ops { name: "wte" layer: 0 } ops { name: "h.0" layer: 1 } ops { name: "h.0.mlp" layer: 2 }
    ops { name: "h.1" layer: 3 })"));
  return names;
}

TEST(LayerNamesTest, StepsAreNamedAsTheirOpPerhapsWithMore) {
  EXPECT_EQ(Names().LayerOf("wte"), 0);
  EXPECT_EQ(Names().LayerOf("h.0.attn.probabilities"), 1);
  // If several names match a step, the longest one decides.
  EXPECT_EQ(Names().LayerOf("h.0.mlp.up"), 2);
  for (const char* none : {"", "h", "h.", "h.2", "wtes", ".wte"}) EXPECT_EQ(Names().LayerOf(none), -1) << none;
}

// Operand 1 is `saved`. Layer 1 saves 10 numbers at 0 and 4 indices at 64, layer 3 saves 8 half-precision numbers at
// 128. Layer 0 makes a value that is not saved.
Segment Forward() {
  return Parse<Segment>(R"(
    values { operand: 0 dtype: FP32 shape: 5 } values { operand: 1 dtype: FP32 shape: 10 }
    values { operand: 1 offset: 64 dtype: INT32 shape: 4 } values { operand: 1 offset: 128 dtype: BF16 shape: 8 }
    steps { name: "wte" outputs: 0 } steps { name: "h.0.ln" outputs: 1 outputs: 2 }
    steps { name: "h.1.ln" outputs: 3 })");
}

TEST(LeavingValuesTest, TakesTheFirstLayersThatExist) {
  EXPECT_THAT(LeavingValues(Forward(), 1, Names(), 1, false), IsEmpty());
  // Values that are not floating-point stay.
  EXPECT_THAT(LeavingValues(Forward(), 1, Names(), 2, false), ElementsAre(FieldsAre(0, FP32, 10)));
  EXPECT_THAT(LeavingValues(Forward(), 1, Names(), 3, false),
              ElementsAre(FieldsAre(0, FP32, 10), FieldsAre(128, BF16, 8)));
  EXPECT_THAT(LeavingValues(Forward(), 1, Names(), 9, false),
              ElementsAre(FieldsAre(0, FP32, 10), FieldsAre(128, BF16, 8)));
}

TEST(LeavingValuesTest, InAPairTakesLayersThatSaveSomething) {
  EXPECT_THAT(LeavingValues(Forward(), 1, Names(), 1, true), ElementsAre(FieldsAre(0, FP32, 10)));
}

TEST(LeavingValuesTest, HalvesOfAWholeGoWithIt) {
  Segment wide = Forward();
  // Two halves, one per microbatch, of a value that another step makes whole. The first half begins at the same offset
  // as the whole value.
  *wide.add_values() = Parse<Value>("operand: 1 offset: 20 dtype: FP32 shape: 5");
  *wide.add_values() = Parse<Value>("operand: 1 offset: 0 dtype: FP32 shape: 5");
  *wide.add_steps() = Parse<Step>("name: 'h.0.add' outputs: 4 outputs: 5");
  EXPECT_THAT(LeavingValues(wide, 1, Names(), 2, false), ElementsAre(FieldsAre(0, FP32, 10)));
}

TEST(SavedSplitTest, LeavingValuesAreConsecutive) {
  // The first value's 40 bytes take 64. Then follow 64 bytes of half-precision and 64 bytes of fp32 numbers.
  const SavedSplit split = SplitOfSaved({{64, FP32, 10}, {256, BF16, 32}, {512, FP32, 16}});
  EXPECT_EQ(split.gone_bytes, 192);
  int64_t begin = -1;
  const SavedSplit::Range* second = split.Find(300, &begin);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(begin, 256);
  EXPECT_EQ(second->to, 64);
  EXPECT_EQ(second->end, 320);
  for (const int64_t goes : {64, 103, 256, 319, 512}) EXPECT_TRUE(split.Goes(goes)) << goes;
  for (const int64_t stays : {0, 63, 104, 255, 320, 576}) EXPECT_FALSE(split.Goes(stays)) << stays;
}

TEST(SavedSplitTest, StayingValuesMoveDown) {
  const SavedSplit split = SplitOfSaved({{64, FP32, 10}, {256, BF16, 32}});
  EXPECT_EQ(split.KeptOffset(0), 0);
  // The first offset moves down by the 64 bytes of the first value that left, the second by the bytes of two values.
  EXPECT_EQ(split.KeptOffset(128), 64);
  EXPECT_EQ(split.KeptOffset(320), 192);
  EXPECT_EQ(SplitOfSaved({}).KeptOffset(320), 320);
}

TEST(SavedSplitTest, NeighborsOfOneTypeAreOneCopy) {
  const SavedSplit split = SplitOfSaved({{0, FP32, 16}, {64, FP32, 10}, {128, FP32, 16}, {192, BF16, 32}});
  std::vector<std::string> copies;
  for (const Value& copy : split.copies) copies.push_back(copy.ShortDebugString());
  // The second range ends before the third begins, so they are not one range.
  EXPECT_THAT(copies, ElementsAre("name: \"saved from 0\" dtype: FP32 shape: 26",
                                  "name: \"saved from 128\" offset: 128 dtype: FP32 shape: 16",
                                  "name: \"saved from 192\" offset: 192 dtype: BF16 shape: 32"));
}

}  // namespace
}  // namespace weft
