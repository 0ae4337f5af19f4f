#include "executor/data/token_format.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/io/little_endian.h"

namespace weft::exec {
namespace {

constexpr absl::string_view kMagic = "WEFTTOKN";
constexpr uint64_t kVersion = 1;
// DType codes of token files.
constexpr uint64_t kUint16 = 1;
constexpr uint64_t kUint32 = 2;

constexpr absl::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr size_t kMegatronHeaderBytes = 34;

}  // namespace

bool LooksLikeTokenFile(absl::string_view head) { return head.substr(0, kMagic.size()) == kMagic; }

bool LooksLikeMegatronIndex(absl::string_view head) { return head.substr(0, kMegatronMagic.size()) == kMegatronMagic; }

std::string TokenFileHeader(int bytes_per_token, int64_t vocabulary, int64_t count) {
  std::string header(kMagic);
  AppendLittleEndian(kVersion, 4, &header);
  AppendLittleEndian(bytes_per_token == 2 ? kUint16 : kUint32, 4, &header);
  AppendLittleEndian(static_cast<uint64_t>(vocabulary), 8, &header);
  AppendLittleEndian(static_cast<uint64_t>(count), 8, &header);
  return header;
}

absl::StatusOr<TokenLayout> ParseTokenHeader(absl::string_view head, int64_t file_bytes, absl::string_view source) {
  const auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": token file: ", parts...));
  };
  if (!LooksLikeTokenFile(head)) return refuse("it does not begin with WEFTTOKN");
  if (head.size() < kTokenHeaderBytes) {
    return refuse("it is cut off: the file has ", head.size(), " bytes, but the header alone has ", kTokenHeaderBytes);
  }
  const uint64_t version = LittleEndian(head.substr(8, 4));
  if (version != kVersion) return refuse("format version ", version, "; this weft reads version ", kVersion);
  const uint64_t dtype = LittleEndian(head.substr(12, 4));
  if (dtype != kUint16 && dtype != kUint32) return refuse("dtype ", dtype, "; known: 1 (uint16), 2 (uint32)");
  const uint64_t vocabulary = LittleEndian(head.substr(16, 8));
  if (vocabulary < 1 || vocabulary > uint64_t{std::numeric_limits<int32_t>::max()}) {
    return refuse("vocabulary ", vocabulary, "; it must be from 1 to 2147483647");
  }
  TokenLayout layout;
  layout.offset = kTokenHeaderBytes;
  layout.bytes_per_token = dtype == kUint16 ? 2 : 4;
  layout.vocabulary = static_cast<int64_t>(vocabulary);
  const uint64_t count = LittleEndian(head.substr(24, 8));
  const uint64_t held = static_cast<uint64_t>(file_bytes - kTokenHeaderBytes);
  // Divides instead of computing count * bytes, which may overflow.
  if (held % layout.bytes_per_token != 0 || count != held / layout.bytes_per_token) {
    return refuse("the header says ", count, " tokens of ", layout.bytes_per_token, " bytes; ", held,
                  " bytes follow it");
  }
  layout.count = static_cast<int64_t>(count);
  return layout;
}

absl::StatusOr<TokenLayout> ParseMegatronIndex(absl::string_view index, int64_t bin_bytes, absl::string_view source) {
  const auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": Megatron index: ", parts...));
  };
  if (!LooksLikeMegatronIndex(index)) return refuse("it does not begin with MMIDIDX");
  if (index.size() < kMegatronHeaderBytes) {
    return refuse("it is cut off: the file has ", index.size(), " bytes, but the header alone has ",
                  kMegatronHeaderBytes);
  }
  if (const uint64_t version = LittleEndian(index.substr(9, 8)); version != 1) {
    return refuse("version ", version, "; this weft reads version 1");
  }
  TokenLayout layout;
  switch (const uint64_t code = LittleEndian(index.substr(17, 1)); code) {
    case 1:
      layout.bytes_per_token = 1;
      break;
    case 2:
      layout.bytes_per_token = 1;
      layout.is_signed = true;
      break;
    case 3:
      layout.bytes_per_token = 2;
      layout.is_signed = true;
      break;
    case 4:
      layout.bytes_per_token = 4;
      layout.is_signed = true;
      break;
    case 5:
      layout.bytes_per_token = 8;
      layout.is_signed = true;
      break;
    case 8:
      layout.bytes_per_token = 2;
      break;
    default:
      return refuse("dtype ", code, " holds no token ids; known: 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64),",
                    " 8 (uint16)");
  }
  const uint64_t sequences = LittleEndian(index.substr(18, 8));
  const uint64_t documents = LittleEndian(index.substr(26, 8));
  const uint64_t held = index.size() - kMegatronHeaderBytes;
  // Each sequence has a length (int32) and a pointer (int64), each document an int64.
  const bool fits = sequences <= held / 12 && documents <= held / 8;
  const uint64_t expected = fits ? 12 * sequences + 8 * documents : 0;
  if (fits && expected + sequences == held && sequences > 0) {
    return refuse("it holds a mode per sequence; multimodal data is not supported");
  }
  if (!fits || expected != held) {
    return refuse("the header says ", sequences, " sequences and ", documents, " documents; the ", held,
                  " bytes after it do not match");
  }
  int64_t next = 0;
  for (uint64_t i = 0; i < sequences; ++i) {
    const auto length = static_cast<int32_t>(LittleEndian(index.substr(kMegatronHeaderBytes + 4 * i, 4)));
    const auto pointer =
        static_cast<int64_t>(LittleEndian(index.substr(kMegatronHeaderBytes + 4 * sequences + 8 * i, 8)));
    if (length < 0) return refuse("sequence ", i, " has a length of ", length);
    if (pointer != next) {
      return refuse("sequence ", i, " begins at byte ", pointer, " instead of ", next,
                    "; weft reads only data whose sequences follow each other");
    }
    // `next` was at most bin_bytes, and a sequence has at most 2^34 bytes, so the sum does not overflow.
    next += int64_t{length} * layout.bytes_per_token;
    if (next > bin_bytes) break;
  }
  if (next != bin_bytes) {
    return refuse("its sequences take ", next > bin_bytes ? "more than " : "", std::min(next, bin_bytes),
                  " bytes; the .bin has ", bin_bytes);
  }
  layout.count = bin_bytes / layout.bytes_per_token;
  return layout;
}

}  // namespace weft::exec
