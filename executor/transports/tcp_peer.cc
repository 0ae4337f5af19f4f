#include "executor/transports/tcp_peer.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/platform/monotonic_clock.h"

namespace weft::exec {
namespace {

constexpr size_t kInputBytes = 64 << 10;
// Maximum input or output of one peer at a time, so that the others have their turn.
constexpr int64_t kMoveAtOnce = 8 << 20;
constexpr char kZeros[64 << 10] = {};

}  // namespace

TcpPeer::TcpPeer(int self, int rank, int ranks, TcpConnection connection, const Events* events)
    : self_(self), rank_(rank), ranks_(ranks), connection_(std::move(connection)), events_(*events) {
  if (open()) input_.resize(kInputBytes);
}

std::string TcpPeer::Description() const {
  return absl::StrCat("process ", connection_.process, " at ", connection_.host);
}

bool TcpPeer::HasTransfers() const {
  if (sending_.head() != nullptr) return true;
  for (const auto& [number, channel] : channels_) {
    if (channel.sends.head() != nullptr || channel.receives.head() != nullptr) return true;
  }
  return false;
}

void TcpPeer::Queue(const Frame& frame, absl::string_view payload) {
  if (!open()) return;
  Frame noted = frame;
  noted.step = own_step_;
  noted.action = own_action_;
  noted.payload = static_cast<uint32_t>(payload.size());
  AppendFrame(&control_, noted);
  control_.append(payload.data(), payload.size());
}

void TcpPeer::PostSend(Transfer* transfer) {
  Channel& channel = channels_[transfer->channel];
  channel.sends.Push(transfer);
  Match(transfer->channel, channel);
}

void TcpPeer::PostRecv(Transfer* transfer) {
  channels_[transfer->channel].receives.Push(transfer);
  Queue({.kind = FrameKind::kReady, .channel = transfer->channel, .bytes = transfer->bytes}, "");
}

void TcpPeer::Match(int number, Channel& channel) {
  while (channel.sends.head() != nullptr && !channel.ready.empty()) {
    Transfer* send = channel.sends.head();
    if (send->bytes != channel.ready.front()) {
      return events_.on_error(
          absl::InternalError(absl::StrCat("channel ", number, ": rank ", self_, " sends ", send->bytes,
                                           " bytes, rank ", rank_, " expects ", channel.ready.front())));
    }
    channel.ready.pop_front();
    channel.sends.Pop();
    send->start_ns = MonotonicNanoseconds();
    sending_.Push(send);
  }
}

void TcpPeer::DropTransfers() {
  channels_.clear();
  sending_.Clear();
  sent_ = 0;
  part_data_ = nullptr;
  payload_to_ = nullptr;
}

void TcpPeer::BeginPart() {
  Transfer* send = sending_.head();
  Frame frame = {.kind = FrameKind::kData, .channel = send->channel, .action = own_action_, .step = own_step_};
  frame.bytes = send->bytes;
  frame.payload = static_cast<uint32_t>(std::min<int64_t>(kMaxPartBytes, send->bytes - sent_));
  header_.clear();
  AppendFrame(&header_, frame);
  header_sent_ = 0;
  part_data_ = static_cast<const char*>(send->data) + sent_;
  part_left_ = frame.payload;
  sent_ += frame.payload;
}

void TcpPeer::EndPart() {
  Transfer* send = sending_.head();
  // `send` is null after an abort.
  if (send == nullptr || sent_ < send->bytes) return;
  sending_.Pop();
  sent_ = 0;
  send->end_ns = MonotonicNanoseconds();
  events_.on_done(send);
}

void TcpPeer::Write() {
  blocked_ = false;
  int64_t moved = 0;
  while (open()) {
    iovec pieces[2];
    int count = 0;
    const bool part = InPart();
    if (part) {
      if (header_sent_ < header_.size()) {
        pieces[count++] = {header_.data() + header_sent_, header_.size() - header_sent_};
      }
      if (part_left_ > 0 && part_data_ != nullptr) {
        pieces[count++] = {const_cast<char*>(part_data_), part_left_};
      } else if (part_left_ > 0) {
        pieces[count++] = {const_cast<char*>(kZeros), std::min<size_t>(part_left_, sizeof kZeros)};
      }
    } else if (!control_.empty()) {
      pieces[count++] = {control_.data(), control_.size()};
    } else if (sending_.head() != nullptr) {
      BeginPart();
      continue;
    } else {
      return;
    }
    // The rest is written when the connection reports that it can take more, which it does at once.
    if (moved >= kMoveAtOnce) {
      blocked_ = true;
      return;
    }
    msghdr message = {};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    const ssize_t written = sendmsg(fd(), &message, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        blocked_ = true;
        return;
      }
      // What the peer sent before it ended must still be read.
      return Read();
    }
    moved += written;
    if (!part) {
      control_.erase(0, written);
      continue;
    }
    const size_t of_header = std::min<size_t>(written, header_.size() - header_sent_);
    header_sent_ += of_header;
    const auto of_data = static_cast<uint32_t>(written - of_header);
    if (part_data_ != nullptr) part_data_ += of_data;
    part_left_ -= of_data;
    if (!InPart()) EndPart();
  }
}

