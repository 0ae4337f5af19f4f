// Seeded generator of small valid programs with everything that the rules of docs/program.md allow in odd combinations:
// several streams and lanes, transfers and collectives in any global order, detached steps, receives that are listed
// late, waits of distance 0 to 3, reuse of bytes. For comparing the simulators and for feeding the executor.
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
  // Compute actions, transfers and collectives of the body, over all templates; at least 1.
  int events = 24;
  // Prologue and epilogue as well.
  bool edges = true;
  // More than one stream for the steps of a segment, detached steps.
  bool step_streams = true;
  // Segments that load tokens: running the program needs a data source.
  bool data = false;
  int64_t max_elements = 512;
  // Work per step up to these.
  int64_t max_flops = 1000000;
  int64_t max_bytes = 1000000;
  // What pipeline schedules bring, each in some of the programs: halved and paired backwards, wide forwards, several
  // stages per rank, collectives over some pipe coordinates and data, skip edges, all of Program.transfer_streams,
  // transfer groups, and all of Program.compute_order.
  bool schedules = false;
  // Axes x, y and z as well, segments with collectives on streams of their own, some of them detached and waited for by
  // later actions, groups of blocks and strides, all-gathers and reduce-scatters. At most `max_ranks` ranks then, or as
  // many as max_pipe x max_data.
  bool collectives = false;
  int max_ranks = 16;
};

// Of programs that run fast, some with all that schedules bring; without collectives.
RandomProgramOptions RunnablePrograms();

// The same program for the same seed and options on every machine.
Program RandomProgram(uint64_t seed, const RandomProgramOptions& options = {});

// Changes one random field, list or message of the program to something else.
void Mutate(Program* program, uint64_t seed);

}  // namespace weft

#endif  // WEFT_TESTS_RANDOM_PROGRAM_H_
