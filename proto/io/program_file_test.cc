#include "proto/io/program_file.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// RFC 3720, appendix B.4, and the check value of the CRC catalog.
TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(Crc32c(up), 0x46dd794eu);
  EXPECT_EQ(Crc32c(down), 0x113fdb5cu);
}

// The CRC equals the one computed bit by bit, for any length and any start.
TEST(Crc32c, AsBitByBit) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>(i * i / 7);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{63}, size_t{64}, size_t{65}, size_t{1001}}) {
    for (const size_t begin : {size_t{0}, size_t{3}, size_t{1999}}) {
      uint32_t crc = 0xffffffffu;
      for (size_t i = begin; i < begin + size; ++i) {
        crc ^= static_cast<unsigned char>(text[i]);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
      }
      EXPECT_EQ(Crc32c(absl::string_view(text).substr(begin, size)), ~crc) << begin << " + " << size;
    }
  }
}

TEST(Crc32c, ExtendsAtEverySplit) {
  std::string text;
  for (int i = 0; i < 70; ++i) text += static_cast<char>(i * 37);
  const absl::string_view view = text;
  for (size_t i = 0; i <= text.size(); ++i) {
    EXPECT_EQ(Crc32cExtend(Crc32c(view.substr(0, i)), view.substr(i)), Crc32c(text)) << i;
  }
}

Program SmallProgram() {
  Program program;
  program.set_name("tiny");
  program.set_stages(2);
  program.set_cluster_digest(0x1234567890abcdef);
  MeshAxis* axis = program.mutable_mesh()->add_axes();
  axis->set_name("pipe");
  axis->set_size(2);
  program.mutable_recipe()->set_sequence_length(64);
  program.set_accumulation(IN_ORDER);
  Action* action = program.add_templates()->add_body();
  action->set_id(7);
  action->set_kind(RECV);
  action->add_deps()->set_distance(1);
  program.add_segments()->add_steps()->set_kernel(MATMUL);
  program.mutable_evaluation()->set_name("tiny evaluation");
  return program;
}

std::string ErrorOf(absl::string_view bytes) {
  const auto program = ParseProgram(bytes, "p.weft");
  return program.ok() ? "ok" : std::string(program.status().message());
}

// Returns a file with `payload` under a valid header.
std::string FileOf(const std::string& payload, uint32_t version = 1) {
  std::string file = "WEFTPROG";
  const auto append = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i));
  };
  append(version, 4);
  append(payload.size(), 8);
  append(Crc32c(payload), 4);
  return file + payload;
}

TEST(ProgramFile, RoundTrip) {
  const std::string bytes = SerializeProgram(SmallProgram());
  const auto program = ParseProgram(bytes, "p.weft");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->SerializeAsString(), SmallProgram().SerializeAsString());
  EXPECT_EQ(SerializeProgram(*program), bytes);
  EXPECT_EQ(bytes, FileOf(SmallProgram().SerializeAsString()));
  EXPECT_EQ(ProgramCrc(*program), Crc32c(absl::string_view(bytes).substr(24)));
}

TEST(ProgramFile, FilesRoundTrip) {
  const std::string path = absl::StrCat(testing::TempDir(), "/p.weft");
  ASSERT_TRUE(WriteProgram(SmallProgram(), path).ok());
  const auto program = ReadProgram(path);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name(), "tiny");
  Program bad = SmallProgram();
  bad.set_name("\xff");
  EXPECT_THAT(std::string(WriteProgram(bad, path).message()), HasSubstr("program.name: invalid UTF-8"));
  EXPECT_EQ(ReadProgram(path + "none").status().code(), absl::StatusCode::kNotFound);
}

TEST(ProgramFile, GivesUpOnEndlessFiles) {
  EXPECT_EQ(ReadProgram("/dev/zero").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ProgramFile, RefusesBadHeaders) {
  const std::string good = SerializeProgram(SmallProgram());
  EXPECT_THAT(ErrorOf(""), HasSubstr("p.weft: the file is empty"));
  EXPECT_THAT(ErrorOf("name: \"x\""), HasSubstr("is not a compiled program"));
  EXPECT_THAT(ErrorOf("WEFTPROF" + good.substr(8)), HasSubstr("is not a compiled program"));
  EXPECT_THAT(ErrorOf(FileOf("", 2)), AllOf(HasSubstr("program format 2"), HasSubstr("newer")));
  EXPECT_THAT(ErrorOf(FileOf("", 0)), HasSubstr("format 0"));
  EXPECT_THAT(ErrorOf(good + "x"), HasSubstr("trailing bytes"));
  for (size_t size = 8; size < good.size(); ++size) {
    EXPECT_THAT(ErrorOf(good.substr(0, size)), HasSubstr("is cut off")) << size;
  }
}

TEST(ProgramFile, NoticesEveryFlippedBit) {
  const std::string good = SerializeProgram(SmallProgram());
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(ErrorOf(bad), "ok") << bit;
  }
}

TEST(ProgramFile, RefusesUnknownFieldsAndValues) {
  Program program = SmallProgram();
  auto& segment = *program.mutable_segments(0);
  segment.GetReflection()->MutableUnknownFields(&segment)->AddVarint(19, 1);
  EXPECT_THAT(ErrorOf(FileOf(program.SerializeAsString())),
              AllOf(HasSubstr("program.segments[0]"), HasSubstr("unknown field number 19")));

  program = SmallProgram();
  program.mutable_templates(0)->mutable_body(0)->set_kind(static_cast<ActionKind>(77));
  EXPECT_THAT(ErrorOf(FileOf(program.SerializeAsString())),
              AllOf(HasSubstr("program.templates[0].body[0].kind"), HasSubstr("77 is not a value of ActionKind")));

  program = SmallProgram();
  program.mutable_evaluation()->mutable_precision()->set_compute(static_cast<DType>(-1));
  EXPECT_THAT(ErrorOf(FileOf(program.SerializeAsString())), HasSubstr("program.evaluation.precision.compute"));
}

TEST(ProgramFile, RefusesDeepNesting) {
  std::string payload;
  for (int i = 0; i < 200; ++i) {
    Program program;
    // Write field 21, evaluation, by hand: tag, length, content.
    std::string outer = "\xaa\x01";
    size_t length = payload.size();
    for (; length >= 0x80; length >>= 7) outer += static_cast<char>(length | 0x80);
    outer += static_cast<char>(length);
    payload = outer + payload;
  }
  EXPECT_THAT(ErrorOf(FileOf(payload)), HasSubstr("levels"));
}

TEST(ProgramFile, SurvivesRandomPayloads) {
  constexpr uint32_t kSeed = 20240607;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  const std::string good = SmallProgram().SerializeAsString();
  for (int i = 0; i < 3000; ++i) {
    std::string payload = good;
    for (int k = 0; k < 3; ++k) payload[random() % payload.size()] = static_cast<char>(random());
    const auto program = ParseProgram(FileOf(payload), "p.weft");
    // If a program is accepted, all of it was read: writing it again loses nothing.
    if (program.ok()) {
      const auto again = ParseProgram(SerializeProgram(*program), "p.weft");
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(SerializeProgram(*again), SerializeProgram(*program));
    }
  }
}

}  // namespace
}  // namespace weft
