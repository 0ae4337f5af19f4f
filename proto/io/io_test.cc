#include "proto/io/io.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/trace.pb.h"
#include "proto/util/utf8.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string TempPath(absl::string_view name) { return absl::StrCat(testing::TempDir(), "/", name); }

int EntriesIn(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) count += !entry.path().empty();
  return count;
}

TEST(Files, RoundTripAndReplace) {
  const std::string folder = TempPath("replace");
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/file";
  std::string content = "one";
  content += '\0';
  ASSERT_TRUE(WriteFileAtomic(path, content).ok());
  EXPECT_EQ(*ReadFile(path), content);
  const std::string large(3 << 20, 'x');
  ASSERT_TRUE(WriteFileAtomic(path, large).ok());
  EXPECT_EQ(*ReadFile(path), large);
  ASSERT_TRUE(WriteFileAtomic(path, "").ok());
  EXPECT_EQ(*ReadFile(path), "");
  EXPECT_EQ(EntriesIn(folder), 1);
}

TEST(Files, ReadErrorsNameThePath) {
  EXPECT_EQ(ReadFile(TempPath("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadFile(TempPath("none")).status().message()),
              AllOf(StartsWith(TempPath("none")), HasSubstr("No such file")));
  EXPECT_THAT(std::string(ReadFile(testing::TempDir()).status().message()), HasSubstr("is a directory"));
  EXPECT_FALSE(ReadFile("").ok());
  EXPECT_FALSE(ReadFile(std::string("a\0b", 3)).ok());
  ASSERT_TRUE(WriteFileAtomic(TempPath("ten"), "0123456789").ok());
  EXPECT_TRUE(ReadFile(TempPath("ten"), 10).ok());
  EXPECT_EQ(ReadFile(TempPath("ten"), 9).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadFile("/dev/zero", 1 << 20).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Files, WriteErrorsLeaveNothingBehind) {
  const std::string folder = TempPath("errors");
  std::filesystem::create_directory(folder);
  std::filesystem::create_directory(folder + "/sub");
  EXPECT_THAT(std::string(WriteFileAtomic(folder + "/sub", "x").message()), HasSubstr("is a directory"));
  EXPECT_EQ(WriteFileAtomic(folder + "/none/file", "x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(EntriesIn(folder), 1);
  EXPECT_TRUE(WriteFileAtomic("/dev/null", "x").ok());
  EXPECT_EQ(WriteFileAtomic("/dev/full", "x").code(), absl::StatusCode::kResourceExhausted);
}

TEST(Files, LinksAndDevicesKeepTheirPlace) {
  const std::string folder = ::testing::TempDir();
  const std::string real = folder + "/real.txt", link = folder + "/link.txt", device = folder + "/device";
  ASSERT_TRUE(WriteFileAtomic(real, "old").ok());
  std::filesystem::create_symlink("real.txt", link);
  ASSERT_TRUE(WriteFileAtomic(link, "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(*ReadFile(real), "new");
  std::filesystem::create_symlink("/dev/null", device);
  ASSERT_TRUE(ReplaceFile(device, [&](const std::string& name) {
                EXPECT_EQ(name, device);
                return absl::OkStatus();
              }).ok());
  ASSERT_TRUE(WriteFileAtomic(device, "gone").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(device));
  EXPECT_TRUE(std::filesystem::is_character_file(device));
}

TEST(Files, AFailedReplacementLeavesTheOldContent) {
  const std::string path = ::testing::TempDir() + "/kept.txt";
  ASSERT_TRUE(WriteFileAtomic(path, "old").ok());
  std::string temporary;
  const absl::Status status = ReplaceFile(path, [&](const std::string& name) {
    temporary = name;
    EXPECT_TRUE(WriteFileAtomic(name, "half").ok());
    return absl::UnavailableError("no more");
  });
  EXPECT_EQ(status.message(), "no more");
  EXPECT_EQ(*ReadFile(path), "old");
  EXPECT_FALSE(std::filesystem::exists(temporary));
}

TEST(CheckWritable, TriesAndLeavesNothing) {
  const std::string folder = testing::TempDir() + "/check_writable";
  ASSERT_TRUE(std::filesystem::create_directories(folder) || std::filesystem::is_directory(folder));
  const std::string path = folder + "/file";
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  ASSERT_TRUE(WriteFileAtomic(path, "old").ok());
  EXPECT_TRUE(CheckWritable(path).ok());
  EXPECT_EQ(ReadFile(path).value_or(""), "old");
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
  const absl::Status full = CheckWritable("/dev/full");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("/dev/full: cannot write"));
  EXPECT_FALSE(CheckWritable("").ok());
  for (const std::string& bad : {folder, folder + "/missing/file", path + "/file"}) {
    const absl::Status status = CheckWritable(bad);
    EXPECT_FALSE(status.ok()) << bad;
    EXPECT_NE(status.message().find(bad), absl::string_view::npos) << status;
  }
}

std::string Repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Files, ANameMayBeAsLongAsTheSystemTakes) {
  const std::string folder = TempPath("long_names");
  std::filesystem::create_directory(folder);
  // Includes a name with characters of several bytes, which a shortened name must not split.
  for (const std::string& name : {std::string(255, 'n'), std::string(238, 'n'), "n" + Repeat("\u00e9", 127)}) {
    const std::string path = folder + "/" + name;
    EXPECT_TRUE(CheckWritable(path).ok()) << CheckWritable(path);
    ASSERT_TRUE(WriteFileAtomic(path, "x").ok()) << WriteFileAtomic(path, "x");
    EXPECT_EQ(*ReadFile(path), "x");
    EXPECT_EQ(EntriesIn(folder), 1);
    EXPECT_TRUE(ReplaceFile(path, [&](const std::string& temporary) {
                  EXPECT_TRUE(IsValidUtf8(temporary)) << temporary;
                  return WriteFileAtomic(temporary, "y");
                }).ok());
    EXPECT_EQ(*ReadFile(path), "y");
    std::filesystem::remove(path);
  }
  const std::string too_long = folder + "/" + std::string(256, 'n');
  for (const absl::Status& status : {CheckWritable(too_long), WriteFileAtomic(too_long, "x")}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("File name too long"));
  }
  EXPECT_EQ(EntriesIn(folder), 0);
}

constexpr char kRecipeText[] = R"(# A recipe.
sequence_length: 128
global_batch_sequences: 8
seed: 18446744073709551615
adamw { beta1: 0.9 overrides { pattern: "*.bias" weight_decay: 0 } overrides { pattern: "ln*" } }
lr { peak: 3e-4 decay: "cosine" }
clip_norm: 0
)";

Recipe ExpectedRecipe() {
  Recipe recipe;
  recipe.set_sequence_length(128);
  recipe.set_global_batch_sequences(8);
  recipe.set_seed(~uint64_t{0});
  recipe.mutable_adamw()->set_beta1(0.9);
  recipe.mutable_adamw()->add_overrides()->set_pattern("*.bias");
  recipe.mutable_adamw()->add_overrides()->set_pattern("ln*");
  recipe.mutable_lr()->set_peak(3e-4);
  recipe.mutable_lr()->set_decay("cosine");
  recipe.set_clip_norm(0);
  return recipe;
}

TEST(ParseMessage, TextJsonAndBinaryAgree) {
  const std::string json = R"({
    "sequence_length": 128, "globalBatchSequences": "8", "seed": 18446744073709551615, "steps": null,
    "adamw": {"beta1": 9e-1, "overrides": [{"pattern": "*.bias", "weight_decay": 0}, {"pattern": "ln\u002a"}]},
    "lr": {"peak": 0.0003, "decay": "cosine"}, "clip_norm": 0
  })";
  for (const std::string& content : {std::string(kRecipeText), "\xef\xbb\xbf" + std::string(kRecipeText), json,
                                     ExpectedRecipe().SerializeAsString(), MessageToText(ExpectedRecipe())}) {
    Recipe recipe;
    const absl::Status status = ParseMessage(content, "r", &recipe);
    ASSERT_TRUE(status.ok()) << status << " in " << content;
    EXPECT_EQ(recipe.SerializeAsString(), ExpectedRecipe().SerializeAsString()) << content;
  }
}

TEST(ParseMessage, ReadsFiles) {
  const std::string path = TempPath("recipe.textproto");
  ASSERT_TRUE(WriteFileAtomic(path, kRecipeText).ok());
  const auto recipe = ReadMessage<Recipe>(path);
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->sequence_length(), 128);
}

