// The state of the rendezvous store: keys and values, the requests that wait, and why the job cannot start. It decides
// which requests are answered when. It uses no connection (those are in store.cc) and no clock.
#ifndef WEFT_EXECUTOR_JOB_STORE_STATE_H_
#define WEFT_EXECUTOR_JOB_STORE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "executor/job/store_message.h"

namespace weft::exec {

// Limit on all keys and values together.
inline constexpr size_t kMaxStoredBytes = 64 << 20;

struct StoreAnswer {
  int rank = 0;
  absl::Status status = {};
  std::string value = {};
};

class StoreState {
 public:
  // Makes the state of a job of `size` ranks. Errors about late ranks name `address` as the place where they were
  // expected. `failure`: a failure of rank 0 that came before the store was served, or Ok.
  StoreState(int size, std::string address, absl::Status failure);

  // The rank has a connection now. Called once per rank.
  void Come(int rank) { clients_[rank].came = true; }
  bool came(int rank) const { return clients_[rank].came; }
  // True if a request of the rank has no answer yet. The rank may then send kFail only.
  bool waits(int rank) const { return clients_[rank].waits; }

  // Handles a request and appends the answers that it causes, for this rank and for others. kLeave has no answer, so
  // the caller must not pass it. Once the job has failed, the answer to every request is the first failure, which one
  // rank reports.
  void Handle(int rank, StoreRequest request, int64_t now_ns, std::vector<StoreAnswer>* answers);
  // Records that the rank's connection was lost before the rank left the store. That fails the job, because other ranks
  // may wait for this rank.
  void Lose(int rank, absl::string_view why, std::vector<StoreAnswer>* answers);
  // Answers the requests whose timeout is over with an error. The error names the ranks that never connected or, if all
  // have connected, those that did not reach the barrier or the key that nobody has set.
  void Expire(int64_t now_ns, std::vector<StoreAnswer>* answers);
  // When to call Expire next; -1 = nobody waits.
  int64_t NextDeadline() const;

 private:
  struct Client {
    bool came = false;
    // True if `request` waits for other ranks and has no answer yet.
    bool waits = false;
    StoreRequest request = {};
    int64_t deadline_ns = 0;
  };

  void Set(int rank, StoreRequest request, std::vector<StoreAnswer>* answers);
  void Barrier(int rank, StoreRequest request, int64_t now_ns, std::vector<StoreAnswer>* answers);
  void BeginWait(int rank, StoreRequest request, int64_t now_ns);
  // Answers all ranks whose request with this operation and key waits.
  void EndWaits(StoreOperation operation, const std::string& key, absl::string_view value,
                std::vector<StoreAnswer>* answers);
  void Fail(const absl::Status& status, int said_by, std::vector<StoreAnswer>* answers);
  absl::Status FailureFor(int rank) const;
  std::string WhyLate(const StoreRequest& request) const;

  const std::string address_;
  std::vector<Client> clients_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::set<int>> barriers_;
  size_t stored_ = 0;
  // The failure that answers every request, and the rank that reports it. Ok while there is none.
  absl::Status failure_;
  int said_by_ = 0;
};

// "rank 3", "ranks 1, 3 and 5", "ranks 1, 2, 3 and 97 more".
std::string NameRanks(const std::vector<int>& ranks);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_STORE_STATE_H_
