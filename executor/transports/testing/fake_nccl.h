// An NCCL for tests, in host memory, between ranks that are threads with a deferred device each. It matches as NCCL
// does: per communicator, the sends from one rank to another match the receives in order, without tags and with equal
// counts. What one group issues to a communicator is one kernel. The kernel holds its stream, and as many
// multiprocessors as its configuration allows, until all of it has moved. Kernels of one communicator run one after
// another. Sums are in an order of its own. Communicators are non-blocking: a call may be under way for some polls.
// What NCCL leaves undefined is recorded as a violation.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_FAKE_NCCL_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_FAKE_NCCL_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "executor/testing/deferred_device.h"
#include "executor/transports/nccl_table.h"

namespace weft::exec {

class FakeGpu : public DeferredDevice {
 public:
  struct Handle {
    FakeGpu* gpu;
    int stream;
  };

  explicit FakeGpu(uint64_t seed, int hardware_queues = 0) : DeferredDevice(seed, hardware_queues) {}
  void* NativeStream(int stream) override;

  // For FakeNccl's own use: kernels issued and begun, of all communicators, and multiprocessors that no kernel holds.
  int64_t issued = 0;
  int64_t begun = 0;
  int free_multiprocessors = 108;

 private:
  std::deque<Handle> handles_;
};

// State of the whole process, so only one test may use it at a time.
class FakeNccl {
 public:
  static const NcclTable& Table();
  // Forgets everything. Calls are under way for a number of polls that is drawn from `seed`.
  static void Reset(uint64_t seed);
  // As with NCCL_LAUNCH_ORDER_IMPLICIT=1: kernels of a device begin in the order in which they were issued.
  static void BeginInOrder(bool in_order);
  // Calls that NCCL leaves undefined or refuses.
  static std::vector<std::string> Violations();
  // Names of the communicators in the order in which all their members had come. Alive returns how many have not ended.
  static std::vector<std::string> Made();
  static int Alive();
  // Makes the members of the communicator of this name find this error.
  static void Fail(const std::string& name, int error);
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_FAKE_NCCL_H_
