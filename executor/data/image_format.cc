#include "executor/data/image_format.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/io/decimal.h"
#include "proto/io/little_endian.h"

namespace weft::exec {
namespace {

constexpr absl::string_view kMagic = "WEFTIMGS";
constexpr uint64_t kVersion = 1;
// DType codes of image files.
constexpr uint64_t kUint8 = 1;
constexpr uint64_t kFloat32 = 2;

}  // namespace

bool LooksLikeImageFile(absl::string_view head) { return head.substr(0, kMagic.size()) == kMagic; }

std::string ImageFileHeader(const ImageLayout& layout) {
  std::string header(kMagic);
  AppendLittleEndian(kVersion, 4, &header);
  AppendLittleEndian(layout.bytes_per_element == 1 ? kUint8 : kFloat32, 4, &header);
  AppendLittleEndian(static_cast<uint64_t>(layout.channels), 4, &header);
  AppendLittleEndian(static_cast<uint64_t>(layout.height), 4, &header);
  AppendLittleEndian(static_cast<uint64_t>(layout.width), 4, &header);
  AppendLittleEndian(0, 4, &header);
  AppendLittleEndian(static_cast<uint64_t>(layout.count), 8, &header);
  return header;
}

absl::StatusOr<ImageLayout> ParseImageHeader(absl::string_view head, int64_t file_bytes, absl::string_view source) {
  const auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": image file: ", parts...));
  };
  if (!LooksLikeImageFile(head)) return refuse("it does not begin with ", kMagic);
  if (head.size() < kImageHeaderBytes) {
    return refuse("it is cut off: the file has ", head.size(), " bytes, but the header alone has ", kImageHeaderBytes);
  }
  const uint64_t version = LittleEndian(head.substr(8, 4));
  if (version != kVersion) return refuse("format version ", version, "; this weft reads version ", kVersion);
  const uint64_t dtype = LittleEndian(head.substr(12, 4));
  if (dtype != kUint8 && dtype != kFloat32) return refuse("dtype ", dtype, "; known: 1 (uint8), 2 (float32)");
  ImageLayout layout;
  layout.offset = kImageHeaderBytes;
  layout.bytes_per_element = dtype == kUint8 ? 1 : 4;
  const struct {
    const char* name;
    size_t offset;
    int64_t* to;
  } extents[] = {{"channels", 16, &layout.channels}, {"height", 20, &layout.height}, {"width", 24, &layout.width}};
  for (const auto& extent : extents) {
    *extent.to = static_cast<int64_t>(LittleEndian(head.substr(extent.offset, 4)));
    if (*extent.to < 1 || *extent.to > kLargestImageExtent) {
      return refuse(extent.name, " ", *extent.to, "; it must be from 1 to ", kLargestImageExtent);
    }
  }
  if (const uint64_t zero = LittleEndian(head.substr(28, 4)); zero != 0) {
    return refuse("bytes 28 to 31 are ", zero, "; they must be 0");
  }
  const uint64_t count = LittleEndian(head.substr(32, 8));
  // The product is at most 2^47, so it does not overflow.
  const auto bytes = static_cast<uint64_t>(layout.elements() * layout.bytes_per_element);
  const auto held = static_cast<uint64_t>(file_bytes - kImageHeaderBytes);
  if (count < 1 || held % bytes != 0 || count != held / bytes) {
    return refuse("the header says ", count, " images of ", bytes, " bytes; ", held, " bytes follow it",
                  count < 1 ? "; at least one image is required" : "");
  }
  layout.count = static_cast<int64_t>(count);
  return layout;
}

absl::StatusOr<ImageLayout> LayoutOfRawImages(absl::string_view shape, absl::string_view dtype, int64_t bytes) {
  ImageLayout layout;
  const std::vector<std::string> parts = absl::StrSplit(shape, 'x');
  int64_t* const extents[] = {&layout.height, &layout.width, &layout.channels};
  bool ok = parts.size() == 3;
  for (size_t i = 0; ok && i < 3; ++i) {
    ok = BadBeginning(parts[i]).empty() && absl::SimpleAtoi(parts[i], extents[i]) && *extents[i] >= 1 &&
         *extents[i] <= kLargestImageExtent;
  }
  if (!ok) {
    return absl::InvalidArgumentError(absl::StrCat("'", shape,
                                                   "' is not the shape of an image; expected HEIGHTxWIDTHxCHANNELS, ",
                                                   "each from 1 to ", kLargestImageExtent, ", such as 32x32x3"));
  }
  if (dtype != "uint8" && dtype != "float32") {
    return absl::InvalidArgumentError(absl::StrCat("'", dtype, "' is not a type of pixels; known: uint8, float32"));
  }
  layout.bytes_per_element = dtype == "uint8" ? 1 : 4;
  const int64_t each = layout.elements() * layout.bytes_per_element;
  if (bytes < each || bytes % each != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes, " bytes are not whole images of ", shape, " ", dtype, ", ", each, " bytes each; nearest: ",
        bytes < each ? "" : absl::StrCat(bytes / each, " or "), bytes / each + 1, bytes < each ? " image" : " images"));
  }
  layout.count = bytes / each;
  layout.offset = kImageHeaderBytes;
  return layout;
}

}  // namespace weft::exec
