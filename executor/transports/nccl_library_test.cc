// Tests NCCL itself where there is no GPU: it takes our configuration, fails, and says why, and nothing hangs.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_split.h"
#include "executor/platform/shared_library.h"
#include "executor/transports/nccl_communicators.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

TEST(NcclLibraryTest, WithoutAGpuOneLineSaysSo) {
  SetLibraryPath(absl::StrSplit(WEFT_CUDA_LIBRARY_PATH, ':', absl::SkipEmpty()));
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const auto table = OpenNcclTable();
  if (!table.ok()) GTEST_SKIP() << table.status();
  auto hosts = *(*FindTransport("inproc"))->open(1);
  NcclCommunicators communicators(**table, *hosts[0]);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = communicators.Make({{{0}, "weft test", false}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  if (status.ok()) {
    communicators.Finish(std::chrono::seconds(10));
    GTEST_SKIP() << "there is a GPU: nccl_gpu_test";
  }
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0: NCCL communicator 'weft test' of rank 0: cannot be made: "));
  EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
  // The message does not complain about our arguments, so NCCL accepts the configuration.
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("invalid argument")));
  communicators.Abort();
  EXPECT_EQ(communicators.size(), 0u);
}

}  // namespace
}  // namespace weft::exec
