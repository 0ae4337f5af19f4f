// Tests which messages are allowed, over all small sizes.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/parse_text.h"
#include "verifier/actions.h"
#include "verifier/testing/stages_testing.h"

namespace weft::verify {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Findings for one action of the first stage, on a mesh of 3 data and 2 pipe ranks. The buffer 'from' has `from`
// numbers, and the buffer 'to' has `to` numbers.
std::vector<std::string> Found(const std::string& action, int from = 3, int to = 3, const VerifyOptions& options = {}) {
  const Program program = Parse<Program>(absl::StrCat(
      "stages: 2 microbatches: 1 mesh { axes { name: 'data' size: 3 } axes { name: 'pipe' size: 2 } } ",
      "templates { name: 'first' pins { axis: 'pipe' index: 0 } buffers { name: 'from' dtype: FP32 shape: ", from,
      " bytes: ", 4 * from, " } buffers { name: 'to' dtype: FP32 shape: ", to, " bytes: ", 4 * to,
      " } body { id: 0 name: 'act' ", action, " } }"));
  Findings findings(20);
  CheckActions(program, options, &findings);
  return Texts(std::move(findings));
}

std::string Collective(const std::string& kind) {
  return "kind: " + kind +
         " purpose: GRADIENT_SYNC algorithm: 'ring' sources: 0 destinations: 1 group { axes { axis: 'data' } }";
}

// With three members, 'to' must have the same number of elements as 'from', three times that number, or a third of it.
TEST(ActionMessages, SizesGoTogether) {
  for (int from = 1; from <= 12; ++from) {
    for (int to = 1; to <= 12; ++to) {
      const std::string what = absl::StrCat(from, " to ", to);
      const auto expect = [&](const std::string& kind, bool fits) {
        if (fits) {
          EXPECT_THAT(Found(Collective(kind), from, to), IsEmpty()) << kind << " " << what;
        } else {
          EXPECT_THAT(Found(Collective(kind), from, to), ElementsAre(HasSubstr("P4.shape"))) << kind << " " << what;
        }
      };
      expect("ALL_REDUCE", to == from);
      expect("ALL_GATHER", to == 3 * from);
      expect("REDUCE_SCATTER", from == 3 * to);
    }
  }
}

TEST(ActionMessages, OnlyAnAllReduceIsInPlace) {
  const auto in_place = [](const std::string& kind) {
    return Found("kind: " + kind + " purpose: GRADIENT_SYNC algorithm: 'ring' sources: 0 destinations: 0 group { }");
  };
  EXPECT_THAT(in_place("ALL_REDUCE"), IsEmpty());
  EXPECT_THAT(in_place("ALL_GATHER"), Contains(HasSubstr("P4.buffers")));
  EXPECT_THAT(in_place("REDUCE_SCATTER"), Contains(HasSubstr("P4.buffers")));
}

TEST(ActionMessages, AlgorithmsAreKnownWhereThereIsAList) {
  VerifyOptions options;
  EXPECT_THAT(Found(Collective("ALL_REDUCE"), 3, 3, options), IsEmpty());
  options.algorithms = {"ring", "direct"};
  EXPECT_THAT(Found(Collective("ALL_REDUCE"), 3, 3, options), IsEmpty());
  options.algorithms = {"rings", "direct"};
  EXPECT_THAT(Found(Collective("ALL_REDUCE"), 3, 3, options),
              ElementsAre(::testing::AllOf(HasSubstr("P10.algorithm"), HasSubstr("'rings'"))));
}

TEST(ActionMessages, APeerIsAnotherRankOnAxesThatArePinned) {
  const auto to = [](const std::string& at) {
    return Found("kind: SEND direction: TOWARDS_LOSS sources: 0 peer { " + at + " }");
  };
  EXPECT_THAT(to("at { axis: 'pipe' index: 1 }"), IsEmpty());
  EXPECT_THAT(to("at { axis: 'pipe' index: 0 }"), ElementsAre(HasSubstr("names its own rank as the peer")));
  EXPECT_THAT(to("at { axis: 'pipe' index: 2 }"), ElementsAre(HasSubstr("beyond the axis")));
  EXPECT_THAT(to("at { axis: 'data' index: 1 } at { axis: 'pipe' index: 1 }"),
              ElementsAre(HasSubstr("axis data, which the template does not pin")));
}

}  // namespace
}  // namespace weft::verify