TEST(ParseMessage, PrintableBinaryIsNotTakenForText) {
  Trace trace;
  trace.set_origin("simulated");  // Tag 0x0a is a line feed, length 9 a tab.
  Trace read;
  ASSERT_TRUE(ParseMessage(trace.SerializeAsString(), "t", &read).ok());
  EXPECT_EQ(read.origin(), "simulated");
  // The length 123 makes the second byte '{'.
  trace.set_origin(std::string(123, 'a'));
  trace.set_program_name("p");
  ASSERT_TRUE(ParseMessage(trace.SerializeAsString(), "t", &read).ok());
  EXPECT_EQ(read.origin().size(), 123u);
  // The length 35 makes the second byte '#', so the message looks like a comment.
  trace.Clear();
  trace.set_origin(std::string(35, 'a'));
  ASSERT_TRUE(ParseMessage(trace.SerializeAsString(), "t", &read).ok());
  EXPECT_EQ(read.origin().size(), 35u);
  ASSERT_TRUE(ParseMessage("\n# only a comment\n", "t", &read).ok());
  EXPECT_EQ(read.ByteSizeLong(), 0u);
  // Tag 0x20 looks like a space. The message has steps = 123 and another field with an explicit 0.
  Recipe recipe;
  ASSERT_TRUE(ParseMessage(absl::string_view(" {\x10\0", 4), "r", &recipe).ok());
  EXPECT_EQ(recipe.steps(), 123);
  ASSERT_TRUE(ParseMessage(recipe.SerializeAsString(), "r", &recipe).ok());
  EXPECT_EQ(recipe.steps(), 123);
}

