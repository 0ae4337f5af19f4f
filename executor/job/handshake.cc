#include "executor/job/handshake.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/platform/monotonic_clock.h"
#include "executor/platform/sha256.h"
#include "executor/platform/wire.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr char kMagic[] = "WEFTJOB1";
constexpr size_t kMagicBytes = 8;

enum class Verdict : uint32_t { kWelcome = 0, kWrongSecret = 1, kRefused = 2 };

absl::string_view View(const Nonce& bytes) { return absl::string_view(bytes.data(), bytes.size()); }

std::array<char, 32> Proof(absl::string_view secret, absl::string_view message) {
  const Sha256Digest digest = HmacSha256(secret, message);
  std::array<char, 32> proof;
  std::memcpy(proof.data(), digest.data(), proof.size());
  return proof;
}

std::array<char, 32> ServerProof(absl::string_view secret, const Nonce& challenge, const Hello& hello, Verdict verdict,
                                 absl::string_view text) {
  std::string message = absl::StrCat("weft server", View(challenge), EncodeHello(hello));
  AppendNumber(&message, static_cast<uint32_t>(verdict));
  return Proof(secret, absl::StrCat(message, text));
}

std::string EncodeVerdict(Verdict verdict, const std::array<char, 32>& proof, absl::string_view text) {
  std::string bytes(kMagic, kMagicBytes);
  AppendNumber(&bytes, static_cast<uint32_t>(verdict));
  AppendNumber(&bytes, static_cast<uint32_t>(text.size()));
  absl::StrAppend(&bytes, View(proof), text);
  return bytes;
}

// True if everything was sent at once, as it is on a new connection.
bool SendNowOrNever(const Socket& socket, absl::string_view bytes) {
  return send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

std::string EncodeChallenge(const Nonce& nonce) { return absl::StrCat(kMagic, View(nonce)); }

std::string EncodeHello(const Hello& hello) {
  std::string bytes(kMagic, kMagicBytes);
  AppendNumber(&bytes, static_cast<uint32_t>(hello.purpose));
  AppendNumber(&bytes, hello.rank);
  AppendNumber(&bytes, hello.size);
  AppendNumber(&bytes, hello.process);
  absl::StrAppend(&bytes, View(hello.nonce), View(hello.proof));
  return bytes;
}

absl::StatusOr<Hello> DecodeHello(absl::string_view bytes) {
  absl::string_view magic, nonce, proof;
  uint32_t purpose = 0;
  Hello hello;
  if (bytes.size() != kHelloBytes || !ReadBytes(&bytes, kMagicBytes, &magic) || magic != kMagic ||
      !ReadNumber(&bytes, &purpose) || !ReadNumber(&bytes, &hello.rank) || !ReadNumber(&bytes, &hello.size) ||
      !ReadNumber(&bytes, &hello.process) || !ReadBytes(&bytes, hello.nonce.size(), &nonce) ||
      !ReadBytes(&bytes, hello.proof.size(), &proof)) {
    return absl::InvalidArgumentError("not a greeting of a weft process");
  }
  if (purpose != static_cast<uint32_t>(Purpose::kStore) && purpose != static_cast<uint32_t>(Purpose::kTransport)) {
    return absl::InvalidArgumentError(absl::StrCat("a greeting for unknown purpose ", purpose));
  }
  hello.purpose = static_cast<Purpose>(purpose);
  std::copy(nonce.begin(), nonce.end(), hello.nonce.begin());
  std::copy(proof.begin(), proof.end(), hello.proof.begin());
  return hello;
}

std::array<char, 32> ClientProof(absl::string_view secret, const Nonce& challenge, const Hello& hello) {
  Hello unproven = hello;
  unproven.proof = {};
  return Proof(secret, absl::StrCat("weft client", View(challenge), EncodeHello(unproven)));
}

absl::StatusOr<Nonce> RandomNonce() {
  Nonce nonce;
  size_t have = 0;
  while (have < nonce.size()) {
    const ssize_t got = getrandom(nonce.data() + have, nonce.size() - have, 0);
    if (got < 0 && errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("cannot get random numbers: ", std::strerror(errno)));
    }
    have += std::max<ssize_t>(got, 0);
  }
  return nonce;
}

absl::Status ProveToServer(const Socket& socket, absl::string_view server, absl::string_view secret, Purpose purpose,
                           int rank, int size, const Until& until) {
  char bytes[kVerdictBytes];
  WEFT_RETURN_IF_ERROR(RecvAll(socket, bytes, kChallengeBytes, until));
  absl::string_view challenge(bytes, kChallengeBytes);
  absl::string_view magic;
  ReadBytes(&challenge, kMagicBytes, &magic);
  const auto speaks_other = [&] {
    return absl::FailedPreconditionError(
        absl::StrCat(server, " does not answer like a weft job: another program listens there"));
  };
  if (magic != kMagic) return speaks_other();
  Nonce theirs;
  std::copy(challenge.begin(), challenge.end(), theirs.begin());
  Hello hello = {.purpose = purpose, .rank = rank, .size = size, .process = getpid()};
  WEFT_ASSIGN_OR_RETURN(hello.nonce, RandomNonce());
  hello.proof = ClientProof(secret, theirs, hello);
  WEFT_RETURN_IF_ERROR(SendAll(socket, EncodeHello(hello), until));

  WEFT_RETURN_IF_ERROR(RecvAll(socket, bytes, kVerdictBytes, until));
  absl::string_view verdict_bytes(bytes, kVerdictBytes), proof;
  uint32_t verdict = 0, length = 0;
  if (!ReadBytes(&verdict_bytes, kMagicBytes, &magic) || magic != kMagic || !ReadNumber(&verdict_bytes, &verdict) ||
      !ReadNumber(&verdict_bytes, &length) || !ReadBytes(&verdict_bytes, 32, &proof) || length > kMaxVerdictText) {
    return speaks_other();
  }
  std::string text(length, '\0');
  WEFT_RETURN_IF_ERROR(RecvAll(socket, text.data(), text.size(), until));
  if (verdict == static_cast<uint32_t>(Verdict::kWrongSecret)) {
    return absl::PermissionDeniedError(
        absl::StrCat(server, " refuses the secret of rank ", rank, " (WEFT_JOB_SECRET): the job has another secret"));
  }
  const auto expected = ServerProof(secret, theirs, hello, static_cast<Verdict>(verdict), text);
  if (!EqualInConstantTime(proof, View(expected))) {
    return absl::PermissionDeniedError(absl::StrCat(server, " does not know the secret of rank ", rank,
                                                    " (WEFT_JOB_SECRET): it belongs to another job"));
  }
  if (verdict == static_cast<uint32_t>(Verdict::kWelcome)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(server, " refuses rank ", rank, ": ", text));
}

