// Fuzz target: a rank of the transport tcp that receives arbitrary bytes from its peer. The first byte decides the size
// of the pieces in which the rest arrives and whether transfers are dropped halfway.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>

#include "executor/transports/tcp_peer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0) return 0;
  const weft::exec::Socket other(fds[1]);
  int done = 0;
  weft::exec::TcpPeer::Events events;
  events.on_done = [&](weft::exec::Transfer* transfer) {
    transfer->done = true;
    ++done;
  };
  events.on_abort = [](const absl::Status& status) {
    if (status.ok()) std::abort();
  };
  events.on_verdict = [](int by, const absl::Status& status) {
    if (by < 0 || by > 2 || status.ok()) std::abort();
  };
  events.on_error = [](const absl::Status& status) {
    if (status.ok()) std::abort();
  };
  weft::exec::TcpPeer peer(0, 1, 3, {weft::exec::Socket(fds[0]), 1, "host"}, &events);
  std::deque<weft::exec::Transfer> transfers;
  char memory[16][64];
  for (int i = 0; i < 16; ++i) {
    weft::exec::Transfer& transfer = transfers.emplace_back();
    transfer.data = memory[i];
    transfer.bytes = i * 4;
    transfer.channel = i % 4;
    i % 2 == 0 ? peer.PostRecv(&transfer) : peer.PostSend(&transfer);
  }
  const size_t step = 1 + data[0] % 128;
  for (size_t at = 1; at < size && peer.open(); at += step) {
    const size_t count = std::min(step, size - at);
    if (send(fds[1], data + at, count, MSG_NOSIGNAL) != static_cast<ssize_t>(count)) break;
    peer.Read();
    peer.Write();
    // The endpoint does this when the job is over.
    if (data[0] >= 128 && at > size / 2) peer.DropTransfers();
    char taken[4096];
    while (recv(fds[1], taken, sizeof taken, 0) > 0) {
    }
  }
  if (done > 16) std::abort();
  return 0;
}
