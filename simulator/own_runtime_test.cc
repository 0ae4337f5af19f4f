#include "simulator/own_runtime.h"

#include "gtest/gtest.h"
#include "proto/validate/validate_runtime.h"

namespace weft::sim {
namespace {

TEST(OwnRuntime, IsThatOfTheCatalog) {
  const absl::StatusOr<Runtime> own = OwnRuntime();
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_TRUE(Validate(*own).ok());
  EXPECT_EQ(own->name(), "weft");
  // The runtime must be complete by itself, because nothing resolves its `base`.
  EXPECT_TRUE(own->base().empty());
  EXPECT_GT(own->joins_from_compute_capability(), 0);
}

}  // namespace
}  // namespace weft::sim
