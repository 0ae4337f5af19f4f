// Two ends of one connection in one thread: tests what is written when, and how the input is interpreted.
#include "executor/transports/tcp_peer.h"

#include <sys/socket.h>

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

struct End {
  std::unique_ptr<TcpPeer> peer;
  TcpPeer::Events events;
  std::vector<Transfer*> done;
  std::vector<absl::Status> errors, aborts, verdicts;
  int verdict_by = -1;
};

// The two ends of a connection between rank 0 and rank 1. The system's buffers hold few bytes.
struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    for (int rank = 0; rank < 2; ++rank) {
      const int bytes = 8192;
      setsockopt(fds[rank], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
      End& end = ends[rank];
      end.events.on_done = [&end](Transfer* transfer) { end.done.push_back(transfer); };
      end.events.on_abort = [&end](const absl::Status& status) { end.aborts.push_back(status); };
      end.events.on_verdict = [&end](int by, const absl::Status& status) {
        end.verdict_by = by;
        end.verdicts.push_back(status);
      };
      end.events.on_error = [&end](const absl::Status& status) { end.errors.push_back(status); };
      TcpConnection connection = {Socket(fds[rank]), 100 + rank, "a host"};
      end.peer = std::make_unique<TcpPeer>(rank, 1 - rank, 2, std::move(connection), &end.events);
    }
  }
  void Move(int rounds = 2000) {
    for (int i = 0; i < rounds; ++i) {
      for (End& end : ends) {
        end.peer->Write();
        end.peer->Read();
      }
    }
  }
  End ends[2];
};

Transfer* Add(std::deque<Transfer>& list, std::string& data, int channel) {
  Transfer& transfer = list.emplace_back();
  transfer.data = data.data();
  transfer.bytes = static_cast<int64_t>(data.size());
  transfer.channel = channel;
  return &transfer;
}

std::string Pattern(size_t bytes, int seed) {
  std::string data(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 7 + i / 251 + static_cast<size_t>(seed) * 31);
  return data;
}

TEST(TcpPeerTest, NothingIsSentBeforeItsReceiveIsReady) {
  Pair pair;
  std::deque<Transfer> transfers;
  std::string from = "word", to = "    ";
  pair.ends[0].peer->PostSend(Add(transfers, from, 3));
  pair.Move(10);
  EXPECT_TRUE(pair.ends[0].done.empty());
  pair.ends[1].peer->PostRecv(Add(transfers, to, 3));
  pair.Move(10);
  ASSERT_EQ(pair.ends[0].done.size(), 1);
  ASSERT_EQ(pair.ends[1].done.size(), 1);
  EXPECT_EQ(to, "word");
  EXPECT_FALSE(pair.ends[0].peer->HasTransfers());
}

TEST(TcpPeerTest, LongMessagesInBothDirectionsAndOnSeveralChannels) {
  Pair pair;
  std::deque<Transfer> transfers;
  std::deque<std::string> data;
  std::vector<std::pair<const std::string*, const std::string*>> expected;
  const uint32_t seed = 8;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 60; ++i) {
    const size_t bytes = i % 7 == 0 ? kMaxPartBytes + random() % 1000000 : random() % 3000;
    const int sender = i % 2, channel = static_cast<int>(random() % 4);
    std::string& from = data.emplace_back(Pattern(bytes, i));
    std::string& to = data.emplace_back(bytes, '\xEE');
    expected.emplace_back(&from, &to);
    // Whichever comes first, messages of a channel keep the order of the posts.
    if (i % 3 == 0) {
      pair.ends[1 - sender].peer->PostRecv(Add(transfers, to, channel));
      pair.Move(3);
      pair.ends[sender].peer->PostSend(Add(transfers, from, channel));
    } else {
      pair.ends[sender].peer->PostSend(Add(transfers, from, channel));
      pair.Move(3);
      pair.ends[1 - sender].peer->PostRecv(Add(transfers, to, channel));
    }
  }
  pair.Move(20000);
  EXPECT_EQ(pair.ends[0].done.size() + pair.ends[1].done.size(), transfers.size());
  for (const auto& [from, to] : expected) EXPECT_TRUE(*from == *to);
  EXPECT_TRUE(pair.ends[0].peer->flushed() && pair.ends[1].peer->flushed());
}

