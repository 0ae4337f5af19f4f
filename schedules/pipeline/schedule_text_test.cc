#include "schedules/pipeline/schedule_text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/params.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Error(absl::string_view text) { return std::string(ParseSchedule(text).status().message()); }

void ExpectSame(const PipelineSchedule& a, const PipelineSchedule& b) {
  EXPECT_EQ(a.stages, b.stages);
  EXPECT_EQ(a.lanes, b.lanes);
  EXPECT_EQ(a.placement, b.placement);
  ASSERT_EQ(a.order.size(), b.order.size());
  for (size_t rank = 0; rank < a.order.size(); ++rank) EXPECT_EQ(a.order[rank], b.order[rank]) << "rank " << rank;
  ASSERT_EQ(a.message_driven.has_value(), b.message_driven.has_value());
  if (a.message_driven) {
    EXPECT_EQ(a.message_driven->rule, b.message_driven->rule);
    EXPECT_EQ(a.message_driven->limit, b.message_driven->limit);
  }
  ASSERT_EQ(a.asynchrony.has_value(), b.asynchrony.has_value());
  if (a.asynchrony) {
    EXPECT_EQ(a.asynchrony->microbatches_per_update, b.asynchrony->microbatches_per_update);
    EXPECT_EQ(a.asynchrony->versions, b.asynchrony->versions);
    EXPECT_EQ(a.asynchrony->uses, b.asynchrony->uses);
  }
}

constexpr char kTiny[] = R"(# One forward, one backward.
weft schedule 1
name: mine
ranks: 2
microbatches: 2
rank 0: F0.0 F0.1   # the second
  B0.0
	B0.1
rank 1: F1.0 B1.0 F1.1 B1.1
)";

TEST(ParseSchedule, TextForm) {
  const absl::StatusOr<NamedSchedule> named = ParseSchedule(kTiny);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->name, "mine");
  EXPECT_EQ(named->microbatches, 2);
  EXPECT_THAT(named->schedule.placement, ElementsAre(ElementsAre(0, 1)));
  ExpectSame(named->schedule, *(*FindSchedule("1f1b"))->build({.ranks = 2, .microbatches = 2}));
  ExpectSame(named->schedule, ParseSchedule(absl::StrReplaceAll(kTiny, {{"\n", "\r\n"}}))->schedule);
}

TEST(ParseSchedule, PyTorchsForm) {
  const absl::StatusOr<NamedSchedule> named = ParseSchedule("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  ASSERT_TRUE(named.ok()) << named.status();
  ExpectSame(named->schedule, ParseSchedule(kTiny)->schedule);
  EXPECT_THAT(std::string(ParseSchedule(kTiny, {.dialect = CsvDialect::kTorch}).status().message()),
              HasSubstr("text form"));
  EXPECT_THAT(Error("hello\n"), HasSubstr("line 1 (rank 0), cell 1: cannot read 'hello'"));
}

TEST(ParseSchedule, LanesPairsAndWidths) {
  // Two lanes in opposite directions. The second has no microbatch, so the file must give its placement.
  constexpr char kLanes[] =
      "weft schedule 1\nranks: 2\nmicrobatches: 2\nlane 0: 0 1\nlane 1: 1 0\n"
      "rank 0: F0.0 F0.1 B0.0 B0.1\nrank 1: F1.0 (F1.1 B1.0) B1.1\n";
  const absl::StatusOr<NamedSchedule> named = ParseSchedule(kLanes);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->schedule.lanes, 2);
  EXPECT_TRUE(named->schedule.order[1][1].paired);
  EXPECT_EQ(FormatSchedule(*named), kLanes);

  constexpr char kWide[] = "weft schedule 1\nranks: 1\nmicrobatches: 2\nlane 0: 0\nrank 0: F0.0-1 B0.0 I0.1 W0.1\n";
  const absl::StatusOr<NamedSchedule> wide = ParseSchedule(kWide);
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->schedule.order[0][0].width, 2);
  EXPECT_EQ(FormatSchedule(*wide), kWide);

  constexpr char kOpposite[] =
      "weft schedule 1\nranks: 2\nmicrobatches: 2\nrank 0: F0.0 F1.1@1 B1.1@1 B0.0\nrank 1: F0.1@1 F1.0 B1.0 B0.1@1\n";
  EXPECT_THAT(ParseSchedule(kOpposite)->schedule.placement, ElementsAre(ElementsAre(0, 1), ElementsAre(1, 0)));
}