void TcpPeer::Lose() {
  connection_.socket.Close();
  control_.clear();
  header_.clear();
  header_sent_ = 0;
  part_left_ = 0;
  blocked_ = false;
  if (!left_) lost_ns_ = MonotonicNanoseconds();
}

void TcpPeer::Read() {
  for (int64_t read = 0; open() && read < kMoveAtOnce;) {
    // Long payloads are read directly into their place.
    if (payload_left_ > 0 && payload_to_ != nullptr && input_begin_ == input_end_) {
      const ssize_t got = recv(fd(), payload_to_, payload_left_, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) return Lose();
      payload_to_ += got;
      payload_left_ -= static_cast<uint32_t>(got);
      read += got;
      if (payload_left_ == 0) OnPayload();
      continue;
    }
    if (payload_left_ > 0 && input_begin_ < input_end_) {
      const auto count = static_cast<uint32_t>(std::min<size_t>(payload_left_, input_end_ - input_begin_));
      const char* from = input_.data() + input_begin_;
      if (payload_to_ != nullptr) {
        std::memcpy(payload_to_, from, count);
        payload_to_ += count;
      } else if (frame_.kind != FrameKind::kData) {
        text_.append(from, count);
      }
      input_begin_ += count;
      payload_left_ -= count;
      if (payload_left_ == 0) OnPayload();
      continue;
    }
    if (payload_left_ == 0 && input_end_ - input_begin_ >= kFrameBytes) {
      const absl::string_view header(input_.data() + input_begin_, kFrameBytes);
      input_begin_ += kFrameBytes;
      OnFrame(header);
      continue;
    }
    // More is needed: what is left is less than a header.
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
    const ssize_t got = recv(fd(), input_.data() + input_end_, input_.size() - input_end_, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return Lose();
    input_end_ += got;
    read += got;
  }
}

void TcpPeer::OnFrame(absl::string_view header) {
  const absl::StatusOr<Frame> frame = ParseFrame(header, ranks_);
  if (!frame.ok()) {
    Lose();
    return events_.on_error(
        absl::InternalError(absl::StrCat("rank ", rank_, " sent ", std::string(frame.status().message()))));
  }
  frame_ = *frame;
  step_ = frame->step;
  action_ = frame->action;
  payload_left_ = frame->payload;
  payload_to_ = nullptr;
  text_.clear();
  if (frame->kind == FrameKind::kData) return OnData();
  if (payload_left_ == 0) OnPayload();
}

// Finds the receive that this part belongs to.
void TcpPeer::OnData() {
  // After an abort nothing is posted any more, so the payload is dropped.
  const auto found = channels_.find(frame_.channel);
  Transfer* receive = found == channels_.end() ? nullptr : found->second.receives.head();
  if (receive == nullptr) {
    if (payload_left_ == 0) OnPayload();
    return;
  }
  Channel& channel = found->second;
  if (frame_.bytes != receive->bytes || frame_.payload > receive->bytes - channel.received) {
    const absl::Status wrong =
        absl::InternalError(absl::StrCat("channel ", frame_.channel, ": rank ", self_, " expects ", receive->bytes,
                                         " bytes, rank ", rank_, " sends ", frame_.bytes));
    Lose();
    return events_.on_error(wrong);
  }
  if (channel.received == 0) receive->start_ns = MonotonicNanoseconds();
  payload_to_ = static_cast<char*>(receive->data) + channel.received;
  if (payload_left_ == 0) OnPayload();
}

void TcpPeer::OnPayload() {
  payload_to_ = nullptr;
  switch (frame_.kind) {
    case FrameKind::kReady: {
      Channel& channel = channels_[frame_.channel];
      channel.ready.push_back(frame_.bytes);
      return Match(frame_.channel, channel);
    }
    case FrameKind::kData: {
      const auto found = channels_.find(frame_.channel);
      Transfer* receive = found == channels_.end() ? nullptr : found->second.receives.head();
      if (receive == nullptr) return;
      Channel& channel = found->second;
      channel.received += frame_.payload;
      if (channel.received < receive->bytes) return;
      channel.received = 0;
      channel.receives.Pop();
      receive->end_ns = MonotonicNanoseconds();
      return events_.on_done(receive);
    }
    case FrameKind::kNote:
      return;
    case FrameKind::kAbort:
      return events_.on_abort(DecodeStatus(text_));
    case FrameKind::kVerdict:
      return events_.on_verdict(frame_.channel, DecodeStatus(text_));
    case FrameKind::kBye:
      left_ = true;
      return;
  }
}

}  // namespace weft::exec
