#include "planner/fit/stage_forms.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;

const std::vector<LayerRun> kRuns = {{0, 1}, {1, 8}, {9, 1}};

int32_t UpTo2(int32_t layers, bool) { return std::min(layers, 2); }
int32_t UpTo3(int32_t layers, bool) { return std::min(layers, 3); }

TEST(StageForms, StagesWithEnoughLayersShareAForm) {
  const std::vector<int32_t> layers = {3, 2, 3, 2};
  const StageForms forms = FormsOfStages(kRuns, layers, UpTo2);
  EXPECT_THAT(forms.layers, ElementsAre(ElementsAre(1, 2, 0), ElementsAre(0, 2, 0), ElementsAre(0, 1, 1)));
  EXPECT_THAT(forms.form_of_stage, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(forms.LayersPerForm(), ElementsAre(3, 2, 2));
  EXPECT_THAT(forms.LayersPerRun(), ElementsAre(1, 5, 1));
}

TEST(StageForms, StagesWithFewLayersKeepThem) {
  const std::vector<int32_t> layers = {2, 3, 2, 1, 2};
  const StageForms forms = FormsOfStages(kRuns, layers, UpTo3);
  EXPECT_THAT(forms.layers, ElementsAre(ElementsAre(1, 1, 0), ElementsAre(0, 3, 0), ElementsAre(0, 2, 0),
                                        ElementsAre(0, 1, 0), ElementsAre(0, 1, 1)));
  EXPECT_THAT(forms.form_of_stage, ElementsAre(0, 1, 2, 3, 4));
}

TEST(StageForms, StagesOfSeveralRunsMayKeepMore) {
  const std::vector<int32_t> layers = {5, 5};
  const StageForms forms = FormsOfStages({{{0, 1}, {1, 9}}}, layers,
                                         [](int32_t count, bool mixed) { return std::min(count, mixed ? 3 : 2); });
  EXPECT_THAT(forms.layers, ElementsAre(ElementsAre(1, 3), ElementsAre(0, 2)));
}

TEST(StageForms, OneStageHasAllRuns) {
  const std::vector<int32_t> layers = {10};
  EXPECT_THAT(FormsOfStages(kRuns, layers, UpTo3).layers, ElementsAre(ElementsAre(1, 3, 1)));
}

}  // namespace
}  // namespace weft::planner
