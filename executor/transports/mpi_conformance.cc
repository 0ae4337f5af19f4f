// The conformance suite as an MPI program: run it under an MPI launcher, with two ranks or more.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "executor/transport.h"
#include "executor/transports/transport_conformance.h"

// With the argument "race" only RacingAbortsConform, which ends the job.
int main(int argc, char** argv) {
  const weft::LauncherRank launcher = weft::RankFromLauncher();
  if (launcher.size < 2) {
    std::fprintf(stderr, "run this under mpirun with at least two ranks\n");
    return 2;
  }
  auto endpoints = (*weft::FindTransport("mpi"))->open(launcher.size);
  if (!endpoints.ok()) {
    std::fprintf(stderr, "%s\n", endpoints.status().ToString().c_str());
    return 1;
  }
  int failures = 0;
  if (argc > 1 && std::strcmp(argv[1], "race") == 0) {
    bool won = false;
    const absl::Status status = weft::RacingAbortsConform(*(*endpoints)[0], &won);
    if (!status.ok()) std::fprintf(stderr, "race, rank %d: %s\n", launcher.rank, status.ToString().c_str());
    if (won) std::printf("race: rank %d won\n", launcher.rank);
    std::fflush(stdout);
    usleep(300 * 1000);
    _exit(status.ok() ? 0 : 1);
  }
  for (const weft::ConformanceCase& test : weft::ConformanceCases()) {
    const absl::Status status = test.run(*(*endpoints)[0]);
    if (!status.ok()) {
      std::fprintf(stderr, "%s, rank %d: %s\n", std::string(test.name).c_str(), launcher.rank,
                   status.ToString().c_str());
      ++failures;
    } else if (launcher.rank == 0) {
      std::printf("%s: ok\n", std::string(test.name).c_str());
    }
  }
  std::fflush(stdout);
  // The last case has aborted the job, after which there is no orderly MPI_Finalize. Give the others time to see it.
  usleep(300 * 1000);
  _exit(failures == 0 ? 0 : 1);
}
