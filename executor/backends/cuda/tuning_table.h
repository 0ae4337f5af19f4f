// The algorithms that a device's matrix products use: --tuning='write FILE' measures them and --tuning='read FILE' uses
// them. The table is a text file, so that people can read, keep and compare it:
//
//   weft-tuning 2
//   for architecture=90 multiprocessors=132 cublaslt=130100 device=NVIDIA H200
//   matmul m=4096 n=2304 k=768 batch=1 transpose_a=0 transpose_b=0 a=bf16:768:0 b=bf16:2304:0 y=bf16:2304:0 bias=bf16
//     accumulate=0 scale=1 alignment=16 -> algorithm=00000000000000420000002300000014... nanoseconds=31744 crc=9f3c0a11
//
// Each entry is one line in the file. Types and strides are those of MatrixLayout. " tf32=1" follows the alignment of a
// product in TF32; other products have no such field. The algorithm is what cuBLASLt returned, a cublasLtMatmulAlgo_t
// of eight words. It may be kept and used with the same version of the library ("can be trivially serialized and later
// restored", cublasLt.h). crc is the CRC-32C of the line before " crc=".
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_TUNING_TABLE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_TUNING_TABLE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/backends/cuda/matmul.h"

namespace weft::exec::cuda {

// Key of an entry.
struct TuningKey {
  MatmulShape shape;
  // All addresses are multiples of `alignment`.
  int64_t alignment = 16;
};

// An algorithm in cuBLASLt's own form, and its measured time.
struct TunedAlgorithm {
  std::array<uint64_t, 8> words = {};
  int64_t nanoseconds = 0;

  bool operator==(const TunedAlgorithm&) const = default;
};

// The device that was measured. Its measurements are not valid for other devices.
struct TuningDevice {
  int64_t architecture = 0;
  int64_t multiprocessors = 0;
  int64_t cublaslt = 0;
  std::string name;

  bool operator==(const TuningDevice&) const = default;
};

class TuningTable {
 public:
  explicit TuningTable(TuningDevice device) : device_(std::move(device)) {}

  // Errors name `path` and the line. Returns InvalidArgument if the text is not a tuning table or has another version,
  // if a field is missing or out of range, if a line has a wrong checksum, or if two lines have the same product.
  static absl::StatusOr<TuningTable> Parse(absl::string_view text, absl::string_view path);
  // Returns NotFound or another error of the file system, or the errors of Parse.
  static absl::StatusOr<TuningTable> Read(const std::string& path);

  const TuningDevice& device() const { return device_; }
  // Returns FailedPrecondition if the table belongs to another device or library; the error names both.
  absl::Status CheckDevice(const TuningDevice& device, absl::string_view path) const;

  const TunedAlgorithm* Find(const TuningKey& key) const;
  void Set(const TuningKey& key, const TunedAlgorithm& algorithm);
  size_t size() const { return entries_.size(); }

  // Returns the text of the file. The same content gives the same bytes.
  std::string Text() const;
  // Merges this table into the file, if it exists, and replaces the file in one step. Entries of this table override
  // those of the file. Processes that merge at the same time lose no entries of each other. InvalidArgument or
  // FailedPrecondition if the file is not a table of this device.
  absl::Status MergeInto(const std::string& path) const;

  // Returns 16 hexadecimal digits, for traces and reports. They differ between tables with different devices, keys or
  // algorithms; measured times do not matter.
  std::string Digest() const;

 private:
  TuningDevice device_;
  // Entries by the text of their keys.
  std::map<std::string, TunedAlgorithm> entries_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_TUNING_TABLE_H_
