#include "simulator/program/stream_key.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

class StreamKeyTest : public ::testing::Test {
 protected:
  StreamKey Key(const std::string& group, const Template& t = {}) {
    return CollectiveStream(mesh_, t, Parse<Group>(group), TENSOR);
  }
  std::string Name(const std::string& group, const Template& t = {}) { return StreamName(mesh_, Key(group, t)); }

  const Mesh mesh_ = Parse<Mesh>(R"pb(
    axes { name: "x" size: 4 }
    axes { name: "z" size: 1 }
    axes { name: "pipe" size: 4 }
  )pb");
  const Template second_ = Parse<Template>("pins { axis: 'pipe' index: 1 }");
};

TEST_F(StreamKeyTest, GroupsWithTheSameMembersHaveOneForm) {
  const StreamKey all = Key("axes { axis: 'x' }");
  EXPECT_EQ(Key("axes { axis: 'x' indices: [ 0, 1, 2, 3 ] }"), all);
  EXPECT_EQ(Key("axes { axis: 'x' block: 4 }"), all);
  EXPECT_EQ(Key("axes { axis: 'x' stride: 1 }"), all);
  EXPECT_EQ(Key("axes { axis: 'x' } axes { axis: 'z' }"), all);
  EXPECT_EQ(Key("axes { axis: 'x' block: 1 }"), Key(""));
  EXPECT_EQ(Key("axes { axis: 'x' stride: 4 }"), Key(""));
  EXPECT_EQ(Key("axes { axis: 'pipe' indices: 1 }", second_), Key("", second_));
  EXPECT_EQ(Key("axes { axis: 'pipe' block: 2 }", second_), Key("axes { axis: 'pipe' indices: [ 0, 1 ] }", second_));
  EXPECT_EQ(Key("axes { axis: 'pipe' stride: 2 }", second_), Key("axes { axis: 'pipe' indices: [ 1, 3 ] }", second_));
  EXPECT_NE(Key("axes { axis: 'x' block: 2 }"), Key("axes { axis: 'x' stride: 2 }"));
}

TEST_F(StreamKeyTest, MembersOfForms) {
  EXPECT_THAT(FormMembers(mesh_, 6, Key("axes { axis: 'x' }").group), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(FormMembers(mesh_, 6, Key("axes { axis: 'x' block: 2 }").group), ElementsAre(6, 7));
  EXPECT_THAT(FormMembers(mesh_, 6, Key("axes { axis: 'x' stride: 2 }").group), ElementsAre(4, 6));
  EXPECT_THAT(FormMembers(mesh_, 6, Key("axes { axis: 'pipe' indices: [ 0, 1 ] }").group), ElementsAre(2, 6));
  EXPECT_THAT(FormMembers(mesh_, 6, Key("").group), ElementsAre(6));
}

TEST_F(StreamKeyTest, Names) {
  EXPECT_EQ(Name("axes { axis: 'x' }"), "collective x tensor");
  EXPECT_EQ(Name("axes { axis: 'x' block: 2 } axes { axis: 'pipe' indices: [ 0, 3 ] }"),
            "collective x/2 pipe={0,3} tensor");
  EXPECT_EQ(Name("axes { axis: 'x' stride: 2 }"), "collective x%2 tensor");
  const ChannelView channel = {.send = true, .peer = {-1, -1, 2}, .lane = 1, .direction = FROM_LOSS, .skip = 3};
  EXPECT_EQ(StreamName(mesh_, TransferStream(PER_EDGE, channel)), "send pipe=2 from_loss lane 1 skip 3");
  EXPECT_EQ(StreamName(mesh_, TransferStream(PER_DIRECTION, channel)), "p2p from_loss");
  EXPECT_EQ(StreamName(mesh_, TransferStream(SHARED, channel)), "p2p");
}

TEST_F(StreamKeyTest, APeerThatIsTheRanksOwnByItsPinIsNotNamed) {
  EXPECT_THAT(ResolvePeer(mesh_, second_, Parse<Peer>("at { axis: 'pipe' index: 1 }")), ElementsAre(-1, -1, -1));
  EXPECT_THAT(ResolvePeer(mesh_, second_, Parse<Peer>("at { axis: 'pipe' index: 2 }")), ElementsAre(-1, -1, 2));
}

}  // namespace
}  // namespace weft::sim
