// Tests that the NCCL for tests finds the errors that it should find. The tests of the transport rely on it.
#include "executor/transports/testing/fake_nccl_kernels.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::fake_nccl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Members of one communicator, each with its own GPU, and kernels of one operation that their streams have reached.
class Job {
 public:
  explicit Job(int members) {
    FakeNccl::Reset(1);
    for (int rank = 0; rank < members; ++rank) {
      gpus_.push_back(std::make_unique<FakeGpu>(1));
      Comm& comm = comms_.emplace_back();
      comm.name = "weft test";
      comm.clique = &clique_;
      comm.rank = rank;
      comm.ctas = 2;
    }
    for (Comm& comm : comms_) clique_.members.push_back(&comm);
  }
  ~Job() { FakeNccl::Reset(1); }

  Comm& comm(int rank) { return comms_[rank]; }
  FakeGpu& gpu(int rank) { return *gpus_[rank]; }

  // `peer` < 0: a collective. `from` and `to` must outlive the job.
  NcclKernel& Issue(int rank, OpKind kind, const std::vector<float>& from, std::vector<float>* to, int64_t count,
                    int peer = -1) {
    NcclKernel& kernel = kernels_.emplace_back();
    Comm& comm = comms_[rank];
    kernel.comm = &comm;
    kernel.gpu = gpus_[rank].get();
    kernel.number_of_comm = comm.issued++;
    kernel.number_of_gpu = kernel.gpu->issued++;
    auto op = std::make_unique<Op>();
    op->kind = kind;
    op->from = reinterpret_cast<const std::byte*>(from.data());
    op->to = to == nullptr ? nullptr : reinterpret_cast<std::byte*>(to->data());
    op->count = count;
    op->type = kNcclFloat32;
    op->peer = peer;
    op->kernel = &kernel;
    std::vector<Op*>& list = peer >= 0 ? comm.messages[{kind == OpKind::kSend, peer}] : comm.collectives;
    op->number = list.size();
    list.push_back(op.get());
    kernel.ops.push_back(std::move(op));
    return kernel;
  }
  // Lets the stream go on after the kernel.
  void Finish(NcclKernel& kernel) {
    ++kernel.comm->finished;
    kernel.gpu->free_multiprocessors += kernel.comm->ctas;
  }

 private:
  Clique clique_;
  std::deque<Comm> comms_;
  std::deque<NcclKernel> kernels_;
  std::vector<std::unique_ptr<FakeGpu>> gpus_;
};

TEST(FakeNcclKernels, AMessageMovesWhenBothSidesHaveBegun) {
  Job job(2);
  const std::vector<float> sent = {1, 2, 3};
  std::vector<float> received(3);
  NcclKernel& send = job.Issue(0, OpKind::kSend, sent, nullptr, 3, 1);
  EXPECT_FALSE(Advance(send));
  NcclKernel& receive = job.Issue(1, OpKind::kRecv, {}, &received, 3, 0);
  // The kernel of the send is issued, but its stream has not reached it.
  EXPECT_FALSE(Advance(send));
  EXPECT_THAT(received, ElementsAre(0, 0, 0));
  EXPECT_TRUE(Advance(receive));
  EXPECT_TRUE(Advance(send));
  EXPECT_EQ(received, sent);
  EXPECT_THAT(FakeNccl::Violations(), IsEmpty());
}

TEST(FakeNcclKernels, MessagesMatchInOrderWithoutTags) {
  Job job(2);
  const std::vector<float> first = {1}, second = {2};
  std::vector<float> one(1), two(1);
  NcclKernel& send_1 = job.Issue(0, OpKind::kSend, first, nullptr, 1, 1);
  NcclKernel& send_2 = job.Issue(0, OpKind::kSend, second, nullptr, 1, 1);
  NcclKernel& receive_1 = job.Issue(1, OpKind::kRecv, {}, &one, 1, 0);
  NcclKernel& receive_2 = job.Issue(1, OpKind::kRecv, {}, &two, 1, 0);
  // Kernels of one communicator run one after another, whichever stream they are on.
  EXPECT_FALSE(Advance(send_2));
  EXPECT_FALSE(Advance(send_1));
  EXPECT_TRUE(Advance(receive_1));
  EXPECT_FALSE(Advance(receive_2));
  EXPECT_TRUE(Advance(send_1));
  job.Finish(send_1);
  job.Finish(receive_1);
  EXPECT_FALSE(Advance(send_2));
  EXPECT_TRUE(Advance(receive_2));
  EXPECT_THAT(one, ElementsAre(1));
  EXPECT_THAT(two, ElementsAre(2));
}

TEST(FakeNcclKernels, UnequalCountsAreAViolationForBoth) {
  Job job(2);
  const std::vector<float> sent = {1, 2, 3};
  std::vector<float> received(2);
  NcclKernel& send = job.Issue(0, OpKind::kSend, sent, nullptr, 3, 1);
  NcclKernel& receive = job.Issue(1, OpKind::kRecv, {}, &received, 2, 0);
  Advance(send);
  Advance(receive);
  EXPECT_THAT(FakeNccl::Violations(), ElementsAre("weft test, member 1: a send of 3 meets a receive of 2"));
  EXPECT_EQ(job.comm(0).error, kNcclInvalidUsage);
  EXPECT_EQ(job.comm(1).error, kNcclInvalidUsage);
  EXPECT_THAT(received, ElementsAre(0, 0));
}

