#include "executor/data/data.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/data/data_order.h"
#include "executor/data/token_format.h"
#include "executor/numerics/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Write(absl::string_view name, const std::string& content) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  EXPECT_TRUE(WriteFileAtomic(path, content).ok());
  return path;
}

std::string Integers(const std::vector<int64_t>& values, int bytes) {
  std::string out;
  for (int64_t value : values) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  }
  return out;
}

std::vector<int64_t> Ascending(int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

DataOptions Options(const std::string& path, int64_t sequence, int64_t vocabulary, std::string type = "") {
  DataOptions options;
  options.path = path;
  options.sequence_length = sequence;
  options.vocabulary = vocabulary;
  options.seed = 7;
  options.token_type = std::move(type);
  return options;
}

std::string ErrorOf(const DataOptions& options) {
  const auto data = OpenData(options);
  return data.ok() ? "ok" : std::string(data.status().message());
}

// Reads one epoch of data whose token i is i: every window once, targets shifted by one.
void ExpectAscendingEpoch(const DataOptions& options, int64_t windows) {
  const auto data = OpenData(options);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ((*data)->windows(), windows);
  const size_t length = static_cast<size_t>(options.sequence_length);
  std::vector<int32_t> tokens(length), targets(length);
  std::set<int32_t> seen;
  for (int64_t sample = 0; sample < windows; ++sample) {
    ASSERT_TRUE((*data)->Sample(sample, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
    EXPECT_EQ(tokens[0] % options.sequence_length, 0);
    EXPECT_TRUE(seen.insert(tokens[0]).second);
    for (size_t i = 0; i < length; ++i) {
      EXPECT_EQ(tokens[i], tokens[0] + static_cast<int32_t>(i));
      EXPECT_EQ(targets[i], tokens[i] + 1);
    }
  }
}

TEST(DataOrder, EveryEpochIsAPermutation) {
  for (int64_t windows : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4096, 4097}) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<bool> seen(static_cast<size_t>(windows));
      for (int64_t i = 0; i < windows; ++i) {
        const int64_t window = WindowOfSample(11, windows, epoch * windows + i);
        ASSERT_GE(window, 0);
        ASSERT_LT(window, windows);
        ASSERT_FALSE(seen[static_cast<size_t>(window)]) << windows << " " << epoch << " " << i;
        seen[static_cast<size_t>(window)] = true;
      }
    }
  }
}

TEST(DataOrder, DependsOnSeedAndEpoch) {
  const auto order = [](uint64_t seed, int64_t epoch) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < 100; ++i) out.push_back(WindowOfSample(seed, 100, epoch * 100 + i));
    return out;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_NE(order(1, 0), order(uint64_t{1} << 32 | 1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), Ascending(100));
}

// The definition of docs/kernels.md for two bits, written out round by round.
TEST(DataOrder, FollowsTheDefinition) {
  constexpr uint64_t kSeed = 0x123456789abcdef0;
  for (int64_t epoch : {0, 1, 5}) {
    for (uint32_t value = 0; value < 4; ++value) {
      const PhiloxKey key = {0x9abcdef0, 0x12345678 ^ 3};
      uint32_t left = value / 2, right = value % 2;
      for (uint32_t round : {0, 1, 2, 3}) {
        const uint32_t f = Philox4x32(key, {right, round, static_cast<uint32_t>(epoch), 0})[0] % 2;
        const uint32_t old_right = right;
        right = left ^ f;
        left = old_right;
      }
      EXPECT_EQ(WindowOfSample(kSeed, 4, epoch * 4 + value), left * 2 + right);
    }
  }
}

TEST(DataOrder, HugeCounts) {
  constexpr int64_t kWindows = int64_t{1} << 62;
  EXPECT_LT(WindowOfSample(1, kWindows, std::numeric_limits<int64_t>::max()), kWindows);
  EXPECT_LT(WindowOfSample(1, kWindows - 12345, 99), kWindows - 12345);
  EXPECT_LT(WindowOfSample(1, 3, std::numeric_limits<int64_t>::max()), 3);
}

TEST(Data, TokenFiles) {
  const std::string two = Write("two.tok", TokenFileHeader(2, 1000, 101) + Integers(Ascending(101), 2));
  ExpectAscendingEpoch(Options(two, 10, 1000), 10);
  const std::string four = Write("four.tok", TokenFileHeader(4, 100000, 100) + Integers(Ascending(100), 4));
  ExpectAscendingEpoch(Options(four, 10, 200000), 9);
  ExpectAscendingEpoch(Options(four, 99, 200000), 1);
}

TEST(Data, RawTokens) {
  const std::string path = Write("raw", Integers(Ascending(33), 2));
  ExpectAscendingEpoch(Options(path, 8, 33, "uint16"), 4);
  const std::string wide = Write("raw4", Integers(Ascending(33), 4));
  ExpectAscendingEpoch(Options(wide, 16, 33, "uint32"), 2);
}

