#include "executor/transports/tcp_frame.h"

#include "executor/interface/transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

std::string Bytes(const Frame& frame) {
  std::string bytes;
  AppendFrame(&bytes, frame);
  return bytes;
}

TEST(TcpFrameTest, FramesComeBack) {
  const Frame frames[] = {
      {.kind = FrameKind::kReady, .channel = kMaxChannel, .action = -1, .step = 1LL << 40, .bytes = 1LL << 50},
      {.kind = FrameKind::kData, .channel = 3, .action = 7, .step = 2, .bytes = 5000000, .payload = kMaxPartBytes},
      {.kind = FrameKind::kNote, .action = 1, .step = 2},
      {.kind = FrameKind::kAbort, .payload = kMaxStatusBytes},
      {.kind = FrameKind::kVerdict, .channel = 7, .payload = 10},
      {.kind = FrameKind::kBye},
  };
  for (const Frame& frame : frames) {
    ASSERT_EQ(Bytes(frame).size(), kFrameBytes);
    const auto parsed = ParseFrame(Bytes(frame), 8);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->kind, frame.kind);
    EXPECT_EQ(parsed->channel, frame.channel);
    EXPECT_EQ(parsed->action, frame.action);
    EXPECT_EQ(parsed->step, frame.step);
    EXPECT_EQ(parsed->bytes, frame.bytes);
    EXPECT_EQ(parsed->payload, frame.payload);
  }
}

TEST(TcpFrameTest, RefusesFramesThatNoRankSends) {
  const Frame frames[] = {
      {.kind = static_cast<FrameKind>(0)},
      {.kind = static_cast<FrameKind>(7)},
      {.kind = FrameKind::kReady, .channel = kMaxChannel + 1},
      {.kind = FrameKind::kReady, .channel = -1},
      {.kind = FrameKind::kReady, .bytes = -1},
      {.kind = FrameKind::kReady, .bytes = 8, .payload = 8},
      {.kind = FrameKind::kData, .bytes = 1LL << 40, .payload = kMaxPartBytes + 1},
      {.kind = FrameKind::kData, .bytes = 3, .payload = 4},
      {.kind = FrameKind::kNote, .payload = 1},
      {.kind = FrameKind::kAbort, .payload = kMaxStatusBytes + 1},
      {.kind = FrameKind::kVerdict, .channel = 8},
  };
  for (const Frame& frame : frames) EXPECT_FALSE(ParseFrame(Bytes(frame), 8).ok());
  std::string other = Bytes({.kind = FrameKind::kBye});
  other[0] ^= 1;
  EXPECT_FALSE(ParseFrame(other, 8).ok());
  EXPECT_FALSE(ParseFrame("", 8).ok());
}

TEST(TcpFrameTest, StatusesComeBack) {
  const absl::Status status = absl::DataLossError("the reason");
  EXPECT_EQ(DecodeStatus(EncodeStatus(status)), status);
  EXPECT_EQ(EncodeStatus(absl::DataLossError(std::string(10000, 'x'))).size(), kMaxStatusBytes);
  for (const char* damaged : {"", "abc", "\0\0\0\0", "\xff\xff\xff\xff"}) EXPECT_FALSE(DecodeStatus(damaged).ok());
}

}  // namespace
}  // namespace weft::exec
