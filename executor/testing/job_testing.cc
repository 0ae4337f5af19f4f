#include "executor/testing/job_testing.h"

#include <optional>
#include <utility>

#include "executor/job/tcp_socket.h"

namespace weft::exec {

Environment EnvironmentOf(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::vector<Rendezvous> LocalJob(int ranks, std::chrono::seconds timeout) {
  Socket listener = *ListenOn((*ResolveHost("127.0.0.1", 0))[0]);
  std::vector<Rendezvous> job(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    job[rank].process = {.bootstrap = Bootstrap::kEnv, .rank = rank, .size = ranks, .local_rank = rank};
    job[rank].host = "127.0.0.1";
    job[rank].port = LocalAddress(listener)->port();
    job[rank].secret = "the secret of the job";
    job[rank].timeout = timeout;
  }
  job[0].listener_fd = listener.Release();
  return job;
}

}  // namespace weft::exec