TEST(Data, TextAndBytes) {
  std::string text;
  for (int i = 1; i < 256; ++i) text += static_cast<char>(i);
  const std::string path = Write("text", text);
  const auto data = OpenData(Options(path, 254, 256));
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> tokens(254), targets(254);
  ASSERT_TRUE((*data)->Sample(0, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
  EXPECT_EQ(tokens[0], 1);
  EXPECT_EQ(targets[253], 255);
  const std::string binary = Write("bytes", '\0' + text);
  EXPECT_THAT(ErrorOf(Options(binary, 8, 256)), AllOf(HasSubstr("is not text: byte 0 is 0"), HasSubstr("token type")));
  ExpectAscendingEpoch(Options(binary, 8, 256, "bytes"), 31);
}

std::string MegatronIndex(int code, const std::vector<int64_t>& lengths, int token_bytes, int64_t documents = 2) {
  std::string index("MMIDIDX\0\0", 9);
  index += Integers({1}, 8) + static_cast<char>(code);
  index += Integers({static_cast<int64_t>(lengths.size()), documents}, 8) + Integers(lengths, 4);
  int64_t pointer = 0;
  for (int64_t length : lengths) {
    index += Integers({pointer}, 8);
    pointer += length * token_bytes;
  }
  return index + Integers(std::vector<int64_t>(static_cast<size_t>(documents), 0), 8);
}

TEST(Data, MegatronPairs) {
  const std::vector<std::pair<int, int>> codes = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
  for (const auto& [code, bytes] : codes) {
    const std::string bin = Write("pair.bin", Integers(Ascending(41), bytes));
    const std::string idx = Write("pair.idx", MegatronIndex(code, {20, 0, 21}, bytes));
    // The pair can be opened by either file and by its common name.
    for (const std::string& path : {bin, idx, bin.substr(0, bin.size() - 4)}) {
      ExpectAscendingEpoch(Options(path, 8, 41), 5);
    }
  }
  const std::string bin = Write("pair.bin", Integers({5, -1, 5, 5}, 4));
  Write("pair.idx", MegatronIndex(4, {4}, 4));
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("token -1 at index 1 (byte 4)"));
  Write("pair.idx", MegatronIndex(4, {3}, 4));
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("its sequences take 12 bytes; the .bin has 16"));
  Write("pair.idx", MegatronIndex(4, {5, 2000000000}, 4));
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("take more than 16 bytes; the .bin has 16"));
  Write("pair.idx", MegatronIndex(7, {4}, 4));
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("dtype 7 holds no token ids"));
  Write("pair.idx", MegatronIndex(4, {8, -4}, 4));
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("bytes"));
  Write("pair.idx", MegatronIndex(4, {-4}, 4));
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("sequence 0 has a length of -4"));
  Write("pair.idx", MegatronIndex(4, {2, 2}, 8));
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("sequence 1 begins at byte 16 instead of 8"));
  const std::string good = MegatronIndex(4, {4}, 4);
  Write("pair.idx", good + "\1");
  EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("multimodal"));
  for (size_t size = 0; size < good.size(); ++size) {
    Write("pair.idx", good.substr(0, size));
    EXPECT_THAT(ErrorOf(Options(bin, 2, 100)), HasSubstr("Megatron index")) << size;
  }
  unlink(bin.c_str());
  Write("pair.idx", good);
  EXPECT_THAT(ErrorOf(Options(absl::StrCat(testing::TempDir(), "/pair.idx"), 2, 256)),
              HasSubstr("its .bin is not beside it"));
}

TEST(Data, RefusesBadTokenFiles) {
  const std::string tokens = Integers(Ascending(20), 2);
  const std::string good = TokenFileHeader(2, 100, 20) + tokens;
  const auto error = [](const std::string& content, int64_t vocabulary = 1000) {
    return ErrorOf(Options(Write("bad.tok", content), 4, vocabulary));
  };
  EXPECT_EQ(error(good), "ok");
  EXPECT_THAT(error(good.substr(0, 30)), HasSubstr("cut off"));
  EXPECT_THAT(error(good.substr(0, good.size() - 2)), HasSubstr("the header says 20 tokens of 2 bytes; 38 bytes"));
  EXPECT_THAT(error(good + "x"), HasSubstr("41 bytes follow"));
  EXPECT_THAT(error(TokenFileHeader(2, 100, std::numeric_limits<int64_t>::max()) + tokens), HasSubstr("header says"));
  EXPECT_THAT(error(TokenFileHeader(2, 0, 20) + tokens), HasSubstr("vocabulary 0"));
  EXPECT_THAT(error(TokenFileHeader(2, -1, 20) + tokens), HasSubstr("vocabulary 18446744073709551615"));
  std::string changed = good;
  changed[8] = 2;
  EXPECT_THAT(error(changed), HasSubstr("format version 2"));
  changed = good;
  changed[12] = 3;
  EXPECT_THAT(error(changed), HasSubstr("dtype 3"));
  EXPECT_THAT(error(good, 99), HasSubstr("was written for a vocabulary of 100; the model has 99"));
  EXPECT_THAT(error(TokenFileHeader(2, 19, 20) + tokens),
              HasSubstr("token 19 at index 19 (byte 70) is outside the vocabulary of 19 that its header states"));
}

