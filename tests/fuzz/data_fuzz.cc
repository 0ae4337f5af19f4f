// Fuzz target: data files. The first byte of the input decides how to read the rest: as a file of each token type, as
// an image file, or as the index of a Megatron pair.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/data/data.h"
#include "executor/data/token_format.h"
#include "tests/fuzz/require.h"

using weft::Require;

namespace {

// Opens the bytes as a file in memory and reads samples of the first epochs.
void OpenAndRead(absl::string_view bytes, const char* type) {
  const int fd = memfd_create("data_fuzz", MFD_CLOEXEC);
  Require(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  weft::exec::DataOptions options;
  options.path = absl::StrCat("/proc/self/fd/", fd);
  options.sequence_length = 5;
  options.vocabulary = 300;
  options.seed = 1;
  options.token_type = type;
  const auto data = weft::exec::OpenData(options);
  Require(data.ok() || !data.status().message().empty());
  if (data.ok()) {
    Require((*data)->windows() >= 1);
    std::vector<int32_t> tokens(5), targets(5);
    for (int64_t sample = 0; sample < 10; ++sample) {
      // All tokens were checked when the file was opened.
      Require((*data)->Sample(sample, absl::MakeSpan(tokens), absl::MakeSpan(targets)).ok());
      for (int32_t token : targets) Require(token >= 0 && token < 300);
      for (size_t i = 0; i < 4; ++i) Require(tokens[i + 1] == targets[i]);
    }
  }
  close(fd);
}

// Opens the bytes as a file of images of 2 x 2 x 1 and reads samples.
void OpenAndReadImages(absl::string_view bytes) {
  const int fd = memfd_create("data_fuzz", MFD_CLOEXEC);
  Require(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  weft::exec::DataOptions options;
  options.path = absl::StrCat("/proc/self/fd/", fd);
  options.sequence_length = 4;
  options.seed = 1;
  options.image_size = 2;
  options.image_channels = 1;
  const auto data = weft::exec::OpenData(options);
  Require(data.ok() || !data.status().message().empty());
  if (data.ok()) {
    Require((*data)->windows() >= 1);
    std::vector<float> pixels(4);
    for (int64_t sample = 0; sample < 10; ++sample) {
      // All pixels were checked when the file was opened.
      Require((*data)->Image(sample, absl::MakeSpan(pixels)).ok());
      for (float pixel : pixels) Require(std::isfinite(pixel));
    }
  }
  close(fd);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  static constexpr const char* kTypes[] = {"", "uint16", "uint32", "bytes"};
  if (data[0] == 'i') {
    OpenAndReadImages(bytes);
  } else if (data[0] % 5 < 4) {
    OpenAndRead(bytes, kTypes[data[0] % 5]);
  } else {
    constexpr int64_t kBinBytes = 48;
    const auto layout = weft::exec::ParseMegatronIndex(bytes, kBinBytes, "fuzz");
    if (layout.ok()) Require(layout->offset + layout->count * layout->bytes_per_token == kBinBytes);
  }
  return 0;
}