struct BadCase {
  std::string content;
  // Texts that the error must contain.
  std::vector<std::string> parts;
};

void PrintTo(const BadCase& c, std::ostream* os) { *os << testing::PrintToString(c.content.substr(0, 60)); }

class BadRecipe : public testing::TestWithParam<BadCase> {};

TEST_P(BadRecipe, IsRefusedWithPosition) {
  Recipe recipe;
  const absl::Status status = ParseMessage(GetParam().content, "r.textproto", &recipe);
  ASSERT_FALSE(status.ok()) << recipe.DebugString();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("r.textproto:"));
  for (const std::string& part : GetParam().parts) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    Text, BadRecipe,
    testing::Values(BadCase{"", {"empty"}}, BadCase{"WEFTPROG....", {"compiled program"}},
                    BadCase{"sequence_length: 1\nsequnce_length: 2",
                            {":2:1: unknown field 'sequnce_length' of Recipe; nearest: 'sequence_length'"}},
                    BadCase{"lr { peak: 1 dekay: \"x\" }",
                            {":1:14: unknown field 'dekay' of LearningRate, recipe.lr; nearest: 'decay'"}},
                    BadCase{"steps: 1\n  steps: 2", {":2:"}},
                    BadCase{"steps: 0\n  steps: 2", {":2:3", "'steps' is given twice"}},
                    BadCase{"lr { min: 0 min: 0 }", {":1:", "given twice"}}, BadCase{"lr {} lr {}", {"1:"}},
                    BadCase{"adamw {}\nsgd {}", {":2:"}},
                    BadCase{"steps: 99999999999999999999",
                            {":1:8: recipe.steps = '99999999999999999999' must be an integer of 64 bits; nearest: "
                             "9223372036854775807"}},
                    BadCase{"steps: 1.5", {":1:8: recipe.steps = '1.5' must be an integer"}},
                    BadCase{"steps: \"1\"", {":1:8: recipe.steps = '"}}, BadCase{"steps:", {":1:"}},
                    BadCase{"lr { peak: 1e-400 }",
                            {":1:12: recipe.lr.peak = '1e-400' must be a number that a double can hold: 0, or a"}},
                    BadCase{"steps: 1 }", {":1:"}}, BadCase{"lr { peak: 1", {":1:"}}, BadCase{"lr: 5", {":1:"}},
                    BadCase{"lr { decay: \"\\377\" }", {"recipe.lr.decay: invalid UTF-8"}},
                    BadCase{"lr { decay: \"a\\000b\" }", {"recipe.lr.decay", "NUL"}},
                    BadCase{Repeat("lr {", 100000), {":1:"}}, BadCase{"just words here", {":1:"}},
                    BadCase{"# r\xe9sum\xe9\nsteps: 1", {"byte 0xe9 at 1:4 is not text"}},
                    BadCase{std::string("steps: 1\nseed\0: 2", 17), {"byte 0x00 at 2:5 is not text"}}));

