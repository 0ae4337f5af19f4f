#include "proto/io/program_file.h"

#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/io/content.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"
#include "proto/io/little_endian.h"
#include "proto/io/wire_reader.h"
#include "proto/util/status.h"

namespace weft {
namespace {

constexpr absl::string_view kMagic = "WEFTPROG";
constexpr size_t kHeaderBytes = 24;
constexpr size_t kMaxPayload = std::numeric_limits<int32_t>::max();

// Returns the serialized program, or "" if it would be longer than protobuf can read.
std::string Payload(const Program& program) {
  std::string payload;
  const size_t size = program.ByteSizeLong();
  if (size > kMaxPayload) return payload;
  payload.reserve(size);
  {
    // At its end, this block trims the string to the bytes that were written.
    google::protobuf::io::StringOutputStream stream(&payload);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    program.SerializeWithCachedSizes(&coded);
  }
  return payload;
}

}  // namespace

bool LooksLikeProgram(absl::string_view bytes) { return bytes.substr(0, kMagic.size()) == kMagic; }

std::string SerializeProgram(const Program& program) {
  const std::string payload = Payload(program);
  if (payload.empty() && program.ByteSizeLong() > 0) return "";
  std::string file(kMagic);
  AppendLittleEndian(kProgramFormatVersion, 4, &file);
  AppendLittleEndian(payload.size(), 8, &file);
  AppendLittleEndian(Crc32c(payload), 4, &file);
  return file + payload;
}

absl::StatusOr<Program> ParseProgram(absl::string_view bytes, absl::string_view source) {
  const auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", parts...));
  };
  if (bytes.empty()) return refuse("the file is empty");
  if (!LooksLikeProgram(bytes)) {
    return refuse("is not a compiled program (it does not begin with WEFTPROG); `weft compile` makes one");
  }
  if (bytes.size() < kHeaderBytes) {
    return refuse("is cut off: it has ", bytes.size(), " bytes, but its header needs ", kHeaderBytes);
  }
  const uint64_t version = LittleEndian(bytes.substr(8, 4));
  if (version > kProgramFormatVersion) {
    return refuse("has program format ", version, ", which a newer weft wrote; this weft reads formats up to ",
                  kProgramFormatVersion);
  }
  if (version == 0) return refuse("has program format 0, which does not exist; the file is damaged");
  const absl::string_view payload = bytes.substr(kHeaderBytes);
  const uint64_t length = LittleEndian(bytes.substr(12, 8));
  if (length != payload.size()) {
    return refuse(length > payload.size() ? "is cut off" : "has trailing bytes", ": the header says ", length,
                  " bytes of payload, but the file has ", payload.size());
  }
  const uint32_t crc = static_cast<uint32_t>(LittleEndian(bytes.substr(20, 4)));
  if (const uint32_t actual = Crc32c(payload); actual != crc) {
    return refuse("is damaged: its CRC32C is ", absl::StrFormat("%08x", actual), ", but the header says ",
                  absl::StrFormat("%08x", crc));
  }
  Program program;
  WEFT_RETURN_IF_ERROR(ReadWire(payload, source, &program));
  return program;
}

absl::StatusOr<Program> ReadProgram(const std::string& path) {
  // A pipe or a device does not state its size and may never end, so reading stops long before memory runs out.
  constexpr int64_t kMaxWithoutSize = int64_t{256} << 20;
  std::error_code error;
  const bool has_size = std::filesystem::is_regular_file(path, error);
  const int64_t most = has_size ? int64_t{kMaxPayload} + int64_t{kHeaderBytes} : kMaxWithoutSize;
  WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, most));
  return ParseProgram(bytes, path);
}

absl::Status WriteProgram(const Program& program, const std::string& path) {
  // Do not write a program that could not be read back.
  WEFT_RETURN_IF_ERROR(CheckContent(program, "program"));
  const std::string bytes = SerializeProgram(program);
  if (bytes.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": the program has ", program.ByteSizeLong(),
                                                     " bytes; at most ", kMaxPayload, " can be written"));
  }
  return WriteFileAtomic(path, bytes);
}

uint32_t ProgramCrc(const Program& program) { return Crc32c(Payload(program)); }

}  // namespace weft
