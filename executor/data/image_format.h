// The header of weft's image files (docs/data.md).
#ifndef WEFT_EXECUTOR_DATA_IMAGE_FORMAT_H_
#define WEFT_EXECUTOR_DATA_IMAGE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

// The content of an image file: images one after another, each as rows of positions, with the channels of a position
// together.
struct ImageLayout {
  // Byte offset of the first image.
  int64_t offset = 0;
  int64_t count = 0;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  // 1 = uint8 (0 is -1, 255 is 1), 4 = float32.
  int bytes_per_element = 1;

  int64_t elements() const { return channels * height * width; }
};

inline constexpr int64_t kImageHeaderBytes = 40;
// Upper bound on the number of channels, the height and the width. The bytes of one image then fit into 48 bits.
inline constexpr int64_t kLargestImageExtent = int64_t{1} << 15;

bool LooksLikeImageFile(absl::string_view head);

// Returns the header of a file with this layout; `offset` is ignored.
std::string ImageFileHeader(const ImageLayout& layout);

// Reads the header at the beginning of a file of `file_bytes` bytes. Errors begin with `source`.
absl::StatusOr<ImageLayout> ParseImageHeader(absl::string_view head, int64_t file_bytes, absl::string_view source);

// Returns the layout of `bytes` bytes of raw images. `shape` is "HEIGHTxWIDTHxCHANNELS", `dtype` "uint8" or "float32".
// Errors name what is wrong.
absl::StatusOr<ImageLayout> LayoutOfRawImages(absl::string_view shape, absl::string_view dtype, int64_t bytes);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_DATA_IMAGE_FORMAT_H_
