// The communicators of one rank: made in an order that cannot deadlock, named, watched for errors, and ended or aborted
// together. Only the rank's thread calls NCCL, because NCCL allows one thread per device to issue work.
#ifndef WEFT_EXECUTOR_TRANSPORTS_NCCL_COMMUNICATORS_H_
#define WEFT_EXECUTOR_TRANSPORTS_NCCL_COMMUNICATORS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/interface/transport.h"
#include "executor/transports/nccl_table.h"

namespace weft::exec {

struct NcclGroup {
  // Ranks of the job in member order, including the caller's; one or more.
  std::vector<int> ranks;
  // The same on all members. Together with the ranks it identifies the communicator; NCCL's own messages and tools show
  // it.
  std::string name;
  // True for messages between two ranks, which take few multiprocessors so that products keep theirs.
  bool pair = false;

  friend bool operator==(const NcclGroup&, const NcclGroup&) = default;
};

// The order in which communicators are made. It is the same on all ranks, so all members of the first communicator that
// is not made yet are always ready. Pairs come first, by distance, and by whether the lower rank is in an even or odd
// block of `distance` ranks. Different pairs of ranks with the same distance and parity have no rank in common, so they
// are made at the same time. A pipeline of any depth therefore takes two turns, not one per rank.
using NcclOrder = std::tuple<bool, int64_t, int64_t, std::vector<int>, std::string>;
NcclOrder OrderOf(const NcclGroup& group);

class NcclCommunicators {
 public:
  // `host` carries the ids by which members find each other. Both must outlive this.
  NcclCommunicators(const NcclTable& nccl, Endpoint& host) : nccl_(nccl), host_(host) {}
  ~NcclCommunicators() { Abort(); }

  std::chrono::nanoseconds timeout() const { return timeout_; }
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }

  // Makes the communicators that do not exist yet. All members of a new group call it with that group.
  absl::Status Make(const std::vector<NcclGroup>& groups);
  // The number of the group; -1 = it has not been made.
  int Find(const NcclGroup& group) const;
  size_t size() const { return made_.size(); }
  NcclComm comm(int index) const { return made_[index].comm; }
  const NcclGroup& group(int index) const { return made_[index].group; }
  // The rank's member number within the group.
  int self(int index) const { return made_[index].self; }

  // Completes a call on the communicator that returned `result`: waits until NCCL has taken the call, at most the
  // timeout. `what` is for errors.
  absl::Status Settle(int index, int result, absl::string_view what);
  // Checks for errors that came up on their own, in this rank's kernels or connections.
  absl::Status Check();
  // True if a wait has seen that a host transfer may be done, as Endpoint::Poll reports it.
  bool TakeNews() { return std::exchange(news_, false); }

  // Ends the communicators in order when all work is over. All members call it. Communicators that do not end within
  // `limit` are aborted.
  void Finish(std::chrono::nanoseconds limit);
  // Ends the communicators at once, with the kernels that wait in them. Afterwards there are none.
  void Abort();

 private:
  struct Made {
    NcclGroup group;
    int self = 0;
    NcclComm comm = nullptr;
  };

  absl::Status MakeOne(const NcclGroup& group);
  // The first member makes an id and sends it to the others.
  absl::StatusOr<NcclId> ShareId(const NcclGroup& group, int self);
  absl::Status WaitFor(const Transfer& transfer, const NcclGroup& group, int64_t deadline_ns);
  void AbortTogether(const std::vector<NcclComm>& comms);
  absl::Status Error(const Made& made, absl::string_view what, int result) const;

  const NcclTable& nccl_;
  Endpoint& host_;
  std::chrono::nanoseconds timeout_ = std::chrono::seconds(300);
  std::deque<Made> made_;
  std::map<NcclOrder, int> index_;
  bool news_ = false;
};

// Describes a group in messages: "'weft data' of ranks 0, 4".
std::string DescribeNcclGroup(const NcclGroup& group);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_NCCL_COMMUNICATORS_H_
