#include "executor/data/data_identity.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"

namespace weft::exec {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

DataIdentity Identity(const std::string& content, int64_t offset, int64_t bytes) {
  const std::string path = absl::StrCat(testing::TempDir(), "/identity");
  EXPECT_TRUE(WriteFileAtomic(path, content).ok());
  const auto file = InputFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return {};
  const auto identity = IdentityOf(*file, offset, bytes, 7);
  EXPECT_TRUE(identity.ok()) << identity.status();
  return identity.ok() ? *identity : DataIdentity();
}

// Bytes by multiplicative hashing, so that no two MiB are the same.
std::string Content(int64_t bytes) {
  std::string content(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<char>(static_cast<uint32_t>(i * 2654435761u) >> 24);
  return content;
}

// Existing checkpoints depend on this definition: the size in eight bytes, the first MiB, the last MiB.
TEST(DataIdentityTest, MatchesTheDefinition) {
  const std::string small = Content(300);
  const DataIdentity all = Identity(small, 0, 300);
  EXPECT_EQ(all.tokens, 7);
  EXPECT_EQ(all.crc32c, Crc32c(absl::StrCat(absl::string_view("\x2c\1\0\0\0\0\0\0", 8), small, small)));
  const std::string large = Content(3 * kMiB);
  EXPECT_EQ(Identity(large, 0, 3 * kMiB).crc32c, Crc32c(absl::StrCat(absl::string_view("\0\0\x30\0\0\0\0\0", 8),
                                                                     large.substr(0, kMiB), large.substr(2 * kMiB))));
}

TEST(DataIdentityTest, NeitherWhatIsBeforeItNorBehindIt) {
  std::string content = Content(400);
  const uint32_t crc = Identity(content, 32, 300).crc32c;
  for (const size_t outside : {size_t{0}, size_t{31}, size_t{332}, size_t{399}}) content[outside] ^= 1;
  EXPECT_EQ(Identity(content, 32, 300).crc32c, crc);
  for (const size_t inside : {size_t{32}, size_t{331}}) {
    std::string other = content;
    other[inside] ^= 1;
    EXPECT_NE(Identity(other, 32, 300).crc32c, crc) << inside;
  }
  EXPECT_NE(Identity(content, 32, 299).crc32c, crc);
}

TEST(DataIdentityTest, AFileThatIsShorterIsAnError) {
  const std::string path = absl::StrCat(testing::TempDir(), "/short");
  ASSERT_TRUE(WriteFileAtomic(path, Content(10)).ok());
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(IdentityOf(*file, 4, 8, 7).ok());
}

}  // namespace
}  // namespace weft::exec
