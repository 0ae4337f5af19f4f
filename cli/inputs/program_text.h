// A program as people read it.
#ifndef WEFT_CLI_INPUTS_PROGRAM_TEXT_H_
#define WEFT_CLI_INPUTS_PROGRAM_TEXT_H_

#include <cstdint>
#include <string>

#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft {

// All of these expect a program that VerifyProgram accepts.

// What it is for, its templates with their memory by class, its segments with their work.
std::string ProgramSummary(const Program& program);

// The list of one rank, action by action. `rank` is one of the mesh.
std::string RankListing(const Program& program, int64_t rank);

// The compute stream of every rank over time: "f" forward, "B" backward, each with the last digits of its microbatch
// where there is room, "o" the end of the step, "." idle. `trace` is a valid trace of the program.
std::string TraceTimeline(const Program& program, const Trace& trace, int width, bool colour);

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_PROGRAM_TEXT_H_