INSTANTIATE_TEST_SUITE_P(
    Json, BadRecipe,
    testing::Values(
        BadCase{"{", {":1:2"}}, BadCase{"{\n \"stepz\": 1}", {":2:", "unknown field 'stepz'", "nearest: 'steps'"}},
        BadCase{"{\"steps\": 1, \"steps\": 1}", {"1:14", "'steps' is given twice"}},
        BadCase{"{\"clip_norm\": 1, \"clipNorm\": 1}", {"recipe.clip_norm: given twice"}},
        BadCase{"{\"adamw\": {}, \"sgd\": {}}", {"recipe.sgd: another member of 'optimizer' is given: 'adamw'"}},
        BadCase{"{\"steps\": 1.5}", {"recipe.steps: expected an integer of 64 bits, got 1.5"}},
        BadCase{"{\"steps\": 9223372036854775808}", {"64 bits, got 9223372036854775808; nearest: 9223372036854775807"}},
        BadCase{"{\"seed\": -1}", {"from 0 to 2^64-1"}}, BadCase{"{\"steps\": \"many\"}", {"got 'many'"}},
        BadCase{"{\"lr\": 1}", {"recipe.lr: expected an object"}},
        BadCase{"{\"lr\": {\"peak\": \"NaN\"}}", {"recipe.lr.peak: expected a finite number"}},
        BadCase{"{\"lr\": {\"peak\": 1e999}}", {"recipe.lr.peak: '1e999' is out of range; allowed: 0, or a"}},
        BadCase{"{\"lr\": {\"peak\": 1e-400}}", {"recipe.lr.peak: '1e-400' is out of range"}},
        BadCase{"{\"lr\": {\"decay\": 5}}", {"expected a string"}},
        BadCase{"{\"lr\": {\"decay\": \"\\u0000\"}}", {"NUL"}},
        BadCase{"{\"adamw\": {\"overrides\": {}}}", {"recipe.adamw.overrides: expected an array, got an object"}},
        BadCase{"{\"adamw\": {\"overrides\": [{}, 1]}}", {"recipe.adamw.overrides[1]: expected an object"}},
        BadCase{"{\"adamw\": {\"overrides\": [null]}}", {"got null"}}, BadCase{"[]", {"expected an object"}},
        BadCase{"{} {}", {":1:4", "after the end"}}, BadCase{Repeat("[", 100000), {"levels"}},
        BadCase{Repeat("{\"lr\":", 100000), {"levels"}}, BadCase{"{\"steps\": 01}", {"leading 0"}},
        BadCase{"{\"steps\": 1,}", {"member name"}}, BadCase{"{steps: 1}", {"double quotes"}},
        BadCase{"{\"lr\": {\"decay\": \"a\nb\"}}", {"control character"}},
        BadCase{"{\"lr\": {\"decay\": \"\\ud800\"}}", {"surrogate"}},
        BadCase{"{\"lr\": {\"decay\": \"\xff\"}}", {"invalid UTF-8"}}));

INSTANTIATE_TEST_SUITE_P(Binary, BadRecipe,
                         testing::Values(BadCase{"\x08", {"byte 1", "recipe.sequence_length", "cut off"}},
                                         BadCase{"\x08\x01\x08\x02", {"recipe.sequence_length: given twice"}},
                                         BadCase{std::string("\x3a\x00\x42\x00", 4), {"another member of 'optimizer'"}},
                                         BadCase{"\x78\x01", {"unknown field number 15"}},
                                         BadCase{"\x0d\x01\x01\x01\x01", {"wire type 5"}},
                                         BadCase{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", {"64 bits"}},
                                         BadCase{"\x4a\x05\x1a\x03"
                                                 "a\xff"
                                                 "b",
                                                 {"recipe.lr.decay: invalid UTF-8"}},
                                         BadCase{"\x4a\x7f\x01", {"cut off"}}, BadCase{"\x4a\x0b\x08\x01", {"cut off"}},
                                         BadCase{std::string("\0\0\0", 3), {"field number 0"}}));

TEST(ParseMessage, EnumsByNameAndKnownNumber) {
  Plan plan;
  EXPECT_TRUE(ParseMessage("precision { compute: FP32 }", "p", &plan).ok());
  EXPECT_TRUE(ParseMessage("{\"precision\": {\"compute\": \"FP32\"}}", "p", &plan).ok());
  EXPECT_EQ(plan.precision().compute(), FP32);
  absl::Status status = ParseMessage("precision { compute: FP31 }", "p", &plan);
  EXPECT_THAT(std::string(status.message()), AllOf(StartsWith("p:1:"), HasSubstr("nearest: 'FP32'")));
  status = ParseMessage("precision { compute: 31 }", "p", &plan);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("plan.precision.compute = 31 is not a value of DType; known: FP16, BF16, TF32, FP32, FP64"));
  status = ParseMessage("{\"precision\": {\"compute\": \"FP31\"}}", "p", &plan);
  EXPECT_THAT(std::string(status.message()), AllOf(StartsWith("p:1:"), HasSubstr("nearest: 'FP32'")));
  status = ParseMessage("{\"precision\": {\"compute\": 31}}", "p", &plan);
  EXPECT_THAT(std::string(status.message()), HasSubstr("plan.precision.compute"));
}

TEST(ParseMessage, EveryPrefixOfABinaryIsReadOrRefused) {
  Cluster cluster;
  cluster.set_name("c");
  cluster.mutable_device()->add_peaks()->set_dtype(BF16);
  cluster.mutable_device()->mutable_peaks(0)->set_flops_per_second(1e12);
  cluster.mutable_host()->set_latency_seconds(1);
  const std::string bytes = cluster.SerializeAsString();
  // Start at size 2, because the first byte alone is a line feed, which is an empty text proto.
  for (size_t size = 2; size <= bytes.size(); ++size) {
    Cluster read;
    if (ParseMessage(bytes.substr(0, size), "c", &read).ok()) {
      EXPECT_EQ(read.SerializeAsString(), bytes.substr(0, size));
    }
  }
}

}  // namespace
}  // namespace weft
