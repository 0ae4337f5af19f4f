#include "executor/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
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
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("no backend 'gpu'; known: auto, cpu"));
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

}  // namespace
}  // namespace weft
