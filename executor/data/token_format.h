// The binary formats of token data (docs/data.md): weft's own token files and Megatron's index files.
#ifndef WEFT_EXECUTOR_DATA_TOKEN_FORMAT_H_
#define WEFT_EXECUTOR_DATA_TOKEN_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

// Where the tokens of a file are. Integers are little-endian.
struct TokenLayout {
  // Byte offset of the first token.
  int64_t offset = 0;
  int64_t count = 0;
  // 1, 2, 4 or 8.
  int bytes_per_token = 1;
  bool is_signed = false;
  // Tokens are below this number, according to the file; 0 if the file does not state it.
  int64_t vocabulary = 0;
};

inline constexpr int64_t kTokenHeaderBytes = 32;

bool LooksLikeTokenFile(absl::string_view head);
bool LooksLikeMegatronIndex(absl::string_view head);

// Returns the header of a token file with `count` tokens in [0, vocabulary) of 2 or 4 bytes; the tokens follow the
// header.
std::string TokenFileHeader(int bytes_per_token, int64_t vocabulary, int64_t count);

// Reads the header at the beginning of a file of `file_bytes` bytes. Errors begin with `source`.
absl::StatusOr<TokenLayout> ParseTokenHeader(absl::string_view head, int64_t file_bytes, absl::string_view source);

// Reads the whole .idx of a .bin of `bin_bytes` bytes. The sequences must fill the .bin in order.
absl::StatusOr<TokenLayout> ParseMegatronIndex(absl::string_view index, int64_t bin_bytes, absl::string_view source);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_DATA_TOKEN_FORMAT_H_
