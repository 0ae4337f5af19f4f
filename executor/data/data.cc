#include "executor/data/data.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/data/data_identity.h"
#include "executor/data/data_order.h"
#include "executor/data/image_data.h"
#include "executor/data/image_format.h"
#include "executor/data/token_format.h"
#include "executor/platform/input_file.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft::exec {
namespace {

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

class TokenSource : public DataSource {
 public:
  TokenSource(InputFile file, const TokenLayout& layout, const DataOptions& options)
      : file_(std::move(file)), layout_(layout), options_(options) {
    limit_ = layout.vocabulary > 0 ? std::min(layout.vocabulary, options.vocabulary) : options.vocabulary;
  }

  int64_t windows() const override { return (layout_.count - 1) / options_.sequence_length; }

  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    const size_t length = static_cast<size_t>(options_.sequence_length);
    const auto fits = [&](absl::Span<int32_t> span) { return span.empty() || span.size() == length; };
    if (sample < 0 || !fits(tokens) || !fits(targets)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": sample ", sample, " of ", tokens.size(), " tokens and ", targets.size(),
                       " targets does not exist; samples have ", length, " of each and count from 0"));
    }
    const int64_t first = WindowOfSample(options_.seed, windows(), sample) * options_.sequence_length;
    if (targets.empty()) return Tokens(first, tokens);
    WEFT_RETURN_IF_ERROR(Tokens(first + 1, targets));
    if (tokens.empty()) return absl::OkStatus();
    std::copy(targets.begin(), targets.end() - 1, tokens.begin() + 1);
    return Tokens(first, tokens.first(1));
  }

  DataIdentity identity() const override { return identity_; }

  absl::Status Identify() {
    WEFT_ASSIGN_OR_RETURN(identity_,
                          IdentityOf(file_, layout_.offset, layout_.count * layout_.bytes_per_token, layout_.count));
    return absl::OkStatus();
  }

  // Reports bad data at once, not after hours. Checks only the part that can be read in a moment.
  absl::Status CheckBeginning(bool text) const {
    constexpr int64_t kChecked = int64_t{1} << 26;
    const int64_t count = std::min(layout_.count, kChecked);
    std::vector<int32_t> chunk;
    for (int64_t first = 0; first < count; first += static_cast<int64_t>(chunk.size())) {
      chunk.resize(static_cast<size_t>(std::min<int64_t>(count - first, 1 << 18)));
      WEFT_RETURN_IF_ERROR(Tokens(first, absl::MakeSpan(chunk)));
      if (!text) continue;
      const auto zero = std::find(chunk.begin(), chunk.end(), 0);
      if (zero == chunk.end()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          file_.path(), ": is not text: byte ", first + (zero - chunk.begin()),
          " is 0. Raw tokens need a token type (uint16, uint32, or bytes to take every byte for a token); other ",
          "formats are in docs/data.md"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Tokens(int64_t first, absl::Span<int32_t> out) const {
    const int64_t width = layout_.bytes_per_token;
    // Reads piece by piece through a buffer on the stack.
    char bytes[1 << 13];
    const size_t room = sizeof(bytes) / static_cast<size_t>(width);
    for (size_t done = 0; done < out.size();) {
      const size_t count = std::min(out.size() - done, room);
      const int64_t at = first + static_cast<int64_t>(done);
      WEFT_RETURN_IF_ERROR(
          file_.Read(layout_.offset + at * width, absl::MakeSpan(bytes, count * static_cast<size_t>(width))));
      WEFT_RETURN_IF_ERROR(Decode(bytes, at, out.subspan(done, count)));
      done += count;
    }
    return absl::OkStatus();
  }

  // `bytes` holds the tokens from index `first` on.
  absl::Status Decode(const char* bytes, int64_t first, absl::Span<int32_t> out) const {
    const int64_t width = layout_.bytes_per_token;
    const auto* p = reinterpret_cast<const unsigned char*>(bytes);
    for (size_t i = 0; i < out.size(); ++i) {
      uint64_t raw = 0;
      for (int k = 0; k < width; ++k) raw |= uint64_t{*p++} << (8 * k);
      if (layout_.is_signed && width < 8 && (raw >> (8 * width - 1)) != 0) raw |= ~uint64_t{0} << (8 * width);
      const int64_t token = static_cast<int64_t>(raw);
      if (token < 0 || token >= limit_) return BadToken(token, first + static_cast<int64_t>(i));
      out[i] = static_cast<int32_t>(token);
    }
    return absl::OkStatus();
  }

  absl::Status BadToken(int64_t token, int64_t index) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": token ", token, " at index ", index, " (byte ",
                     layout_.offset + index * layout_.bytes_per_token, ") is outside the vocabulary of ", limit_,
                     limit_ < options_.vocabulary ? " that its header states" : " of the model",
                     "; tokens are from 0 to ", limit_ - 1));
  }

  InputFile file_;
  TokenLayout layout_;
  DataOptions options_;
  int64_t limit_ = 0;
  DataIdentity identity_;
};

