#include "proto/verify/verify.h"

#include <gtest/gtest.h>

#include "proto/verify/tiny_program.h"

namespace weft {
namespace {

std::string Refusal(const Program& program) { return std::string(VerifyProgram(program).message()); }

TEST(VerifyTest, TinyProgramsAreValid) {
  EXPECT_EQ(Refusal(TinyProgram()), "");
  EXPECT_EQ(Refusal(TinyProgram(EXACT)), "");
  EXPECT_EQ(Refusal(TinyEvaluation()), "");
  Program both = TinyProgram();
  *both.mutable_evaluation() = TinyEvaluation();
  EXPECT_EQ(Refusal(both), "");
}

}  // namespace
}  // namespace weft
