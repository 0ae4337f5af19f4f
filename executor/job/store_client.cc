// The client of the store.
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/job/handshake.h"
#include "executor/job/reported_remotely.h"
#include "executor/job/store.h"
#include "executor/platform/monotonic_clock.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr int64_t kMillisecond = 1000000;

}  // namespace

absl::StatusOr<std::unique_ptr<StoreClient>> StoreClient::Connect(const std::string& host, int port, int rank,
                                                                  const StoreOptions& options,
                                                                  std::chrono::nanoseconds timeout,
                                                                  std::function<absl::Status()> go_on) {
  const int64_t deadline = MonotonicNanoseconds() + timeout.count();
  auto pause = std::chrono::milliseconds(10);
  absl::Status last = absl::UnavailableError("nobody answers");
  std::string tried;
  do {
    const absl::StatusOr<std::vector<SocketAddress>> addresses = ResolveHost(host, port);
    last = addresses.status();
    if (addresses.ok()) {
      tried = absl::StrCat(
          "; tried ", absl::StrJoin(*addresses, " and ",
                                    [](std::string* out, const SocketAddress& each) { out->append(each.ToString()); }));
    }
    for (size_t i = 0; addresses.ok() && i < addresses->size(); ++i) {
      const SocketAddress& address = (*addresses)[i];
      const std::string server = absl::StrCat("the store at ", address.ToString());
      // One attempt may not use all of the time: if this server does not answer, another may be started in its place.
      const Until attempt(std::min(deadline, MonotonicNanoseconds() + options.patience.count()), go_on);
      absl::StatusOr<Socket> socket = ConnectTo(address, attempt);
      last = socket.status();
      WEFT_RETURN_IF_ERROR(attempt.CheckGoOn());
      if (!last.ok()) continue;
      SetForMessages(*socket);
      last = ProveToServer(*socket, server, options.secret, Purpose::kStore, rank, options.size, attempt);
      if (last.ok()) return std::unique_ptr<StoreClient>(new StoreClient(*std::move(socket), server, go_on));
      WEFT_RETURN_IF_ERROR(attempt.CheckGoOn());
      // The server's refusal is final, so do not try again.
      if (absl::IsPermissionDenied(last) || absl::IsFailedPrecondition(last)) return last;
    }
    WEFT_RETURN_IF_ERROR(SleepWithin(pause, {deadline, go_on}));
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  } while (MonotonicNanoseconds() < deadline);
  return absl::DeadlineExceededError(
      absl::StrCat("rank ", rank, ": no store at MASTER_ADDR=", host, ", port ", port, " within ",
                   std::chrono::duration<double>(timeout).count(), " s (", std::string(last.message()), tried,
                   "); check that rank 0, which serves the store, was started on that machine"));
}

StoreClient::~StoreClient() {
  (void)SendAll(socket_, WithLength(EncodeStoreRequest({.operation = StoreOperation::kLeave})),
                MonotonicNanoseconds() + int64_t{1000} * kMillisecond);
}

absl::Status StoreClient::Send(const StoreRequest& request, const Until& until) {
  const std::string message = EncodeStoreRequest(request);
  if (message.size() > kMaxStoreMessageBytes || request.key.size() > kMaxStoreKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(), " bytes with a key of ",
                                                   request.key.size(), "; allowed: ", kMaxStoreMessageBytes, " and ",
                                                   kMaxStoreKeyBytes));
  }
  return Lost(SendAll(socket_, WithLength(message), until), until);
}

absl::Status StoreClient::Lost(const absl::Status& status, const Until& until) const {
  if (status.ok()) return status;
  WEFT_RETURN_IF_ERROR(until.CheckGoOn());
  return absl::Status(status.code(),
                      absl::StrCat(server_, ", which rank 0 serves, is lost: ", std::string(status.message())));
}

absl::StatusOr<std::string> StoreClient::Receive(const Until& until) {
  std::string reply;
  while (!reader_.Next(&reply)) {
    // Reads all bytes that have arrived, because reading byte by byte would be slow. `reader_` keeps bytes that do not
    // belong to this reply.
    char bytes[4096];
    WEFT_RETURN_IF_ERROR(Lost(RecvAll(socket_, bytes, 1, until), until));
    const ssize_t more = recv(socket_.fd(), bytes + 1, sizeof bytes - 1, 0);
    WEFT_RETURN_IF_ERROR(Lost(reader_.Append(absl::string_view(bytes, 1 + std::max<ssize_t>(more, 0))), until));
  }
  return DecodeStoreReply(reply);
}

absl::StatusOr<std::string> StoreClient::Ask(const StoreRequest& request) {
  // The deadline is 10 s after the timeout of the request, so that a server that is alive can still report the reason.
  const Until until(MonotonicNanoseconds() + (static_cast<int64_t>(request.timeout_ms) + 10000) * kMillisecond, go_on_);
  WEFT_RETURN_IF_ERROR(Send(request, until));
  return Receive(until);
}

absl::Status StoreClient::Fail(const absl::Status& status) {
  // The failure is sent even if `go_on` would stop every other request.
  const Until until(MonotonicNanoseconds() + int64_t{5000} * kMillisecond);
  WEFT_RETURN_IF_ERROR(Send({.operation = StoreOperation::kFail, .value = EncodeFailure(status)}, until));
  absl::StatusOr<std::string> reply = Receive(until);
  // If a request was under way, its reply may have been sent before the server read this message, so the next reply is
  // the answer. One request at most is under way, because requests are made one after another. After a lost connection
  // there is no further reply.
  const bool crossed = reply.ok() ? *reply != kReportFailure : !ReportedRemotely(reply.status());
  if (crossed && MonotonicNanoseconds() < until.deadline_ns) reply = Receive(until);
  if (reply.ok() && *reply != kReportFailure) {
    return absl::InternalError(absl::StrCat(server_, " gave no valid answer to a reported failure"));
  }
  return reply.status();
}

absl::Status StoreClient::Check() {
  const absl::Status status = Get("weft").status();
  return absl::IsNotFound(status) && !ReportedRemotely(status) ? absl::OkStatus() : status;
}

absl::Status StoreClient::Set(absl::string_view key, absl::string_view value) {
  return Ask({.operation = StoreOperation::kSet, .key = std::string(key), .value = std::string(value)}).status();
}

absl::StatusOr<std::string> StoreClient::Get(absl::string_view key) {
  return Ask({.operation = StoreOperation::kGet, .key = std::string(key)});
}

absl::StatusOr<std::string> StoreClient::Wait(absl::string_view key, std::chrono::nanoseconds timeout) {
  return Ask({.operation = StoreOperation::kWait,
              .timeout_ms = static_cast<uint64_t>(timeout.count() / kMillisecond),
              .key = std::string(key)});
}

absl::Status StoreClient::Barrier(absl::string_view name, std::chrono::nanoseconds timeout) {
  return Ask({.operation = StoreOperation::kBarrier,
              .timeout_ms = static_cast<uint64_t>(timeout.count() / kMillisecond),
              .key = std::string(name)})
      .status();
}

}  // namespace weft::exec
