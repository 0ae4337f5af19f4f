#include "catalog/load_cluster.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::string Message(const std::string& name) { return std::string(LoadCluster(name).status().message()); }

TEST(LoadCluster, FromTheCatalogOrAFile) {
  const auto known = LoadCluster("dgx-a100-80g");
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->name(), "dgx-a100-80g");
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/mine.textproto";
  std::ofstream(path) << known->DebugString();
  const auto mine = LoadCluster(path);
  ASSERT_TRUE(mine.ok()) << mine.status();
  EXPECT_EQ(mine->SerializeAsString(), known->SerializeAsString());
}

TEST(LoadCluster, ErrorsNameTheFileAndTheNearestName) {
  EXPECT_THAT(Message("dgx-a100-80"), HasSubstr("dgx-a100-80g"));
  EXPECT_EQ(Message("dgx-h100.textproto"), "dgx-h100.textproto: cannot open: No such file or directory");
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/bad.textproto";
  std::ofstream(path) << "name: 'x' nodes: -1";
  EXPECT_THAT(Message(path), HasSubstr(path + ": "));
  EXPECT_THAT(Message(path + "-missing"), HasSubstr("No such file"));
}

}  // namespace
}  // namespace weft
