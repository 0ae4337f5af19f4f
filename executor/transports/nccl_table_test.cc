#include "executor/transports/nccl_table.h"

#include <cstring>

#include "absl/strings/str_split.h"
#include "executor/platform/shared_library.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#ifdef WEFT_HAVE_NCCL_H
#include <nccl.h>
#endif

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

#ifdef WEFT_HAVE_NCCL_H
static_assert(kNcclSuccess == ncclSuccess && kNcclInvalidArgument == ncclInvalidArgument &&
              kNcclInvalidUsage == ncclInvalidUsage && kNcclRemoteError == ncclRemoteError &&
              kNcclInProgress == ncclInProgress);
static_assert(kNcclUint8 == ncclUint8 && kNcclFloat16 == ncclFloat16 && kNcclFloat32 == ncclFloat32 &&
              kNcclFloat64 == ncclFloat64 && kNcclBfloat16 == ncclBfloat16 && kNcclSum == ncclSum);
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && kNcclUndefined == NCCL_CONFIG_UNDEF_INT);

// Fields that are set by name are where NCCL looks for them, and all others have the values of NCCL's initializer.
TEST(NcclTableTest, TheConfigurationIsThatOfTheHeader) {
  ASSERT_LE(sizeof(NcclConfig), sizeof(ncclConfig_t));
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  NcclConfig ours;
  ours.blocking = theirs.blocking = 0;
  ours.min_ctas = theirs.minCTAs = 1;
  ours.max_ctas = theirs.maxCTAs = 4;
  ours.comm_name = theirs.commName = "name";
  ours.size = theirs.size;
  ours.version = theirs.version;
  EXPECT_EQ(std::memcmp(&ours, &theirs, sizeof ours), 0);
}
#endif

TEST(NcclTableTest, OldVersionsAreRefused) {
  EXPECT_TRUE(CheckNcclVersion(22800).ok());
  EXPECT_TRUE(CheckNcclVersion(22809).ok());
  EXPECT_TRUE(CheckNcclVersion(23007).ok());
  EXPECT_EQ(CheckNcclVersion(22605).message(),
            "NCCL 2.26.5 is not supported; allowed: 2.28 and later 2.x; weft was tried with 2.28.9");
  EXPECT_THAT(std::string(CheckNcclVersion(2804).message()), HasSubstr("NCCL 2.8 is not supported;"));
  EXPECT_FALSE(CheckNcclVersion(30000).ok());
  EXPECT_FALSE(CheckNcclVersion(0).ok());
}

// The library starts, reports its version and makes ids where there is no GPU, or its absence is reported in one line.
TEST(NcclTableTest, TheLibraryOpensOrIsMissedInOneLine) {
  SetLibraryPath(absl::StrSplit(WEFT_CUDA_LIBRARY_PATH, ':', absl::SkipEmpty()));
  const absl::StatusOr<const NcclTable*> table = OpenNcclTable();
  if (!table.ok()) {
    EXPECT_EQ(table.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(table.status().message()), HasSubstr("transport 'nccl': "));
    EXPECT_EQ(std::string(table.status().message()).find('\n'), std::string::npos);
#ifdef WEFT_HAVE_NCCL_H
    FAIL() << "its header is there, the library is not: " << table.status();
#endif
    return;
  }
  EXPECT_GE((*table)->version, kNcclOldestVersion);
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "0");
  // Ids need a network interface; the loopback one will do.
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  NcclId first = {}, second = {};
  ASSERT_EQ((*table)->get_unique_id(&first), kNcclSuccess) << (*table)->get_last_error(nullptr);
  ASSERT_EQ((*table)->get_unique_id(&second), kNcclSuccess);
  EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
  EXPECT_THAT((*table)->get_error_string(kNcclInvalidUsage), HasSubstr("usage"));
}

}  // namespace
}  // namespace weft::exec
