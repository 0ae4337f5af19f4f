// The safetensors format: u64 length of the header, a JSON header {"name": {"dtype", "shape", "data_offsets"}}, then
// the tensors' bytes, little-endian and row-major.
#ifndef WEFT_EXECUTOR_STATE_SAFETENSORS_H_
#define WEFT_EXECUTOR_STATE_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/types.pb.h"

namespace weft::exec {

// One tensor of a file. `dtype` is one of FP64, FP32, FP16, BF16, INT32, or DTYPE_UNSPECIFIED for the format's other
// types, which can be skipped but not read.
struct SafetensorsEntry {
  std::string name;
  // As in the file, e.g. "F32".
  std::string type_name;
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  // Bytes [begin, end) of the part after the header.
  int64_t begin = 0;
  int64_t end = 0;
};

// Checks a header against the number of bytes that follow it. Every entry must be well-formed and have the number of
// bytes that its dtype and shape require, and the entries must cover all of the data without overlap. Returns the
// entries in order of their bytes. Every error begins with `source`.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(absl::string_view json, int64_t data_bytes,
                                                                     const std::string& source,
                                                                     std::map<std::string, std::string>* metadata);

class SafetensorsReader {
 public:
  // Reads and checks the header only.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(const std::string& path);
  ~SafetensorsReader();

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  absl::Status Read(const SafetensorsEntry& entry, std::vector<std::byte>* bytes) const;

 private:
  SafetensorsReader() = default;
  std::string path_;
  int file_ = -1;
  int64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Writes a file tensor by tensor, in the order of the `tensors` given to Create. `path` must not exist.
class SafetensorsWriter {
 public:
  struct Declaration {
    std::string name;
    DType dtype = FP32;
    std::vector<int64_t> shape;
  };
  // Names must be distinct. Allowed dtypes: FP64, FP32, FP16, BF16 and INT32.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(const std::string& path,
                                                                   const std::vector<Declaration>& tensors,
                                                                   const std::map<std::string, std::string>& metadata);
  ~SafetensorsWriter();

  // Writes the next tensor's bytes.
  absl::Status Append(absl::Span<const std::byte> bytes);
  // Syncs and closes the file; an error if not all bytes were written. `crc32c` receives the checksum of the whole
  // file.
  absl::Status Finish(int64_t* file_bytes, uint32_t* crc32c);

 private:
  SafetensorsWriter() = default;
  absl::Status WriteAll(const void* data, int64_t bytes);
  std::string path_;
  int file_ = -1;
  std::vector<int64_t> sizes_;
  size_t next_ = 0;
  int64_t written_ = 0;
  uint32_t crc_ = 0;
};

// Converts between FP64, FP32, FP16 and BF16, rounding once, to nearest even; InvalidArgument for other dtypes.
absl::Status ConvertFloats(DType from, absl::Span<const std::byte> in, DType to, absl::Span<std::byte> out);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_STATE_SAFETENSORS_H_
