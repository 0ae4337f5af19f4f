// compile_tiny OUT.weft TEXT.txt PIPE DATA SCHEDULE EXACT STEPS [RECOMPUTE ...]: compiles the tests' model under a plan
// and writes the program and the training text to files, for tests of the command line.
#include <cstdio>
#include <cstdlib>

#include "proto/io/program_file.h"
#include "tests/e2e/tiny_gpt.h"

int main(int argc, char** argv) {
  if (argc < 8 || argc > 13) {
    std::fprintf(stderr,
                 "usage: compile_tiny OUT.weft TEXT.txt PIPE DATA SCHEDULE EXACT STEPS "
                 "[RECOMPUTE [CLIP_NORM [PLAN_FIELDS [HALF [BATCH]]]]]\n");
    return 2;
  }
  weft::TinyPlan plan;
  plan.pipe = std::atoi(argv[3]);
  plan.data = std::atoi(argv[4]);
  plan.schedule = argv[5];
  plan.exact = std::atoi(argv[6]) != 0;
  plan.steps = std::atoi(argv[7]);
  plan.recompute = argc > 8 && std::atoi(argv[8]) != 0;
  if (argc > 9) plan.clip = std::atof(argv[9]);
  if (argc > 10) plan.plan_fields = argv[10];
  if (argc > 11) plan.half = argv[11];
  if (argc > 12) plan.batch = std::atoi(argv[12]);
  const absl::StatusOr<weft::Program> program = weft::CompileTiny(plan);
  absl::Status status = program.status();
  if (status.ok()) status = weft::WriteProgram(*program, argv[1]);
  if (status.ok()) status = weft::WriteTinyText(argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
