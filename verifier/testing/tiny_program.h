// A handwritten training program that is small enough to read: a tied embedding and a norm on 2 pipe x 2 data ranks,
// two microbatches, 1F1B, SGD with clipping. Tests break it in every way that the verifier must notice.
//
//   pipe0: F0 F1 B0 B1 | gradient sync, tied sync, norm, clip, optimizer
//   pipe1: F0 B0 F1 B1 | the same
#ifndef WEFT_VERIFIER_TESTING_TINY_PROGRAM_H_
#define WEFT_VERIFIER_TESTING_TINY_PROGRAM_H_

#include "proto/program.pb.h"

namespace weft {

// Loss scaling (rule P11): no scale; a fixed scale that the update divides by; a fixed scale that SCALE divides by
// before the update; a dynamic scale.
enum class TinyScaling { kNone, kFixedByUpdate, kFixedByScale, kDynamic };

Program TinyProgram(AccumulationMode accumulation = IN_ORDER, TinyScaling scaling = TinyScaling::kNone);
// Has only forwards, on the same persistent buffers.
Program TinyEvaluation();

// These functions find a part by its name. The program must have it.
Action* FindAction(Program* program, int t, const std::string& name);
int FindBuffer(const Program& program, int t, const std::string& name);
Buffer* MutableBuffer(Program* program, int t, const std::string& name);
Segment* FindSegment(Program* program, const std::string& name);
Step* FindStep(Program* program, const std::string& segment, const std::string& step);
// Inserts a step before another step of the segment. Steps that wait for later steps keep waiting for the same steps.
void InsertStep(Program* program, const std::string& segment, const std::string& before, Step step);
// Makes the step wait for `on` alone.
void StepAfter(Program* program, const std::string& segment, const std::string& step, const std::string& on);
void RemoveAction(Program* program, int t, const std::string& name);
// Removes the dependency of one action on another.
void RemoveDep(Program* program, int t, const std::string& from, const std::string& on);
void AddDep(Program* program, int t, const std::string& from, const std::string& on, int distance = 0);
// Exchanges two actions of the body and keeps ids ascending (dependencies follow the actions).
void SwapActions(Program* program, int t, const std::string& a, const std::string& b);

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_TINY_PROGRAM_H_
