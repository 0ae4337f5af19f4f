// The tests that every transport must pass, with host memory and with device memory. All ranks of a job call each
// function at the same time, with their own endpoint. The function returns what went wrong on that rank.
//
// On a device, everything that touches a message's memory is enqueued on the message's stream, just before the post and
// just after the transfer is done. A transport that lacks a wait then moves wrong bytes for some seed of a deferred
// device.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_TRANSPORT_CONFORMANCE_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_TRANSPORT_CONFORMANCE_H_

#include <algorithm>
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
#include "executor/interface/transport.h"
#include "executor/transports/testing/collective_conformance.h"
#include "executor/transports/testing/conformance_rank.h"
#include "proto/util/status.h"

namespace weft::exec {

// Waits for all transfers. Calls `on_done` for each, in order, when it is seen to be done.
template <typename F>
inline absl::Status WaitUntilDone(Endpoint& endpoint, const std::deque<Transfer>& transfers, F on_done) {
  const int64_t deadline = MonotonicNanoseconds() + int64_t{60} * 1000 * 1000 * 1000;
  for (size_t i = 0; i < transfers.size(); ++i) {
    while (!transfers[i].done) {
      WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(100)).status());
      if (MonotonicNanoseconds() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("rank ", endpoint.rank(), " channel ", transfers[i].channel, ": not done after 60 s"));
      }
    }
    WEFT_RETURN_IF_ERROR(on_done(i));
  }
  return absl::OkStatus();
}

inline absl::Status WaitUntilDone(Endpoint& endpoint, const std::deque<Transfer>& transfers) {
  return WaitUntilDone(endpoint, transfers, [](size_t) { return absl::OkStatus(); });
}

// Byte `i` of the `index`-th message from `from` to `to` on `channel`.
inline uint8_t ExpectedByte(int from, int to, int channel, int index, int64_t i) {
  return static_cast<uint8_t>(from * 31 + to * 17 + channel * 7 + index * 3 + i * 13 + i / 251);
}

