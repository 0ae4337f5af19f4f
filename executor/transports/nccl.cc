#include "executor/transports/nccl.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "executor/transports/nccl_communicators.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// Time between two checks for errors that NCCL reports outside a call.
constexpr int64_t kCheckNanoseconds = 100 * 1000 * 1000;
// How long ending communicators in order may take.
constexpr auto kFinishLimit = std::chrono::seconds(10);

// Returns NCCL's number for a floating-point dtype; -1 for other dtypes, which are not summed over NCCL.
int SumType(DType dtype) {
  switch (dtype) {
    case FP64:
      return kNcclFloat64;
    case FP32:
      return kNcclFloat32;
    case BF16:
      return kNcclBfloat16;
    case FP16:
      return kNcclFloat16;
    default:
      return -1;
  }
}

class NcclEndpoint : public Endpoint, public NativeCollectives {
 public:
  NcclEndpoint(const NcclTable& table, std::unique_ptr<Endpoint> host)
      : nccl_(table), host_(std::move(host)), communicators_(table, *host_), thread_(std::this_thread::get_id()) {}

  ~NcclEndpoint() override {
    if (!aborted_) communicators_.Finish(kFinishLimit);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  void SetTimeout(std::chrono::nanoseconds timeout) override {
    communicators_.set_timeout(timeout);
    host_->SetTimeout(timeout);
  }

  // NCCL's kernels wait for their partners.
  bool holds_streams() const override { return true; }
  // The warm-up stream, on which each communicator is used for the first time.
  int own_streams() const override { return 1; }

  absl::Status UseDevice(ComputeDevice* device) override {
    // Stream 0 of a CUDA device may be CUDA's own default stream, which has no handle. A new stream has one.
    WEFT_ASSIGN_OR_RETURN(warm_up_stream_, device->NewStream(ComputeDevice::Priority::kHigh));
    if (device->NativeStream(warm_up_stream_) == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "transport 'nccl' moves memory of GPUs, but the backend's device is '", std::string(device->name()),
          "'; allowed transports: inproc, loopback, mpi, tcp; or use --backend=cuda"));
    }
    thread_ = std::this_thread::get_id();
    device_ = device;
    WEFT_ASSIGN_OR_RETURN(fork_event_, device->NewEvent(/*timed=*/false));
    WEFT_ASSIGN_OR_RETURN(warm_up_event_, device->NewEvent(/*timed=*/false));
    WEFT_ASSIGN_OR_RETURN(warm_up_memory_, device->Allocate(DEVICE, kWarmUpBytes));
    return absl::OkStatus();
  }

  absl::Status Connect(absl::Span<const Transfer* const> sends, absl::Span<const Transfer* const> receives) override {
    if (device_ == nullptr) return absl::FailedPreconditionError("transport 'nccl' has no device yet");
    std::vector<NcclGroup> groups;
    std::vector<std::pair<EdgeKey, NcclGroup>> edges;
    // By stream: its edges that are in groups.
    std::map<int, std::set<EdgeKey>> grouped;
    for (const bool send : {true, false}) {
      for (const Transfer* transfer : send ? sends : receives) {
        if (transfer->stream < 0) continue;
        WEFT_RETURN_IF_ERROR(CheckTransfer(*transfer));
        const EdgeKey key = {transfer->peer, transfer->channel, send};
        if (transfer->grouped) grouped[transfer->stream].insert(key);
        if (edges_.count(key) > 0) continue;
        edges_[key] = {};
        edges.emplace_back(key, GroupOfEdge(key));
        groups.push_back(edges.back().second);
      }
    }
    for (const NcclGroup& group : collective_groups_) {
      if (group.ranks.size() > 1 && communicators_.Find(group) < 0) groups.push_back(group);
    }
    WEFT_RETURN_IF_ERROR(Make(groups));
    for (auto& [key, group] : edges) {
      Edge& edge = edges_[key];
      edge.communicator = communicators_.Find(group);
    }
    // In a group, the first edge on a stream stays on that stream, and each other edge needs a stream of its own. Any
    // edge may be the first, so all get one.
    for (const auto& [stream, keys] : grouped) {
      for (const EdgeKey& key : keys) {
        Edge& edge = edges_[key];
        if (keys.size() < 2 || edge.stream >= 0) continue;
        WEFT_ASSIGN_OR_RETURN(edge.stream, device_->NewStream(ComputeDevice::Priority::kHigh));
        WEFT_ASSIGN_OR_RETURN(edge.event, device_->NewEvent(/*timed=*/false));
      }
    }
    pending_.reserve(std::max(pending_.capacity(), 2 * edges_.size() + 16));
    return absl::OkStatus();
  }

  absl::Status BeginGroup() override {
    grouping_ = true;
    return host_->BeginGroup();
  }

  absl::Status EndGroup() override {
    grouping_ = false;
    WEFT_RETURN_IF_ERROR(host_->EndGroup());
    if (pending_.empty()) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(Fork());
    WEFT_RETURN_IF_ERROR(Issue());
    // Work that comes after the group on a stream waits for all members of the group on that stream.
    for (Pending& pending : pending_) {
      if (pending.on == pending.transfer->stream) continue;
      WEFT_RETURN_IF_ERROR(device_->Record(pending.edge->event, pending.on));
      WEFT_RETURN_IF_ERROR(device_->Wait(pending.transfer->stream, pending.edge->event));
    }
    FinishPending();
    return absl::OkStatus();
  }

  NativeCollectives* native_collectives() override { return device_ != nullptr ? this : nullptr; }

  absl::Status PostSend(Transfer* transfer) override { return Post(transfer, /*send=*/true); }
  absl::Status PostRecv(Transfer* transfer) override { return Post(transfer, /*send=*/false); }

  absl::StatusOr<bool> Poll() override { return After(host_->Poll()); }

  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    const bool known = news_ | communicators_.TakeNews();
    news_ |= known;
    return After(known ? host_->Poll() : host_->WaitForProgress(timeout));
  }

  void Wake() override { host_->Wake(); }

  bool Abort(const absl::Status& status) override {
    const bool won = host_->Abort(status);
    // Only the rank's own thread may end communicators, because it may be in a call on one of them.
    if (std::this_thread::get_id() == thread_) AbortCommunicators();
    return won;
  }

  absl::Status AbortReason() override { return host_->AbortReason(); }

  void Note(int64_t step, int32_t action) override { host_->Note(step, action); }
  absl::Status CheckPeers(LastNote* last) override { return host_->CheckPeers(last); }

  // The functions of NativeCollectives.
  absl::StatusOr<int> NewGroup(absl::Span<const int> ranks, absl::string_view name) override {
    NcclGroup group;
    group.ranks.assign(ranks.begin(), ranks.end());
    group.name = absl::StrCat("weft ", name);
    if (ranks.empty() || std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank(), " is not in communicator ", DescribeNcclGroup(group)));
    }
    const auto known = std::find(collective_groups_.begin(), collective_groups_.end(), group);
    if (known != collective_groups_.end()) return static_cast<int>(known - collective_groups_.begin());
    // The next Connect makes the communicator together with all others, in the order that all ranks use.
    collective_groups_.push_back(group);
    return static_cast<int>(collective_groups_.size()) - 1;
  }

  bool Has(const Call& call) const override {
    return call.kind == ALL_GATHER
               ? DTypeBytes(call.dtype) > 0
               : (call.kind == ALL_REDUCE || call.kind == REDUCE_SCATTER) && SumType(call.dtype) >= 0;
  }

  // NCCL chooses algorithm and order by the machines' topology. An all-gather sums nothing, and a sum of two has one
  // order and is rounded once.
  bool KeepsOrder(const Call& call, absl::string_view, int members) const override {
    return call.kind == ALL_GATHER || members <= 2;
  }

  absl::Status Enqueue(int group, absl::Span<const Call> calls, int stream) override {
    if (group < 0 || group >= static_cast<int>(collective_groups_.size())) {
      return absl::InvalidArgumentError(absl::StrCat("no NCCL group ", group));
    }
    const NcclGroup& of = collective_groups_[group];
    const int64_t members = static_cast<int64_t>(of.ranks.size());
    if (members == 1) return CopyOwn(calls, stream);
    const int index = communicators_.Find(of);
    if (index < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank(), ": NCCL communicator ", DescribeNcclGroup(of), " was not connected"));
    }
    const NcclComm comm = communicators_.comm(index);
    const NcclStream on = device_->NativeStream(stream);
    int result = nccl_.group_start();
    for (const Call& call : calls) {
      if (result != kNcclSuccess && result != kNcclInProgress) break;
      const size_t count = static_cast<size_t>(call.elements);
      if (call.kind == ALL_REDUCE) {
        result = nccl_.all_reduce(call.source, call.destination, count, SumType(call.dtype), kNcclSum, comm, on);
      } else if (call.kind == REDUCE_SCATTER) {
        result = nccl_.reduce_scatter(call.source, call.destination, count / members, SumType(call.dtype), kNcclSum,
                                      comm, on);
      } else {
        result = nccl_.all_gather(call.source, call.destination, count * DTypeBytes(call.dtype), kNcclUint8, comm, on);
      }
    }
    // A group that was begun must be ended in any case.
    const int ended = nccl_.group_end();
    if (result == kNcclSuccess || result == kNcclInProgress) result = ended;
    return communicators_.Settle(index, result, "does not accept a collective");
  }

 private:
  static constexpr int64_t kWarmUpBytes = 4096;

  struct EdgeKey {
    int peer;
    int channel;
    bool send;

    friend bool operator==(const EdgeKey&, const EdgeKey&) = default;
    friend auto operator<=>(const EdgeKey&, const EdgeKey&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const EdgeKey& key) {
      return H::combine(std::move(state), key.peer, key.channel, key.send);
    }
  };
  // The messages from one rank to another on one channel. They have a communicator of these two ranks, so that NCCL
  // matches them in order, and with nothing else.
  struct Edge {
    int communicator = -1;
    // A stream and an event of this edge alone, for members of a group whose communicators share a stream; -1 = none.
    int stream = -1;
    int event = -1;
  };
  struct Pending {
    Transfer* transfer;
    Edge* edge;
    bool send;
    // The stream on which the transfer is issued.
    int on;
  };

  absl::Status CheckTransfer(const Transfer& transfer) const {
    if (transfer.peer >= 0 && transfer.peer < size() && transfer.bytes >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank(), ": a transfer of ", transfer.bytes,
                                                   " bytes with rank ", transfer.peer, " of ", size()));
  }

  // The sender is member 0 of the group.
  NcclGroup GroupOfEdge(const EdgeKey& key) const {
    const int from = key.send ? rank() : key.peer, to = key.send ? key.peer : rank();
    NcclGroup group;
    group.ranks = {from};
    if (to != from) group.ranks.push_back(to);
    group.name = absl::StrCat("weft ", from, ">", to, " channel ", key.channel);
    group.pair = true;
    return group;
  }

  // Makes the communicators and their connections, and uses each communicator once for its purpose. The order is the
  // one of OrderOf, because the first message of a communicator waits for its members too.
  absl::Status Make(std::vector<NcclGroup> groups) {
    std::sort(groups.begin(), groups.end(),
              [](const NcclGroup& a, const NcclGroup& b) { return OrderOf(a) < OrderOf(b); });
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    for (const NcclGroup& group : groups) {
      absl::Status status = communicators_.Make({group});
      if (status.ok()) status = WarmUp(communicators_.Find(group));
      if (!status.ok()) {
        Abort(status);
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status WarmUp(int index) {
    const NcclGroup& group = communicators_.group(index);
    const NcclComm comm = communicators_.comm(index);
    const NcclStream on = device_->NativeStream(warm_up_stream_);
    char* memory = static_cast<char*>(warm_up_memory_);
    int result = nccl_.group_start();
    if (!group.pair) {
      nccl_.all_reduce(memory, memory, 1, kNcclFloat32, kNcclSum, comm, on);
    } else {
      const int self = communicators_.self(index), peer = group.ranks.size() == 1 ? 0 : 1 - self;
      if (self == 0) nccl_.send(memory, 1, kNcclUint8, peer, comm, on);
      if (self == 1 || peer == self) nccl_.recv(memory + kWarmUpBytes / 2, 1, kNcclUint8, peer, comm, on);
    }
    const int ended = nccl_.group_end();
    if (result == kNcclSuccess) result = ended;
    WEFT_RETURN_IF_ERROR(communicators_.Settle(index, result, "does not accept its first message"));
    WEFT_RETURN_IF_ERROR(device_->Record(warm_up_event_, warm_up_stream_));
    const int64_t deadline = MonotonicNanoseconds() + communicators_.timeout().count();
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool over, device_->Finished(warm_up_event_));
      if (over) return absl::OkStatus();
      WEFT_ASSIGN_OR_RETURN(const bool news, Poll());
      news_ |= news;
      if (MonotonicNanoseconds() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("rank ", rank(), ": NCCL communicator ", DescribeNcclGroup(group), ": its first message took ",
                         "more than ", std::chrono::duration<double>(communicators_.timeout()).count(), " s"));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  absl::Status Post(Transfer* transfer, bool send) {
    if (transfer->stream < 0) return send ? host_->PostSend(transfer) : host_->PostRecv(transfer);
    if (aborted_) return host_->Poll().status();
    WEFT_RETURN_IF_ERROR(CheckTransfer(*transfer));
    const auto edge = edges_.find(EdgeKey{transfer->peer, transfer->channel, send});
    if (edge == edges_.end()) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", rank(), ": channel ", transfer->channel,
                                                        send ? " to rank " : " from rank ", transfer->peer,
                                                        " was not connected before the first step"));
    }
    transfer->owner = rank();
    transfer->done.store(false, std::memory_order_relaxed);
    pending_.push_back({transfer, &edge->second, send, transfer->stream});
    if (grouping_) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(Issue());
    FinishPending();
    return absl::OkStatus();
  }

  // Members of a group run at the same time. If communicators share a stream, each after the first gets its own stream,
  // which waits for what the shared stream waits for. All transfers of a communicator stay on one stream.
  absl::Status Fork() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      Pending& own = pending_[i];
      bool shared = false, known = false;
      for (size_t j = 0; j < i && !known; ++j) {
        known = pending_[j].edge->communicator == own.edge->communicator;
        if (known) own.on = pending_[j].on;
        shared |= pending_[j].transfer->stream == own.transfer->stream;
      }
      if (known || !shared) continue;
      if (own.edge->stream < 0) {
        return absl::InternalError(absl::StrCat("rank ", rank(), ": channel ", own.transfer->channel,
                                                own.send ? " to rank " : " from rank ", own.transfer->peer,
                                                " shares a stream in a group that was not announced"));
      }
      own.on = own.edge->stream;
      WEFT_RETURN_IF_ERROR(device_->Record(fork_event_, own.transfer->stream));
      WEFT_RETURN_IF_ERROR(device_->Wait(own.on, fork_event_));
    }
    return absl::OkStatus();
  }

  // Enqueues all pending transfers together.
  absl::Status Issue() {
    int result = pending_.size() > 1 ? nccl_.group_start() : kNcclSuccess;
    const Pending* failed = nullptr;
    for (Pending& pending : pending_) {
      const Transfer& transfer = *pending.transfer;
      const int index = pending.edge->communicator;
      const NcclComm comm = communicators_.comm(index);
      const NcclStream stream = device_->NativeStream(pending.on);
      const int peer = communicators_.group(index).ranks.size() == 1 ? 0 : pending.send ? 1 : 0;
      const size_t bytes = static_cast<size_t>(transfer.bytes);
      result = pending.send ? nccl_.send(transfer.data, bytes, kNcclUint8, peer, comm, stream)
                            : nccl_.recv(transfer.data, bytes, kNcclUint8, peer, comm, stream);
      failed = &pending;
      if (result != kNcclSuccess && result != kNcclInProgress) break;
    }
    if (pending_.size() > 1) {
      // A group that was begun must be ended in any case.
      const int ended = nccl_.group_end();
      if (result == kNcclSuccess || result == kNcclInProgress) result = ended;
    }
    if (result == kNcclSuccess) return absl::OkStatus();
    if (result != kNcclInProgress) {
      return communicators_.Settle(failed->edge->communicator, result, "does not accept a message");
    }
    for (const Pending& pending : pending_) {
      WEFT_RETURN_IF_ERROR(
          communicators_.Settle(pending.edge->communicator, kNcclInProgress, "does not accept a message"));
    }
    return absl::OkStatus();
  }

  // A transfer that is issued is done: what the stream does next runs after it.
  void FinishPending() {
    const int64_t now = MonotonicNanoseconds();
    for (Pending& pending : pending_) {
      pending.transfer->start_ns = pending.transfer->end_ns = now;
      pending.transfer->done.store(true, std::memory_order_release);
    }
    pending_.clear();
    news_ = true;
  }

  // Copies each source to its destination, for a group of one member.
  absl::Status CopyOwn(absl::Span<const Call> calls, int stream) {
    for (const Call& call : calls) {
      if (call.source == call.destination) continue;
      WEFT_RETURN_IF_ERROR(
          device_->Copy(stream, call.destination, call.source, call.elements * DTypeBytes(call.dtype)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> After(absl::StatusOr<bool> news) {
    if (!news.ok()) {
      AbortCommunicators();
      return news;
    }
    if (!aborted_ && communicators_.size() > 0) {
      const int64_t now = MonotonicNanoseconds();
      if (now - checked_ns_ > kCheckNanoseconds) {
        checked_ns_ = now;
        if (const absl::Status status = communicators_.Check(); !status.ok()) {
          Abort(status);
          // Another rank may have aborted first.
          const absl::Status reason = host_->Poll().status();
          return reason.ok() ? status : reason;
        }
      }
    }
    const bool seen = std::exchange(news_, false) | communicators_.TakeNews();
    return *news || seen;
  }

  void AbortCommunicators() {
    aborted_ = true;
    pending_.clear();
    communicators_.Abort();
  }

  const NcclTable& nccl_;
  std::unique_ptr<Endpoint> host_;
  NcclCommunicators communicators_;
  std::thread::id thread_;
  ComputeDevice* device_ = nullptr;
  int warm_up_stream_ = -1;
  int warm_up_event_ = -1;
  void* warm_up_memory_ = nullptr;
  int fork_event_ = -1;

  // Pending::edge points into this map. Only Connect adds edges, while no transfer is pending.
  absl::flat_hash_map<EdgeKey, Edge> edges_;
  std::vector<NcclGroup> collective_groups_;

  bool grouping_ = false;
  // The transfers posted since BeginGroup, or the one that is being posted.
  std::vector<Pending> pending_;
  bool aborted_ = false;
  bool news_ = false;
  int64_t checked_ns_ = 0;
};

}  // namespace

std::unique_ptr<Endpoint> MakeNcclEndpoint(const NcclTable& table, std::unique_ptr<Endpoint> host) {
  return std::make_unique<NcclEndpoint>(table, std::move(host));
}

absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> OpenNccl(int ranks) {
  WEFT_ASSIGN_OR_RETURN(const NcclTable* table, OpenNcclTable());
  // The transport that the launcher has made available to the processes.
  WEFT_ASSIGN_OR_RETURN(const TransportEntry* inner, FindTransport("auto"));
  if (inner->name == "inproc" && ranks > 1) {
    return absl::FailedPreconditionError(
        "nccl: needs a process per rank; --bootstrap=local starts the processes on this node");
  }
  WEFT_ASSIGN_OR_RETURN(auto hosts, inner->open(ranks));
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (std::unique_ptr<Endpoint>& host : hosts) endpoints.push_back(MakeNcclEndpoint(*table, std::move(host)));
  return endpoints;
}

}  // namespace weft::exec