// Both sides forget a message in the middle of it. The frames that follow are understood nevertheless.
TEST(TcpPeerTest, AnAbortLeavesTheConnectionInStep) {
  Pair pair;
  std::deque<Transfer> transfers;
  std::string from = Pattern(kMaxPartBytes / 2, 1), to(from.size(), '\xEE');
  pair.ends[1].peer->PostRecv(Add(transfers, to, 0));
  pair.Move(2);
  pair.ends[0].peer->PostSend(Add(transfers, from, 0));
  pair.Move(3);
  EXPECT_TRUE(pair.ends[0].done.empty());
  pair.ends[0].peer->DropTransfers();
  pair.ends[1].peer->DropTransfers();
  const std::string before = to;
  // Nothing of the message is read any more, so it may be freed.
  from.assign(from.size(), 'x');
  pair.ends[0].peer->Queue({.kind = FrameKind::kVerdict, .channel = 1}, EncodeStatus(absl::DataLossError("why")));
  pair.Move();
  EXPECT_TRUE(to == before);
  EXPECT_TRUE(pair.ends[0].done.empty() && pair.ends[1].done.empty());
  ASSERT_EQ(pair.ends[1].verdicts.size(), 1);
  EXPECT_EQ(pair.ends[1].verdicts[0], absl::DataLossError("why"));
  EXPECT_EQ(pair.ends[1].verdict_by, 1);
}

TEST(TcpPeerTest, DifferentSizesAreAnError) {
  Pair pair;
  std::deque<Transfer> transfers;
  std::string from = "word", to = "  ";
  pair.ends[0].peer->PostSend(Add(transfers, from, 9));
  pair.ends[1].peer->PostRecv(Add(transfers, to, 9));
  pair.Move(5);
  ASSERT_FALSE(pair.ends[0].errors.empty());
  EXPECT_EQ(pair.ends[0].errors[0].message(), "channel 9: rank 0 sends 4 bytes, rank 1 expects 2");
}

TEST(TcpPeerTest, NotesAndEnds) {
  Pair pair;
  pair.ends[0].peer->SetNote(7, 12);
  pair.ends[0].peer->Queue({.kind = FrameKind::kBye}, "");
  pair.Move(3);
  EXPECT_EQ(pair.ends[1].peer->step(), 7);
  EXPECT_EQ(pair.ends[1].peer->action(), 12);
  EXPECT_TRUE(pair.ends[1].peer->left());
  EXPECT_EQ(pair.ends[1].peer->Description(), "process 101 at a host");
  pair.ends[0].peer.reset();
  pair.ends[1].peer->Read();
  EXPECT_FALSE(pair.ends[1].peer->open());
  // The peer had ended in order.
  EXPECT_EQ(pair.ends[1].peer->lost_ns(), 0);
  Pair other;
  other.ends[0].peer.reset();
  other.ends[1].peer->Read();
  EXPECT_GT(other.ends[1].peer->lost_ns(), 0);
}

// Refuses parts that no receive asked for, parts of a message of another size, and parts beyond the message's end.
TEST(TcpPeerTest, WrongPartsAreRefused) {
  const struct {
    Frame frame;
    const char* expected;
  } cases[] = {
      {{.kind = FrameKind::kData, .channel = 2, .bytes = 9, .payload = 4}, "rank 1 expects 8 bytes, rank 0 sends 9"},
      {{.kind = FrameKind::kData, .channel = 2, .bytes = 4, .payload = 4}, "rank 1 expects 8 bytes, rank 0 sends 4"},
  };
  for (const auto& [frame, expected] : cases) {
    Pair pair;
    std::deque<Transfer> transfers;
    std::string to(8, '\xEE');
    pair.ends[1].peer->PostRecv(Add(transfers, to, 2));
    std::string bytes;
    AppendFrame(&bytes, frame);
    bytes += "data";
    ASSERT_EQ(send(pair.ends[0].peer->fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    pair.ends[1].peer->Read();
    ASSERT_EQ(pair.ends[1].errors.size(), 1);
    EXPECT_THAT(std::string(pair.ends[1].errors[0].message()), HasSubstr(expected));
    EXPECT_EQ(to, std::string(8, '\xEE'));
    EXPECT_FALSE(pair.ends[1].peer->open());
  }
}

}  // namespace
}  // namespace weft::exec
