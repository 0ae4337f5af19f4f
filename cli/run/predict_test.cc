#include "cli/run/predict.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "catalog/load.h"
#include "executor/interpreter/deadlines.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/cluster_digest.h"
#include "tests/random_program.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// A program that was compiled for a cluster of the catalog.
Program OfTheCatalog() {
  Program program = RandomProgram(7);
  program.set_cluster_name("dgx-a100-80g");
  program.set_cluster_digest(ClusterDigest(*LoadCluster("dgx-a100-80g")));
  return program;
}

TEST(PredictRun, OnTheClusterOfTheProgram) {
  const Program program = OfTheCatalog();
  const auto prediction = PredictRun(program, "");
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  ASSERT_TRUE(prediction->trace.has_value());
  EXPECT_EQ(prediction->cluster, "dgx-a100-80g");
  // The prediction gives deadlines for every template.
  const auto times = exec::PredictedTimes::Make(program, *prediction->trace);
  ASSERT_TRUE(times.ok()) << times.status();
  for (int t = 0; t < program.templates_size(); ++t) {
    int64_t longest = 0;
    for (const Action& action : program.templates(t).body()) longest = std::max(longest, times->Of(t, action.id()));
    EXPECT_GT(longest, 0) << program.templates(t).name();
  }
}

TEST(PredictRun, NothingWhereTheClusterIsNotKnown) {
  Program program = OfTheCatalog();
  program.set_cluster_digest(program.cluster_digest() + 1);
  EXPECT_FALSE(PredictRun(program, "")->trace.has_value());
  program.set_cluster_name("this-machine");
  EXPECT_FALSE(PredictRun(program, "")->trace.has_value());
  EXPECT_FALSE(PredictRun(OfTheCatalog(), "none")->trace.has_value());
}

// If the user asks for a cluster, an unknown cluster and a failed prediction are errors.
TEST(PredictRun, OnTheClusterThatIsAskedFor) {
  Program program = OfTheCatalog();
  program.set_cluster_name("this-machine");
  EXPECT_EQ(PredictRun(program, "dgx-h100")->cluster, "dgx-h100");
  Cluster mine = *LoadCluster("dgx-h100");
  mine.set_name("mine");
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/mine.textproto";
  std::ofstream(path) << mine.DebugString();
  EXPECT_EQ(PredictRun(program, path)->cluster, "mine");
  EXPECT_THAT(std::string(PredictRun(program, "dgx-h10").status().message()), HasSubstr("'dgx-h100'"));
  mine.set_nodes(1);
  mine.set_devices_per_node(1);
  std::ofstream(path) << mine.DebugString();
  EXPECT_THAT(std::string(PredictRun(program, path).status().message()),
              HasSubstr("mine.textproto: cannot predict the run: "));
}

}  // namespace
}  // namespace weft
