// The transfers of a rank's program as they are posted, alone or in groups (rule P4). Internal to the interpreter.
#ifndef WEFT_EXECUTOR_INTERPRETER_POSTED_TRANSFERS_H_
#define WEFT_EXECUTOR_INTERPRETER_POSTED_TRANSFERS_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/program/prepared_program.h"
#include "executor/program/program_edges.h"
#include "proto/util/status.h"

namespace weft::exec {

class PostedTransfers {
 public:
  PostedTransfers(const PreparedProgram& program, Endpoint& endpoint)
      : program_(program),
        endpoint_(endpoint),
        transfers_(std::make_unique<Transfer[]>(program.actions.size())),
        groups_(program.groups.size()) {}

  // Posts the SEND or RECV with this index.
  absl::Status Post(int action) {
    const PreparedAction& prepared = program_.actions[action];
    Transfer& transfer = transfers_[action];
    DescribeTransfer(program_, prepared, &transfer);
    return prepared.sends ? endpoint_.PostSend(&transfer) : endpoint_.PostRecv(&transfer);
  }
  const Transfer& operator[](int action) const { return transfers_[action]; }
  bool Done(int action) const { return transfers_[action].done.load(std::memory_order_acquire); }

  // Marks all groups as not posted.
  void Begin() {
    for (Group& group : groups_) group.posted = false;
  }
  bool GroupPosted(int group) const { return groups_[group].posted; }
  absl::Status PostGroup(int group) {
    const std::vector<int>& members = program_.groups[group].actions;
    Group& state = groups_[group];
    state.posted = true;
    state.ended.assign(members.size(), false);
    state.left = members.size();
    WEFT_RETURN_IF_ERROR(endpoint_.BeginGroup());
    for (const int member : members) WEFT_RETURN_IF_ERROR(Post(member));
    return endpoint_.EndGroup();
  }
  // Returns the index in the group of a member that has ended and has not been returned yet, or -1.
  int NextEnded(int group) {
    Group& state = groups_[group];
    for (size_t i = 0; i < state.ended.size(); ++i) {
      if (state.ended[i] || !Done(program_.groups[group].actions[i])) continue;
      state.ended[i] = true;
      --state.left;
      return static_cast<int>(i);
    }
    return -1;
  }
  // True if all members have ended; the group may then be posted again.
  bool EndGroup(int group) {
    if (groups_[group].left > 0) return false;
    groups_[group].posted = false;
    return true;
  }
  // Returns an action of a posted group that has not ended.
  int Unfinished(int group) const {
    const std::vector<bool>& ended = groups_[group].ended;
    return program_.groups[group].actions[std::find(ended.begin(), ended.end(), false) - ended.begin()];
  }

 private:
  struct Group {
    bool posted = false;
    // For each member: whether it has ended. `left` counts the members that have not ended.
    std::vector<bool> ended;
    size_t left = 0;
  };

  const PreparedProgram& program_;
  Endpoint& endpoint_;
  // By action.
  std::unique_ptr<Transfer[]> transfers_;
  std::vector<Group> groups_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_POSTED_TRANSFERS_H_
