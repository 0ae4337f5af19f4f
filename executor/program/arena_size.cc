#include "executor/program/arena_size.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"

namespace weft::exec {

ArenaSize ArenaOf(const Program& program, int64_t rank, bool evaluates) {
  const Template& t = program.templates(TemplateOfRank(program, rank));
  const ArenaSize training = {t.device_arena_bytes(), t.host_arena_bytes()};
  if (!evaluates) return training;
  const Program& evaluation = program.evaluation();
  const Template& e = evaluation.templates(TemplateOfRank(evaluation, rank));
  return {std::max(training.device, e.device_arena_bytes()), std::max(training.host, e.host_arena_bytes())};
}

absl::Status CheckMachineMemory(const Program& program, bool evaluates, bool on_host, int64_t first_rank, int64_t ranks,
                                std::string* note) {
  const double machine = 1.0 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
  double needed = 0;
  for (int64_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    const ArenaSize size = ArenaOf(program, rank, evaluates);
    needed += (on_host ? static_cast<double>(size.device) : 0) + static_cast<double>(size.host);
  }
  if (needed <= machine) return absl::OkStatus();
  const std::string text = absl::StrCat("the arenas of ", ranks, " ranks take ", needed / (1 << 30),
                                        " GiB, but this machine has ", machine / (1 << 30), " GiB");
  if (on_host) return absl::ResourceExhaustedError(text);
  *note = absl::StrCat(text, " of host memory; the driver may refuse to pin them");
  return absl::OkStatus();
}

}  // namespace weft::exec
