#include "planner/search/profile_cache.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/profile_cache.pb.h"

namespace weft::planner {
namespace {

BlockProfile SomeProfile(int64_t first_figure) {
  BlockProfile profile;
  for (const int32_t layers : {1, 12}) {
    RunCosts& run = profile.runs.emplace_back();
    run.run = {.first = static_cast<int32_t>(profile.runs.size()) - 1, .layers = layers};
    run.first.forward = first_figure++;
    run.further.optimizer_bytes = first_figure++;
    run.less_if_sharded.backward_weight = first_figure++;
  }
  profile.saved_by_joining.step = first_figure++;
  profile.activation_bytes = first_figure++;
  profile.gradient_bytes = first_figure;
  return profile;
}

// Records hold every figure, so profiles with equal records are equal.
void ExpectEqual(const CachedProfile* found, const CachedProfile& expected) {
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(ProfileRecord("k", *found), ProfileRecord("k", expected));
}

class ProfileCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::string(std::getenv("TEST_TMPDIR")) + "/cache/" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  SearchContext Context(const std::string& network = "analytic") const {
    return {.model = model_, .cluster = cluster_, .cost = "roofline", .network = network};
  }
  // Returns the only file of the cache.
  std::string Path() const { return std::filesystem::directory_iterator(folder_)->path(); }

  const ModelGraph model_ = *LoadModel("gpt2-tiny");
  const Cluster cluster_ = *LoadCluster("dgx-a100-80g");
  std::string folder_;
};

TEST_F(ProfileCacheTest, KeepsProfilesAndRefusals) {
  const CachedProfile refused = absl::InvalidArgumentError("8 heads cannot be cut into 3");
  {
    const ProfileCache cache(folder_, Context());
    EXPECT_EQ(cache.Find("a"), nullptr);
    cache.Store("a", SomeProfile(100));
    cache.Store("b", refused);
    cache.Store("a", SomeProfile(200));
    BlockProfile whole = SomeProfile(300);
    whole.halves = absl::UnimplementedError("no halves");
    whole.sharded = absl::FailedPreconditionError("no shards");
    cache.Store("d", whole);
  }
  const ProfileCache cache(folder_, Context());
  ExpectEqual(cache.Find("a"), SomeProfile(200));
  ASSERT_NE(cache.Find("b"), nullptr);
  EXPECT_EQ(cache.Find("b")->status(), refused.status());
  EXPECT_EQ(cache.Find("c"), nullptr);
  ASSERT_NE(cache.Find("d"), nullptr);
  ASSERT_TRUE(cache.Find("d")->ok());
  EXPECT_EQ((**cache.Find("d")).halves, absl::UnimplementedError("no halves"));
  EXPECT_EQ((**cache.Find("d")).sharded, absl::FailedPreconditionError("no shards"));
}

TEST_F(ProfileCacheTest, AnotherNetworkHasOtherProfiles) {
  ProfileCache(folder_, Context()).Store("a", SomeProfile(100));
  EXPECT_EQ(ProfileCache(folder_, Context("flow")).Find("a"), nullptr);
}

// Whatever a killed process left at the end of the file, the cache reads the whole records before it, and later reads
// what is stored after it.
TEST_F(ProfileCacheTest, ADamagedEndIsCutOff) {
  const std::string first = ProfileRecord("a", SomeProfile(1)), second = ProfileRecord("b", SomeProfile(2));
  ProfileCache(folder_, Context()).Store("a", SomeProfile(1));
  const std::string path = Path();
  for (size_t length = 0; length < second.size(); length += 7) {
    ASSERT_TRUE(WriteFileAtomic(path, first + second.substr(0, length)).ok());
    const ProfileCache cache(folder_, Context());
    ExpectEqual(cache.Find("a"), SomeProfile(1));
    EXPECT_EQ(cache.Find("b"), nullptr);
    cache.Store("c", SomeProfile(3));
    const ProfileCache again(folder_, Context());
    ExpectEqual(again.Find("a"), SomeProfile(1));
    ExpectEqual(again.Find("c"), SomeProfile(3));
  }
}

TEST_F(ProfileCacheTest, ADamagedByteIsNoticed) {
  const std::string record = ProfileRecord("a", SomeProfile(1));
  for (size_t i = 0; i < record.size(); ++i) {
    std::string damaged = record;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_TRUE(ReadProfiles(damaged).profiles.empty()) << i;
  }
}

TEST_F(ProfileCacheTest, ThreadsStoreWholeRecords) {
  {
    const ProfileCache cache(folder_, Context());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&cache, t] {
        for (int i = 0; i < 50; ++i) cache.Store(std::to_string(t * 50 + i), SomeProfile(t));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const ProfileCache cache(folder_, Context());
  for (int i = 0; i < 200; ++i) ExpectEqual(cache.Find(std::to_string(i)), SomeProfile(i / 50));
}

TEST_F(ProfileCacheTest, AFolderThatCannotBeUsedKeepsNothing) {
  for (const char* folder : {"", "/proc/none"}) {
    const ProfileCache cache(folder, Context());
    cache.Store("a", SomeProfile(1));
    EXPECT_EQ(cache.Find("a"), nullptr);
  }
}

}  // namespace
}  // namespace weft::planner
