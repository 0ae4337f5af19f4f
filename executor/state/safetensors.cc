#include "executor/state/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/io/crc32c.h"
#include "proto/io/json.h"
#include "proto/io/json_value.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// The format's own limit.
constexpr int64_t kMaxHeaderBytes = 100'000'000;
// Maximum size of one read or write call.
constexpr int64_t kPieceBytes = int64_t{1} << 30;

struct TypeRow {
  absl::string_view name;
  int64_t bytes;
  DType dtype;
};
constexpr TypeRow kTypes[] = {
    {"F64", 8, FP64},
    {"F32", 4, FP32},
    {"F16", 2, FP16},
    {"BF16", 2, BF16},
    {"I32", 4, INT32},
    {"I64", 8, DTYPE_UNSPECIFIED},
    {"I16", 2, DTYPE_UNSPECIFIED},
    {"I8", 1, DTYPE_UNSPECIFIED},
    {"U64", 8, DTYPE_UNSPECIFIED},
    {"U32", 4, DTYPE_UNSPECIFIED},
    {"U16", 2, DTYPE_UNSPECIFIED},
    {"U8", 1, DTYPE_UNSPECIFIED},
    {"BOOL", 1, DTYPE_UNSPECIFIED},
    {"F8_E4M3", 1, DTYPE_UNSPECIFIED},
    {"F8_E5M2", 1, DTYPE_UNSPECIFIED},
};

absl::string_view TypeName(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return "";
}

std::string Errno(const std::string& path, absl::string_view what) {
  return absl::StrCat(path, ": ", what, ": ", std::strerror(errno));
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name, const JsonValue& value,
                                            const std::string& source) {
  auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": tensor ", Quoted(name), ": ", parts...));
  };
  SafetensorsEntry entry;
  entry.name = name;
  if (!value.is_object()) return refuse("expected an object, got ", JsonKindName(value.kind));
  for (const std::string& key : value.names) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") return refuse("unknown key ", Quoted(key));
  }
  const JsonValue* dtype = value.Find("dtype");
  const JsonValue* shape = value.Find("shape");
  const JsonValue* offsets = value.Find("data_offsets");
  if (dtype == nullptr || dtype->kind != JsonValue::Kind::kString) return refuse("'dtype' must be a string");
  if (shape == nullptr || !shape->is_array()) return refuse("'shape' must be an array");
  if (offsets == nullptr || !offsets->is_array() || offsets->elements.size() != 2) {
    return refuse("'data_offsets' must be an array of two numbers");
  }
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeRow& r) { return r.name == absl::string_view(dtype->text); });
  if (row == std::end(kTypes)) return refuse("unknown dtype ", Quoted(dtype->text));
  entry.type_name = dtype->text;
  entry.dtype = row->dtype;
  for (const JsonValue& extent : shape->elements) {
    const std::optional<int64_t> number = extent.Int64();
    if (!number.has_value() || *number < 0) return refuse("'shape' must hold whole numbers of at least 0");
    entry.shape.push_back(*number);
  }
  const std::optional<int64_t> begin = offsets->elements[0].Int64();
  const std::optional<int64_t> end = offsets->elements[1].Int64();
  if (!begin.has_value() || !end.has_value() || *begin < 0 || *end < *begin) {
    return refuse("'data_offsets' must be two ascending whole numbers");
  }
  entry.begin = *begin;
  entry.end = *end;
  const std::optional<int64_t> elements = ElementCount(entry.shape);
  if (!elements.has_value() || *elements > (entry.end - entry.begin) / row->bytes ||
      *elements * row->bytes != entry.end - entry.begin) {
    return refuse("shape [", absl::StrJoin(entry.shape, ", "), "] of ", entry.type_name, " does not fill the ",
                  entry.end - entry.begin, " bytes of its data_offsets");
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(absl::string_view json, int64_t data_bytes,
                                                                     const std::string& source,
                                                                     std::map<std::string, std::string>* metadata) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(json, source));
  if (!root.is_object()) return absl::InvalidArgumentError(source + ": the header must be a JSON object");
  std::vector<SafetensorsEntry> entries;
  for (size_t i = 0; i < root.elements.size(); ++i) {
    const JsonValue& value = root.elements[i];
    if (root.names[i] != "__metadata__") {
      WEFT_ASSIGN_OR_RETURN(entries.emplace_back(), ParseEntry(root.names[i], value, source));
      continue;
    }
    if (!value.is_object()) return absl::InvalidArgumentError(source + ": '__metadata__' must be an object");
    for (size_t k = 0; k < value.elements.size(); ++k) {
      if (value.elements[k].kind != JsonValue::Kind::kString) {
        return absl::InvalidArgumentError(absl::StrCat(source, ": __metadata__.", value.names[k], " must be a string"));
      }
      if (metadata != nullptr) (*metadata)[value.names[k]] = value.elements[k].text;
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.end > data_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": tensor ", Quoted(entry.name), " ends at byte ",
                                                     entry.end, " of ", data_bytes, "; the file is truncated"));
    }
    if (entry.begin != covered) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": tensor ", Quoted(entry.name),
                                                     entry.begin < covered
                                                         ? " overlaps the tensor before it: begins at byte "
                                                         : " leaves a hole before it: begins at byte ",
                                                     entry.begin, ", expected ", covered));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": ", data_bytes - covered, " bytes after the last tensor belong to no tensor"));
  }
  return entries;
}

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(const std::string& path) {
  std::unique_ptr<SafetensorsReader> reader(new SafetensorsReader);
  reader->path_ = path;
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  reader->file_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (reader->file_ < 0) return absl::NotFoundError(Errno(path, "cannot open"));
  struct stat info;
  if (fstat(reader->file_, &info) != 0) return absl::UnknownError(Errno(path, "cannot stat"));
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(path + ": is a directory, not a file");
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        path + ": is not a regular file; weft reads tensors in any order, so it cannot be a pipe or a device");
  }
  unsigned char prefix[8];
  if (info.st_size < 8 || pread(reader->file_, prefix, 8, 0) != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", info.st_size, " bytes are too few for a safetensors file"));
  }
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | prefix[i];
  if (header_bytes > static_cast<uint64_t>(std::min<int64_t>(kMaxHeaderBytes, info.st_size - 8))) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a header of ", header_bytes, " bytes in a file of ",
                                                   info.st_size, " bytes; not a safetensors file, or truncated"));
  }
  std::string header(header_bytes, '\0');
  for (size_t done = 0; done < header.size();) {
    const ssize_t got = pread(reader->file_, header.data() + done, header.size() - done, 8 + done);
    if (got <= 0) return absl::DataLossError(Errno(path, "cannot read the header"));
    done += got;
  }
  reader->data_begin_ = 8 + static_cast<int64_t>(header_bytes);
  WEFT_ASSIGN_OR_RETURN(reader->entries_,
                        ParseSafetensorsHeader(header, info.st_size - reader->data_begin_, path, &reader->metadata_));
  return reader;
}

