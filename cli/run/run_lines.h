// Formats the lines that `weft run` prints about its steps.
#ifndef WEFT_CLI_RUN_RUN_LINES_H_
#define WEFT_CLI_RUN_RUN_LINES_H_

#include <string>

#include "executor/run/run.h"
#include "proto/report.pb.h"

namespace weft {

// "step 3  loss 4.8741096602752805  lr 0.0003  norm 2.60959  14993 tokens/s\n": the loss with all of its digits, the
// loss scale if there is one, and whether gradients overflowed.
std::string StepLine(const RunStep& step);

// The line of an evaluation after a step.
std::string EvaluationLine(const RunStep& step);

// A line for a run that skipped every one of its steps and so learned nothing; "" for any other run.
std::string SkippedLine(const RunReport& report);

// The lines after the last step. `checkpoint` is the folder that the state is saved in, "" if none.
std::string LastLines(const exec::RunResult& result, const std::string& checkpoint);

}  // namespace weft

#endif  // WEFT_CLI_RUN_RUN_LINES_H_
