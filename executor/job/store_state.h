// What the rendezvous store knows, and whom it answers when: keys and values, who waits for what, and why the job
// cannot start. It touches no connection (store.cc has them) and no clock.
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

// All keys and values together.
inline constexpr size_t kMostStoredBytes = 64 << 20;

struct StoreAnswer {
  int rank = 0;
  absl::Status status = {};
  std::string value = {};
};

class StoreState {
 public:
  // Of a job of so many ranks. `address` is what late ranks did not come to. `failure`: what rank 0 has failed for
  // before.
  StoreState(int size, std::string address, absl::Status failure);

  // It has a connection now. Once.
  void Come(int rank) { clients_[rank].came = true; }
  bool came(int rank) const { return clients_[rank].came; }
  // Whether a request of the rank has no answer yet: it may send kFail alone then.
  bool waits(int rank) const { return clients_[rank].waits; }

  // Appends the answers that a request brings about, to this rank and others. Not kLeave, which has none. Once the job
  // has failed, that is what every request is answered with: the first failure counts, and one rank is to say it.
  void Handle(int rank, StoreRequest request, int64_t now_ns, std::vector<StoreAnswer>* answers);
  // The rank is gone before it said goodbye: it will not do what others wait for.
  void Lose(int rank, absl::string_view why, std::vector<StoreAnswer>* answers);
  // Those whose time is over. The error names the ranks that did not come.
  void Expire(int64_t now_ns, std::vector<StoreAnswer>* answers);
  // When Expire is to be called next; -1: nobody waits.
  int64_t NextDeadline() const;

 private:
  struct Client {
    bool came = false;
    // The request that waits for others.
    bool waits = false;
    StoreRequest request = {};
    int64_t deadline_ns = 0;
  };

  void Set(int rank, StoreRequest request, std::vector<StoreAnswer>* answers);
  void Barrier(int rank, StoreRequest request, int64_t now_ns, std::vector<StoreAnswer>* answers);
  void BeginWait(int rank, StoreRequest request, int64_t now_ns);
  // Answers all that wait with this operation for this key.
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
  // Why nothing can succeed any more, and the rank that says it.
  absl::Status failure_;
  int said_by_ = 0;
};

// "rank 3", "ranks 1, 3 and 5", "ranks 1, 2, 3 and 97 more".
std::string NameRanks(const std::vector<int>& ranks);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_STORE_STATE_H_