TEST(Data, RefusesWhatCannotBeRead) {
  const std::string raw = Write("raw", Integers(Ascending(33), 2));
  EXPECT_THAT(
      ErrorOf(Options(raw, 8, 32, "uint16")),
      HasSubstr(
          "token 32 at index 32 (byte 64) is outside the vocabulary of 32 of the model; tokens are from 0 to 31"));
  EXPECT_THAT(ErrorOf(Options(raw, 33, 100, "uint16")),
              HasSubstr("33 tokens are too few; one sequence of 33 and its last target need 34"));
  EXPECT_THAT(ErrorOf(Options(raw, 8, 100, "uint32")), HasSubstr("66 bytes are not a multiple of 4"));
  EXPECT_THAT(ErrorOf(Options(raw, 8, 100, "uint8")), HasSubstr("token type 'uint8' is unknown; nearest: 'uint16'"));
  EXPECT_THAT(ErrorOf(Options(Write("h", TokenFileHeader(2, 9, 0)), 8, 100, "uint16")), HasSubstr("leave it out"));
  EXPECT_THAT(ErrorOf(Options(Write("empty", ""), 8, 256)), HasSubstr("the file is empty"));
  EXPECT_THAT(ErrorOf(Options(Write("t", "hello, world"), 8, 255)), HasSubstr("vocabulary of at least 256"));
  EXPECT_THAT(ErrorOf(Options(Write("t", "hello"), 8, 256)), HasSubstr("5 tokens are too few"));
  EXPECT_THAT(ErrorOf(Options(Write("t", "WEFTPROG............"), 8, 256)), HasSubstr("compiled program"));
  EXPECT_THAT(ErrorOf(Options(testing::TempDir(), 8, 256)), HasSubstr("is a directory"));
  EXPECT_THAT(ErrorOf(Options("/dev/zero", 8, 256)), HasSubstr("not a regular file"));
  const std::string pipe = testing::TempDir() + "/pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(Options(pipe, 8, 256)), HasSubstr("not a regular file"));
  EXPECT_THAT(ErrorOf(Options("", 8, 256)), HasSubstr("empty"));
  EXPECT_EQ(OpenData(Options("/nonexistent/file", 8, 256)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(Options(raw, 0, 100)), HasSubstr("sequence_length = 0"));
  EXPECT_THAT(ErrorOf(Options(raw, 8, 0)), HasSubstr("vocabulary = 0"));
}

TEST(Data, SampleChecksItsArguments) {
  const auto data = OpenData(Options(Write("raw", Integers(Ascending(33), 2)), 8, 33, "uint16"));
  ASSERT_TRUE(data.ok());
  std::vector<int32_t> right(8), wrong(7);
  EXPECT_FALSE((*data)->Sample(-1, absl::MakeSpan(right), absl::MakeSpan(right)).ok());
  EXPECT_FALSE((*data)->Sample(0, absl::MakeSpan(wrong), absl::MakeSpan(right)).ok());
  EXPECT_FALSE((*data)->Sample(0, absl::MakeSpan(right), absl::MakeSpan(wrong)).ok());
}

TEST(Data, TokensOrTargetsAloneAreTheSame) {
  // A sequence is longer than the part that is read at a time.
  const int length = 20000;
  const auto data = OpenData(Options(Write("long", Integers(Ascending(2 * length + 1), 2)), length, 1 << 16, "uint16"));
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> tokens(length), targets(length), alone(length);
  for (int sample = 0; sample < 2; ++sample) {
    ASSERT_TRUE((*data)->Sample(sample, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
    for (int i = 0; i < length; ++i) ASSERT_EQ(tokens[i] + 1, targets[i]);
    ASSERT_EQ(tokens[0] + length - 1, tokens[length - 1]);
    ASSERT_TRUE((*data)->Sample(sample, absl::MakeSpan(alone), {}).ok());
    EXPECT_EQ(alone, tokens);
    ASSERT_TRUE((*data)->Sample(sample, {}, absl::MakeSpan(alone)).ok());
    EXPECT_EQ(alone, targets);
  }
}

TEST(Data, AFileThatShrinksIsAnError) {
  const std::string path = Write("shrinks", Integers(Ascending(33), 2));
  const auto data = OpenData(Options(path, 32, 33, "uint16"));
  ASSERT_TRUE(data.ok());
  ASSERT_EQ(truncate(path.c_str(), 10), 0);
  std::vector<int32_t> tokens(32), targets(32);
  const absl::Status status = (*data)->Sample(0, absl::MakeSpan(tokens), absl::MakeSpan(targets));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace weft::exec
