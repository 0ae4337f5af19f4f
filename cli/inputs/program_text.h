// Formats a program for people to read.
#ifndef WEFT_CLI_INPUTS_PROGRAM_TEXT_H_
#define WEFT_CLI_INPUTS_PROGRAM_TEXT_H_

#include <cstdint>
#include <string>

#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft {

// All functions below expect a program that VerifyProgram accepts.

// Shows what the program is for, its templates with their memory by class, and its segments with their work.
std::string ProgramSummary(const Program& program);

// Lists the actions of one rank. `rank` is a rank of the mesh.
std::string RankListing(const Program& program, int64_t rank);

// Draws the compute stream of every rank over time: "f" forward, "B" backward, each with the last digits of its
// microbatch if there is space, "o" the end of the step, "." idle. `trace` is a valid trace of the program.
std::string TraceTimeline(const Program& program, const Trace& trace, int width, bool color);

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_PROGRAM_TEXT_H_
