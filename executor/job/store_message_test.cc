#include "executor/job/store_message.h"

#include <random>

#include "executor/job/reported_remotely.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

TEST(StoreMessageTest, RequestsComeBack) {
  for (const StoreOperation operation : {StoreOperation::kSet, StoreOperation::kGet, StoreOperation::kWait,
                                         StoreOperation::kBarrier, StoreOperation::kLeave}) {
    const StoreRequest request = {operation, 12345678901, "a key", std::string("a\0value", 7)};
    if (request.timeout_ms > kMaxStoreTimeoutMs) {
      EXPECT_FALSE(DecodeStoreRequest(EncodeStoreRequest(request)).ok());
    }
    StoreRequest allowed = request;
    allowed.timeout_ms = 300000;
    const auto decoded = DecodeStoreRequest(EncodeStoreRequest(allowed));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->operation, operation);
    EXPECT_EQ(decoded->timeout_ms, 300000);
    EXPECT_EQ(decoded->key, "a key");
    EXPECT_EQ(decoded->value, request.value);
  }
}

TEST(StoreMessageTest, DamagedRequestsAreRefused) {
  const std::string whole = EncodeStoreRequest({StoreOperation::kSet, 5, "key", ""});
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(DecodeStoreRequest(whole.substr(0, length)).ok()) << length;
  }
  std::string unknown = whole;
  unknown[0] = 99;
  EXPECT_THAT(std::string(DecodeStoreRequest(unknown).status().message()), HasSubstr("a request for operation 99"));
  const std::string long_key = EncodeStoreRequest({StoreOperation::kSet, 5, std::string(257, 'k'), ""});
  EXPECT_THAT(std::string(DecodeStoreRequest(long_key).status().message()),
              HasSubstr("a key of 257 bytes; allowed: up to 256"));
}

TEST(StoreMessageTest, RepliesComeBack) {
  EXPECT_EQ(*DecodeStoreReply(EncodeStoreReply(absl::OkStatus(), "the value")), "the value");
  EXPECT_EQ(DecodeStoreReply(EncodeStoreReply(absl::NotFoundError("not there"), "")).status(),
            absl::NotFoundError("not there"));
  // A reply keeps the mark that another rank reports the error.
  const absl::Status elsewhere = AsReportedRemotely(absl::AbortedError("rank 1 died"));
  EXPECT_EQ(DecodeStoreReply(EncodeStoreReply(elsewhere, "")).status(), elsewhere);
  EXPECT_FALSE(ReportedRemotely(DecodeStoreReply(EncodeStoreReply(absl::AbortedError("x"), "")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeStoreReply("\x80").status()));
  EXPECT_FALSE(DecodeStoreReply("").ok());
  EXPECT_FALSE(DecodeStoreReply("\xff").ok());
}

TEST(StoreMessageTest, FailuresComeBackAndAreNeverOk) {
  const absl::Status why = absl::NotFoundError("rank 3: data.bin: No such file");
  EXPECT_EQ(DecodeFailure(EncodeFailure(why)), why);
  EXPECT_EQ(DecodeFailure(EncodeFailure(absl::InternalError(std::string(100000, 'x')))).message().size(),
            kMaxFailureText);
  for (const std::string& bytes : {std::string(), std::string(1, '\0'), std::string("\xff???")}) {
    EXPECT_TRUE(absl::IsUnknown(DecodeFailure(bytes)));
  }
}

TEST(StoreMessageReaderTest, MessagesInPieces) {
  const uint32_t seed = 5;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::string stream;
  std::vector<std::string> sent, received;
  for (int i = 0; i < 50; ++i) {
    sent.push_back(std::string(1 + random() % 300, static_cast<char>('a' + i % 26)));
    stream += WithLength(sent.back());
  }
  StoreMessageReader reader;
  std::string message;
  for (size_t at = 0; at < stream.size();) {
    const size_t count = std::min<size_t>(random() % 200, stream.size() - at);
    ASSERT_TRUE(reader.Append(stream.substr(at, count)).ok());
    at += count;
    while (reader.Next(&message)) received.push_back(message);
  }
  EXPECT_EQ(received, sent);
  EXPECT_FALSE(reader.partial());
}

TEST(StoreMessageReaderTest, LengthsAreBounded) {
  StoreMessageReader reader;
  EXPECT_TRUE(reader.Append(absl::string_view("\x00\x00", 2)).ok());
  EXPECT_TRUE(reader.partial());
  EXPECT_THAT(std::string(reader.Append(absl::string_view("\x11\x00", 2)).message()),
              HasSubstr("a message of 1114112 bytes; allowed: 1 to 1048576"));
  std::string message;
  EXPECT_FALSE(reader.Next(&message));
  StoreMessageReader empty;
  EXPECT_FALSE(empty.Append(absl::string_view("\0\0\0\0", 4)).ok());
}

}  // namespace
}  // namespace weft::exec
