#include "executor/backends/cuda/tuning_table.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxExtent = int64_t{1} << 40;
constexpr absl::string_view kMagic = "weft-tuning ";
constexpr int64_t kVersion = 2;
constexpr absl::string_view kCrc = " crc=";

struct TypeName {
  Type type;
  absl::string_view name;
};
// Types of matrices. Only a bias may have "none".
constexpr TypeName kTypes[] = {
    {Type::kNone, "none"}, {Type::kFp64, "fp64"}, {Type::kFp32, "fp32"}, {Type::kBf16, "bf16"}, {Type::kFp16, "fp16"}};

absl::string_view NameOf(Type type) {
  for (const TypeName& entry : kTypes) {
    if (entry.type == type) return entry.name;
  }
  return "none";
}

// Reads the fields of a line, name=value in a fixed order, each once.
class Fields {
 public:
  Fields(absl::string_view line, std::string where) : rest_(line), where_(std::move(where)) {}

  // Returns the value of the next field; InvalidArgument if the field has another name.
  absl::StatusOr<absl::string_view> Next(absl::string_view name) {
    const size_t end = rest_.find(' ');
    const absl::string_view field = rest_.substr(0, end);
    rest_ = end == absl::string_view::npos ? absl::string_view() : rest_.substr(end + 1);
    absl::string_view value = field;
    if (!absl::ConsumePrefix(&value, name) || !absl::ConsumePrefix(&value, "=")) {
      return Error("'", name, "=' is expected, but the line has '", field, "'");
    }
    return value;
  }

  absl::Status Integer(absl::string_view name, int64_t least, int64_t most, int64_t* value) {
    WEFT_ASSIGN_OR_RETURN(const absl::string_view text, Next(name));
    return ParseInteger(name, text, least, most, value);
  }

  // True if the next field is `name`. Only optional fields need this check.
  bool IsNext(absl::string_view name) const { return absl::StartsWith(rest_, absl::StrCat(name, "=")); }

  absl::Status Flag(absl::string_view name, bool* value) {
    int64_t number = 0;
    WEFT_RETURN_IF_ERROR(Integer(name, 0, 1, &number));
    *value = number == 1;
    return absl::OkStatus();
  }

  absl::Status TypeOf(absl::string_view name, absl::string_view text, bool may_be_none, Type* type) {
    for (const TypeName& entry : kTypes) {
      if (entry.name == text && (may_be_none || entry.type != Type::kNone)) {
        *type = entry.type;
        return absl::OkStatus();
      }
    }
    return Error(name, " is of type '", text, "'; allowed: ", may_be_none ? "none, " : "", "fp64, fp32, bf16, fp16");
  }

  absl::Status Matrix(absl::string_view name, MatrixLayout* layout) {
    WEFT_ASSIGN_OR_RETURN(const absl::string_view text, Next(name));
    const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
    if (parts.size() != 3) return Error(name, " is '", text, "'; expected type:stride:batch_stride");
    WEFT_RETURN_IF_ERROR(TypeOf(name, parts[0], false, &layout->type));
    WEFT_RETURN_IF_ERROR(ParseInteger(name, parts[1], 0, kMaxExtent, &layout->stride));
    return ParseInteger(name, parts[2], 0, kMaxExtent, &layout->batch_stride);
  }

  absl::Status Word(absl::string_view word) {
    const size_t end = rest_.find(' ');
    const absl::string_view found = rest_.substr(0, end);
    rest_ = end == absl::string_view::npos ? absl::string_view() : rest_.substr(end + 1);
    return found == word ? absl::OkStatus() : Error("'", word, "' is expected, but the line has '", found, "'");
  }

  absl::string_view rest() const { return rest_; }

  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(where_, ": ", parts...));
  }

 private:
  absl::Status ParseInteger(absl::string_view name, absl::string_view text, int64_t least, int64_t most,
                            int64_t* value) const {
    if (absl::SimpleAtoi(text, value) && *value >= least && *value <= most) return absl::OkStatus();
    return Error(name, " is '", text, "'; allowed: whole numbers from ", least, " to ", most);
  }

  absl::string_view rest_;
  std::string where_;
};

std::string MatrixText(const MatrixLayout& layout) {
  return absl::StrCat(NameOf(layout.type), ":", layout.stride, ":", layout.batch_stride);
}

