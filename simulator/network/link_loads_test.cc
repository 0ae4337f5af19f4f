#include "simulator/network/link_loads.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using Loads = std::vector<std::pair<int32_t, int32_t>>;

TEST(LinkLoads, AddUpInOrderOfLinksAndBeginAnew) {
  LinkLoads loads(6);
  loads.Add(std::vector<int32_t>{4, 1}, 2);
  loads.Add(std::vector<int32_t>{1, 0}, 3);
  EXPECT_EQ(loads.Take(), (Loads{{0, 3}, {1, 5}, {4, 2}}));
  EXPECT_EQ(loads.Take(), Loads{});
  loads.Add(std::vector<int32_t>{5}, 1);
  loads.Clear();
  loads.Add(std::vector<int32_t>{2}, 1);
  EXPECT_EQ(loads.Take(), (Loads{{2, 1}}));
}

TEST(LinkLoads, Saturate) {
  LinkLoads loads(1);
  for (int i = 0; i < 3; ++i) loads.Add(std::vector<int32_t>{0}, INT32_MAX);
  EXPECT_EQ(loads.Take(), (Loads{{0, INT32_MAX}}));
}

}  // namespace
}  // namespace weft::sim
