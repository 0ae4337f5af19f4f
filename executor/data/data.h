// The sources of training samples.
#ifndef WEFT_EXECUTOR_DATA_DATA_H_
#define WEFT_EXECUTOR_DATA_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/program.pb.h"

namespace weft::exec {

// Distinguishes sets of training data without reading all of them.
struct DataIdentity {
  // Number of tokens or images; 0 = not known.
  int64_t tokens = 0;
  // CRC32C of the number of bytes (little-endian in 8 bytes) and of the first and the last MiB of the tokens or pixels.
  uint32_t crc32c = 0;
};

// A source of tokens or images. Sample i of a run is a function of (seed, i) alone (docs/kernels.md, data order).
// Thread-safe.
class DataSource {
 public:
  virtual ~DataSource() = default;

  // Number of distinct windows of sequence_length tokens, or of images; at least 1.
  virtual int64_t windows() const = 0;

  // Writes the tokens and targets of global sample `sample`. Each span has sequence_length elements; targets are the
  // tokens shifted by one. A span may be empty, and is then not written. Allocates nothing.
  virtual absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const = 0;

  // Writes the pixels of global sample `sample`, row by row, with the channels of a pixel side by side. If the file
  // stores a channel as one byte, the values are scaled to [-1, 1]. Allocates nothing.
  virtual absl::Status Image(int64_t sample, absl::Span<float> pixels) const {
    return absl::FailedPreconditionError("the data holds tokens, but the program trains on images");
  }

  virtual DataIdentity identity() const { return {}; }
};

struct DataOptions {
  std::string path;
  int64_t sequence_length = 0;
  int64_t vocabulary = 0;
  uint64_t seed = 0;
  // "" = chosen by content; "uint16" or "uint32" = raw tokens without a header; "bytes" = every byte is a token, text
  // or not.
  std::string token_type;
  // Side length and channels of the images that the program is trained on; 0 = it is trained on tokens.
  int64_t image_size = 0;
  int64_t image_channels = 0;
};

// The options for the data that a program reads.
DataOptions DataOptionsOf(const Program& program, std::string path, std::string token_type = "");

// Opens an image file for a program of images; otherwise a token file, a Megatron .bin/.idx pair, or text as bytes
// (docs/data.md). Errors name the file and, for a token outside the vocabulary, its offset. The first 2^26 tokens are
// checked here, later tokens when a sample has them.
absl::StatusOr<std::unique_ptr<DataSource>> OpenData(const DataOptions& options);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_DATA_DATA_H_
