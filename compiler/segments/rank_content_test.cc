#include "compiler/segments/rank_content.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

using Placement = std::vector<std::vector<int>>;

Holdings ValidHoldings(const Placement& placement, const std::vector<StageUses>& uses) {
  absl::StatusOr<Holdings> holdings = HoldingsOf(placement, uses);
  EXPECT_TRUE(holdings.ok()) << holdings.status();
  return holdings.ok() ? *std::move(holdings) : Holdings();
}

// Writes each tensor as "tensor:uses/computed", with * if the rank writes the norm.
std::string Text(const RankContent& rank) {
  std::string text;
  auto list = [&](const std::vector<int32_t>& numbers) {
    for (int32_t number : numbers) text += std::to_string(number);
  };
  for (const HeldTensor& held : rank.tensors) {
    if (!text.empty()) text += " ";
    text += std::to_string(held.tensor) + ":";
    list(held.uses);
    text += "/";
    list(held.computed);
    if (held.writes_norm) text += "*";
  }
  return text;
}

TEST(RankContent, OneStagePerRankSumsOverRanks) {
  // Tensor 0 is used by the first and the last stage; the others are used once each.
  Holdings holdings = ValidHoldings(OneStagePerRank(3), {{{0, {0}}, {1, {0}}}, {{2, {0}}}, {{0, {1}}}});
  EXPECT_EQ(Text(holdings.ranks[0]), "0:0/0* 1:0/0*");
  EXPECT_EQ(Text(holdings.ranks[1]), "2:0/0*");
  EXPECT_EQ(Text(holdings.ranks[2]), "0:1/1");
  EXPECT_EQ(holdings.tensors[0].sum, TiedSum::kOverRanks);
  EXPECT_EQ(holdings.tensors[0].ranks, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(holdings.tensors[1].sum, TiedSum::kOneUse);
}

TEST(RankContent, OneRankAddsItsUses) {
  // Snake: rank 0 has the first and the last stage.
  Holdings holdings = ValidHoldings({{0, 1, 1, 0}}, {{{0, {0}}}, {{1, {0}}}, {{2, {0}}}, {{0, {1}}}});
  EXPECT_EQ(holdings.ranks[0].stages, (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(Text(holdings.ranks[0]), "0:01/01*");
  EXPECT_EQ(Text(holdings.ranks[1]), "1:0/0* 2:0/0*");
  EXPECT_EQ(holdings.tensors[0].sum, TiedSum::kOneRank);
}

TEST(RankContent, EveryUseEverywhereOtherwise) {
  // Chimera: both ranks hold both stages.
  Holdings both = ValidHoldings({{0, 1}, {1, 0}}, {{{0, {0}}, {1, {0}}}, {{0, {1}}}});
  EXPECT_EQ(Text(both.ranks[0]), "0:01/01* 1:0/0*");
  EXPECT_EQ(Text(both.ranks[1]), "0:01/01 1:0/0");
  EXPECT_EQ(both.tensors[0].sum, TiedSum::kEveryUse);
  // A use with two holders does not make a tensor tied.
  EXPECT_EQ(both.tensors[1].sum, TiedSum::kOneUse);
  EXPECT_EQ(both.tensors[1].ranks, (std::vector<int32_t>{0, 1}));
  // Two uses on one stage, one on another.
  Holdings two = ValidHoldings({{0, 1}}, {{{0, {0, 1}}}, {{0, {2}}}});
  EXPECT_EQ(Text(two.ranks[0]), "0:012/01*");
  EXPECT_EQ(Text(two.ranks[1]), "0:012/2");
  // The holders differ but descend in model order. The holder of the first stage writes the norm.
  Holdings reversed = ValidHoldings({{1, 0}}, {{{0, {0}}}, {{0, {1}}}});
  EXPECT_EQ(Text(reversed.ranks[0]), "0:01/1");
  EXPECT_EQ(Text(reversed.ranks[1]), "0:01/0*");
  EXPECT_EQ(reversed.tensors[0].sum, TiedSum::kEveryUse);
  // Three uses, on two ranks in turn.
  EXPECT_EQ(ValidHoldings({{0, 1, 0}}, {{{0, {0}}}, {{0, {1}}}, {{0, {2}}}}).tensors[0].sum, TiedSum::kEveryUse);
}

TEST(RankContent, OneNormWriterPerTensor) {
  const std::vector<StageUses> uses = {{{0, {0}}, {1, {0}}}, {{2, {0}}}, {{1, {1}}, {3, {0}}}, {{0, {1}}, {3, {1}}}};
  for (const Placement& placement : {Placement{{0, 1, 2, 3}, {3, 2, 1, 0}}, Placement{{0, 1, 1, 0}},
                                     Placement{{1, 0, 1, 0}}, Placement{{0, 0, 0, 0}}, Placement{{3, 2, 1, 0}}}) {
    Holdings holdings = ValidHoldings(placement, uses);
    std::multiset<int32_t> written;
    for (const RankContent& rank : holdings.ranks) {
      for (const HeldTensor& held : rank.tensors) {
        if (held.writes_norm) written.insert(held.tensor);
      }
    }
    EXPECT_EQ(written, (std::multiset<int32_t>{0, 1, 2, 3}));
  }
}

TEST(RankContent, RanksMayHoldNothing) {
  Holdings holdings = ValidHoldings({{1, 3}}, {{{0, {0}}, {1, {0}}}, {{0, {1}}}});
  ASSERT_EQ(holdings.ranks.size(), 4);
  for (int rank : {0, 2}) {
    EXPECT_TRUE(holdings.ranks[rank].stages.empty());
    EXPECT_TRUE(holdings.ranks[rank].tensors.empty());
  }
  EXPECT_EQ(Text(holdings.ranks[1]), "0:0/0* 1:0/0*");
  EXPECT_EQ(Text(holdings.ranks[3]), "0:1/1");
  EXPECT_EQ(holdings.tensors[0].sum, TiedSum::kOverRanks);
}

TEST(RankContent, SaysWhatIsWrong) {
  auto error = [](const Placement& placement, int stages) {
    return std::string(HoldingsOf(placement, std::vector<StageUses>(stages)).status().message());
  };
  EXPECT_EQ(error({{0, 1}, {1}}, 2), "placement: lane 1 places 1 stages; the model has 2");
  EXPECT_EQ(error({{0, -1}}, 2), "placement: lane 0 puts stage 1 on rank -1; allowed: 0 to 1048575");
  EXPECT_EQ(error({{0, 2147483647}}, 2), "placement: lane 0 puts stage 1 on rank 2147483647; allowed: 0 to 1048575");
  EXPECT_EQ(error({}, 2), "placement: no rank holds a stage");
}

}  // namespace
}  // namespace weft
