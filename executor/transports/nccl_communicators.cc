#include "executor/transports/nccl_communicators.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Channel on which the host endpoint transfers ids. The program and executor/interpreter/control.h use other channels.
constexpr int kIdChannel = kProgramChannels + 100;
constexpr auto kPause = std::chrono::microseconds(50);
constexpr auto kAwake = std::chrono::microseconds(200);
// Maximum number of blocks of a kernel, for pairs and for other groups. Each block takes a multiprocessor.
constexpr int kMaxPairCtas = 2;
constexpr int kMaxGroupCtas = 16;
// Maximum number of blocks of all communicators of a rank together. All kernels that wait for
// a partner must fit on the device at once. Otherwise those that are there could wait for ever for one that is not. An
// A100 has 108 multiprocessors, newer devices have more.
constexpr int64_t kMaxCtas = 104;

// The message of the first member to each other member. The receiver knows all of it beforehand, except the id. If the
// rest is not what the receiver expects, the ranks do not run the same program.
struct Invitation {
  NcclId id;
  int32_t members;
  int32_t member;
  char name[192];
};

void CopyName(const std::string& name, char (&to)[192]) {
  std::memset(to, 0, sizeof to);
  std::memcpy(to, name.data(), std::min(name.size(), sizeof to - 1));
}

}  // namespace

NcclOrder OrderOf(const NcclGroup& group) {
  const int64_t first = group.ranks.front(), last = group.ranks.back();
  if (group.pair) {
    const int64_t distance = std::abs(last - first);
    const int64_t parity = distance == 0 ? 0 : std::min(first, last) / distance % 2;
    return {false, distance, parity, group.ranks, group.name};
  }
  // Groups of the same size and stride mostly lie along one axis of the mesh and share no rank.
  const int64_t stride = group.ranks.size() < 2 ? 0 : group.ranks[1] - group.ranks[0];
  return {true, static_cast<int64_t>(group.ranks.size()), stride, group.ranks, group.name};
}

std::string DescribeNcclGroup(const NcclGroup& group) {
  constexpr size_t kMax = 8;
  const size_t shown = std::min(group.ranks.size(), kMax);
  return absl::StrCat("'", group.name, "' of rank", group.ranks.size() == 1 ? " " : "s ",
                      absl::StrJoin(group.ranks.begin(), group.ranks.begin() + shown, ", "),
                      shown < group.ranks.size() ? absl::StrCat(" and ", group.ranks.size() - shown, " more") : "");
}

absl::Status NcclCommunicators::Error(const Made& made, absl::string_view what, int result) const {
  const char* name = nccl_.get_error_string(result);
  const char* last = made.comm != nullptr ? nccl_.get_last_error(made.comm) : nullptr;
  return absl::InternalError(absl::StrCat("rank ", host_.rank(), ": NCCL communicator ", DescribeNcclGroup(made.group),
                                          ": ", what, ": ", name == nullptr ? "" : name,
                                          last != nullptr && *last != 0 ? absl::StrCat(" (", last, ")") : ""));
}

int NcclCommunicators::Find(const NcclGroup& group) const {
  const auto found = index_.find(OrderOf(group));
  return found == index_.end() ? -1 : found->second;
}

