// After each repetition the ranks agree whether to go on, so that they all end after the same one. Internal to the
// interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_REPETITION_VOTES_H_
#define WEFT_EXECUTOR_INTERPRETER_REPETITION_VOTES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/control.h"
#include "proto/util/status.h"

namespace weft::exec {

class RepetitionVotes {
 public:
  // The vote after repetition k decides whether repetition k + `lead` runs.
  RepetitionVotes(Endpoint& endpoint, const std::atomic<bool>* asked, int64_t lead)
      : vote_(endpoint, asked), lead_(lead) {}

  // Repetitions [first, end) will run; with `voting` they end earlier if the ranks agree to.
  void Begin(bool voting, int64_t first, int64_t end) {
    voting_ = voting;
    end_ = end;
    next_ = first;
  }
  int64_t end() const { return end_; }
  // Repetitions below this may begin.
  int64_t allowed() const { return voting_ ? std::min(end_, next_ + lead_) : end_; }
  bool voting() const { return voting_; }
  // True if a vote is under way or still to come.
  bool open() const { return Left() || vote_.active(); }
  // The repetition after which the next vote begins; -1 = no vote will begin.
  int64_t next() const { return !vote_.active() && Left() ? next_ : -1; }
  // Called when this rank has finished repetition next(). Votes begin as late as possible, so that the step during
  // which the run is asked to stop is the last one. This costs little: the first action of the next step waits for the
  // weights, and with clipping the weights wait for all ranks' norms anyway. Where they do not (rule P15), the ranks
  // run one repetition further.
  absl::Status Start() { return vote_.Start(); }
  // Returns whether a vote ended; end() and allowed() may then have changed.
  absl::StatusOr<bool> Advance() {
    if (!vote_.active()) return false;
    WEFT_ASSIGN_OR_RETURN(const bool over, vote_.Advance());
    if (!over) return false;
    ++next_;
    if (vote_.stop()) end_ = next_ + lead_ - 1;
    return true;
  }
  // For a vote outside a list of repetitions.
  StopVote& vote() { return vote_; }

 private:
  bool Left() const { return voting_ && next_ + lead_ < end_; }

  StopVote vote_;
  const int64_t lead_;
  bool voting_ = false;
  int64_t end_ = 0;
  int64_t next_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_REPETITION_VOTES_H_
