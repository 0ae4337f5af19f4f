#include "verifier/room.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/parse_text.h"
#include "verifier/testing/stages_testing.h"

namespace weft::verify {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kMesh[] = "mesh { axes { name: 'z' size: 3 } axes { name: 'data' size: 4 } } ";
constexpr AxisCut kZ = {0, 0, 0}, kData = {1, 0, 0}, kPairs = {1, 2, 0};

// States the rule in other words: equal parts, each rounded up, lie one after the other.
TEST(Room, PartsOfTheNextCutFitOneAfterTheOther) {
  const Program program = Parse<Program>(kMesh);
  for (int64_t block = 1; block <= 50; ++block) {
    const int64_t of_z = (block + 2) / 3;
    EXPECT_EQ(ElementsWithRoom(program, block, {kZ, kData}, 0), 3 * of_z) << block;
    EXPECT_EQ(ElementsWithRoom(program, block, {kZ, kData}, 1), 4 * ((of_z + 3) / 4)) << block;
    EXPECT_EQ(ElementsWithRoom(program, block, {kZ, kPairs}, 1), 2 * ((of_z + 1) / 2)) << block;
    // A part that is not cut any further needs no spare elements.
    EXPECT_EQ(ElementsWithRoom(program, block, {kZ, kData}, 2), (of_z + 3) / 4) << block;
    EXPECT_EQ(ElementsWithRoom(program, block, {}, 0), block);
  }
}

Buffer BufferOf(const std::string& role, int bytes, const std::string& shape = "shape: 11") {
  return Parse<Buffer>(absl::StrCat("dtype: FP32 role: ", role, " bytes: ", bytes, " ", shape));
}

TEST(Room, IsBehindTheTensor) {
  EXPECT_EQ(BytesWithoutRoom(BufferOf("PARAM", 48)), 44);
  EXPECT_EQ(BytesWithoutRoom(BufferOf("PARAM", 44)), 44);
  EXPECT_EQ(BytesWithoutRoom(BufferOf("GRAD", 64, "shape: 2 shape: 5")), 40);
  // The result never exceeds the buffer. Without a role or a dtype, nothing counts as spare.
  EXPECT_EQ(BytesWithoutRoom(BufferOf("PARAM", 20)), 20);
  EXPECT_EQ(BytesWithoutRoom(BufferOf("NO_ROLE", 48)), 48);
  EXPECT_EQ(BytesWithoutRoom(Parse<Buffer>("role: PARAM bytes: 48")), 48);
}

TEST(Room, IsOfWholeElementsWhereRanksHaveParts) {
  for (const char* role : {"PARAM", "GRAD", "GRAD_ACCUMULATOR"}) {
    EXPECT_TRUE(MayHaveRoom(BufferOf(role, 48))) << role;
    EXPECT_FALSE(MayHaveRoom(BufferOf(role, 47))) << role;
  }
  for (const char* role : {"NO_ROLE", "MASTER", "MOMENT1", "MOMENT2", "KEPT_WEIGHT", "LOSSES", "NORM"}) {
    EXPECT_FALSE(MayHaveRoom(BufferOf(role, 48))) << role;
  }
}

// A tensor of 31 elements: each rank of z holds 11 of them. In a training program, the optimizer holds 3 of these 11 on
// each rank of data. The weight has space for `elements` elements.
Program Cut(int elements, bool training) {
  return Parse<Program>(absl::StrCat(
      kMesh, training ? "evaluation {} " : "",
      "tensors { name: 'w' shape: 31 padded_shape: 31 } templates { name: 'all' ",
      "buffers { name: 'weight' tensor: 0 role: PARAM dtype: FP32 shape: 11 shard { ranges { axis: 'z' } } bytes: ",
      4 * elements, " } ",
      training ? "buffers { name: 'master' tensor: 0 role: MASTER dtype: FP32 shape: 3 bytes: 12 "
                 "shard { ranges { axis: 'z' } ranges { axis: 'data' } } } "
               : "",
      "}"));
}

std::vector<std::string> Found(const Program& program) {
  Findings findings(20);
  CheckRoom(program, &findings);
  return Texts(std::move(findings));
}

TEST(Room, IsAsMuchAsThePartsNeed) {
  for (int elements = 12; elements < 30; ++elements) {
    if (elements == 12) {
      EXPECT_THAT(Found(Cut(elements, true)), IsEmpty());
      continue;
    }
    EXPECT_THAT(Found(Cut(elements, true)),
                ElementsAre(AllOf(
                    HasSubstr("P8.room"), HasSubstr("'weight'"),
                    HasSubstr(absl::StrCat("room for ", elements, " elements of tensor 'w'; the buffer holds 11")),
                    HasSubstr("12 elements together"))));
  }
  // If there are no spare elements at all, the checks of gathers and scatters report it.
  EXPECT_THAT(Found(Cut(11, true)), IsEmpty());
}

TEST(Room, EvaluationRoomIsBelowOneElementPerRank) {
  EXPECT_THAT(Found(Cut(12, false)), IsEmpty());
  EXPECT_THAT(Found(Cut(13, false)), IsEmpty());
  EXPECT_THAT(Found(Cut(11 + static_cast<int>(Limits::kRanks) - 1, false)), IsEmpty());
  EXPECT_THAT(Found(Cut(11 + static_cast<int>(Limits::kRanks), false)), ElementsAre(HasSubstr("P8.room")));
}

TEST(Room, IsNotForSteps) {
  const Template t = Parse<Template>(
      "buffers { name: 'none' role: PARAM dtype: FP32 shape: 12 bytes: 48 } "
      "buffers { name: 'some' role: PARAM dtype: FP32 shape: 11 bytes: 48 }");
  const auto segment = [](int elements) {
    return Parse<Segment>(absl::StrCat("operands { bytes: 48 } operands { bytes: 48 } ",
                                       "values { name: 'a' operand: 0 dtype: FP32 shape: 11 } ",
                                       "values { name: 'b' operand: 1 dtype: FP32 shape: ", elements, " } ",
                                       "steps { name: 'copy' inputs: 0 outputs: 1 }"));
  };
  const Action none = Parse<Action>("segment: 0 operands: 0 operands: 0");
  const Action reads = Parse<Action>("segment: 0 operands: 1 operands: 0");
  const Action writes = Parse<Action>("segment: 0 operands: 0 operands: 1");
  RoomOfSteps room(t);
  EXPECT_EQ(room.Fault(none, segment(12)), "");
  EXPECT_EQ(room.Fault(reads, segment(12)), "");
  // The fault is found whatever the other operands are, and whatever was checked before.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(room.Fault(writes, segment(12)),
                HasSubstr("step 'copy' touches 'b' up to byte 48 of buffer 1 'some', which holds 44"));
  }
  EXPECT_EQ(RoomOfSteps(t).Fault(writes, segment(11)), "");
}

}  // namespace
}  // namespace weft::verify
