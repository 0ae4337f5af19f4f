// The messages between the rendezvous store and its clients. A client waits for the reply to a request before it sends
// the next one. Only kFail may be sent while a request is under way. kLeave has no reply.
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
  kSet = 1,      // sets the key to the value
  kGet = 2,      // replies with the value, or with NotFound at once
  kWait = 3,     // replies with the value as soon as the key is set
  kBarrier = 4,  // replies when all ranks have sent kBarrier with this key
  kLeave = 5,    // this rank needs the store no longer; has no reply
  kFail = 6,     // this rank cannot go on; value: u8 absl::StatusCode, text. Allowed while another request is under way
};

struct StoreRequest {
  StoreOperation operation = StoreOperation::kGet;
  uint64_t timeout_ms = 0;
  std::string key = {}, value = {};
};

// Encode and decode a request. The bytes do not include the length.
std::string EncodeStoreRequest(const StoreRequest& request);
absl::StatusOr<StoreRequest> DecodeStoreRequest(absl::string_view bytes);
// Maximum bytes of a failure's text; longer texts are cut. DecodeFailure never returns Ok.
inline constexpr size_t kMaxFailureText = 4096;
// Value of the reply to kFail if the rank that failed must report its failure itself. If another failure came before,
// the reply is that failure.
inline constexpr char kReportFailure[] = "say it";
std::string EncodeFailure(const absl::Status& status);
absl::Status DecodeFailure(absl::string_view value);
std::string EncodeStoreReply(const absl::Status& status, absl::string_view value);
// Returns the value of the reply, or the error that the reply holds.
absl::StatusOr<std::string> DecodeStoreReply(absl::string_view bytes);

// Cuts an incoming stream of bytes into messages. Holds no more than one message and the bytes of one call.
class StoreMessageReader {
 public:
  // Returns InvalidArgument if the bytes are not a valid message. The caller must then stop reading the stream.
  absl::Status Append(absl::string_view bytes);
  // Stores the next whole message in `*message`; false if there is none yet.
  bool Next(std::string* message);
  // True if part of a message has arrived.
  bool partial() const { return !buffer_.empty(); }

 private:
  absl::Status CheckLength() const;
  std::string buffer_;
};

std::string WithLength(absl::string_view message);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_STORE_MESSAGE_H_