std::string KeyText(const TuningKey& key) {
  const MatmulShape& s = key.shape;
  return absl::StrCat("matmul m=", s.m, " n=", s.n, " k=", s.k, " batch=", s.batch,
                      " transpose_a=", s.transpose_a ? 1 : 0, " transpose_b=", s.transpose_b ? 1 : 0,
                      " a=", MatrixText(s.a), " b=", MatrixText(s.b), " y=", MatrixText(s.y), " bias=", NameOf(s.bias),
                      " accumulate=", s.accumulate ? 1 : 0, " scale=", absl::StrFormat("%.17g", s.scale),
                      " alignment=", key.alignment, s.tf32 ? " tf32=1" : "");
}

absl::Status ParseKey(Fields& fields, TuningKey* key) {
  MatmulShape& s = key->shape;
  WEFT_RETURN_IF_ERROR(fields.Word("matmul"));
  WEFT_RETURN_IF_ERROR(fields.Integer("m", 1, kMaxExtent, &s.m));
  WEFT_RETURN_IF_ERROR(fields.Integer("n", 1, kMaxExtent, &s.n));
  WEFT_RETURN_IF_ERROR(fields.Integer("k", 0, kMaxExtent, &s.k));
  WEFT_RETURN_IF_ERROR(fields.Integer("batch", 1, kMaxExtent, &s.batch));
  WEFT_RETURN_IF_ERROR(fields.Flag("transpose_a", &s.transpose_a));
  WEFT_RETURN_IF_ERROR(fields.Flag("transpose_b", &s.transpose_b));
  WEFT_RETURN_IF_ERROR(fields.Matrix("a", &s.a));
  WEFT_RETURN_IF_ERROR(fields.Matrix("b", &s.b));
  WEFT_RETURN_IF_ERROR(fields.Matrix("y", &s.y));
  WEFT_ASSIGN_OR_RETURN(const absl::string_view bias, fields.Next("bias"));
  WEFT_RETURN_IF_ERROR(fields.TypeOf("bias", bias, true, &s.bias));
  WEFT_RETURN_IF_ERROR(fields.Flag("accumulate", &s.accumulate));
  WEFT_ASSIGN_OR_RETURN(const absl::string_view scale, fields.Next("scale"));
  if (!absl::SimpleAtod(scale, &s.scale) || !std::isfinite(s.scale)) {
    return fields.Error("scale is '", scale, "'; allowed: finite numbers");
  }
  WEFT_RETURN_IF_ERROR(fields.Integer("alignment", 1, 256, &key->alignment));
  if (!fields.IsNext("tf32")) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(fields.Flag("tf32", &s.tf32));
  if (s.tf32 && s.a.type != Type::kFp32) return fields.Error("tf32 is 1, but a is ", NameOf(s.a.type), ", not fp32");
  return absl::OkStatus();
}

absl::Status ParseAlgorithm(Fields& fields, TunedAlgorithm* algorithm) {
  WEFT_RETURN_IF_ERROR(fields.Word("->"));
  WEFT_ASSIGN_OR_RETURN(const absl::string_view digits, fields.Next("algorithm"));
  constexpr size_t kDigits = 16;
  bool good = digits.size() == algorithm->words.size() * kDigits;
  for (size_t i = 0; good && i < digits.size(); ++i) {
    const size_t digit = absl::string_view("0123456789abcdef").find(digits[i]);
    good = digit != absl::string_view::npos;
    uint64_t& word = algorithm->words[i / kDigits];
    word = word << 4 | (good ? digit : 0);
  }
  if (!good) return fields.Error("algorithm is '", digits, "'; expected 128 of the digits 0 to 9 and a to f");
  WEFT_RETURN_IF_ERROR(fields.Integer("nanoseconds", 0, std::numeric_limits<int64_t>::max(), &algorithm->nanoseconds));
  return fields.rest().empty() ? absl::OkStatus() : fields.Error("'", fields.rest(), "' follows the last field");
}

std::string AlgorithmText(const TunedAlgorithm& algorithm) {
  std::string text = "algorithm=";
  for (const uint64_t word : algorithm.words) absl::StrAppend(&text, absl::Hex(word, absl::kZeroPad16));
  return text;
}

std::string CrcText(absl::string_view line) { return absl::StrCat(absl::Hex(Crc32c(line), absl::kZeroPad8)); }

std::string DeviceText(const TuningDevice& device) {
  return absl::StrCat("for architecture=", device.architecture, " multiprocessors=", device.multiprocessors,
                      " cublaslt=", device.cublaslt, " device=", device.name);
}

// Holds a lock on `path`.lock during its lifetime.
class FileLock {
 public:
  static absl::StatusOr<FileLock> Take(const std::string& path) {
    const std::string name = path + ".lock";
    const int fd = open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
      const std::string reason = std::strerror(errno);
      if (fd >= 0) close(fd);
      return absl::UnavailableError(absl::StrCat("cannot lock ", name, ": ", reason));
    }
    return FileLock(fd);
  }
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~FileLock() {
    if (fd_ >= 0) close(fd_);
  }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace

