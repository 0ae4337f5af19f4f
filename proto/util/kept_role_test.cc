#include "proto/util/kept_role.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(KeptRoleOf, OnlyOfWhatAnUpdateChanges) {
  EXPECT_EQ(KeptRoleOf(MASTER), KEPT_WEIGHT);
  EXPECT_EQ(KeptRoleOf(MOMENT2), KEPT_MOMENT2);
  for (const BufferRole role : {GRAD, NORMS, LOSSES, KEPT_WEIGHT}) EXPECT_EQ(KeptRoleOf(role), NO_ROLE);
}

}  // namespace
}  // namespace weft
