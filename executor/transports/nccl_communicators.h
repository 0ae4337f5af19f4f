// The communicators of one rank: made in an order that cannot deadlock, named, watched for errors, and ended or aborted
// together. All calls but those of the table's own threads are made by the rank's thread (NCCL allows one thread that
// issues per device).
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
  // Ranks of the job in member order, the caller's among them; one or more.
  std::vector<int> ranks;
  // The same on all members. Together with the ranks it says which communicator this is; NCCL's own messages and tools
  // show it.
  std::string name;
  // For messages between two ranks: few multiprocessors, so that products keep theirs.
  bool pair = false;

  friend bool operator==(const NcclGroup&, const NcclGroup&) = default;
};

// Order in which communicators are made: the same on all ranks, so the first one in it that is not made yet always has
// all its members ready. Pairs come first, by distance, and by whether the lower rank is in an even or odd block of so
// many ranks: the pairs of one distance and parity that differ in their ranks share none, so they are made at the same
// time, and a pipeline of any depth takes two turns, not one per rank.
using NcclOrder = std::tuple<bool, int64_t, int64_t, std::vector<int>, std::string>;
NcclOrder OrderOf(const NcclGroup& group);

class NcclCommunicators {
 public:
  // `host` carries the ids by which members find each other; both outlive this.
  NcclCommunicators(const NcclTable& nccl, Endpoint& host) : nccl_(nccl), host_(host) {}
  ~NcclCommunicators() { Abort(); }

  std::chrono::nanoseconds timeout() const { return timeout_; }
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }

  // Makes those that are not there yet. All members call it with the same groups of theirs that are new.
  absl::Status Make(const std::vector<NcclGroup>& groups);
  // A number for the group, -1 if it has not been made.
  int Find(const NcclGroup& group) const;
  size_t size() const { return made_.size(); }
  NcclComm comm(int index) const { return made_[index].comm; }
  const NcclGroup& group(int index) const { return made_[index].group; }
  // Within the group.
  int self(int index) const { return made_[index].self; }

  // `result` of a call on the communicator: waits until NCCL has taken it, at most the timeout. `what` is for errors.
  absl::Status Settle(int index, int result, absl::string_view what);
  // Looks for errors that came up on their own, in this rank's kernels or connections.
  absl::Status Check();
  // True if a wait has seen that a host transfer may be done: what Endpoint::Poll says of it.
  bool TakeNews() { return std::exchange(news_, false); }

  // Ends them in order when all work is over: all members do. What does not end within `limit` is aborted.
  void Finish(std::chrono::nanoseconds limit);
  // Ends them at once, with the kernels that wait in them. Afterwards there are none.
  void Abort();

 private:
  struct Made {
    NcclGroup group;
    int self = 0;
    NcclComm comm = nullptr;
  };

  absl::Status MakeOne(const NcclGroup& group);
  // The first member makes an id and gives it to the others.
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

// "'weft data' of ranks 0, 4": a group in messages.
std::string DescribeNcclGroup(const NcclGroup& group);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_NCCL_COMMUNICATORS_H_
