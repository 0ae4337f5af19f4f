// How two processes prove to each other that they belong to the same job. Each shows that it knows the job's secret by
// answering the other's random challenge (HMAC-SHA-256), so the secret itself never travels.
//
//   server  CHALLENGE  8 bytes "WEFTJOB1", 32 random bytes
//   client  HELLO      8 bytes "WEFTJOB1", u32 purpose, u32 rank, u32 size, u64 process,
//                   32 random bytes, 32 bytes of proof
//   server  VERDICT    8 bytes "WEFTJOB1", u32 verdict, u32 length of a text <= 512, 32 bytes of proof, the text
//
// The client's proof covers everything that both have sent so far. The server's proof covers that and its verdict and
// text. A process that does not know the secret learns only that its secret is wrong. What follows on the connection is
// neither encrypted nor proven: the network between the nodes of a job is trusted not to be tampered with, but the
// processes on it are not.
#ifndef WEFT_EXECUTOR_JOB_HANDSHAKE_H_
#define WEFT_EXECUTOR_JOB_HANDSHAKE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/job/tcp_socket.h"

namespace weft::exec {

using Nonce = std::array<char, 32>;

// The purpose of a connection. A connection for one purpose is never accepted for another.
enum class Purpose : uint32_t { kStore = 1, kTransport = 2 };

struct Hello {
  Purpose purpose = Purpose::kStore;
  int32_t rank = 0;
  int32_t size = 0;
  // The process id of the process that sent the hello, for error messages.
  int64_t process = 0;
  Nonce nonce = {};
  std::array<char, 32> proof = {};
};

inline constexpr size_t kChallengeBytes = 40;
inline constexpr size_t kHelloBytes = 92;
inline constexpr size_t kVerdictBytes = 48;
inline constexpr size_t kMaxVerdictText = 512;

std::string EncodeChallenge(const Nonce& nonce);
std::string EncodeHello(const Hello& hello);
// InvalidArgument if the bytes are no hello. `bytes` has kHelloBytes.
absl::StatusOr<Hello> DecodeHello(absl::string_view bytes);
std::array<char, 32> ClientProof(absl::string_view secret, const Nonce& challenge, const Hello& hello);

absl::StatusOr<Nonce> RandomNonce();

// Proves to the server that this process belongs to the job, as `rank`. PermissionDenied if a secret is wrong.
// FailedPrecondition if the server speaks something else or refuses this process, with its reason. Unavailable or
// DeadlineExceeded if the server is not there. `server` is its name in messages, e.g. "the store at 10.0.0.1:29500".
absl::Status ProveToServer(const Socket& socket, absl::string_view server, absl::string_view secret, Purpose purpose,
                           int rank, int size, const Until& until);

// Accepts connections and keeps those that prove themselves. Everything else that connects (port scanners, other
// programs, silent or slow ones, however many) is dropped and holds up nobody.
class ProvingListener {
 public:
  struct Options {
    std::string secret;
    Purpose purpose = Purpose::kStore;
    int size = 0;
    // Time for one connection to prove itself.
    int64_t patience_ns = int64_t{10} * 1000 * 1000 * 1000;
    // Number of connections that may be proving themselves at a time. Beyond that the oldest is dropped.
    size_t most_pending = 256;
    // Returns Ok if a process that knows the secret may join as this rank. The text of an error is sent to that
    // process.
    std::function<absl::Status(int rank)> admit;
  };
  struct Accepted {
    Socket socket;
    int rank = 0;
    int64_t process = 0;
  };

  ProvingListener(Socket listener, Options options);

  // The descriptors to wait on for input, and the latest time to wait until; -1 = no limit.
  void AddDescriptors(std::vector<int>* descriptors) const;
  int64_t NextDeadline() const;
  // Advances all connections without waiting. Returns those that have proven themselves.
  std::vector<Accepted> Advance();

  // Number of connections that were dropped so far.
  int64_t dropped() const { return dropped_; }

 private:
  struct Pending {
    Socket socket;
    Nonce challenge;
    std::string received;
    int64_t deadline_ns = 0;
  };
  void AcceptAll();
  // True when this connection needs no more work. If it is admitted, it is appended to `accepted`.
  bool Judge(Pending& pending, std::vector<Accepted>* accepted);

  Socket listener_;
  const Options options_;
  std::vector<Pending> pending_;
  int64_t dropped_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_HANDSHAKE_H_
