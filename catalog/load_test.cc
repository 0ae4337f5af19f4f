#include "catalog/load.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "catalog/catalog.h"
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

TEST(LoadRuntime, EveryRuntimeOfTheCatalogIsValidAndNamesItsSource) {
  const std::vector<std::string> names = CatalogNames("runtimes");
  EXPECT_GE(names.size(), 15u);
  for (const std::string& name : names) {
    const absl::StatusOr<Runtime> runtime = LoadRuntime(name);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    EXPECT_EQ(runtime->name(), name);
    EXPECT_FALSE(runtime->source().empty()) << name;
    EXPECT_TRUE(runtime->base().empty()) << name;
  }
}

TEST(LoadRuntime, WeftChangesNothingButLaunches) {
  const absl::StatusOr<Runtime> weft = LoadRuntime("weft");
  ASSERT_TRUE(weft.ok()) << weft.status();
  EXPECT_FALSE(weft->has_plan() || weft->has_host() || weft->has_memory() || weft->kernels_size() > 0 ||
               weft->sums_under_backward() || weft->gathers_under_forward() || weft->tensor_pieces() > 0);
  // Only weft's own kernels join steps, and only on devices of compute capability 8.0 or later.
  EXPECT_EQ(weft->joins_from_compute_capability(), 80);
  for (const std::string& name : CatalogNames("runtimes")) {
    const absl::StatusOr<Runtime> runtime = LoadRuntime(name);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    EXPECT_EQ(runtime->joins_from_compute_capability() > 0, name == "weft") << name;
  }
}

TEST(LoadRuntime, ABaseIsPartOfIt) {
  const absl::StatusOr<Runtime> own = LoadRuntime("megatron-2022");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->plan().attention(), MATERIALIZED);
  EXPECT_TRUE(own->plan().overlap().all_reduce());
}

TEST(LoadRuntime, MegatronWithoutAYearIsMegatronCore) {
  absl::StatusOr<Runtime> named = LoadRuntime("megatron");
  const absl::StatusOr<Runtime> core = LoadRuntime("megatron-core");
  ASSERT_TRUE(named.ok()) << named.status();
  ASSERT_TRUE(core.ok()) << core.status();
  named->set_name(core->name());
  named->set_source(core->source());
  EXPECT_EQ(named->SerializeAsString(), core->SerializeAsString());
}

TEST(LoadRuntime, ErrorsNameWhatIsWrong) {
  EXPECT_THAT(std::string(LoadRuntime("megatron-cor").status().message()), HasSubstr("'megatron-core'"));
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/own.textproto";
  std::ofstream(path) << "name: \"own\" base: \"megatron-cor\"";
  EXPECT_THAT(std::string(LoadRuntime(path).status().message()), HasSubstr("own.textproto: runtime.base"));
  std::ofstream(path) << "name: \"own\" tensor_pieces: -1";
  EXPECT_THAT(std::string(LoadRuntime(path).status().message()),
              HasSubstr("own.textproto: runtime.tensor_pieces = -1 must be at least 0"));
  std::ofstream(path) << R"({"name": "own", "base": "deepspeed", "tensor_pieces": 2})";
  const absl::StatusOr<Runtime> json = LoadRuntime(path);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->tensor_pieces(), 2);
  EXPECT_TRUE(json->sums_under_backward());
}

}  // namespace
}  // namespace weft
