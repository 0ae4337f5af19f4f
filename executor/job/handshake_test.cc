#include "executor/job/handshake.h"

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "executor/platform/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

constexpr char kSecret[] = "the secret of the job";

int64_t In(int64_t milliseconds) { return MonotonicNanoseconds() + milliseconds * 1000000; }

// Runs a listener in a thread until it goes out of scope.
class Listening {
 public:
  explicit Listening(ProvingListener::Options options = {}) {
    Socket socket = *ListenOn((*ResolveHost("127.0.0.1", 0))[0]);
    address_ = *LocalAddress(socket);
    options.secret = kSecret;
    options.size = 4;
    if (!options.admit) options.admit = [](int) { return absl::OkStatus(); };
    listener_.emplace(std::move(socket), std::move(options));
    thread_ = std::thread([this] {
      while (!stop_) {
        for (auto& accepted : listener_->Advance()) accepted_.push_back(std::move(accepted));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Listening() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Valid after Stop.
  std::vector<ProvingListener::Accepted>& accepted() { return accepted_; }
  int64_t dropped() const { return listener_->dropped(); }

  Socket Connect() { return *ConnectTo(address_, In(10000)); }
  absl::Status Prove(const std::string& secret, int rank, int size = 4, Purpose purpose = Purpose::kStore) {
    const Socket socket = Connect();
    return ProveToServer(socket, "the server", secret, purpose, rank, size, In(10000));
  }

 private:
  SocketAddress address_;
  std::optional<ProvingListener> listener_;
  std::vector<ProvingListener::Accepted> accepted_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(HandshakeTest, AdmitsPeersThatKnowTheSecret) {
  Listening server;
  EXPECT_TRUE(server.Prove(kSecret, 0).ok());
  EXPECT_TRUE(server.Prove(kSecret, 3).ok());
  server.Stop();
  ASSERT_EQ(server.accepted().size(), 2);
  EXPECT_EQ(server.accepted()[0].rank, 0);
  EXPECT_EQ(server.accepted()[1].rank, 3);
  EXPECT_EQ(server.dropped(), 0);
}

TEST(HandshakeTest, AWrongSecretIsRefused) {
  Listening server;
  const absl::Status status = server.Prove("another secret", 1);
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_EQ(status.message(), "the server refuses the secret of rank 1 (WEFT_JOB_SECRET): the job has another secret");
  // A proof for one purpose does not count for another.
  EXPECT_TRUE(absl::IsPermissionDenied(server.Prove(kSecret, 1, 4, Purpose::kTransport)));
  server.Stop();
  EXPECT_TRUE(server.accepted().empty());
}

TEST(HandshakeTest, WrongRanksAndSizesAreNamed) {
  ProvingListener::Options options;
  options.admit = [](int rank) {
    return rank == 2 ? absl::AlreadyExistsError("rank 2 is connected already") : absl::OkStatus();
  };
  Listening server(std::move(options));
  EXPECT_EQ(server.Prove(kSecret, 1, 8).message(),
            "the server refuses rank 1: its WORLD_SIZE is 8, but the job has 4 processes");
  EXPECT_EQ(server.Prove(kSecret, 4).message(), "the server refuses rank 4: ranks are from 0 to 3");
  EXPECT_EQ(server.Prove(kSecret, -1).message(), "the server refuses rank -1: ranks are from 0 to 3");
  EXPECT_EQ(server.Prove(kSecret, 2).message(), "the server refuses rank 2: rank 2 is connected already");
}

// A recorded greeting is worth nothing on another connection, because the challenge differs.
TEST(HandshakeTest, AGreetingCannotBeReplayed) {
  Listening server;
  std::string recorded;
  for (const bool replay : {false, true}) {
    const Socket socket = server.Connect();
    char challenge[kChallengeBytes];
    ASSERT_TRUE(RecvAll(socket, challenge, sizeof challenge, In(10000)).ok());
    if (!replay) {
      Nonce nonce;
      std::copy(challenge + 8, challenge + kChallengeBytes, nonce.begin());
      Hello hello = {.purpose = Purpose::kStore, .rank = 1, .size = 4, .process = 5, .nonce = *RandomNonce()};
      hello.proof = ClientProof(kSecret, nonce, hello);
      recorded = EncodeHello(hello);
    }
    ASSERT_TRUE(SendAll(socket, recorded, In(10000)).ok());
    char verdict[kVerdictBytes];
    ASSERT_TRUE(RecvAll(socket, verdict, sizeof verdict, In(10000)).ok());
    EXPECT_EQ(verdict[8], replay ? 1 : 0);
  }
}

// A process that only pretends to be the server cannot prove it.
TEST(HandshakeTest, AServerMustKnowTheSecret) {
  const Socket listener = *ListenOn((*ResolveHost("127.0.0.1", 0))[0]);
  const SocketAddress address = *LocalAddress(listener);
  for (const std::string& verdict : {std::string("WEFTJOB1") + std::string(40, '\0'), std::string(48, 'x')}) {
    std::thread impostor([&] {
      absl::StatusOr<Socket> socket = AcceptFrom(listener);
      while (!socket.ok()) socket = AcceptFrom(listener);
      char hello[kHelloBytes];
      EXPECT_TRUE(SendAll(*socket, EncodeChallenge(*RandomNonce()), In(10000)).ok());
      EXPECT_TRUE(RecvAll(*socket, hello, sizeof hello, In(10000)).ok());
      EXPECT_TRUE(SendAll(*socket, verdict, In(10000)).ok());
    });
    const Socket socket = *ConnectTo(address, In(10000));
    const absl::Status status = ProveToServer(socket, "the server", kSecret, Purpose::kStore, 1, 4, In(10000));
    EXPECT_EQ(status.message(),
              verdict[0] == 'W'
                  ? "the server does not know the secret of rank 1 (WEFT_JOB_SECRET): it belongs to another job"
                  : "the server does not answer like a weft job: another program listens there");
    impostor.join();
  }
}

TEST(HandshakeTest, GarbageSilenceAndCrowdsHoldUpNobody) {
  ProvingListener::Options options;
  options.patience_ns = 300 * 1000000;
  options.most_pending = 20;
  Listening server(std::move(options));
  std::vector<Socket> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(server.Connect());
    if (i % 3 == 0) {
      (void)SendAll(silent.back(), "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + std::string(200, 'x'), In(10000));
    }
    if (i % 3 == 1) (void)SendAll(silent.back(), "WEFT", In(10000));
  }
  EXPECT_TRUE(server.Prove(kSecret, 1).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_TRUE(server.Prove(kSecret, 2).ok());
  server.Stop();
  EXPECT_EQ(server.accepted().size(), 2);
  EXPECT_EQ(server.dropped(), 100);
}

}  // namespace
}  // namespace weft::exec
