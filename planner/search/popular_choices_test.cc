#include "planner/search/popular_choices.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

// Returns the kinds that include the plan, on nodes of 8 devices.
std::vector<std::string> KindsOf(const std::string& plan) {
  std::vector<std::string> kinds;
  for (const PopularChoice& choice : PopularChoices()) {
    if (choice.includes(Parse<Plan>(plan), 8)) kinds.emplace_back(choice.name);
  }
  return kinds;
}

TEST(PopularChoices, EachPlanIsOfOneKindAtMost) {
  using testing::ElementsAre;
  const std::string data = "axes { name: 'data' size: 16 } ", x = "axes { name: 'x' size: 8 } ";
  const std::string pipe = "axes { name: 'pipe' size: 2 } ";
  EXPECT_THAT(KindsOf("mesh { " + data + "}"), ElementsAre("replicas alone"));
  EXPECT_THAT(KindsOf("mesh { " + data + "axes { name: 'pipe' size: 1 } }"), ElementsAre("replicas alone"));
  EXPECT_THAT(KindsOf("mesh { " + data + "} zero { stage: 3 }"), ElementsAre("ZeRO 3 alone"));
  EXPECT_THAT(KindsOf("mesh { " + x + data + "} zero { stage: 1 }"),
              ElementsAre("tensor parallelism in each node, replicas across"));
  EXPECT_THAT(KindsOf("mesh { " + x + pipe + data + "}"),
              ElementsAre("tensor parallelism in each node, a pipeline across"));
  EXPECT_THAT(KindsOf("mesh { " + x + data + "} zero { stage: 3 }"), ElementsAre());
  EXPECT_THAT(KindsOf("mesh { axes { name: 'x' size: 4 } " + data + "}"), ElementsAre());
  EXPECT_THAT(KindsOf("mesh { " + pipe + data + "}"), ElementsAre());
  EXPECT_THAT(KindsOf(""), ElementsAre());
}

}  // namespace
}  // namespace weft::planner
