#include "executor/program/prepared_streams.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/collective/collective.h"
#include "proto/util/status.h"

namespace weft::exec {

PreparedStreams::PreparedStreams(const Program& program, int rank, const Template& t, ComputeDevice& device,
                                 NativeCollectives* native, const StreamPlan& plan,
                                 std::vector<PreparedStream>& streams)
    : program_(program),
      rank_(rank),
      device_(device),
      native_(native),
      fold_(&device, plan.fold_budget),
      transfer_streams_(plan.transfer_streams),
      channels_(program, rank, t),
      streams_(streams) {}

std::string PreparedStreams::Name(const Action& action) const {
  return absl::StrCat("rank ", rank_, ": action ", action.id(), " '", action.name(), "'");
}

absl::Status PreparedStreams::Begin() {
  streams_.resize(3);
  streams_[0].name = "compute";
  streams_[1].type = streams_[2].type = StreamType::kCopy;
  streams_[1].name = "d2h";
  streams_[2].name = "h2d";
  return Take(StreamUse::kCompute, streams_[0]);
}

int PreparedStreams::AddBackwardQueue() {
  const int device_stream = streams_[0].device_stream;
  PreparedStream& queue = streams_.emplace_back();
  queue.name = "compute";
  queue.device_stream = device_stream;
  return static_cast<int>(streams_.size()) - 1;
}

absl::Status PreparedStreams::UseCopies() {
  for (const int copies : {1, 2}) {
    const auto& steps = streams_[copies].steps;
    if (std::all_of(std::begin(steps), std::end(steps), [](const auto& list) { return list.empty(); })) continue;
    WEFT_RETURN_IF_ERROR(Take(copies == 1 ? StreamUse::kOffload : StreamUse::kFetch, streams_[copies]));
  }
  return absl::OkStatus();
}

absl::Status PreparedStreams::Take(StreamUse use, PreparedStream& stream) {
  if (!device_.asynchronous()) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const StreamFold::Stream taken, fold_.Take(use));
  stream.device_stream = taken.number;
  // The trace shows this name. "compute" stays as it is, because code looks for that name.
  if (taken.shared && use != StreamUse::kCompute) absl::StrAppend(&stream.name, " (device stream ", taken.number, ")");
  return absl::OkStatus();
}

absl::Status PreparedStreams::Add(StreamType type, std::string name, StreamUse use) {
  PreparedStream& stream = streams_.emplace_back();
  stream.type = type;
  stream.name = std::move(name);
  return Take(use, stream);
}

absl::StatusOr<int> PreparedStreams::Checked(int channel, const Action& action) const {
  if (channel < kProgramChannels) return channel;
  return absl::InvalidArgumentError(Name(action) + ": too many channels");
}

absl::StatusOr<int> PreparedStreams::Channel(const Action& action, int64_t peer) const {
  return Checked(channels_.Channel(peer, TransferKey(action)), action);
}

absl::StatusOr<int> PreparedStreams::TransferStream(const Action& action, int64_t peer) {
  const bool sends = action.kind() == SEND;
  StreamKey key = {3, peer, sends, TransferKey(action)};
  if (transfer_streams_ == SHARED) key = {1, -1, false, {}};
  if (transfer_streams_ == PER_DIRECTION) key = {2, action.direction(), false, {}};
  const auto [found, is_new] = known_.try_emplace(key, static_cast<int>(streams_.size()));
  if (is_new) {
    WEFT_RETURN_IF_ERROR(Add(StreamType::kTransfers, TransferStreamName(transfer_streams_, action),
                             sends ? StreamUse::kSends : StreamUse::kReceives));
  }
  return found->second;
}

absl::StatusOr<int> PreparedStreams::StepStream(const Step& step, const Action& action) {
  const auto found = of_step_.find(&step);
  if (found != of_step_.end()) return found->second;
  WEFT_ASSIGN_OR_RETURN(const int stream,
                        CommunicatorStream(step.collective().group(), step.collective().purpose(), action));
  return of_step_[&step] = stream;
}

absl::StatusOr<int> PreparedStreams::CommunicatorStream(const Group& group, Purpose purpose, const Action& action) {
  const ChannelKey key = CommunicatorKey(program_.mesh(), rank_, group, purpose);
  const auto [found, is_new] = known_.try_emplace({0, -1, false, key}, static_cast<int>(streams_.size()));
  if (!is_new) return found->second;
  std::vector<CollectivePeer> members;
  int self = -1;
  for (const int64_t member : std::get<3>(key)) {
    if (member == rank_) self = static_cast<int>(members.size());
    WEFT_ASSIGN_OR_RETURN(const int channel, Checked(channels_.Channel(member, key), action));
    members.push_back({static_cast<int>(member), channel});
  }
  if (self < 0) return absl::InvalidArgumentError(Name(action) + ": the rank is not in its own group");
  const std::string name = CommunicatorName(group, purpose);
  WEFT_RETURN_IF_ERROR(Add(StreamType::kCollective, name, StreamUse::kCollectives));
  PreparedStream& stream = streams_.back();
  CommunicatorPlace place;
  if (device_.asynchronous()) place = {&device_, stream.device_stream, native_, name};
  WEFT_ASSIGN_OR_RETURN(stream.communicator, Communicator::Create(std::move(members), self, place));
  return found->second;
}

}  // namespace weft::exec
