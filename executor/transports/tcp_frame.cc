#include "executor/transports/tcp_frame.h"

#include "absl/strings/str_cat.h"
#include "executor/interface/transport.h"
#include "executor/platform/wire.h"

namespace weft::exec {
namespace {

constexpr uint32_t kMagic = 0x31464557;  // "WEF1"

}  // namespace

void AppendFrame(std::string* out, const Frame& frame) {
  AppendNumber(out, kMagic);
  AppendNumber(out, static_cast<uint16_t>(frame.kind));
  AppendNumber(out, uint16_t{0});
  AppendNumber(out, frame.channel);
  AppendNumber(out, frame.action);
  AppendNumber(out, frame.step);
  AppendNumber(out, frame.bytes);
  AppendNumber(out, frame.payload);
  AppendNumber(out, uint32_t{0});
}

absl::StatusOr<Frame> ParseFrame(absl::string_view bytes, int ranks) {
  uint32_t magic = 0, zero = 0;
  uint16_t kind = 0, padding = 0;
  Frame frame;
  if (bytes.size() != kFrameBytes || !ReadNumber(&bytes, &magic) || !ReadNumber(&bytes, &kind) ||
      !ReadNumber(&bytes, &padding) || !ReadNumber(&bytes, &frame.channel) || !ReadNumber(&bytes, &frame.action) ||
      !ReadNumber(&bytes, &frame.step) || !ReadNumber(&bytes, &frame.bytes) || !ReadNumber(&bytes, &frame.payload) ||
      !ReadNumber(&bytes, &zero)) {
    return absl::InvalidArgumentError("a frame that is cut short");
  }
  if (magic != kMagic || padding != 0 || zero != 0) return absl::InvalidArgumentError("bytes that are not a frame");
  if (kind < static_cast<uint16_t>(FrameKind::kReady) || kind > static_cast<uint16_t>(FrameKind::kBye)) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of unknown kind ", kind));
  }
  frame.kind = static_cast<FrameKind>(kind);
  uint32_t most = 0;
  int32_t last_channel = 0;
  switch (frame.kind) {
    case FrameKind::kData:
      most = kMaxPartBytes;
      last_channel = kMaxChannel;
      break;
    case FrameKind::kReady:
      last_channel = kMaxChannel;
      break;
    case FrameKind::kVerdict:
      last_channel = ranks - 1;
      most = kMaxStatusBytes;
      break;
    case FrameKind::kAbort:
      most = kMaxStatusBytes;
      break;
    case FrameKind::kNote:
    case FrameKind::kBye:
      break;
  }
  if (frame.channel < 0 || frame.channel > last_channel || frame.bytes < 0 || frame.payload > most ||
      (frame.kind == FrameKind::kData && frame.payload > static_cast<uint64_t>(frame.bytes))) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of kind ", kind, " with channel ", frame.channel, ", ",
                                                   frame.bytes, " bytes and a payload of ", frame.payload));
  }
  return frame;
}

std::string EncodeStatus(const absl::Status& status) {
  std::string payload;
  AppendNumber(&payload, static_cast<uint32_t>(status.raw_code()));
  absl::StrAppend(&payload, status.message().substr(0, kMaxStatusBytes - payload.size()));
  return payload;
}

absl::Status DecodeStatus(absl::string_view payload) {
  uint32_t code = 0;
  if (!ReadNumber(&payload, &code) || code == 0 || code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError("a rank has given up with a damaged reason");
  }
  return absl::Status(static_cast<absl::StatusCode>(code), payload);
}

}  // namespace weft::exec
