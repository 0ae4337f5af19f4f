// What every transport must do. Each function is called by all ranks of a job at the same time, with their own
// endpoint, and says what went wrong on that rank.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TRANSPORT_CONFORMANCE_H_
#define WEFT_EXECUTOR_TRANSPORTS_TRANSPORT_CONFORMANCE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "executor/transport.h"
#include "executor/transports/collective_conformance.h"
#include "proto/status.h"

namespace weft {

inline absl::Status WaitUntilDone(Endpoint& endpoint, const std::deque<Transfer>& transfers) {
  const int64_t deadline = MonotonicNanoseconds() + int64_t{60} * 1000 * 1000 * 1000;
  for (const Transfer& transfer : transfers) {
    while (!transfer.done) {
      WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(100)).status());
      if (MonotonicNanoseconds() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("rank ", endpoint.rank(), " channel ", transfer.channel, ": not done after 60 s"));
      }
    }
  }
  return absl::OkStatus();
}

// Byte `i` of the `index`-th message from `from` to `to` on `channel`.
inline uint8_t ExpectedByte(int from, int to, int channel, int index, int64_t i) {
  return static_cast<uint8_t>(from * 31 + to * 17 + channel * 7 + index * 3 + i * 13 + i / 251);
}

// Every rank exchanges messages of the given sizes with every other rank (and itself excluded), on three channels at
// once, all sends posted before any receive where `sends_first`. Order and content must hold per channel.
inline absl::Status ExchangeConforms(Endpoint& endpoint, const std::vector<int64_t>& sizes, bool sends_first) {
  const int rank = endpoint.rank();
  std::deque<Transfer> sends, receives;
  std::deque<std::vector<uint8_t>> buffers;
  auto add = [&](std::deque<Transfer>& list, int peer, int channel, int64_t bytes) -> Transfer* {
    Transfer& transfer = list.emplace_back();
    std::vector<uint8_t>& buffer = buffers.emplace_back(bytes + 1, uint8_t{0xEE});
    transfer.data = buffer.data();
    transfer.bytes = bytes;
    transfer.peer = peer;
    transfer.channel = channel;
    return &transfer;
  };
  std::vector<Transfer*> posts_send, posts_receive;
  for (int peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == rank) continue;
    for (int channel = 0; channel < 3; ++channel) {
      for (int index = 0; index < static_cast<int>(sizes.size()); ++index) {
        // Different sizes in different channels, so that a message on the wrong channel is seen.
        const int64_t bytes = sizes[(index + channel) % sizes.size()];
        Transfer* send = add(sends, peer, channel, bytes);
        for (int64_t i = 0; i < bytes; ++i) {
          static_cast<uint8_t*>(send->data)[i] = ExpectedByte(rank, peer, channel, index, i);
        }
        posts_send.push_back(send);
        posts_receive.push_back(add(receives, peer, channel, bytes));
      }
    }
  }
  for (size_t i = 0; i < posts_send.size(); ++i) {
    if (sends_first) continue;
    WEFT_RETURN_IF_ERROR(endpoint.PostRecv(posts_receive[i]));
    WEFT_RETURN_IF_ERROR(endpoint.PostSend(posts_send[i]));
  }
  if (sends_first) {
    for (Transfer* send : posts_send) WEFT_RETURN_IF_ERROR(endpoint.PostSend(send));
    for (Transfer* receive : posts_receive) WEFT_RETURN_IF_ERROR(endpoint.PostRecv(receive));
  }
  WEFT_RETURN_IF_ERROR(WaitUntilDone(endpoint, sends));
  WEFT_RETURN_IF_ERROR(WaitUntilDone(endpoint, receives));
  size_t position = 0;
  for (int peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == rank) continue;
    for (int channel = 0; channel < 3; ++channel) {
      for (int index = 0; index < static_cast<int>(sizes.size()); ++index) {
        const Transfer& receive = *posts_receive[position++];
        const uint8_t* data = static_cast<const uint8_t*>(receive.data);
        for (int64_t i = 0; i < receive.bytes; ++i) {
          if (data[i] != ExpectedByte(peer, rank, channel, index, i)) {
            return absl::DataLossError(absl::StrCat("rank ", rank, ": message ", index, " from ", peer, " on channel ",
                                                    channel, ": byte ", i, " of ", receive.bytes, " is wrong"));
          }
        }
        if (data[receive.bytes] != 0xEE) return absl::DataLossError("a receive wrote beyond its bytes");
        if (receive.end_ns < receive.start_ns) return absl::InternalError("a receive ended before it started");
      }
    }
  }
  return absl::OkStatus();
}

inline absl::Status SizesConform(Endpoint& endpoint) {
  return ExchangeConforms(endpoint, {0, 1, 7, 64, 4095, 4096, 65537, (1 << 20) + 3}, /*sends_first=*/false);
}

inline absl::Status CrossingSendsConform(Endpoint& endpoint) {
  return ExchangeConforms(endpoint, {300000, 0, 12, 300001}, /*sends_first=*/true);
}

inline absl::Status BigMessagesConform(Endpoint& endpoint) {
  return ExchangeConforms(endpoint, {24 << 20}, /*sends_first=*/false);
}

inline absl::Status ManySmallMessagesConform(Endpoint& endpoint) {
  std::vector<int64_t> sizes;
  std::mt19937 random(20);
  for (int i = 0; i < 60; ++i) sizes.push_back(random() % 100);
  return ExchangeConforms(endpoint, sizes, /*sends_first=*/true);
}