absl::StatusOr<TuningTable> TuningTable::Parse(absl::string_view text, absl::string_view path) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  const auto where = [&](size_t line) { return absl::StrCat(path, ", line ", line + 1); };
  absl::string_view version = lines[0];
  int64_t number = 0;
  if (!absl::ConsumePrefix(&version, kMagic) || !absl::SimpleAtoi(version, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a tuning file (its first line is not '", kMagic,
                                                   kVersion, "'); write a new file with --tuning='write FILE'"));
  }
  if (number != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(where(0), ": version ", number, "; this program reads version ",
                                                   kVersion, "; write a new file with --tuning='write FILE'"));
  }
  Fields header(lines.size() > 1 ? lines[1] : absl::string_view(), where(1));
  TuningDevice device;
  WEFT_RETURN_IF_ERROR(header.Word("for"));
  WEFT_RETURN_IF_ERROR(header.Integer("architecture", 0, kMax, &device.architecture));
  WEFT_RETURN_IF_ERROR(header.Integer("multiprocessors", 1, kMax, &device.multiprocessors));
  WEFT_RETURN_IF_ERROR(header.Integer("cublaslt", 0, kMax, &device.cublaslt));
  absl::string_view name = header.rest();
  if (!absl::ConsumePrefix(&name, "device=") || name.empty()) {
    return header.Error("'device=' and a name are expected, but the line has '", header.rest(), "'");
  }
  device.name = std::string(name);
  TuningTable table(std::move(device));
  for (size_t i = 2; i < lines.size(); ++i) {
    // The last line ends with a newline, so an empty string follows it.
    if (lines[i].empty() && i + 1 == lines.size()) break;
    const size_t end = lines[i].rfind(kCrc);
    Fields fields(lines[i].substr(0, end), where(i));
    TuningKey key;
    TunedAlgorithm algorithm;
    WEFT_RETURN_IF_ERROR(ParseKey(fields, &key));
    WEFT_RETURN_IF_ERROR(ParseAlgorithm(fields, &algorithm));
    // All fields are plausible, so check that nobody has changed the line since it was written.
    const absl::string_view crc = end == absl::string_view::npos ? "" : lines[i].substr(end + kCrc.size());
    if (const std::string right = CrcText(lines[i].substr(0, end)); crc != right) {
      return fields.Error("crc is '", crc, "', but the checksum of the line is ", right,
                          ": the line was changed or is damaged; delete it");
    }
    if (!table.entries_.emplace(KeyText(key), algorithm).second) {
      return fields.Error("an earlier line has the same product; delete one of the two");
    }
  }
  return table;
}

absl::StatusOr<TuningTable> TuningTable::Read(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Parse(text, path);
}

absl::Status TuningTable::CheckDevice(const TuningDevice& device, absl::string_view path) const {
  if (device == device_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, " is ", DeviceText(device_), ", but this run is ",
                                                    DeviceText(device), "; tune again on this device"));
}

const TunedAlgorithm* TuningTable::Find(const TuningKey& key) const {
  const auto found = entries_.find(KeyText(key));
  return found == entries_.end() ? nullptr : &found->second;
}

void TuningTable::Set(const TuningKey& key, const TunedAlgorithm& algorithm) { entries_[KeyText(key)] = algorithm; }

std::string TuningTable::Text() const {
  std::string text = absl::StrCat(kMagic, kVersion, "\n", DeviceText(device_), "\n");
  for (const auto& [key, algorithm] : entries_) {
    const std::string line =
        absl::StrCat(key, " -> ", AlgorithmText(algorithm), " nanoseconds=", algorithm.nanoseconds);
    absl::StrAppend(&text, line, kCrc, CrcText(line), "\n");
  }
  return text;
}

absl::Status TuningTable::MergeInto(const std::string& path) const {
  WEFT_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(path));
  TuningTable merged = *this;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    WEFT_ASSIGN_OR_RETURN(const TuningTable there, Read(path));
    WEFT_RETURN_IF_ERROR(there.CheckDevice(device_, path));
    merged.entries_.insert(there.entries_.begin(), there.entries_.end());
  }
  return WriteFileAtomic(path, merged.Text());
}

std::string TuningTable::Digest() const {
  // 64-bit FNV-1a.
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](absl::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  };
  add(DeviceText(device_));
  for (const auto& [key, algorithm] : entries_) {
    add(key);
    add(AlgorithmText(algorithm));
  }
  return absl::StrFormat("%016x", hash);
}

}  // namespace weft::exec::cuda