SafetensorsReader::~SafetensorsReader() {
  if (file_ >= 0) close(file_);
}

absl::Status SafetensorsReader::Read(const SafetensorsEntry& entry, std::vector<std::byte>* bytes) const {
  bytes->resize(entry.end - entry.begin);
  for (int64_t done = 0; done < static_cast<int64_t>(bytes->size());) {
    const int64_t piece = std::min<int64_t>(kPieceBytes, bytes->size() - done);
    const ssize_t got = pread(file_, bytes->data() + done, piece, data_begin_ + entry.begin + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::DataLossError(Errno(path_, absl::StrCat("cannot read tensor ", Quoted(entry.name))));
    done += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<Declaration>& tensors,
    const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      absl::StrAppend(&header, header.back() == '{' ? "" : ",", JsonQuoted(key), ":", JsonQuoted(value));
    }
    header += "}";
  }
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter);
  int64_t offset = 0;
  std::set<std::string> names;
  for (const Declaration& tensor : tensors) {
    const std::optional<int64_t> elements = ElementCount(tensor.shape);
    if (TypeName(tensor.dtype).empty() || tensor.dtype == DTYPE_UNSPECIFIED || !elements.has_value() ||
        !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": cannot write tensor ", Quoted(tensor.name), " of ", DTypeName(tensor.dtype)));
    }
    const int64_t bytes = *elements * DTypeBytes(tensor.dtype);
    absl::StrAppend(&header, header.size() == 1 ? "" : ",", JsonQuoted(tensor.name), ":{\"dtype\":\"",
                    TypeName(tensor.dtype), "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[",
                    offset, ",", offset + bytes, "]}");
    writer->sizes_.push_back(bytes);
    offset += bytes;
  }
  header += "}";
  // The data begins at a multiple of 8.
  header.resize(RoundUp(header.size(), 8), ' ');
  writer->path_ = path;
  writer->file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (writer->file_ < 0) return absl::UnknownError(Errno(path, "cannot create"));
  unsigned char prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<unsigned char>(header.size() >> (8 * i));
  WEFT_RETURN_IF_ERROR(writer->WriteAll(prefix, 8));
  WEFT_RETURN_IF_ERROR(writer->WriteAll(header.data(), header.size()));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ >= 0) close(file_);
}