absl::Status NcclCommunicators::Make(const std::vector<NcclGroup>& groups) {
  std::map<NcclOrder, const NcclGroup*> wanted;
  for (const NcclGroup& group : groups) wanted[OrderOf(group)] = &group;
  for (const auto& [order, group] : wanted) {
    if (index_.count(order) == 0) WEFT_RETURN_IF_ERROR(MakeOne(*group));
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicators::MakeOne(const NcclGroup& group) {
  const auto self = std::find(group.ranks.begin(), group.ranks.end(), host_.rank());
  if (self == group.ranks.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", host_.rank(), " is not in communicator ", DescribeNcclGroup(group)));
  }
  int64_t pairs = group.pair, collectives = !group.pair;
  for (const Made& made : made_) ++(made.group.pair ? pairs : collectives);
  if (pairs * kMaxPairCtas + collectives * kMaxGroupCtas > kMaxCtas) {
    return absl::ResourceExhaustedError(
        absl::StrCat("rank ", host_.rank(), " needs ", pairs, " NCCL communicators for edges and ", collectives,
                     " for collectives; their kernels would take ", pairs * kMaxPairCtas + collectives * kMaxGroupCtas,
                     " multiprocessors of a GPU at the same time (", kMaxPairCtas, " per edge, ", kMaxGroupCtas,
                     " per group); allowed: at most ", kMaxCtas, "; use fewer lanes or mesh axes, or --transport=mpi"));
  }
  const int member = static_cast<int>(self - group.ranks.begin());
  WEFT_ASSIGN_OR_RETURN(const NcclId id, ShareId(group, member));
  const int index = static_cast<int>(made_.size());
  // The element must not move, because NCCL may keep a pointer to the name.
  Made& made = made_.emplace_back(Made{group, member, nullptr});
  NcclConfig config;
  // No wait for another rank may happen inside NCCL, because it could not be aborted there.
  config.blocking = 0;
  config.comm_name = made.group.name.c_str();
  config.min_ctas = 1;
  config.max_ctas = group.pair ? kMaxPairCtas : kMaxGroupCtas;
  const int result = nccl_.comm_init_rank_config(&made.comm, static_cast<int>(group.ranks.size()), id, member, &config);
  if (made.comm == nullptr) {
    const absl::Status status = Error(made, "cannot be made", result);
    made_.pop_back();
    return status;
  }
  index_[OrderOf(group)] = index;
  return Settle(index, result, "cannot be made");
}

absl::StatusOr<NcclId> NcclCommunicators::ShareId(const NcclGroup& group, int self) {
  const int64_t deadline = MonotonicNanoseconds() + timeout_.count();
  const int members = static_cast<int>(group.ranks.size());
  Invitation mine = {};
  mine.members = members;
  CopyName(group.name, mine.name);
  if (self > 0) {
    Invitation theirs = {};
    Transfer transfer;
    transfer.data = &theirs;
    transfer.bytes = sizeof theirs;
    transfer.peer = group.ranks[0];
    transfer.channel = kIdChannel;
    WEFT_RETURN_IF_ERROR(host_.PostRecv(&transfer));
    WEFT_RETURN_IF_ERROR(WaitFor(transfer, group, deadline));
    theirs.name[sizeof theirs.name - 1] = 0;
    if (theirs.members == members && theirs.member == self && std::strcmp(theirs.name, mine.name) == 0) {
      return theirs.id;
    }
    const absl::Status status = absl::InternalError(
        absl::StrCat("rank ", host_.rank(), " makes NCCL communicator ", DescribeNcclGroup(group), " as member ", self,
                     " of ", members, ", rank ", group.ranks[0], " makes '", theirs.name, "' with it as member ",
                     theirs.member, " of ", theirs.members, ": the ranks do not run the same program"));
    host_.Abort(status);
    return status;
  }
  if (const int result = nccl_.get_unique_id(&mine.id); result != kNcclSuccess) {
    return Error({group, self, nullptr}, "no id", result);
  }
  // Posts all sends before it waits for any, because the members may come in any order.
  auto transfers = std::make_unique<Transfer[]>(members);
  std::vector<Invitation> invitations(members, mine);
  for (int member = 1; member < members; ++member) {
    invitations[member].member = member;
    transfers[member].data = &invitations[member];
    transfers[member].bytes = sizeof(Invitation);
    transfers[member].peer = group.ranks[member];
    transfers[member].channel = kIdChannel;
    if (const absl::Status status = host_.PostSend(&transfers[member]); !status.ok()) {
      host_.Abort(status);
      return status;
    }
  }
  for (int member = 1; member < members; ++member) {
    WEFT_RETURN_IF_ERROR(WaitFor(transfers[member], group, deadline));
  }
  return mine.id;
}

// If WaitFor fails, it has aborted the job, so nothing touches the transfers any more.
absl::Status NcclCommunicators::WaitFor(const Transfer& transfer, const NcclGroup& group, int64_t deadline_ns) {
  while (!transfer.done.load(std::memory_order_acquire)) {
    absl::StatusOr<bool> news = host_.WaitForProgress(std::chrono::milliseconds(100));
    absl::Status status = news.status();
    news_ |= news.ok() && *news;
    Endpoint::LastNote note;
    if (status.ok()) status = host_.CheckPeers(&note);
    if (status.ok() && MonotonicNanoseconds() > deadline_ns) {
      status = absl::DeadlineExceededError(absl::StrCat("rank ", host_.rank(), ": waited for rank ", transfer.peer,
                                                        " for ", std::chrono::duration<double>(timeout_).count(),
                                                        " s to make NCCL communicator ", DescribeNcclGroup(group)));
    }
    if (status.ok()) continue;
    host_.Abort(status);
    return status;
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicators::Settle(int index, int result, absl::string_view what) {
  if (result == kNcclSuccess) return absl::OkStatus();
  const Made& made = made_[index];
  const int64_t begun = MonotonicNanoseconds(), deadline = begun + timeout_.count();
  const int64_t awake_until = begun + std::chrono::nanoseconds(kAwake).count();
  while (result == kNcclInProgress) {
    int state = kNcclSuccess;
    result = nccl_.comm_get_async_error(made.comm, &state);
    if (result == kNcclSuccess) result = state;
    if (result != kNcclInProgress) break;
    WEFT_ASSIGN_OR_RETURN(const bool news, host_.Poll());
    news_ |= news;
    if (MonotonicNanoseconds() > deadline) {
      Endpoint::LastNote note;
      WEFT_RETURN_IF_ERROR(host_.CheckPeers(&note));
      return absl::DeadlineExceededError(absl::StrCat("rank ", host_.rank(), ": NCCL communicator ",
                                                      DescribeNcclGroup(made.group), ": ", what, " for ",
                                                      std::chrono::duration<double>(timeout_).count(), " s"));
    }
    // Spins at first: NCCL usually takes a call sooner than a sleeping thread wakes up.
    if (MonotonicNanoseconds() < awake_until) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  return result == kNcclSuccess ? absl::OkStatus() : Error(made, what, result);
}

absl::Status NcclCommunicators::Check() {
  for (const Made& made : made_) {
    int state = kNcclSuccess;
    int result = nccl_.comm_get_async_error(made.comm, &state);
    if (result == kNcclSuccess) result = state;
    if (result != kNcclSuccess && result != kNcclInProgress) return Error(made, "failed", result);
  }
  return absl::OkStatus();
}

void NcclCommunicators::Finish(std::chrono::nanoseconds limit) {
  const int64_t deadline = MonotonicNanoseconds() + limit.count();
  // Starts to end all communicators and then waits, because ranks need not have made them in the same order.
  std::vector<bool> failed(made_.size());
  for (size_t i = 0; i < made_.size(); ++i) {
    const int result = nccl_.comm_finalize(made_[i].comm);
    failed[i] = result != kNcclSuccess && result != kNcclInProgress;
  }
  std::vector<NcclComm> late;
  for (size_t i = 0; i < made_.size(); ++i) {
    int state = kNcclInProgress;
    while (!failed[i] && state == kNcclInProgress) {
      if (nccl_.comm_get_async_error(made_[i].comm, &state) != kNcclSuccess) failed[i] = true;
      if (state == kNcclInProgress && MonotonicNanoseconds() > deadline) failed[i] = true;
      if (!failed[i] && state == kNcclInProgress) std::this_thread::sleep_for(kPause);
    }
    failed[i] = failed[i] || state != kNcclSuccess;
    if (failed[i]) late.push_back(made_[i].comm);
  }
  // Aborts the communicators that have not ended in order before the memory of any communicator is freed.
  AbortTogether(late);
  for (size_t i = 0; i < made_.size(); ++i) {
    if (!failed[i]) nccl_.comm_destroy(made_[i].comm);
  }
  made_.clear();
  index_.clear();
}

void NcclCommunicators::Abort() {
  std::vector<NcclComm> all;
  for (const Made& made : made_) all.push_back(made.comm);
  AbortTogether(all);
  made_.clear();
  index_.clear();
}

// Aborting one after another would wait for ever: each frees its memory, which waits for everything that the device
// runs, while kernels of the next still wait for their partners. In a group (NCCL 2.22 and later) all are asked to
// abort first, and the end of the group waits, whether they block or not.
void NcclCommunicators::AbortTogether(const std::vector<NcclComm>& comms) {
  if (comms.empty()) return;
  nccl_.group_start();
  for (const NcclComm comm : comms) nccl_.comm_abort(comm);
  nccl_.group_end();
}

}  // namespace weft::exec
