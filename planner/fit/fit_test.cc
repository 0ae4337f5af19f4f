#include "planner/fit/fit.h"

#include "gtest/gtest.h"

namespace weft::planner {
namespace {

TEST(Fit, Placeholder) { SUCCEED(); }

}  // namespace
}  // namespace weft::planner