// Every rank exchanges messages of the given sizes with every other rank, on three channels at once. If `sends_first`,
// all sends are posted before any receive. Order and content must hold per channel.
inline absl::Status ExchangeConforms(ConformanceRank& self, const std::vector<int64_t>& sizes, bool sends_first) {
  Endpoint& endpoint = self.endpoint();
  const int rank = endpoint.rank();
  self.Reset();
  std::deque<Transfer> sends, receives;
  std::vector<ConformanceRank::Memory> sent, received;
  const auto add = [&](std::deque<Transfer>& list, std::vector<ConformanceRank::Memory>& memories, int peer,
                       int channel, int64_t bytes) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const ConformanceRank::Memory memory, self.NewMemory(bytes + 1));
    std::fill_n(memory.host, bytes + 1, uint8_t{0xEE});
    memories.push_back(memory);
    Transfer& transfer = list.emplace_back();
    transfer.data = memory.data;
    transfer.bytes = bytes;
    transfer.peer = peer;
    transfer.channel = channel;
    // Messages of a channel are on one stream.
    transfer.stream = self.Stream(6 * peer + 2 * channel + (&list == &sends));
    return absl::OkStatus();
  };
  for (int peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == rank) continue;
    for (int channel = 0; channel < 3; ++channel) {
      for (int index = 0; index < static_cast<int>(sizes.size()); ++index) {
        // Sizes differ between channels, so that a message on the wrong channel is seen.
        const int64_t bytes = sizes[(index + channel) % sizes.size()];
        WEFT_RETURN_IF_ERROR(add(sends, sent, peer, channel, bytes));
        WEFT_RETURN_IF_ERROR(add(receives, received, peer, channel, bytes));
        for (int64_t i = 0; i < bytes; ++i) sent.back().host[i] = ExpectedByte(rank, peer, channel, index, i);
      }
    }
  }
  WEFT_RETURN_IF_ERROR(self.Connect(sends, receives));
  const auto post = [&](size_t i, bool send) -> absl::Status {
    WEFT_RETURN_IF_ERROR(self.Bring((send ? sent : received)[i], (send ? sends : receives)[i].stream));
    return send ? endpoint.PostSend(&sends[i]) : endpoint.PostRecv(&receives[i]);
  };
  for (size_t i = 0; i < sends.size(); ++i) {
    if (!sends_first) WEFT_RETURN_IF_ERROR(post(i, /*send=*/false));
    WEFT_RETURN_IF_ERROR(post(i, /*send=*/true));
  }
  for (size_t i = 0; i < receives.size() && sends_first; ++i) WEFT_RETURN_IF_ERROR(post(i, /*send=*/false));
  WEFT_RETURN_IF_ERROR(
      WaitUntilDone(endpoint, sends, [&](size_t i) { return self.Overwrite(sent[i], sends[i].stream); }));
  WEFT_RETURN_IF_ERROR(
      WaitUntilDone(endpoint, receives, [&](size_t i) { return self.Fetch(received[i], receives[i].stream); }));
  WEFT_RETURN_IF_ERROR(self.Finish());
  size_t position = 0;
  for (int peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == rank) continue;
    for (int channel = 0; channel < 3; ++channel) {
      for (int index = 0; index < static_cast<int>(sizes.size()); ++index) {
        const Transfer& receive = receives[position];
        const uint8_t* data = received[position++].host;
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

inline absl::Status SizesConform(ConformanceRank& self) {
  return ExchangeConforms(self, {0, 1, 7, 64, 4095, 4096, 65537, (1 << 20) + 3}, /*sends_first=*/false);
}

inline absl::Status CrossingSendsConform(ConformanceRank& self) {
  return ExchangeConforms(self, {300000, 0, 12, 300001}, /*sends_first=*/true);
}

// On a device, one message is as long as a staging piece, and one is a little longer than two pieces.
inline absl::Status BigMessagesConform(ConformanceRank& self) {
  if (!self.on_device()) return ExchangeConforms(self, {24 << 20}, /*sends_first=*/false);
  return ExchangeConforms(self, {4 << 20, (8 << 20) + 5}, /*sends_first=*/false);
}

inline absl::Status ManySmallMessagesConform(ConformanceRank& self) {
  std::vector<int64_t> sizes;
  std::mt19937 random(20);
  for (int i = 0; i < 60; ++i) sizes.push_back(random() % 100);
  return ExchangeConforms(self, sizes, /*sends_first=*/true);
}

// A send is not done before its receive is posted, however small it is. Uses ranks 0 and 1; the receiver posts only
// when it is asked to.
inline absl::Status RendezvousConforms(ConformanceRank& self) {
  Endpoint& endpoint = self.endpoint();
  self.Reset();
  const bool sends = endpoint.rank() == 0;
  for (int64_t bytes : {0, 8, 100000}) {
    std::deque<Transfer> transfers(2);
    Transfer& payload = transfers[0];
    Transfer& signal = transfers[1];
    WEFT_ASSIGN_OR_RETURN(const ConformanceRank::Memory data, self.NewMemory(bytes + 1));
    WEFT_ASSIGN_OR_RETURN(const ConformanceRank::Memory go, self.NewMemory(1));
    payload.data = data.data;
    payload.bytes = bytes;
    payload.channel = 5;
    payload.stream = self.Stream(0);
    signal.data = go.data;
    signal.bytes = 1;
    signal.channel = 6;
    signal.stream = self.Stream(1);
    payload.peer = signal.peer = 1 - endpoint.rank();
    const std::deque<Transfer> none;
    if (endpoint.rank() > 1) {
      WEFT_RETURN_IF_ERROR(self.Connect(none, none));
      continue;
    }
    WEFT_RETURN_IF_ERROR(self.Connect(sends ? transfers : none, sends ? none : transfers));
    if (sends) {
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
  return self.Finish();
}

// A wake ends a wait at once.
inline absl::Status WakeConforms(ConformanceRank& self) {
  Endpoint& endpoint = self.endpoint();
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

// One rank gives up while the others wait for messages that never come, and all learn why. The job is over after this.
inline absl::Status AbortConforms(ConformanceRank& self) {
  Endpoint& endpoint = self.endpoint();
  self.Reset();
  const absl::Status reason = absl::DataLossError("rank 1 step 3: action 'B s1 m0': the reason");
  std::deque<Transfer> transfers(1);
  WEFT_ASSIGN_OR_RETURN(const ConformanceRank::Memory byte, self.NewMemory(1));
  transfers[0].data = byte.data;
  transfers[0].bytes = 1;
  transfers[0].peer = (endpoint.rank() + 1) % endpoint.size();
  transfers[0].channel = 9;
  transfers[0].stream = self.Stream(0);
  WEFT_RETURN_IF_ERROR(self.Connect({}, transfers));
  const int64_t start = MonotonicNanoseconds();
  if (endpoint.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    if (!endpoint.Abort(reason)) return absl::InternalError("the first abort was not the first");
    // The job still has the first reason, which came from this rank.
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

// All ranks give up at once: one wins, and all see its whole reason. The job is over after this, so this is not part of
// ConformanceCases. `won` receives whether this rank won.
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
  absl::Status (*run)(ConformanceRank&);
};

// The cases run in this order; the last one ends the job.
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

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_TRANSPORT_CONFORMANCE_H_
