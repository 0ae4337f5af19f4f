#include "cli/common/flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  absl::Status status;
  bool help = false;
  bool verbose = false;
  int64_t ranks = 4, steps = 0, time = 1000;
  std::string output = "-";
  std::string format = "text";
  std::vector<std::string> set;
  std::vector<std::string> positional;
  std::string text;
};

Parsed Parse(const std::vector<std::string>& args, int low = 0, int high = 2) {
  Parsed p;
  Flags flags("weft test", "[FILE]", "Tests.");
  flags.Bool("verbose", "say more", &p.verbose);
  flags.Int("ranks", "P", "pipeline ranks", &p.ranks, 1, 64);
  flags.String("output", "FILE", "where to", &p.output);
  flags.Short('o', "output");
  flags.Int("steps", "N", "by default the recipe's", &p.steps, 1, 9);
  flags.Thousandths("time", "T", "of one", &p.time, 1, 9500);
  static constexpr std::pair<absl::string_view, absl::string_view> kWords[] = {{"table", "text"}};
  flags.Choice("format", {"text", "json"}, "output format", &p.format, kWords);
  flags.Repeated("set", "FIELD=VALUE", "overrides a field", &p.set);
  flags.Example("weft test --ranks=2");
  p.status = flags.Parse(args, low, high);
  p.help = flags.help_wanted();
  p.positional = flags.positional();
  p.text = flags.Help();
  return p;
}

std::string Error(const std::vector<std::string>& args, int low = 0, int high = 2) {
  const Parsed p = Parse(args, low, high);
  EXPECT_EQ(IsUsageError(p.status), !p.status.ok());
  return std::string(p.status.message());
}

TEST(Flags, BothSpellings) {
  const Parsed p =
      Parse({"in", "--ranks=8", "--output", "x", "--verbose", "--set", "a=1", "--set=b=2", "--format=json"});
  ASSERT_TRUE(p.status.ok()) << p.status;
  EXPECT_EQ(p.ranks, 8);
  EXPECT_EQ(p.output, "x");
  EXPECT_TRUE(p.verbose);
  EXPECT_EQ(p.format, "json");
  EXPECT_THAT(p.set, ElementsAre("a=1", "b=2"));
  EXPECT_THAT(p.positional, ElementsAre("in"));
}

TEST(Flags, Numbers) {
  EXPECT_EQ(Parse({"--time=0.5"}).time, 500);
  EXPECT_EQ(Parse({"--time=9.05"}).time, 9050);
  int64_t number = 7;
  EXPECT_TRUE(ReadCount("0", "expected a rank", &number).ok());
  EXPECT_EQ(number, 0);
  EXPECT_TRUE(ReadCount("10", "expected a rank", &number).ok());
  for (const auto& [wrong, why] : {std::pair("010", " without a 0 in front"),
                                   {"+3", " without a + in front"},
                                   {"-1", ""},
                                   {"x", ""},
                                   {"", ""},
                                   {"99999999999999999999", ""}}) {
    EXPECT_EQ(ReadCount(wrong, "expected a rank", &number).message(), std::string("expected a rank") + why) << wrong;
    EXPECT_EQ(number, 10) << wrong;
  }
}

TEST(Flags, ShortNamesSwitchesAndTheEndOfFlags) {
  EXPECT_EQ(Parse({"-o", "x"}).output, "x");
  EXPECT_EQ(Parse({"-o=x"}).output, "x");
  EXPECT_FALSE(Parse({"--verbose=false"}).verbose);
  EXPECT_THAT(Parse({"-", "--", "--ranks"}).positional, ElementsAre("-", "--ranks"));
}

TEST(Flags, WrongUsage) {
  EXPECT_EQ(Error({"--rank=3"}), "unknown flag '--rank'; nearest: --ranks; see weft test --help");
  EXPECT_THAT(Error({"-x"}), HasSubstr("unknown flag '-x'"));
  EXPECT_THAT(Error({"-oout"}), HasSubstr("unknown flag"));
  EXPECT_EQ(Error({"--ranks"}), "--ranks needs a value: --ranks=P; see weft test --help");
  EXPECT_THAT(Error({"--output", "--verbose"}), HasSubstr("--output needs a value"));
  EXPECT_THAT(Error({"--output="}), HasSubstr("--output='': a value is needed"));
  EXPECT_THAT(Error({"--ranks=0"}), HasSubstr("--ranks='0': allowed: 1 to 64, nearest valid: 1"));
  EXPECT_THAT(Error({"--ranks", "-3"}), HasSubstr("--ranks='-3': allowed"));
  EXPECT_THAT(Error({"--ranks=4x"}), HasSubstr("expected a whole number from 1 to 64"));
  EXPECT_THAT(Error({"--ranks=99999999999999999999"}), HasSubstr("expected a whole number"));
  EXPECT_EQ(Error({"--ranks=010"}),
            "--ranks='010': expected a whole number from 1 to 64 without a 0 in front; see weft test --help");
  EXPECT_THAT(Error({"--ranks=+5"}), HasSubstr("from 1 to 64 without a + in front"));
  EXPECT_THAT(Error({"--time=00.5"}), HasSubstr("expected a number from 0.001 to 9.5 without a 0 in front"));
  EXPECT_THAT(Error({"--time=+0.5"}), HasSubstr("without a + in front"));
  EXPECT_THAT(Error({"--time=0.0005"}), HasSubstr("with at most 3 digits after the point"));
  EXPECT_THAT(Error({"--format=jsn"}), HasSubstr("--format='jsn': allowed: text, json, nearest valid: json"));
  EXPECT_THAT(Error({"--verbose=yes"}), HasSubstr("allowed: true, false"));
  // "Table" is a word that other tools use for the choice "text".
  EXPECT_EQ(Error({"--format=Table"}),
            "--format='Table': allowed: text, json, nearest valid: text; see weft test --help");
  EXPECT_THAT(Error({"--ranks=1", "--ranks=1"}), HasSubstr("--ranks is given twice"));
  EXPECT_THAT(Error({}, 1), HasSubstr("an argument is missing; usage: weft test [FILE]"));
  EXPECT_THAT(Error({"a", "b", "c"}), HasSubstr("unexpected argument 'c'"));
}

TEST(Flags, Help) {
  EXPECT_TRUE(Parse({"--nonsense", "--help"}).help);
  EXPECT_TRUE(Parse({"-h"}, 1).help);
  EXPECT_FALSE(Parse({"--", "--help"}).help);
  const std::string text = Parse({}).text;
  EXPECT_THAT(text, HasSubstr("usage: weft test [FILE]\n\nTests.\n"));
  EXPECT_THAT(text, HasSubstr("  --ranks=P                       pipeline ranks [4]\n"));
  // The help text describes a default that is outside the allowed range.
  EXPECT_THAT(text, HasSubstr("  --steps=N                       by default the recipe's\n"));
  EXPECT_THAT(Error({"--steps=0"}), HasSubstr("--steps='0': allowed: 1 to 9, nearest valid: 1"));
  EXPECT_THAT(text, HasSubstr("  -o, --output=FILE               where to [-]\n"));
  EXPECT_THAT(text, HasSubstr("example:\n  weft test --ranks=2\n"));
}

}  // namespace
}  // namespace weft
