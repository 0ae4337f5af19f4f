#include "executor/backends/cuda/tuning_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"

namespace weft::exec::cuda {
namespace {

const TuningDevice kDevice = {90, 132, 130100, "NVIDIA H200"};

TuningKey Key(int64_t m) {
  TuningKey key;
  MatmulShape& s = key.shape;
  s.m = m;
  s.n = 2304;
  s.k = 768;
  s.transpose_b = true;
  s.a = {Type::kBf16, 768, 0};
  s.b = {Type::kBf16, 768, 0};
  s.y = {Type::kFp32, 2304, 0};
  s.bias = Type::kFp32;
  s.scale = 0.1;
  return key;
}

TunedAlgorithm Algorithm(uint64_t id) {
  TunedAlgorithm algorithm;
  algorithm.words = {id, 0x2300000014, 0, 0xfedcba9876543210, 5, 6, 7, 0xffffffffffffffff};
  algorithm.nanoseconds = 31744;
  return algorithm;
}

TuningTable Table() {
  TuningTable table(kDevice);
  table.Set(Key(4096), Algorithm(66));
  table.Set(Key(512), Algorithm(67));
  return table;
}

constexpr char kText[] =
    "weft-tuning 2\n"
    "for architecture=90 multiprocessors=132 cublaslt=130100 device=NVIDIA H200\n"
    "matmul m=4096 n=2304 k=768 batch=1 transpose_a=0 transpose_b=1 a=bf16:768:0 b=bf16:768:0 y=fp32:2304:0 bias=fp32 "
    "accumulate=0 scale=0.10000000000000001 alignment=16 -> algorithm="
    "00000000000000420000002300000014"
    "0000000000000000fedcba9876543210"
    "00000000000000050000000000000006"
    "0000000000000007ffffffffffffffff nanoseconds=31744 crc=";

// Returns the text with the correct CRC after its only entry.
std::string WithCrc(const std::string& text) {
  return absl::StrCat(
      text,
      absl::Hex(Crc32c(text.substr(text.find("matmul"), text.rfind(" crc=") - text.find("matmul"))), absl::kZeroPad8),
      "\n");
}

TEST(TuningTable, IsReadAsItIsWritten) {
  TuningTable one(kDevice);
  one.Set(Key(4096), Algorithm(66));
  EXPECT_EQ(one.Text(), WithCrc(kText));
  const auto read = TuningTable::Parse(Table().Text(), "t");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Text(), Table().Text());
  EXPECT_EQ(read->device(), kDevice);
  ASSERT_NE(read->Find(Key(4096)), nullptr);
  EXPECT_EQ(*read->Find(Key(4096)), Algorithm(66));
  EXPECT_EQ(read->Find(Key(1)), nullptr);
  TuningKey aligned = Key(4096);
  aligned.alignment = 2;
  EXPECT_EQ(read->Find(aligned), nullptr);
}

// A product in TF32 has its own key, with a field that tables without such products lack.
TEST(TuningTable, ProductsInTf32AreOfTheirOwn) {
  TuningKey single = Key(64), shortened = Key(64);
  for (TuningKey* key : {&single, &shortened}) key->shape.a.type = key->shape.b.type = Type::kFp32;
  shortened.shape.tf32 = true;
  TuningTable table(kDevice);
  table.Set(single, Algorithm(1));
  const std::string digest = table.Digest();
  EXPECT_EQ(table.Text().find("tf32"), std::string::npos);
  table.Set(shortened, Algorithm(2));
  EXPECT_NE(table.Digest(), digest);
  EXPECT_NE(table.Text().find(" alignment=16 tf32=1 -> algorithm="), std::string::npos) << table.Text();
  const auto read = TuningTable::Parse(table.Text(), "t");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Text(), table.Text());
  EXPECT_EQ(*read->Find(single), Algorithm(1));
  EXPECT_EQ(*read->Find(shortened), Algorithm(2));
}

TEST(TuningTable, TheDigestTellsChoicesApartAndNotTimes) {
  TuningTable slower = Table();
  TunedAlgorithm algorithm = Algorithm(66);
  algorithm.nanoseconds *= 2;
  slower.Set(Key(4096), algorithm);
  EXPECT_EQ(slower.Digest(), Table().Digest());
  EXPECT_EQ(slower.Digest().size(), 16u);
  algorithm.words[7] ^= 1;
  slower.Set(Key(4096), algorithm);
  EXPECT_NE(slower.Digest(), Table().Digest());
}

