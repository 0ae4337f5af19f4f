// Which algorithms a device's matrix products take: what --tuning=write measures and --tuning=read uses. A text file,
// so that it can be read, kept and compared:
//
//   weft-tuning 2
//   for architecture=90 multiprocessors=132 cublaslt=130100 device=NVIDIA H200
//   matmul m=4096 n=2304 k=768 batch=1 transpose_a=0 transpose_b=0 a=bf16:768:0 b=bf16:2304:0 y=bf16:2304:0 bias=bf16
//     accumulate=0 scale=1 alignment=16 -> algorithm=00000000000000420000002300000014... nanoseconds=31744 crc=9f3c0a11
//
// (one line each). Types and strides are those of MatrixLayout; behind the alignment of a product in TF32 stands
// " tf32=1", and nothing behind that of another one. The algorithm is what cuBLASLt gave, a
// cublasLtMatmulAlgo_t of eight words, which may be kept and used with the same version of the library ("can be
// trivially serialized and later restored", cublasLt.h); crc is the CRC-32C of the line before " crc=".
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

// What an entry is for.
struct TuningKey {
  MatmulShape shape;
  // All addresses are multiples of it.
  int64_t alignment = 16;
};

// An algorithm as cuBLASLt describes it to itself, and what it took.
struct TunedAlgorithm {
  std::array<uint64_t, 8> words = {};
  int64_t nanoseconds = 0;

  bool operator==(const TunedAlgorithm&) const = default;
};

// Whose measurements they are: they mean nothing elsewhere.
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

  // `path` is what errors name, with the line. InvalidArgument: not such a file, another version, a field that is
  // missing, out of range or twice.
  static absl::StatusOr<TuningTable> Parse(absl::string_view text, absl::string_view path);
  // NotFound and errors of the file system; then those of Parse.
  static absl::StatusOr<TuningTable> Read(const std::string& path);

  const TuningDevice& device() const { return device_; }
  // FailedPrecondition, naming both, if the table is of another device or library.
  absl::Status CheckDevice(const TuningDevice& device, absl::string_view path) const;

  const TunedAlgorithm* Find(const TuningKey& key) const;
  void Set(const TuningKey& key, const TunedAlgorithm& algorithm);
  size_t size() const { return entries_.size(); }

  // The file. The same bytes for the same content.
  std::string Text() const;
  // Adds what the file holds already, if it is there, under this table's own entries, and replaces it in one step.
  // Processes that do so at the same time lose nothing of each other. InvalidArgument or FailedPrecondition if what is
  // there is no table of this device.
  absl::Status MergeInto(const std::string& path) const;

  // 16 hexadecimal digits that tell tables apart, times aside: for traces and reports.
  std::string Digest() const;

 private:
  TuningDevice device_;
  // By the text of the key.
  std::map<std::string, TunedAlgorithm> entries_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_TUNING_TABLE_H_