TEST(ParseSchedule, MessageDrivenAndAsynchronous) {
  constexpr char kDriven[] =
      "weft schedule 1\nranks: 1\nmicrobatches: 2\nlane 0: 0\nmessage-driven: backward-first\nlimit: 1\n"
      "rank 0: F0.0 F0.1 B0.0 B0.1\n";
  const absl::StatusOr<NamedSchedule> driven = ParseSchedule(kDriven);
  ASSERT_TRUE(driven.ok()) << driven.status();
  EXPECT_EQ(driven->schedule.message_driven->rule, MessageDriven::Rule::kBackwardFirst);
  EXPECT_EQ(FormatSchedule(*driven), kDriven);

  constexpr char kAhead[] =
      "weft schedule 1\nranks: 2\nmicrobatches: 1\nlane 0: 0 1\nupdate-every: 1\nversions: 2 1\nuses: newest\n"
      "rank 0: +F0.0 B0.0\nrank 1: F1.0 B1.0\n";
  const absl::StatusOr<NamedSchedule> ahead = ParseSchedule(kAhead);
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  EXPECT_EQ(ahead->schedule.order[0][0].ahead, 1);
  EXPECT_EQ(FormatSchedule(*ahead), kAhead);
}

TEST(ParseSchedule, NamesLineAndColumn) {
  auto with = [](absl::string_view from, absl::string_view to) {
    return Error(absl::StrReplaceAll(kTiny, {{from, to}}));
  };
  EXPECT_EQ(with("weft schedule 1", "weft schedule 2"),
            "line 2, column 1: 'weft schedule 2'; expected 'weft schedule 1'");
  EXPECT_THAT(with("ranks:", "rangs:"), StartsWith("line 4, column 1: unknown key 'rangs'; nearest: 'ranks'; known: "));
  EXPECT_EQ(with("name: mine", "name: mine two"), "line 3, column 12: unexpected 'two'; name has one value");
  EXPECT_EQ(with("name: mine", "name: m/n"),
            "line 3, column 7: name 'm/n'; allowed: letters, digits, '.', '_' and '-'");
  EXPECT_EQ(with("name: mine", "name:"), "line 3, column 1: 'name' lacks its value");
  EXPECT_EQ(with("name: mine", "name mine"), "line 3, column 1: no ':' in 'name mine'; expected KEY: VALUE");
  EXPECT_EQ(with("name: mine", "ranks: 2"), "line 4, column 1: 'ranks' is also in line 3");
  EXPECT_EQ(with("name: mine", "  F0.0"),
            "line 3, column 3: an indented line continues a 'rank N:' line, but none is before it");
  EXPECT_EQ(with("ranks: 2", "ranks: two"),
            absl::StrCat("line 4, column 8: ranks 'two'; allowed: 1 to ", kMaxSlots / 2));
  EXPECT_EQ(with("ranks: 2", "ranks: 0"), absl::StrCat("line 4, column 8: ranks '0'; allowed: 1 to ", kMaxSlots / 2));
  EXPECT_EQ(with("ranks: 2", "ranks: 99999999999999999999"),
            absl::StrCat("line 4, column 8: ranks '99999999999999999999'; allowed: 1 to ", kMaxSlots / 2));
  EXPECT_EQ(with("ranks: 2", "ranks: 3"), "the file has no line 'rank 2:'");
  EXPECT_EQ(with("ranks: 2", "ranks: 1"), "line 9, column 1: rank 1; with 'ranks: 1' allowed: 0 to 0");
  EXPECT_EQ(with("ranks: 2\n", ""), "the file has no line 'ranks:'");
  EXPECT_EQ(with("rank 1:", "rank 00:"), "line 9, column 1: 'rank' is also in line 6");
  EXPECT_THAT(with("F0.1", "X0.1"),
              StartsWith("line 6, column 14: cannot read 'X0.1'; expected KIND STAGE . MICROBATCH"));
  EXPECT_THAT(with("F0.1", "F0"), StartsWith("line 6, column 14: cannot read 'F0'"));
  EXPECT_THAT(with("F0.1", "F0.x"), StartsWith("line 6, column 14: microbatch 'x'; allowed: 0 to "));
  EXPECT_THAT(with("F0.1", "F-1.1"), StartsWith("line 6, column 14: stage '-1'"));
  EXPECT_THAT(with("F0.1", "F0.1@9999999"), StartsWith("line 6, column 14: lane '9999999'"));
  EXPECT_THAT(with("F0.1", "F0.1-3"), HasSubstr("allowed: one microbatch, or it and the next: 1-2"));
  EXPECT_THAT(with("F0.1", "+F0.1"), HasSubstr("line 6, column 14: '+F0.1' is of the next repetition"));
  EXPECT_THAT(with("F0.1", "(F0.1"), HasSubstr("line 6, column 14: '(' is not closed in its line"));
  EXPECT_THAT(with("F0.1", "F0.1)"), HasSubstr("line 6, column 14: ')' without '('"));
  EXPECT_THAT(with("F0.0 F0.1", "(F0.0 F0.1)"), HasSubstr("a group that ends here has 2 slots; allowed: a forward F"));
  EXPECT_THAT(with("F0.0 F0.1", "(F0.0)"), HasSubstr("a group that ends here has 1 slots"));
  // Errors that concern the whole file.
  EXPECT_THAT(with("  B0.0\n", ""), HasSubstr("missing"));
  EXPECT_THAT(with("name: mine", "lane 0: 0"),
              StartsWith("line 3, column 1: lane 0 places 1 stages; expected 2 as for F1.0 in line 9, column 9"));
  EXPECT_THAT(with("name: mine", "lane 0: 1 0"),
              StartsWith("line 6, column 9, F0.0: rank 0, slot F s0 m0: stage 0 is placed"));
  EXPECT_THAT(with("name: mine", "lane 0: 0 1\nlane 1: 0 1 1"),
              StartsWith("line 3, column 1: lane 0 places 2 stages; expected 3 as in line 4 (lane 1)"));
  EXPECT_EQ(with("name: mine", absl::StrCat("name: ", std::string(100'000, 'x'))),
            "line 3, column 7: a name of 100000 characters; allowed: at most 200");
  EXPECT_THAT(with("name: mine", "lane 1: 0 1\nlane 3: 0 1"), HasSubstr("stage 0 of lane 2 has no slot"));
  EXPECT_THAT(with("name: mine", "lane 16777215: 0 1"), HasSubstr("lane 16777215 in a file of 8 slots"));
  EXPECT_THAT(with("F0.1", "F16777215.1"), HasSubstr("stage 16777215 in 1 lanes is too large for a file of 8 slots"));
  EXPECT_EQ(with("name: mine", "limit: 3"), "the file has no line 'message-driven:'");
  EXPECT_EQ(with("name: mine", "message-driven: arrival"), "the file has no line 'limit:'");
  EXPECT_THAT(with("name: mine", "message-driven: arival"), HasSubstr("message-driven 'arival'; nearest: 'arrival'"));
  EXPECT_EQ(with("name: mine", "uses: newest"), "the file has no line 'update-every:'");
}

// If the checks refuse a slot, the error gives the slot's position and its name in the file.
TEST(ParseSchedule, NamesThePlaceOfAWrongSlot) {
  auto error = [](absl::string_view rank0, absl::string_view rank1) {
    return Error(absl::StrCat("weft schedule 1\nranks: 2\nmicrobatches: 2\n\nrank 0: F0.0\n  ", rank0,
                              "\nrank 1: ", rank1, "\n"));
  };
  const char kGood[] = "F1.0 B1.0 F1.1 B1.1";
  EXPECT_EQ(error("F0.1 B0.0 B0.1", kGood), "");
  EXPECT_THAT(error("F0.1 B0.0  F0.1 B0.1", kGood),
              StartsWith("line 6, column 14, F0.1: rank 0, slot F s0 m1: runs twice"));
  EXPECT_THAT(error("F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1"),
              StartsWith("line 7, column 1, B1.1: slot B s1 m1 is missing; expected on rank 1"));
  EXPECT_THAT(error("F0.1 B0.0 B0.1 F0.2", kGood),
              StartsWith("line 6, column 18, F0.2: rank 0, slot F s0 m2: microbatches are 0 to 1"));
  EXPECT_THAT(error("F0.1 B0.0 B0.1", "B1.0 F1.0 F1.1 B1.1"),
              StartsWith("line 7, column 9, B1.0: rank 1: B s1 m0 comes before"));
  EXPECT_THAT(error("B0.0 F0.1 B0.1", "F1.0 F1.1 B1.1 B1.0"),
              StartsWith("line 6, column 3, B0.0: deadlock: B s0 m0 (rank 0) waits for "));
  EXPECT_THAT(Error("weft schedule 1\nranks: 1\nmicrobatches: 1\nlane 0: 0\nlane 1: 0\nrank 0: F0.0@1 B0.0\n"),
              StartsWith("line 6, column 16, B0.0: rank 0, slot B l0 s0 m0: microbatch 0 is in lane 1 elsewhere"));
}

TEST(ParseSchedule, AlmostTheTextForm) {
  EXPECT_EQ(Error("# mine\nWeft schedule 1\nranks: 1\n"),
            "line 2, column 1: 'Weft schedule 1'; expected 'weft schedule 1'");
  for (const char* text : {"ranks: 2\nmicrobatches: 2\n", "wfet schedule 1\n", "schedule 1\nranks: 1\n"}) {
    EXPECT_THAT(Error(text), HasSubstr("begins with a line 'weft schedule 1'")) << text;
  }
  EXPECT_THAT(Error("0F0,0B1\n"), testing::Not(HasSubstr("weft schedule 1")));
  EXPECT_THAT(Error(""), StartsWith("the file is empty; expected 'weft schedule 1'"));
  EXPECT_THAT(Error(" \n\n"), StartsWith("the file has only blank lines"));
}

// Every registered schedule survives the round trip unchanged, at several sizes and parameters.
TEST(FormatSchedule, RoundTrip) {
  int seen = 0;
  for (const ScheduleEntry& entry : Schedules()) {
    bool any = false;
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (int microbatches = 1; microbatches <= 24; ++microbatches) {
        for (Scaling scaling : {Scaling::kConcatenation, Scaling::kForwardDoubling, Scaling::kBackwardHalving}) {
          const ScheduleParams params = {.ranks = ranks, .microbatches = microbatches, .scaling = scaling};
          const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(entry, params);
          if (!schedule.ok()) continue;
          SCOPED_TRACE(absl::StrCat(entry.name, " P=", ranks, " N=", microbatches));
          any = true;
          ++seen;
          const NamedSchedule named = {std::string(entry.name), *schedule, microbatches, {}};
          const std::string text = FormatSchedule(named);
          const absl::StatusOr<NamedSchedule> read = ParseSchedule(text);
          ASSERT_TRUE(read.ok()) << read.status() << "\n" << text;
          EXPECT_EQ(read->name, entry.name);
          EXPECT_EQ(read->microbatches, microbatches);
          ExpectSame(read->schedule, *schedule);
          EXPECT_EQ(FormatSchedule(*read), text);

          // The same round trip through PyTorch's form, if it can express the schedule.
          const absl::StatusOr<ActionLists> lists = ToActionLists(*schedule, microbatches);
          if (!lists.ok()) continue;
          const absl::StatusOr<CsvSchedule> csv = ParsePytorchCsv(*FormatPytorchCsv(*lists));
          ASSERT_TRUE(csv.ok()) << csv.status();
          if (schedule->lanes == 1) ExpectSame(csv->schedule, *schedule);
          EXPECT_EQ(csv->lists.order, lists->order);
        }
      }
    }
    EXPECT_TRUE(any) << entry.name;
  }
  EXPECT_GT(seen, 0);
}

TEST(ScheduleFromDefinition, AgreesWithWhatIsAsked) {
  auto error = [](const ScheduleParams& params) {
    return std::string(ScheduleFromDefinition(kTiny, params).status().message());
  };
  EXPECT_EQ(error({.ranks = 2, .microbatches = 2}), "");
  EXPECT_EQ(error({.ranks = 4, .microbatches = 2}), "the schedule is for 2 ranks, but 4 are asked for");
  EXPECT_EQ(error({.ranks = 2, .microbatches = 8}), "the schedule is for 2 microbatches, but 8 are asked for");
  EXPECT_EQ(error({.ranks = 2, .microbatches = 2, .waves = 1}), "a schedule that is given by its lists takes no waves");
}

TEST(CheckDefinitionName, AKnownNameIsNoNameForAnother) {
  EXPECT_THAT(std::string(CheckDefinitionName("gpipe", kTiny).message()),
              HasSubstr("the name 'gpipe' belongs to a known schedule, but a definition is given too, whose name is"));
  EXPECT_TRUE(CheckDefinitionName("other", kTiny).ok());
  EXPECT_TRUE(CheckDefinitionName("", kTiny).ok());
  EXPECT_TRUE(CheckDefinitionName("gpipe", "").ok());
  EXPECT_TRUE(CheckDefinitionName("gpipe", absl::StrReplaceAll(kTiny, {{"name: mine", "name: gpipe"}})).ok());
}

}  // namespace
}  // namespace weft
