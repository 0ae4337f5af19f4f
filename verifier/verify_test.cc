#include "verifier/verify.h"

#include <gtest/gtest.h>

#include "verifier/testing/tiny_program.h"

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

TEST(VerifyTest, OnlyKnownAlgorithmsIfTheyAreGiven) {
  const Program program = TinyProgram();
  EXPECT_TRUE(VerifyProgram(program, {.algorithms = {"direct", "ring"}}).ok());
  const absl::Status refused = VerifyProgram(program, {.algorithms = {"rings"}});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(refused.message());
  for (const char* part : {"P10.algorithm", "'pipe0'", "'ring' is unknown", "'rings'"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

}  // namespace
}  // namespace weft
