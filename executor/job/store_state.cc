#include "executor/job/store_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/job/reported_remotely.h"

namespace weft::exec {
namespace {

constexpr int64_t kMillisecond = 1000000;

}  // namespace

std::string NameRanks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks[0]);
  constexpr size_t kNamed = 8;
  std::vector<int> named(ranks.begin(), ranks.begin() + static_cast<int64_t>(std::min(ranks.size(), kNamed)));
  if (ranks.size() > kNamed) {
    return absl::StrCat("ranks ", absl::StrJoin(named, ", "), " and ", ranks.size() - kNamed, " more");
  }
  const int last = named.back();
  named.pop_back();
  return absl::StrCat("ranks ", absl::StrJoin(named, ", "), " and ", last);
}

StoreState::StoreState(int size, std::string address, absl::Status failure)
    : address_(std::move(address)), clients_(size), failure_(std::move(failure)) {}

void StoreState::Handle(int rank, StoreRequest request, int64_t now_ns, std::vector<StoreAnswer>* answers) {
  if (request.operation == StoreOperation::kFail) {
    clients_[rank].waits = false;
    Fail(DecodeFailure(request.value), rank, answers);
    answers->push_back({rank, said_by_ == rank ? absl::OkStatus() : FailureFor(rank), kReportFailure});
    return;
  }
  if (!failure_.ok()) {
    answers->push_back({rank, FailureFor(rank)});
    return;
  }
  switch (request.operation) {
    case StoreOperation::kSet:
      return Set(rank, std::move(request), answers);
    case StoreOperation::kGet:
    case StoreOperation::kWait: {
      const auto found = values_.find(request.key);
      if (found != values_.end()) {
        answers->push_back({rank, absl::OkStatus(), found->second});
      } else if (request.operation == StoreOperation::kGet) {
        answers->push_back({rank, absl::NotFoundError(absl::StrCat("the store has no '", request.key, "'"))});
      } else {
        BeginWait(rank, std::move(request), now_ns);
      }
      return;
    }
    case StoreOperation::kBarrier:
      return Barrier(rank, std::move(request), now_ns, answers);
    case StoreOperation::kLeave:
    case StoreOperation::kFail:
      return;
  }
}

void StoreState::Set(int rank, StoreRequest request, std::vector<StoreAnswer>* answers) {
  auto [entry, added] = values_.try_emplace(request.key);
  const size_t after = stored_ - entry->second.size() + request.value.size() + (added ? request.key.size() : 0);
  if (after > kMaxStoredBytes) {
    if (added) values_.erase(entry);
    answers->push_back({rank, absl::ResourceExhaustedError("the store is full")});
    return;
  }
  stored_ = after;
  entry->second = std::move(request.value);
  answers->push_back({rank});
  EndWaits(StoreOperation::kWait, request.key, entry->second, answers);
}

void StoreState::Barrier(int rank, StoreRequest request, int64_t now_ns, std::vector<StoreAnswer>* answers) {
  std::set<int>& arrived = barriers_[request.key];
  if (!arrived.insert(rank).second) {
    answers->push_back({rank, absl::FailedPreconditionError(absl::StrCat("rank ", rank, " is at barrier '", request.key,
                                                                         "' for the second time"))});
    return;
  }
  if (arrived.size() < clients_.size()) return BeginWait(rank, std::move(request), now_ns);
  answers->push_back({rank});
  EndWaits(StoreOperation::kBarrier, request.key, "", answers);
}

void StoreState::BeginWait(int rank, StoreRequest request, int64_t now_ns) {
  Client& client = clients_[rank];
  client.waits = true;
  client.deadline_ns = now_ns + static_cast<int64_t>(request.timeout_ms) * kMillisecond;
  client.request = std::move(request);
}

void StoreState::EndWaits(StoreOperation operation, const std::string& key, absl::string_view value,
                          std::vector<StoreAnswer>* answers) {
  for (size_t rank = 0; rank < clients_.size(); ++rank) {
    Client& client = clients_[rank];
    if (!client.waits || client.request.operation != operation || client.request.key != key) continue;
    client.waits = false;
    answers->push_back({static_cast<int>(rank), absl::OkStatus(), std::string(value)});
  }
}

void StoreState::Lose(int rank, absl::string_view why, std::vector<StoreAnswer>* answers) {
  clients_[rank].waits = false;
  Fail(absl::AbortedError(absl::StrCat("rank ", rank, " was lost while the job was starting: ", why)), 0, answers);
}

// Records the first failure and answers every request that waits with it. Later failures change nothing.
void StoreState::Fail(const absl::Status& status, int said_by, std::vector<StoreAnswer>* answers) {
  if (!failure_.ok()) return;
  failure_ = status;
  said_by_ = said_by;
  for (int rank = 0; rank < static_cast<int>(clients_.size()); ++rank) {
    if (std::exchange(clients_[rank].waits, false)) answers->push_back({rank, FailureFor(rank)});
  }
}

absl::Status StoreState::FailureFor(int rank) const {
  return rank == said_by_ ? failure_ : AsReportedRemotely(failure_);
}

void StoreState::Expire(int64_t now_ns, std::vector<StoreAnswer>* answers) {
  for (int rank = 0; rank < static_cast<int>(clients_.size()); ++rank) {
    Client& client = clients_[rank];
    if (!client.waits || now_ns < client.deadline_ns) continue;
    client.waits = false;
    answers->push_back({rank, absl::DeadlineExceededError(WhyLate(client.request))});
  }
}

int64_t StoreState::NextDeadline() const {
  int64_t next = -1;
  for (const Client& client : clients_) {
    if (client.waits && (next < 0 || client.deadline_ns < next)) next = client.deadline_ns;
  }
  return next;
}

std::string StoreState::WhyLate(const StoreRequest& request) const {
  std::vector<int> absent, late;
  const auto barrier = barriers_.find(request.key);
  for (int rank = 0; rank < static_cast<int>(clients_.size()); ++rank) {
    if (!clients_[rank].came) {
      absent.push_back(rank);
    } else if (request.operation == StoreOperation::kBarrier && barrier != barriers_.end() &&
               barrier->second.count(rank) == 0) {
      late.push_back(rank);
    }
  }
  const std::string within = absl::StrCat(" within ", static_cast<double>(request.timeout_ms) / 1000, " s");
  if (!absent.empty()) {
    return absl::StrCat(NameRanks(absent), " of ", clients_.size(), " did not connect to ", address_, within);
  }
  if (!late.empty()) return absl::StrCat(NameRanks(late), " did not reach '", request.key, "'", within);
  return absl::StrCat("nobody has set '", request.key, "'", within);
}

}  // namespace weft::exec
