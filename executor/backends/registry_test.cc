#include "executor/interface/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(Backends, AreSortedAndFoundByName) {
  for (size_t i = 0; i < Backends().size(); ++i) {
    if (i > 0) {
      EXPECT_LT(Backends()[i - 1].name, Backends()[i].name);
    }
    EXPECT_EQ(FindBackend(Backends()[i].name).value(), &Backends()[i]);
    EXPECT_FALSE(Backends()[i].description.empty());
  }
  const absl::Status status = FindBackend("gpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("no backend 'gpu'; known: auto, cpu, cuda"));
}

TEST(Backends, AutoIsOneThatOpens) {
  const auto entry = FindBackend("auto");
  ASSERT_TRUE(entry.ok());
  EXPECT_TRUE((*entry)->open({}).ok());
}

TEST(Backends, CpuRunsOnTheHostDevice) {
  const BackendEntry* cpu = FindBackend("cpu").value();
  const auto device = cpu->open({});
  ASSERT_TRUE(device.ok());
  EXPECT_FALSE((*device)->asynchronous());
  EXPECT_TRUE(cpu->make(device->get(), {}).ok());
}

// Without a GPU, or without CUDA in this build, the backend is still listed and reports the reason in one line.
TEST(Backends, CudaOpensOrSaysWhyNot) {
  const BackendEntry* cuda = FindBackend("cuda").value();
  const auto device = cuda->open({});
  if (device.ok()) {
    EXPECT_EQ((*device)->name(), "cuda");
    return;
  }
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition) << device.status();
  EXPECT_THAT(std::string(device.status().message()), testing::StartsWith("backend cuda: "));
  EXPECT_THAT(std::string(device.status().message()), testing::Not(testing::HasSubstr("\n")));
  EXPECT_EQ(FindBackend("auto").value()->name, "cpu");
}

}  // namespace
}  // namespace weft::exec