// Returns the layout of data that one file holds: a token file, raw tokens or text.
absl::StatusOr<TokenLayout> LayoutOf(const InputFile& file, const DataOptions& options) {
  std::vector<char> head(static_cast<size_t>(std::min(file.size(), kTokenHeaderBytes)));
  WEFT_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(head)));
  const absl::string_view start(head.data(), head.size());
  TokenLayout layout;
  if (options.token_type == "uint16" || options.token_type == "uint32") {
    layout.bytes_per_token = options.token_type == "uint16" ? 2 : 4;
    // Otherwise the header of a token file would be read as tokens.
    if (LooksLikeTokenFile(start)) {
      return absl::InvalidArgumentError(absl::StrCat(file.path(), ": is a token file with a header; token type '",
                                                     options.token_type, "' is for raw tokens; leave it out"));
    }
    if (file.size() % layout.bytes_per_token != 0) {
      return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", file.size(), " bytes are not a multiple of ",
                                                     layout.bytes_per_token, ", the size of a ", options.token_type));
    }
  } else if (options.token_type.empty()) {
    if (LooksLikeTokenFile(start)) return ParseTokenHeader(start, file.size(), file.path());
    if (LooksLikeMegatronIndex(start)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(),
                       ": is a Megatron index, but its .bin is not beside it; the pair is NAME.bin and "
                       "NAME.idx"));
    }
    if (LooksLikeImageFile(start)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": is an image file, but the model trains on tokens"));
    }
    if (absl::StartsWith(start, "WEFTPROG")) {
      return absl::InvalidArgumentError(absl::StrCat(file.path(), ": is a compiled program, not data"));
    }
  }
  layout.count = file.size() / layout.bytes_per_token;
  if (layout.bytes_per_token == 1 && options.vocabulary < 256) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": weft reads text as bytes, which need a vocabulary of at least 256; the model has ",
                     options.vocabulary));
  }
  return layout;
}

// Returns the common name of a Megatron pair's files if `path` is that name or one of the two files, otherwise an empty
// text.
std::string MegatronPrefix(const std::string& path) {
  for (absl::string_view suffix : {".bin", ".idx"}) {
    if (!absl::EndsWith(path, suffix)) continue;
    const std::string prefix = path.substr(0, path.size() - suffix.size());
    return IsFile(prefix + ".bin") && IsFile(prefix + ".idx") ? prefix : "";
  }
  return !IsFile(path) && IsFile(path + ".bin") && IsFile(path + ".idx") ? path : "";
}

}  // namespace

DataOptions DataOptionsOf(const Program& program, std::string path, std::string token_type) {
  return {.path = std::move(path),
          .sequence_length = program.recipe().sequence_length(),
          .vocabulary = program.vocabulary(),
          .seed = program.recipe().seed(),
          .token_type = std::move(token_type),
          .image_size = program.image_size(),
          .image_channels = program.image_channels()};
}

absl::StatusOr<std::unique_ptr<DataSource>> OpenData(const DataOptions& options) {
  if (options.image_size > 0) return OpenImages(options);
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  if (options.sequence_length < 1 || options.sequence_length >= kMaxInt32) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence_length = ", options.sequence_length, " must be from 1 to ", kMaxInt32 - 1));
  }
  if (options.vocabulary < 1 || options.vocabulary > kMaxInt32) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary = ", options.vocabulary, " must be from 1 to ", kMaxInt32));
  }
  const std::vector<std::string> types = {"uint16", "uint32", "bytes"};
  if (!options.token_type.empty() && std::find(types.begin(), types.end(), options.token_type) == types.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token type ", Quoted(options.token_type), " is unknown", NameHelp(options.token_type, types)));
  }

  const std::string prefix = options.token_type.empty() ? MegatronPrefix(options.path) : "";
  WEFT_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(prefix.empty() ? options.path : prefix + ".bin"));
  TokenLayout layout;
  if (prefix.empty()) {
    WEFT_ASSIGN_OR_RETURN(layout, LayoutOf(file, options));
  } else {
    const std::string index_path = prefix + ".idx";
    WEFT_ASSIGN_OR_RETURN(const std::string index, ReadFile(index_path));
    WEFT_ASSIGN_OR_RETURN(layout, ParseMegatronIndex(index, file.size(), index_path));
  }
  if (layout.vocabulary > options.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": was written for a vocabulary of ", layout.vocabulary,
                                                   "; the model has ", options.vocabulary));
  }
  if (layout.count <= options.sequence_length) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", layout.count,
                                                   " tokens are too few; one sequence of ", options.sequence_length,
                                                   " and its last target need ", options.sequence_length + 1));
  }
  const bool text = prefix.empty() && options.token_type.empty() && layout.bytes_per_token == 1;
  auto source = std::make_unique<TokenSource>(std::move(file), layout, options);
  WEFT_RETURN_IF_ERROR(source->CheckBeginning(text));
  WEFT_RETURN_IF_ERROR(source->Identify());
  return std::unique_ptr<DataSource>(std::move(source));
}

}  // namespace weft::exec
