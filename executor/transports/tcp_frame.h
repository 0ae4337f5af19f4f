// The messages between two ranks of the transport `tcp`, after their connection has been proven
// (executor/job/handshake.h). A frame is a header of 40 bytes, little-endian, and its payload:
//
//   u32 magic "WEF1", u16 kind, u16 0, i32 channel, i32 action, i64 step, u64 bytes, u32 payload bytes, u32 0
//
// `step` and `action` are the sender's last note (Endpoint::Note), so that others can name them if the sender dies.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TCP_FRAME_H_
#define WEFT_EXECUTOR_TRANSPORTS_TCP_FRAME_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

enum class FrameKind : uint16_t {
  kReady = 1,    // a receive of `bytes` has been posted on the channel
  kData = 2,     // the next part of a message of `bytes`, whose receive is ready: the payload
  kNote = 3,     // nothing but the note
  kAbort = 4,    // to the lowest living rank: this rank gives up. Payload: u32 absl::StatusCode, the message
  kVerdict = 5,  // the job is over because rank `channel` has given up. Payload as of kAbort
  kBye = 6,      // the sender has ended in order
};

struct Frame {
  FrameKind kind = FrameKind::kNote;
  int32_t channel = 0;
  int32_t action = 0;
  int64_t step = 0;
  int64_t bytes = 0;
  uint32_t payload = 0;
};

inline constexpr size_t kFrameBytes = 40;
// Maximum size of a part of a message, so that urgent frames never wait long.
inline constexpr uint32_t kMaxPartBytes = 1 << 20;
inline constexpr uint32_t kMaxStatusBytes = 4096;

void AppendFrame(std::string* out, const Frame& frame);
// `bytes` has kFrameBytes. InvalidArgument if the bytes are no frame, or a frame that no rank sends in a job of `ranks`
// ranks.
absl::StatusOr<Frame> ParseFrame(absl::string_view bytes, int ranks);

// The payload of kAbort and kVerdict, cut to the allowed length.
std::string EncodeStatus(const absl::Status& status);
// Never returns Ok. If the payload is no status, returns InvalidArgument with a message that states this.
absl::Status DecodeStatus(absl::string_view payload);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TCP_FRAME_H_