absl::Status SafetensorsWriter::WriteAll(const void* data, int64_t bytes) {
  const char* begin = static_cast<const char*>(data);
  crc_ = Crc32cExtend(crc_, absl::string_view(begin, bytes));
  written_ += bytes;
  while (bytes > 0) {
    const ssize_t done = write(file_, begin, std::min(bytes, kPieceBytes));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return absl::ResourceExhaustedError(Errno(path_, "cannot write"));
    begin += done;
    bytes -= done;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Append(absl::Span<const std::byte> bytes) {
  if (next_ == sizes_.size() || sizes_[next_] != static_cast<int64_t>(bytes.size())) {
    return absl::InternalError(
        absl::StrCat(path_, ": tensor number ", next_, " of ", sizes_.size(), " got ", bytes.size(), " bytes"));
  }
  ++next_;
  return WriteAll(bytes.data(), bytes.size());
}

absl::Status SafetensorsWriter::Finish(int64_t* file_bytes, uint32_t* crc32c) {
  if (next_ != sizes_.size()) {
    return absl::InternalError(absl::StrCat(path_, ": ", next_, " of ", sizes_.size(), " tensors were written"));
  }
  // Pipes and devices cannot be synced.
  if (fsync(file_) != 0 && errno != EINVAL && errno != EROFS) return absl::UnknownError(Errno(path_, "cannot sync"));
  if (close(std::exchange(file_, -1)) != 0) return absl::UnknownError(Errno(path_, "cannot close"));
  *file_bytes = written_;
  *crc32c = crc_;
  return absl::OkStatus();
}

namespace {

double FromFp16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                  : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -value : value;
}

// Rounds x to `fraction_bits` of a format whose smallest normal exponent is `min_exponent`. The result is exact as a
// double.
double RoundToPrecision(double x, int fraction_bits, int min_exponent) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), min_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, fraction_bits - exponent)), exponent - fraction_bits);
}

uint16_t ToBf16(double x) {
  const float rounded = static_cast<float>(RoundToPrecision(x, 7, -126));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) >> 16);
}

uint16_t ToFp16(double x) {
  const double rounded = RoundToPrecision(x, 10, -14);
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7e00;
  const double magnitude = std::fabs(rounded);
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const int fraction = static_cast<int>(std::ldexp(magnitude, 10 - exponent));
  // For a subnormal, `exponent` is -14 and `fraction` is below 1024, so the exponent field becomes 0.
  return static_cast<uint16_t>(sign | (((exponent + 15) << 10) + fraction - 1024));
}

double Get(DType dtype, const std::byte* p) {
  double f64;
  float f32;
  uint16_t bits;
  switch (dtype) {
    case FP64:
      std::memcpy(&f64, p, 8);
      return f64;
    case FP32:
      std::memcpy(&f32, p, 4);
      return f32;
    case BF16:
      std::memcpy(&bits, p, 2);
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    default:
      std::memcpy(&bits, p, 2);
      return FromFp16(bits);
  }
}

void Put(DType dtype, double x, std::byte* p) {
  const float f32 = static_cast<float>(x);
  uint16_t bits;
  switch (dtype) {
    case FP64:
      std::memcpy(p, &x, 8);
      return;
    case FP32:
      std::memcpy(p, &f32, 4);
      return;
    case BF16:
      bits = ToBf16(x);
      std::memcpy(p, &bits, 2);
      return;
    default:
      bits = ToFp16(x);
      std::memcpy(p, &bits, 2);
      return;
  }
}

bool IsFloat(DType dtype) { return dtype == FP64 || dtype == FP32 || dtype == FP16 || dtype == BF16; }

}  // namespace

absl::Status ConvertFloats(DType from, absl::Span<const std::byte> in, DType to, absl::Span<std::byte> out) {
  if (!IsFloat(from) || !IsFloat(to)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot convert ", DTypeName(from), " to ", DTypeName(to)));
  }
  const int64_t elements = static_cast<int64_t>(in.size()) / DTypeBytes(from);
  if (static_cast<int64_t>(out.size()) != elements * DTypeBytes(to)) {
    return absl::InternalError(absl::StrCat("converting ", in.size(), " bytes into ", out.size()));
  }
  if (from == to) {
    if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
    return absl::OkStatus();
  }
  const int64_t step_in = DTypeBytes(from), step_out = DTypeBytes(to);
  for (int64_t i = 0; i < elements; ++i) Put(to, Get(from, in.data() + i * step_in), out.data() + i * step_out);
  return absl::OkStatus();
}

}  // namespace weft::exec