TEST(TuningTable, ErrorsNameFileLineAndField) {
  const std::string text = WithCrc(kText);
  ASSERT_TRUE(TuningTable::Parse(text, "tune.txt").ok());
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto table = TuningTable::Parse(changed, "tune.txt");
    EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << changed;
    return std::string(table.status().message());
  };
  EXPECT_EQ(TuningTable::Parse("", "tune.txt").status().message(),
            "tune.txt: not a tuning file (its first line is not 'weft-tuning 2'); write a new file with "
            "--tuning='write FILE'");
  EXPECT_EQ(error("weft-tuning 2", "weft-tuning 1"),
            "tune.txt, line 1: version 1; this program reads version 2; write a new file with --tuning='write FILE'");
  EXPECT_EQ(error("multiprocessors=132", "sms=132"),
            "tune.txt, line 2: 'multiprocessors=' is expected, but the line has 'sms=132'");
  EXPECT_EQ(error(" device=NVIDIA H200", ""),
            "tune.txt, line 2: 'device=' and a name are expected, but the line has ''");
  EXPECT_EQ(error("m=4096", "m=0"), "tune.txt, line 3: m is '0'; allowed: whole numbers from 1 to 1099511627776");
  EXPECT_EQ(error("m=4096", "m=99999999999999999999"),
            "tune.txt, line 3: m is '99999999999999999999'; allowed: whole numbers from 1 to 1099511627776");
  EXPECT_EQ(error("transpose_b=1", "transpose_b=2"),
            "tune.txt, line 3: transpose_b is '2'; allowed: whole numbers from 0 to 1");
  EXPECT_EQ(error("a=bf16:768:0", "a=bf16:768"),
            "tune.txt, line 3: a is 'bf16:768'; expected type:stride:batch_stride");
  EXPECT_EQ(error("a=bf16:768:0", "a=none:768:0"),
            "tune.txt, line 3: a is of type 'none'; allowed: fp64, fp32, bf16, fp16");
  EXPECT_EQ(error("bias=fp32", "bias=int8"),
            "tune.txt, line 3: bias is of type 'int8'; allowed: none, fp64, fp32, bf16, fp16");
  EXPECT_EQ(error("scale=0.10000000000000001", "scale=nan"),
            "tune.txt, line 3: scale is 'nan'; allowed: finite numbers");
  EXPECT_EQ(error("-> algorithm", "=> algorithm"), "tune.txt, line 3: '->' is expected, but the line has '=>'");
  EXPECT_EQ(error("alignment=16", "alignment=16 tf32=2"),
            "tune.txt, line 3: tf32 is '2'; allowed: whole numbers from 0 to 1");
  EXPECT_EQ(error("alignment=16", "alignment=16 tf32=1"), "tune.txt, line 3: tf32 is 1, but a is bf16, not fp32");
  EXPECT_EQ(error("alignment=16", "alignment=16 tf=1"), "tune.txt, line 3: '->' is expected, but the line has 'tf=1'");
  // The bytes differ from what was written, but could be an algorithm.
  EXPECT_THAT(error("algorithm=00", "algorithm=01"),
              testing::MatchesRegex("tune.txt, line 3: crc is '........', but the checksum of the line is ........: "
                                    "the line was changed or is damaged; delete it"));
  EXPECT_THAT(error(" crc=", " crc=0"), testing::HasSubstr("line 3: crc is '0"));
  EXPECT_THAT(error("algorithm=00", "algorithm=0"), testing::HasSubstr("expected 128 of the digits 0 to 9 and a to f"));
  EXPECT_THAT(error("algorithm=00", "algorithm=0G"), testing::HasSubstr("expected 128 of the digits"));
  EXPECT_EQ(error("=31744", "=31744 more=1"), "tune.txt, line 3: 'more=1' follows the last field");
  EXPECT_EQ(error("matmul", text.substr(text.find("matmul")) + "matmul"),
            "tune.txt, line 4: an earlier line has the same product; delete one of the two");
  EXPECT_EQ(error("matmul", "\nmatmul"), "tune.txt, line 3: 'matmul' is expected, but the line has ''");
}

TEST(TuningTable, RefusesATableOfAnotherDevice) {
  TuningDevice other = kDevice;
  EXPECT_TRUE(Table().CheckDevice(other, "tune.txt").ok());
  other.cublaslt = 130200;
  EXPECT_EQ(Table().CheckDevice(other, "tune.txt").message(),
            "tune.txt is for architecture=90 multiprocessors=132 cublaslt=130100 device=NVIDIA H200, but this run is "
            "for architecture=90 multiprocessors=132 cublaslt=130200 device=NVIDIA H200; tune again on this device");
}

TEST(TuningTable, MergesLoseNothing) {
  const std::string path = ::testing::TempDir() + "/merged.tuning";
  std::filesystem::remove(path);
  constexpr int kWriters = 4, kEntries = 20;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&path, w] {
      for (int i = 0; i < kEntries; ++i) {
        TuningTable table(kDevice);
        table.Set(Key(1000 * (w + 1) + i), Algorithm(w));
        EXPECT_TRUE(table.MergeInto(path).ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const auto merged = TuningTable::Read(path);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->size(), static_cast<size_t>(kWriters * kEntries));
  // A new measurement replaces the old one.
  TuningTable anew(kDevice);
  anew.Set(Key(1000), Algorithm(99));
  ASSERT_TRUE(anew.MergeInto(path).ok());
  EXPECT_EQ(TuningTable::Read(path)->Find(Key(1000))->words[0], 99u);
  // A file that is no tuning table stays as it is.
  ASSERT_TRUE(WriteFileAtomic(path, "notes\n").ok());
  EXPECT_EQ(anew.MergeInto(path).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*ReadFile(path), "notes\n");
}

TEST(TuningTable, AFileThatIsNotThere) {
  EXPECT_EQ(TuningTable::Read("/nowhere/tune.txt").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace weft::exec::cuda
