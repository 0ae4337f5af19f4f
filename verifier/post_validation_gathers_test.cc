// Tests rule P15.gather on handwritten lists: gathers after an update that may be taken back.
#include "verifier/post_validation_gathers.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::verify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Gathers 9 and 10 follow optimizer 8. Gathers 3 and 4 of the repair, after optimizer 2, repeat them, and so do gathers
// 13 and 14 of the epilogue. Forward 5 reads what 9 gathered in the previous repetition, or what 3 gathers in this one.
constexpr char kTemplate[] = R"pb(
  name: "t"
  buffers { name: "part" persistent: true }
  buffers { name: "weight" persistent: true }
  buffers { name: "moved" }
  body {
    id: 1
    kind: VALIDATE
    deps { action: 9 distance: 1 }
    deps { action: 10 distance: 1 }
  }
  body { id: 2 kind: OPTIMIZER_STEP }
  body {
    id: 3
    name: "first again"
    kind: ALL_GATHER
    if_exceeded: true
    sources: 0
    destinations: 1
    deps { action: 1 }
    deps { action: 2 }
  }
  body {
    id: 4
    kind: ALL_GATHER
    if_exceeded: true
    algorithm: "ring"
    sources: 0
    destinations: 1
    deps { action: 2 }
    deps { action: 1 }
  }
  body {
    id: 5
    kind: FORWARD
    deps { action: 9 distance: 1 }
    deps { action: 3 }
  }
  body { id: 8 kind: OPTIMIZER_STEP }
  body {
    id: 9
    kind: ALL_GATHER
    sources: 0
    destinations: 1
    deps { action: 8 }
  }
  body {
    id: 10
    kind: ALL_GATHER
    algorithm: "ring"
    sources: 0
    destinations: 1
    deps { action: 8 }
  }
  epilogue {
    id: 11
    kind: VALIDATE
    deps { action: 9 }
    deps { action: 10 }
  }
  epilogue { id: 12 kind: OPTIMIZER_STEP }
  epilogue {
    id: 13
    kind: ALL_GATHER
    sources: 0
    destinations: 1
    deps { action: 11 }
    deps { action: 12 }
  }
  epilogue {
    id: 14
    kind: ALL_GATHER
    algorithm: "ring"
    sources: 0
    destinations: 1
    deps { action: 11 }
    deps { action: 12 }
  })pb";

class PostValidationGathersTest : public testing::Test {
 protected:
  Action& Get(int id) {
    for (auto* list : {t_.mutable_body(), t_.mutable_epilogue()}) {
      for (Action& action : *list) {
        if (action.id() == id) return action;
      }
    }
    ADD_FAILURE() << "no action " << id;
    return *t_.mutable_body(0);
  }

  // Returns the messages of the findings, all of which must be of P15.gather.
  std::vector<std::string> Find() {
    PostValidationLists lists;
    lists.body = {.validate = &Get(1), .optimizer = &Get(2), .gathers = {&Get(3), &Get(4)}};
    lists.again = {&Get(5)};
    lists.optimizer = &Get(8);
    lists.rest = {&Get(8), &Get(9), &Get(10)};
    lists.gathers = {&Get(9), &Get(10)};
    lists.epilogue = {.validate = &Get(11), .optimizer = &Get(12), .gathers = {&Get(13), &Get(14)}};
    if (without_last_) lists.epilogue.gathers.pop_back();
    Findings findings(10);
    CheckGathersAgain(t_, lists, &findings);
    std::vector<std::string> messages;
    for (const Finding& finding : findings.Take()) {
      EXPECT_EQ(finding.rule, "P15.gather");
      messages.push_back(finding.message);
    }
    return messages;
  }

  Template t_ = Parse<Template>(kTemplate);
  bool without_last_ = false;
};

TEST_F(PostValidationGathersTest, AllIsGatheredAgain) {
  EXPECT_THAT(Find(), IsEmpty());
  // The content of a gather does not include its id, its name, its dependencies or its condition.
  Get(3).set_if_exceeded(false);
  Get(13).set_name("another");
  Get(13).add_deps()->set_action(10);
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(PostValidationGathersTest, AsManyAsThereAre) {
  without_last_ = true;
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("is followed by 1 ALL_GATHERs of weights; the optimizer by 2")));
}

TEST_F(PostValidationGathersTest, TheSameInTheSameOrder) {
  const Template good = t_;
  const std::vector<std::function<void()>> edits = {
      [&] { Get(4).set_algorithm("direct"); },
      [&] { Get(4).set_destinations(0, 2); },
      [&] { Get(14).mutable_group()->add_axes()->set_axis("data"); },
      [&] { Get(14).set_purpose(GATHER_WEIGHTS); },
  };
  for (size_t i = 0; i < edits.size(); ++i) {
    SCOPED_TRACE(i);
    t_ = good;
    edits[i]();
    EXPECT_THAT(Find(), ElementsAre(HasSubstr(" again")));
  }
  // The two gathers of the epilogue are in the other order.
  t_ = good;
  Get(13).set_algorithm("ring");
  Get(14).clear_algorithm();
  EXPECT_THAT(Find(), ElementsAre(HasSubstr(" again"), HasSubstr(" again")));
}

TEST_F(PostValidationGathersTest, BuffersThatAreReadAgainAreNotReleased) {
  Get(9).add_releases(0);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("releases a buffer that is read again"),
                                  HasSubstr("releases a buffer that is read again")));
  Get(9).clear_releases();
  for (int id : {4, 10, 14}) Get(id).set_sources(0, 2);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("which is not persistent"), HasSubstr("which is not persistent")));
}

// Each of these dependencies is needed: if it is removed, the missing wait is the only finding.
TEST_F(PostValidationGathersTest, EachWaitIsNeeded) {
  const Template good = t_;
  for (int id : {1, 3, 4, 5, 11, 13, 14}) {
    for (int dep = 0; dep < 2; ++dep) {
      if (id == 5 && dep == 0) continue;
      SCOPED_TRACE(testing::Message() << "dependency " << dep << " of action " << id);
      t_ = good;
      Get(id).mutable_deps()->DeleteSubrange(dep, 1);
      EXPECT_THAT(Find(),
                  ElementsAre(HasSubstr(id == 5 ? "it must wait for action 3 at distance 0" : "does not wait for")));
    }
  }
  // VALIDATE now waits for the gather of this repetition, not for the gather that it validates.
  t_ = good;
  Get(1).mutable_deps(1)->clear_distance();
  EXPECT_THAT(Find(), ElementsAre(AllOf(HasSubstr("does not wait for"), HasSubstr("at distance 1"))));
}

TEST_F(PostValidationGathersTest, ReadersOfOlderWeightsWaitForTheirRepair) {
  Get(5).mutable_deps(0)->set_distance(2);
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("it must wait for action 3 at distance 1")));
  Get(5).mutable_deps(1)->set_distance(1);
  EXPECT_THAT(Find(), IsEmpty());
  // An action that waits for no gather, or only for one of this repetition, need not wait for a repeated gather.
  Get(5).clear_deps();
  Get(5).add_deps()->set_action(9);
  EXPECT_THAT(Find(), IsEmpty());
}

}  // namespace
}  // namespace weft::verify
