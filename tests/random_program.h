// Seeded generator of small valid programs that combine everything that the rules of docs/program.md allow: several
// streams and lanes, transfers and collectives in any global order, detached steps, receives listed late, waits of
// distance 0 to 3, reuse of bytes. The tests use them to compare the simulators and to feed the executor.
//
// The programs are safe (VerifyOptions{.completeness = false}) but train nothing.
#ifndef WEFT_TESTS_RANDOM_PROGRAM_H_
#define WEFT_TESTS_RANDOM_PROGRAM_H_

#include <cstdint>

#include "proto/program.pb.h"

namespace weft {

struct RandomProgramOptions {
  int max_pipe = 4;
  int max_data = 3;
  // Number of compute actions, transfers and collectives of the body, over all templates; at least 1.
  int events = 24;
  // Also generate a prologue and an epilogue.
  bool edges = true;
  // Allow several streams for the steps of a segment, and detached steps.
  bool step_streams = true;
  // Allow segments that load tokens. Running such a program needs a data source.
  bool data = false;
  int64_t max_elements = 512;
  // Largest work of a step.
  int64_t max_flops = 1000000;
  int64_t max_bytes = 1000000;
  // Allow the features of pipeline schedules, each in some of the programs: halved and paired backwards, wide forwards,
  // several stages per rank, collectives over some pipe coordinates and data, skip edges, all of
  // Program.transfer_streams, transfer groups, and all of Program.compute_order.
  bool schedules = false;
  // Also use axes x, y and z, segments with collectives on their own streams (some of them detached and waited for by
  // later actions), groups of blocks and strides, all-gathers and reduce-scatters. Programs then have at most
  // `max_ranks` ranks, or max_pipe x max_data if that is more.
  bool collectives = false;
  int max_ranks = 16;
};

// Returns options for programs that run fast. Some programs have the features of `schedules`, none has those of
// `collectives`.
RandomProgramOptions RunnablePrograms();

// Returns the same program for the same seed and options on every machine.
Program RandomProgram(uint64_t seed, const RandomProgramOptions& options = {});

// Changes one random field, list or message of the program.
void Mutate(Program* program, uint64_t seed);

}  // namespace weft

#endif  // WEFT_TESTS_RANDOM_PROGRAM_H_
