#include "executor/platform/sha256.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

std::string Hex(const Sha256Digest& digest) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

// NIST's examples for FIPS 180-4.
TEST(Sha256Test, ExamplesOfTheStandard) {
  EXPECT_EQ(Hex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hex(Sha256(std::string(1000000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Around block boundaries, no two lengths give the same digest, and the digest depends on the bytes alone.
TEST(Sha256Test, LengthsAroundBlocks) {
  std::string before;
  for (size_t length : {54, 55, 56, 63, 64, 65, 118, 119, 120, 127, 128, 129}) {
    const std::string data(length, 'x');
    EXPECT_EQ(Sha256(data), Sha256(std::string(data)));
    EXPECT_NE(Hex(Sha256(data)), before);
    before = Hex(Sha256(data));
  }
}

// RFC 4231, test cases 1, 2, 6 and 7.
TEST(HmacSha256Test, ExamplesOfTheRfc) {
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "This is a test using a larger than block-size key and a larger than block-size data. The "
                           "key needs to be hashed before being used by the HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(EqualInConstantTimeTest, Compares) {
  EXPECT_TRUE(EqualInConstantTime("", ""));
  EXPECT_TRUE(EqualInConstantTime("same", "same"));
  EXPECT_FALSE(EqualInConstantTime("same", "sam"));
  for (int i = 0; i < 32; ++i) {
    std::string a(32, 'a'), b = a;
    b[i] ^= 1;
    EXPECT_FALSE(EqualInConstantTime(a, b)) << i;
  }
}

}  // namespace
}  // namespace weft::exec