TEST(FakeNcclKernels, AKernelWaitsForMultiprocessors) {
  Job job(2);
  const std::vector<float> sent = {1};
  job.gpu(0).free_multiprocessors = 1;
  NcclKernel& send = job.Issue(0, OpKind::kSend, sent, nullptr, 1, 1);
  EXPECT_FALSE(Advance(send));
  EXPECT_FALSE(send.begun);
  job.gpu(0).free_multiprocessors = 2;
  EXPECT_FALSE(Advance(send));
  EXPECT_TRUE(send.begun);
  EXPECT_EQ(job.gpu(0).free_multiprocessors, 0);
}

TEST(FakeNcclKernels, InOrderOfIssueOneHoldsUpTheNextOfItsDevice) {
  for (const bool in_order : {false, true}) {
    Job job(3);
    // `second` stands for a kernel of another communicator on the device of `first`. It is held up only if kernels
    // begin in order, as with NCCL_LAUNCH_ORDER_IMPLICIT=1.
    FakeNccl::BeginInOrder(in_order);
    const std::vector<float> sent = {1};
    NcclKernel& first = job.Issue(0, OpKind::kSend, sent, nullptr, 1, 1);
    NcclKernel& second = job.Issue(2, OpKind::kSend, sent, nullptr, 1, 1);
    second.gpu = first.gpu;
    second.number_of_gpu = first.gpu->issued++;
    Advance(second);
    EXPECT_EQ(second.begun, !in_order);
    Advance(first);
    Advance(second);
    EXPECT_TRUE(first.begun && second.begun);
  }
}

// Uses five elements, which three members cannot share equally.
TEST(FakeNcclKernels, SumsAreThoseOfAllMembers) {
  Job job(3);
  std::vector<std::vector<float>> data;
  for (int rank = 0; rank < 3; ++rank) data.push_back({1.0f + rank, 10, 20, 30, 40.0f * rank});
  std::vector<NcclKernel*> kernels;
  // The all-reduce is in place.
  for (int rank = 0; rank < 3; ++rank) {
    kernels.push_back(&job.Issue(rank, OpKind::kAllReduce, data[rank], &data[rank], 5));
  }
  EXPECT_FALSE(Advance(*kernels[0]));
  EXPECT_FALSE(Advance(*kernels[1]));
  EXPECT_TRUE(Advance(*kernels[2]));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(Advance(*kernels[rank]));
    EXPECT_THAT(data[rank], ElementsAre(6, 30, 60, 90, 120));
  }
}

TEST(FakeNcclKernels, GathersAndSharesAreInMemberOrder) {
  Job job(2);
  const std::vector<float> own[2] = {{1, 2}, {3, 4}}, all[2] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  std::vector<float> gathered[2] = {std::vector<float>(4), std::vector<float>(4)};
  std::vector<float> share[2] = {std::vector<float>(2), std::vector<float>(2)};
  std::vector<NcclKernel*> kernels;
  for (int rank = 0; rank < 2; ++rank) {
    kernels.push_back(&job.Issue(rank, OpKind::kAllGather, own[rank], &gathered[rank], 2));
  }
  for (NcclKernel* kernel : kernels) Advance(*kernel);
  for (int rank = 0; rank < 2; ++rank) EXPECT_THAT(gathered[rank], ElementsAre(1, 2, 3, 4));
  for (NcclKernel* kernel : kernels) job.Finish(*kernel);
  kernels.clear();
  for (int rank = 0; rank < 2; ++rank) {
    kernels.push_back(&job.Issue(rank, OpKind::kReduceScatter, all[rank], &share[rank], 2));
  }
  for (NcclKernel* kernel : kernels) Advance(*kernel);
  EXPECT_THAT(share[0], ElementsAre(11, 22));
  EXPECT_THAT(share[1], ElementsAre(33, 44));
}

TEST(FakeNcclKernels, DifferentCollectivesOfOneCommunicatorAreAViolation) {
  Job job(2);
  std::vector<float> a(2), b(2);
  NcclKernel& sum = job.Issue(0, OpKind::kAllReduce, a, &a, 2);
  NcclKernel& shorter = job.Issue(1, OpKind::kAllReduce, b, &b, 1);
  Advance(sum);
  Advance(shorter);
  EXPECT_THAT(FakeNccl::Violations(), ElementsAre(HasSubstr("members call different collectives")));
  EXPECT_EQ(job.comm(0).error, kNcclInvalidUsage);
}

// A member that has aborted may have freed its memory.
TEST(FakeNcclKernels, NothingIsReadOfWhoIsDead) {
  Job job(2);
  const std::vector<float> sent = {1};
  std::vector<float> received(1);
  NcclKernel& send = job.Issue(0, OpKind::kSend, sent, nullptr, 1, 1);
  NcclKernel& receive = job.Issue(1, OpKind::kRecv, {}, &received, 1, 0);
  EXPECT_FALSE(Advance(send));
  job.comm(0).dead = true;
  EXPECT_TRUE(Advance(send));
  EXPECT_FALSE(Advance(receive));
  EXPECT_THAT(received, ElementsAre(0));
}

}  // namespace
}  // namespace weft::exec::fake_nccl
