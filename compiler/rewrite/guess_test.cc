#include "compiler/rewrite/guess.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

std::string Compute(int id, const char* kind, int stage, int microbatch, const std::string& deps = "") {
  return absl::StrCat("body { id: ", id, " kind: ", kind, " stage: ", stage, " microbatch: ", microbatch, " ", deps,
                      " } ");
}
std::string Transfer(int id, const char* kind, int stage, int microbatch, const std::string& fields = "") {
  return Compute(id, kind, stage, microbatch, absl::StrCat("direction: TOWARDS_LOSS ", fields));
}
std::string After(int id, int distance = 0) {
  return absl::StrCat("deps { action: ", id, " distance: ", distance, " } ");
}

// Rank 0 begins three forwards before its first backward, and sends the result of each. Rank 1 begins one. `waits`
// holds further dependencies of rank 0's second forward.
Program TwoRanks(const std::string& waits = "") {
  return Parse<Program>(absl::StrCat(
      "templates { ", Compute(0, "FORWARD", 0, 0), Transfer(1, "SEND", 0, 0, After(0)),
      Compute(2, "FORWARD", 0, 1, waits), Transfer(3, "SEND", 0, 1, After(2)), Compute(4, "FORWARD", 0, 2),
      Transfer(5, "SEND", 0, 2, After(4)), Compute(6, "BACKWARD", 0, 0), "body { id: 7 kind: ALL_REDUCE } } ",
      "templates { ", Transfer(0, "RECV", 1, 0), Compute(1, "FORWARD", 1, 0, After(0)), Compute(2, "BACKWARD", 1, 0),
      Transfer(3, "RECV", 1, 1), Compute(4, "FORWARD", 1, 1, After(3)), " }"));
}

TEST(GuessTest, ForwardsThatBeginWhenTheLastRankDoes) {
  // The last rank begins its first forward when rank 0 begins its second. At that time the result of rank 0's second
  // forward is not sent yet.
  const auto guess = GuessOf(TwoRanks());
  ASSERT_EQ(guess.size(), 2u);
  EXPECT_THAT(guess[0], ElementsAre(true, true, true, false, false, false, false, false));
  EXPECT_THAT(guess[1], ElementsAre(true, true, false, false, false));
}

TEST(GuessTest, AForwardThatWaitsForTheStepIsNotInIt) {
  EXPECT_THAT(GuessOf(TwoRanks(After(7)))[0], ElementsAre(true, true, false, false, false, false, false, false));
  // The second forward may wait for an action of the previous repetition.
  EXPECT_THAT(GuessOf(TwoRanks(After(7, 1)))[0], ElementsAre(true, true, true, false, false, false, false, false));
}

TEST(GuessTest, NoGuessForATensorThatCannotBeReceivedYet) {
  Program program = TwoRanks();
  // Rank 1's receive waits for rank 1's backward.
  *program.mutable_templates(1)->mutable_body(0)->add_deps() = Parse<Dependency>("action: 2");
  const auto guess = GuessOf(program);
  EXPECT_THAT(guess[0], ElementsAre(true, false, true, false, false, false, false, false));
  EXPECT_THAT(guess[1], ElementsAre(false, false, false, false, false));
}

TEST(GuessTest, GroupsOfTransfersAreWhole) {
  const Program program = Parse<Program>(
      absl::StrCat("templates { ", Compute(0, "FORWARD", 0, 0), Compute(1, "FORWARD", 0, 1),
                   Transfer(2, "SEND", 0, 0, "transfer_group: 1 " + After(0)),
                   Transfer(3, "SEND", 0, 1, "transfer_group: 1 " + After(1)), " } templates { ",
                   Transfer(0, "RECV", 1, 0, "transfer_group: 1 "), Transfer(1, "RECV", 1, 1, "transfer_group: 1 "),
                   Compute(2, "FORWARD", 1, 0, After(0)), Compute(3, "BACKWARD", 1, 0), " }"));
  const auto guess = GuessOf(program);
  EXPECT_THAT(guess[0], ElementsAre(true, true, true, true));
  EXPECT_THAT(guess[1], ElementsAre(true, true, true, false));
}

}  // namespace
}  // namespace weft
