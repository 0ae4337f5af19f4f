#include "executor/run/replica_check.h"

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

// Four ranks: each data replica holds tensor "w" cut over the axis x, and "bias" whole.
Program TwoReplicas() {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(mesh {
             axes { name: "x" size: 2 }
             axes { name: "data" size: 2 }
           }
           schedule: "1f1b"
           tensors { name: "w" shape: 8 shape: 4 }
           tensors { name: "bias" shape: 5 }
           templates {
             name: "all"
             device_arena_bytes: 768
             buffers {
               name: "w"
               role: PARAM
               tensor: 0
               dtype: FP32
               shape: 4
               shape: 4
               bytes: 64
               shard { dimensions { dimension: 0 axis: "x" } }
             }
             buffers { name: "b" role: MASTER tensor: 1 dtype: FP64 shape: 5 bytes: 40 offset: 256 }
             buffers { name: "g" role: GRAD tensor: 1 dtype: FP32 shape: 5 bytes: 20 offset: 512 }
           })pb",
      &program));
  return program;
}

struct Replicas {
  Replicas() {
    for (int rank = 0; rank < 4; ++rank) {
      arenas.push_back(*Arena::Allocate(768, 0));
      const Template& t = program.templates(0);
      for (int i = 0; i < 16; ++i) Set<float>(rank, t.buffers(0), i, static_cast<float>(rank % 2 * 100 + i));
      for (int i = 0; i < 5; ++i) Set<double>(rank, t.buffers(1), i, 0.5 * i);
      for (int i = 0; i < 5; ++i) Set<float>(rank, t.buffers(2), i, static_cast<float>(rank));
    }
  }

  template <typename T>
  void Set(int rank, const Buffer& buffer, int index, T value) {
    std::memcpy(arenas[rank]->Data(buffer) + index * sizeof(T), &value, sizeof(T));
  }

  absl::Status Compare() {
    std::vector<std::vector<WeightChecksum>> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.push_back(*WeightChecksums(program, rank, *arenas[rank]));
    return CompareReplicas(program, 12, ranks);
  }

  const Program program = TwoReplicas();
  std::vector<std::unique_ptr<Arena>> arenas;
};

// Different shards of a weight have different values, and gradients may differ between replicas. Neither is an error.
TEST(ReplicaCheckTest, ReplicasThatAgreePass) {
  Replicas replicas;
  EXPECT_TRUE(replicas.Compare().ok()) << replicas.Compare();
}

TEST(ReplicaCheckTest, ACorruptedWeightIsNamedWithItsRanks) {
  Replicas replicas;
  const Template& t = replicas.program.templates(0);
  replicas.Set<float>(3, t.buffers(0), 7, 107.0001f);
  const absl::Status status = replicas.Compare();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  // Ranks 1 and 3 hold the same half.
  EXPECT_THAT(std::string(status.message()), HasSubstr("replicas differ after step 12: tensor 'w' (PARAM): rank "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 holds "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 3 holds "));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("more")));
}

TEST(ReplicaCheckTest, TheMinorityIsNamedFirst) {
  Replicas replicas;
  const Template& t = replicas.program.templates(0);
  replicas.Set<double>(2, t.buffers(1), 4, 17);
  EXPECT_THAT(std::string(replicas.Compare().message()),
              ::testing::MatchesRegex("replicas differ after step 12: tensor 'bias' \\(MASTER\\): rank 2 holds "
                                      "[0-9a-f]+, ranks 0, 1, 3 hold [0-9a-f]+"));
  replicas.Set<float>(0, t.buffers(0), 0, -1);
  EXPECT_THAT(std::string(replicas.Compare().message()), HasSubstr("; and 1 more"));
}

TEST(ReplicaCheckTest, RanksCompareOverATransport) {
  for (const bool corrupt : {false, true}) {
    Replicas replicas;
    if (corrupt) replicas.Set<double>(1, replicas.program.templates(0).buffers(1), 0, 1);
    const auto endpoints = *(*FindTransport("inproc"))->open(4);
    std::vector<absl::Status> results(4);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] =
            CheckReplicas(replicas.program, 3, *replicas.arenas[rank], *endpoints[rank], std::chrono::seconds(60));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(results[0].ok(), !corrupt) << results[0];
  }
}

TEST(ReplicaCheckTest, OneBitIsEnough) {
  Replicas replicas;
  ASSERT_TRUE(FlipWeightBit(replicas.program, 0, *replicas.arenas[0]).ok());
  EXPECT_THAT(std::string(replicas.Compare().message()), HasSubstr("tensor 'w' (PARAM): "));
  ASSERT_TRUE(FlipWeightBit(replicas.program, 0, *replicas.arenas[0]).ok());
  EXPECT_TRUE(replicas.Compare().ok());
}

TEST(ReplicaCheckTest, AsynchronousProgramsCannotBeChecked) {
  Program program = TwoReplicas();
  EXPECT_TRUE(CanCheckReplicas(program).ok());
  program.set_steps_per_repetition(2);
  EXPECT_EQ(
      CanCheckReplicas(program).message(),
      "--check-replicas: schedule '1f1b' updates the weights without a flush, so replicas are never at the same step");
}

}  // namespace
}  // namespace weft::exec
