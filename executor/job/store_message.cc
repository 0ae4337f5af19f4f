#include "executor/job/store_message.h"

#include "absl/strings/str_cat.h"
#include "executor/job/reported_remotely.h"
#include "executor/platform/wire.h"

namespace weft::exec {
namespace {

// Bit in the code of a reply. It is set if another rank reports the error.
constexpr uint8_t kElsewhereBit = 128;

uint32_t LengthOf(absl::string_view buffer) {
  uint32_t length = 0;
  ReadNumber(&buffer, &length);
  return length;
}

}  // namespace

std::string EncodeStoreRequest(const StoreRequest& request) {
  std::string bytes;
  AppendNumber(&bytes, static_cast<uint8_t>(request.operation));
  AppendNumber(&bytes, request.timeout_ms);
  AppendNumber(&bytes, static_cast<uint32_t>(request.key.size()));
  absl::StrAppend(&bytes, request.key, request.value);
  return bytes;
}

absl::StatusOr<StoreRequest> DecodeStoreRequest(absl::string_view bytes) {
  uint8_t operation = 0;
  uint32_t key_bytes = 0;
  StoreRequest request;
  absl::string_view key;
  if (!ReadNumber(&bytes, &operation) || !ReadNumber(&bytes, &request.timeout_ms) || !ReadNumber(&bytes, &key_bytes)) {
    return absl::InvalidArgumentError("a request to the store is cut short");
  }
  if (operation < static_cast<uint8_t>(StoreOperation::kSet) ||
      operation > static_cast<uint8_t>(StoreOperation::kFail)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request for operation ", operation, ", which the store does not know"));
  }
  request.operation = static_cast<StoreOperation>(operation);
  if (request.timeout_ms > kMaxStoreTimeoutMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("a timeout of ", request.timeout_ms, " ms; allowed: up to ", kMaxStoreTimeoutMs));
  }
  if (key_bytes > kMaxStoreKeyBytes || !ReadBytes(&bytes, key_bytes, &key)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", key_bytes, " bytes; allowed: up to ", kMaxStoreKeyBytes, " and within the message"));
  }
  request.key = std::string(key);
  request.value = std::string(bytes);
  return request;
}

std::string EncodeStoreReply(const absl::Status& status, absl::string_view value) {
  std::string bytes;
  AppendNumber(&bytes, static_cast<uint8_t>(status.raw_code() | (ReportedRemotely(status) ? kElsewhereBit : 0)));
  absl::StrAppend(&bytes, status.ok() ? value : status.message());
  return bytes;
}

std::string EncodeFailure(const absl::Status& status) {
  std::string bytes;
  AppendNumber(&bytes, static_cast<uint8_t>(status.raw_code()));
  absl::StrAppend(&bytes, status.message().substr(0, kMaxFailureText));
  return bytes;
}

absl::Status DecodeFailure(absl::string_view value) {
  uint8_t code = 0;
  if (!ReadNumber(&value, &code) || code == 0 || code > static_cast<uint8_t>(absl::StatusCode::kUnauthenticated)) {
    code = static_cast<uint8_t>(absl::StatusCode::kUnknown);
  }
  return absl::Status(static_cast<absl::StatusCode>(code), value.substr(0, kMaxFailureText));
}

absl::StatusOr<std::string> DecodeStoreReply(absl::string_view bytes) {
  uint8_t code = 0;
  const bool read = ReadNumber(&bytes, &code);
  const bool elsewhere = (code & kElsewhereBit) != 0;
  code &= static_cast<uint8_t>(~kElsewhereBit);
  if (!read || code > static_cast<uint8_t>(absl::StatusCode::kUnauthenticated) || (code == 0 && elsewhere)) {
    return absl::InvalidArgumentError("a reply of the store is damaged");
  }
  if (code == 0) return std::string(bytes);
  const absl::Status status(static_cast<absl::StatusCode>(code), bytes);
  return elsewhere ? AsReportedRemotely(status) : status;
}

absl::Status StoreMessageReader::CheckLength() const {
  if (buffer_.size() < sizeof(uint32_t)) return absl::OkStatus();
  const uint32_t length = LengthOf(buffer_);
  if (length == 0 || length > kMaxStoreMessageBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message of ", length, " bytes; allowed: 1 to ", kMaxStoreMessageBytes));
  }
  return absl::OkStatus();
}

absl::Status StoreMessageReader::Append(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return CheckLength();
}

bool StoreMessageReader::Next(std::string* message) {
  if (buffer_.size() < sizeof(uint32_t) || !CheckLength().ok()) return false;
  const size_t length = LengthOf(buffer_);
  if (buffer_.size() - sizeof(uint32_t) < length) return false;
  message->assign(buffer_, sizeof(uint32_t), length);
  buffer_.erase(0, sizeof(uint32_t) + length);
  return true;
}

std::string WithLength(absl::string_view message) {
  std::string bytes;
  AppendNumber(&bytes, static_cast<uint32_t>(message.size()));
  absl::StrAppend(&bytes, message);
  return bytes;
}

}  // namespace weft::exec
