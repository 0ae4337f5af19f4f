#include "executor/data/image_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/data/data_identity.h"
#include "executor/data/data_order.h"
#include "executor/data/image_format.h"
#include "executor/platform/input_file.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

class ImageSource : public DataSource {
 public:
  ImageSource(InputFile file, const ImageLayout& layout, uint64_t seed)
      : file_(std::move(file)), layout_(layout), seed_(seed) {}

  int64_t windows() const override { return layout_.count; }

  absl::Status Sample(int64_t, absl::Span<int32_t>, absl::Span<int32_t>) const override {
    return absl::FailedPreconditionError(absl::StrCat(file_.path(), ": holds images, but the program needs tokens"));
  }

  absl::Status Image(int64_t sample, absl::Span<float> pixels) const override {
    if (sample < 0 || static_cast<int64_t>(pixels.size()) != layout_.elements()) {
      return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": sample ", sample, " of ", pixels.size(),
                                                     " elements does not exist; images have ", layout_.elements(),
                                                     " elements, and samples count from 0"));
    }
    return Read(WindowOfSample(seed_, windows(), sample), pixels);
  }

  DataIdentity identity() const override { return identity_; }

  absl::Status Identify() {
    WEFT_ASSIGN_OR_RETURN(
        identity_, IdentityOf(file_, layout_.offset, layout_.count * layout_.elements() * layout_.bytes_per_element,
                              layout_.count));
    return absl::OkStatus();
  }

  // Reports bad data at once, not after hours. Checks only the part that can be read in a moment.
  absl::Status CheckBeginning() const {
    if (layout_.bytes_per_element == 1) return absl::OkStatus();
    constexpr int64_t kChecked = int64_t{1} << 26;
    std::vector<float> image(static_cast<size_t>(layout_.elements()));
    const int64_t images = std::min(layout_.count, std::max<int64_t>(1, kChecked / layout_.elements()));
    for (int64_t i = 0; i < images; ++i) WEFT_RETURN_IF_ERROR(Read(i, absl::MakeSpan(image)));
    return absl::OkStatus();
  }

 private:
  absl::Status Read(int64_t image, absl::Span<float> pixels) const {
    const int64_t width = layout_.bytes_per_element;
    int64_t at = layout_.offset + image * layout_.elements() * width;
    // Reads piece by piece through a buffer on the stack.
    char bytes[1 << 13];
    const size_t room = sizeof(bytes) / static_cast<size_t>(width);
    for (size_t done = 0; done < pixels.size();) {
      const size_t count = std::min(pixels.size() - done, room);
      WEFT_RETURN_IF_ERROR(file_.Read(at, absl::MakeSpan(bytes, count * static_cast<size_t>(width))));
      for (size_t i = 0; i < count; ++i) {
        float& pixel = pixels[done + i];
        if (width == 1) {
          pixel = static_cast<float>(static_cast<unsigned char>(bytes[i])) / 127.5f - 1.0f;
          continue;
        }
        uint32_t bits = 0;
        for (int k = 0; k < 4; ++k) bits |= uint32_t{static_cast<unsigned char>(bytes[4 * i + k])} << (8 * k);
        std::memcpy(&pixel, &bits, sizeof(pixel));
        if (std::isfinite(pixel)) continue;
        return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": element ", done + i, " of image ", image,
                                                       " (byte ", at + 4 * static_cast<int64_t>(i), ") is ", pixel,
                                                       "; pixels must be finite"));
      }
      done += count;
      at += static_cast<int64_t>(count) * width;
    }
    return absl::OkStatus();
  }

  InputFile file_;
  ImageLayout layout_;
  uint64_t seed_;
  DataIdentity identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenImages(const DataOptions& options) {
  if (!options.token_type.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token type '", options.token_type, "' is for tokens; the model is trained on images"));
  }
  WEFT_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(options.path));
  std::vector<char> head(static_cast<size_t>(std::min(file.size(), kImageHeaderBytes)));
  WEFT_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(head)));
  const absl::string_view start(head.data(), head.size());
  if (!LooksLikeImageFile(start)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": is not an image file, but the model trains on images of ", options.image_size,
                     " x ", options.image_size, " x ", options.image_channels,
                     "; `weft convert --to=images` makes an image file from raw pixels"));
  }
  WEFT_ASSIGN_OR_RETURN(const ImageLayout layout, ParseImageHeader(start, file.size(), file.path()));
  if (layout.height != options.image_size || layout.width != options.image_size ||
      layout.channels != options.image_channels) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": has images of ", layout.height, " x ", layout.width,
                                                   " x ", layout.channels, " (height, width, channels); the model has ",
                                                   options.image_size, " x ", options.image_size, " x ",
                                                   options.image_channels));
  }
  auto source = std::make_unique<ImageSource>(std::move(file), layout, options.seed);
  WEFT_RETURN_IF_ERROR(source->CheckBeginning());
  WEFT_RETURN_IF_ERROR(source->Identify());
  return std::unique_ptr<DataSource>(std::move(source));
}

}  // namespace weft::exec
