// The messages of the rendezvous store (store.h), after a connection has been proven (handshake.h). Each is a u32
// length and that many bytes:
//
//   request  u8 operation, u64 timeout in milliseconds, u32 length of the key, the key, the value (the rest)
//   reply    u8 absl::StatusCode, the value or the error's message (the rest); the code + 128: another rank reports it
//            (reported_remotely.h)
//
// A client has one request under way at a time.
#ifndef WEFT_EXECUTOR_JOB_STORE_MESSAGE_H_
#define WEFT_EXECUTOR_JOB_STORE_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

inline constexpr size_t kMaxStoreMessageBytes = 1 << 20;
inline constexpr size_t kMaxStoreKeyBytes = 256;
inline constexpr uint64_t kMaxStoreTimeoutMs = uint64_t{7} * 24 * 3600 * 1000;

enum class StoreOperation : uint8_t {
  kSet = 1,      // key = value
  kGet = 2,      // the value, or NotFound at once
  kWait = 3,     // the value, when it is there
  kBarrier = 4,  // when all ranks have come to the barrier of this name
  kLeave = 5,    // this rank needs the store no more; no reply
  kFail = 6,     // this rank cannot go on: value = u8 absl::StatusCode, why. It may be sent while another is under way
};

struct StoreRequest {
  StoreOperation operation = StoreOperation::kGet;
  uint64_t timeout_ms = 0;
  std::string key = {}, value = {};
};

// Without the leading length.
std::string EncodeStoreRequest(const StoreRequest& request);
absl::StatusOr<StoreRequest> DecodeStoreRequest(absl::string_view bytes);
// For kFail. Never Ok; texts are cut at kMaxFailureText.
inline constexpr size_t kMaxFailureText = 4096;
// The value of the reply if the failed rank itself must report the failure. Otherwise the reply is the failure that
// came before.
inline constexpr char kReportFailure[] = "say it";
std::string EncodeFailure(const absl::Status& status);
absl::Status DecodeFailure(absl::string_view value);
std::string EncodeStoreReply(const absl::Status& status, absl::string_view value);
// The value, or the error that was sent.
absl::StatusOr<std::string> DecodeStoreReply(absl::string_view bytes);

// Cuts an incoming stream of bytes into messages. Holds no more than one message and the bytes of one call.
class StoreMessageReader {
 public:
  // InvalidArgument if the bytes are no message; nothing more may then be read from the stream.
  absl::Status Append(absl::string_view bytes);
  // Stores the next whole message in `*message`; false if there is none yet.
  bool Next(std::string* message);
  // True if a message has begun and is not whole.
  bool partial() const { return !buffer_.empty(); }

 private:
  absl::Status CheckLength() const;
  std::string buffer_;
};

std::string WithLength(absl::string_view message);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_STORE_MESSAGE_H_