ProvingListener::ProvingListener(Socket listener, Options options)
    : listener_(std::move(listener)), options_(std::move(options)) {}

void ProvingListener::AddDescriptors(std::vector<int>* descriptors) const {
  if (listener_.open()) descriptors->push_back(listener_.fd());
  for (const Pending& pending : pending_) descriptors->push_back(pending.socket.fd());
}

int64_t ProvingListener::NextDeadline() const {
  int64_t next = -1;
  for (const Pending& pending : pending_) {
    if (next < 0 || pending.deadline_ns < next) next = pending.deadline_ns;
  }
  return next;
}

void ProvingListener::AcceptAll() {
  // Bounded, so that a flood of connections does not keep the others waiting.
  for (int i = 0; listener_.open() && i < 64; ++i) {
    absl::StatusOr<Socket> socket = AcceptFrom(listener_);
    if (absl::IsInvalidArgument(socket.status())) return;
    if (!socket.ok()) {
      // Accepting may fail, for example, when no descriptors are left. The connection that has been pending longest is
      // dropped. If no connection is pending, the next attempt comes a little later.
      if (pending_.empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return;
      }
      pending_.erase(pending_.begin());
      ++dropped_;
      continue;
    }
    const absl::StatusOr<Nonce> nonce = RandomNonce();
    SetForMessages(*socket);
    if (!nonce.ok() || !SendNowOrNever(*socket, EncodeChallenge(*nonce))) {
      ++dropped_;
      continue;
    }
    if (pending_.size() >= options_.most_pending) {
      pending_.erase(pending_.begin());
      ++dropped_;
    }
    pending_.push_back({*std::move(socket), *nonce, "", MonotonicNanoseconds() + options_.patience_ns});
  }
}

bool ProvingListener::Judge(Pending& pending, std::vector<Accepted>* accepted) {
  char bytes[kHelloBytes];
  while (pending.received.size() < kHelloBytes) {
    const ssize_t got = recv(pending.socket.fd(), bytes, kHelloBytes - pending.received.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (MonotonicNanoseconds() < pending.deadline_ns) return false;
      ++dropped_;
      return true;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      ++dropped_;
      return true;
    }
    pending.received.append(bytes, got);
  }
  const absl::StatusOr<Hello> hello = DecodeHello(pending.received);
  const auto refuse = [&](Verdict verdict, const std::array<char, 32>& proof, absl::string_view text) {
    SendNowOrNever(pending.socket, EncodeVerdict(verdict, proof, text));
    ++dropped_;
    return true;
  };
  if (!hello.ok() || hello->purpose != options_.purpose ||
      !EqualInConstantTime(View(hello->proof), View(ClientProof(options_.secret, pending.challenge, *hello)))) {
    return refuse(Verdict::kWrongSecret, {}, "");
  }
  absl::Status admitted;
  if (hello->size != options_.size) {
    admitted = absl::InvalidArgumentError(
        absl::StrCat("its WORLD_SIZE is ", hello->size, ", but the job has ", options_.size, " processes"));
  } else if (hello->rank < 0 || hello->rank >= options_.size) {
    admitted = absl::InvalidArgumentError(absl::StrCat("ranks are from 0 to ", options_.size - 1));
  } else {
    admitted = options_.admit(hello->rank);
  }
  const Verdict verdict = admitted.ok() ? Verdict::kWelcome : Verdict::kRefused;
  const absl::string_view text = admitted.message().substr(0, kMaxVerdictText);
  const auto proof = ServerProof(options_.secret, pending.challenge, *hello, verdict, text);
  if (!admitted.ok()) return refuse(verdict, proof, text);
  if (!SendNowOrNever(pending.socket, EncodeVerdict(verdict, proof, ""))) {
    ++dropped_;
    return true;
  }
  accepted->push_back({std::move(pending.socket), hello->rank, hello->process});
  return true;
}

std::vector<ProvingListener::Accepted> ProvingListener::Advance() {
  AcceptAll();
  std::vector<Accepted> accepted;
  size_t kept = 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (Judge(pending_[i], &accepted)) continue;
    if (kept != i) pending_[kept] = std::move(pending_[i]);
    ++kept;
  }
  pending_.erase(pending_.begin() + static_cast<int64_t>(kept), pending_.end());
  return accepted;
}

}  // namespace weft::exec
