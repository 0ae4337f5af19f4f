// The communicators of the NCCL for tests (fake_nccl.h), and what its kernels do. Internal to the NCCL for tests.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_FAKE_NCCL_KERNELS_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_FAKE_NCCL_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/transports/nccl_table.h"
#include "executor/transports/testing/fake_nccl.h"

namespace weft::exec::fake_nccl {

enum class OpKind { kSend, kRecv, kAllReduce, kAllGather, kReduceScatter };

struct Comm;
struct NcclKernel;

struct Op {
  OpKind kind;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t count = 0;
  int type = kNcclUint8;
  int peer = -1;
  // Number in the sequence that is matched in order: the sends to the peer, the receives from the peer, or the
  // collectives of the communicator.
  size_t number = 0;
  NcclKernel* kernel = nullptr;
  bool done = false;
};

// The operations that a group issues to one communicator.
struct NcclKernel {
  Comm* comm = nullptr;
  FakeGpu* gpu = nullptr;
  int stream = -1;
  int64_t number_of_comm = 0;
  int64_t number_of_gpu = 0;
  bool begun = false;
  std::vector<std::unique_ptr<Op>> ops;
};

struct Clique {
  std::vector<Comm*> members;
  int joined = 0;
};

struct Comm {
  std::string name;
  Clique* clique = nullptr;
  int rank = 0;
  std::thread::id thread;
  std::map<std::pair<bool, int>, std::vector<Op*>> messages;
  std::vector<Op*> collectives;
  int64_t issued = 0;
  int64_t finished = 0;
  std::vector<NcclKernel*> launches;
  int polls_left = 0;
  int ctas = 0;
  int error = kNcclSuccess;
  bool finalized = false;
  bool dead = false;
};

struct Issue {
  Comm* comm;
  FakeGpu::Handle* on;
  std::unique_ptr<Op> op;
};

struct World {
  std::mutex mutex;
  std::mt19937_64 random;
  uint64_t ids = 0;
  bool in_order = false;
  std::map<uint64_t, std::unique_ptr<Clique>> cliques;
  std::vector<std::unique_ptr<Comm>> comms;
  std::vector<std::unique_ptr<NcclKernel>> kernels;
  std::vector<std::string> violations;
  std::vector<std::string> made;
};

World& TheWorld();

int64_t TypeBytes(int type);

// Called with the lock held.
void Violation(const std::string& text);
// Records a violation and returns kNcclInvalidUsage.
int Refuse(const Comm& comm, const std::string& text);

// Advances a kernel that its stream has reached. Returns whether the kernel is over.
bool Advance(NcclKernel& kernel);

}  // namespace weft::exec::fake_nccl

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_FAKE_NCCL_KERNELS_H_
