#include "cli/run/run_lines.h"

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

TEST(RunLines, AStepHasAllDigitsOfItsLoss) {
  EXPECT_EQ(StepLine(Parse<RunStep>("step: 3 loss: 0.1 learning_rate: 0.0003 grad_norm: 2.5 tokens: 3000 seconds: 2")),
            "step 3  loss 0.10000000000000001  lr 0.0003  norm 2.5  1500 tokens/s\n");
  // A step that ends at the same time as the one before takes no time.
  EXPECT_EQ(StepLine(Parse<RunStep>("tokens: 3000 loss_scale: 65536 skipped: true")),
            "step 0  loss 0  lr 0  norm 0  scale 65536  skipped: gradients overflowed  0 tokens/s\n");
}

TEST(RunLines, AnEvaluationHasTooAndIsAnotherLine) {
  EXPECT_EQ(EvaluationLine(Parse<RunStep>("step: 4 loss: 1 eval_loss: 0.1")),
            "step 4  eval loss 0.10000000000000001\n");
}

TEST(RunLines, OnlyARunThatSkippedAllItsStepsHasLearnedNothing) {
  EXPECT_EQ(SkippedLine(Parse<RunReport>("")), "");
  EXPECT_EQ(SkippedLine(Parse<RunReport>("steps { step: 1 } steps { step: 2 skipped: true }")), "");
  EXPECT_EQ(SkippedLine(Parse<RunReport>("steps { skipped: true }")).substr(0, 32), "1 of 1 step skipped because grad");
  EXPECT_EQ(SkippedLine(Parse<RunReport>("steps { skipped: true } steps { skipped: true }")),
            "2 of 2 steps skipped because gradients overflowed, so no weight has changed; run more steps, since each "
            "skipped step lowers the loss scale, or compile with a lower plan.loss_scale.initial\n");
}

TEST(RunLines, TheLastLinesSayWhatIsDone) {
  exec::RunResult result;
  result.first_step = result.last_step = 3;
  EXPECT_EQ(LastLines(result, ""), "nothing to do: 3 steps are done\n");
  result.first_step = 2;
  result.report = Parse<RunReport>("tokens_per_second: 10 planned_bytes: 5 steps { step: 3 }");
  EXPECT_EQ(LastLines(result, ""), "1 step, 10 tokens/s, planned bytes per rank 5\n");
  result.stopped = true;
  EXPECT_EQ(LastLines(result, "folder"),
            "stopped by signal after step 3; saved in folder\n1 step, 10 tokens/s, planned bytes per rank 5\n");
}

}  // namespace
}  // namespace weft
