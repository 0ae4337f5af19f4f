// The transport between ranks that are threads of one process. A message is copied once, by the side that completes the
// match.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/transports/rendezvous.h"

namespace weft::exec {

absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> OpenInproc(int ranks) {
  if (ranks < 1) return absl::InvalidArgumentError(absl::StrCat("inproc: ", ranks, " ranks"));
  return ThreadEndpoints(ranks, std::make_shared<MemoryMover>());
}

}  // namespace weft::exec