// A send is not done before its receive is posted, however small. Ranks 0 and 1; the receiver posts only when told to.
inline absl::Status RendezvousConforms(Endpoint& endpoint) {
  if (endpoint.rank() > 1) return absl::OkStatus();
  for (int64_t bytes : {0, 8, 100000}) {
    std::vector<uint8_t> data(bytes + 1), go(1);
    std::deque<Transfer> transfers(2);
    Transfer& payload = transfers[0];
    Transfer& signal = transfers[1];
    payload.data = data.data();
    payload.bytes = bytes;
    payload.channel = 5;
    signal.data = go.data();
    signal.bytes = 1;
    signal.channel = 6;
    payload.peer = signal.peer = 1 - endpoint.rank();
    if (endpoint.rank() == 0) {
      WEFT_RETURN_IF_ERROR(endpoint.PostSend(&payload));
      for (int i = 0; i < 10; ++i) {
        WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(3)).status());
        if (payload.done) {
          return absl::InternalError(absl::StrCat("a send of ", bytes, " bytes was done before its receive"));
        }
      }
      WEFT_RETURN_IF_ERROR(endpoint.PostSend(&signal));
      WEFT_RETURN_IF_ERROR(WaitUntilDone(endpoint, transfers));
    } else {
      WEFT_RETURN_IF_ERROR(endpoint.PostRecv(&signal));
      while (!signal.done) {
        WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(100)).status());
      }
      WEFT_RETURN_IF_ERROR(endpoint.PostRecv(&payload));
      WEFT_RETURN_IF_ERROR(WaitUntilDone(endpoint, transfers));
    }
  }
  return absl::OkStatus();
}

// A wake ends a wait at once.
inline absl::Status WakeConforms(Endpoint& endpoint) {
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    endpoint.Wake();
  });
  const int64_t start = MonotonicNanoseconds();
  bool woken = false;
  absl::Status status;
  while (!woken && status.ok() && MonotonicNanoseconds() - start < int64_t{20} * 1000 * 1000 * 1000) {
    absl::StatusOr<bool> any = endpoint.WaitForProgress(std::chrono::seconds(10));
    status = any.status();
    woken = any.ok() && *any;
  }
  other.join();
  WEFT_RETURN_IF_ERROR(status);
  if (!woken || MonotonicNanoseconds() - start > int64_t{5} * 1000 * 1000 * 1000) {
    return absl::InternalError("Wake did not end the wait");
  }
  return absl::OkStatus();
}

// One rank gives up while the others wait for messages that never come: all learn why. The job is over after this.
inline absl::Status AbortConforms(Endpoint& endpoint) {
  const absl::Status reason = absl::DataLossError("rank 1 step 3: action 'B s1 m0': the reason");
  std::deque<Transfer> transfers(1);
  uint8_t byte = 0;
  transfers[0].data = &byte;
  transfers[0].bytes = 1;
  transfers[0].peer = (endpoint.rank() + 1) % endpoint.size();
  transfers[0].channel = 9;
  const int64_t start = MonotonicNanoseconds();
  if (endpoint.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    if (!endpoint.Abort(reason)) return absl::InternalError("the first abort was not the first");
    // The job has the first reason still, and it was this rank's.
    if (!endpoint.Abort(absl::CancelledError("a later reason"))) return absl::InternalError("the abort was taken away");
  } else {
    absl::Status posted = endpoint.PostRecv(&transfers[0]);
    if (posted.ok()) posted = WaitUntilDone(endpoint, transfers);
    if (posted.ok()) return absl::InternalError("a receive without a send was done");
    if (endpoint.Abort(absl::CancelledError("a later reason"))) return absl::InternalError("a second abort won");
  }
  const absl::Status seen = endpoint.Poll().status();
  if (seen != reason) return absl::InternalError(absl::StrCat("after the abort: ", seen.ToString()));
  if (MonotonicNanoseconds() - start > int64_t{5} * 1000 * 1000 * 1000) {
    return absl::InternalError("an abort took more than five seconds");
  }
  return absl::OkStatus();
}

// All ranks give up at once: one wins, and all see its reason, whole. The job is over after this, so it is no part of
// ConformanceCases; `won` says whether this rank did.
inline absl::Status RacingAbortsConform(Endpoint& endpoint, bool* won) {
  const std::string text(900, static_cast<char>('a' + endpoint.rank()));
  *won = endpoint.Abort(absl::DataLossError(text));
  const absl::Status seen = endpoint.Poll().status();
  const std::string message(seen.message());
  if (seen.code() != absl::StatusCode::kDataLoss || message.size() != text.size() ||
      message.find_first_not_of(message[0]) != std::string::npos || (message == text) != *won) {
    return absl::InternalError(absl::StrCat("after an abort by all, rank ", endpoint.rank(), *won ? " won" : " lost",
                                            " and sees ", seen.ToString()));
  }
  return absl::OkStatus();
}

struct ConformanceCase {
  absl::string_view name;
  absl::Status (*run)(Endpoint&);
};

// In this order; the last one ends the job.
inline std::vector<ConformanceCase> ConformanceCases() {
  return {{"sizes", SizesConform},
          {"crossing sends", CrossingSendsConform},
          {"many small messages", ManySmallMessagesConform},
          {"big messages", BigMessagesConform},
          {"rendezvous", RendezvousConforms},
          {"wake", WakeConforms},
          {"collectives", AllCollectivesConform},
          {"abort", AbortConforms}};
}

}  // namespace weft

#endif  // WEFT_EXECUTOR_TRANSPORTS_TRANSPORT_CONFORMANCE_H_
