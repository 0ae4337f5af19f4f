// Fuzz target: the reader of program files. It reads the bytes as they are, and again as the payload of a file with a
// correct header, because no fuzzer guesses a CRC.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "proto/io/crc32c.h"
#include "proto/io/program_file.h"

namespace {

void Check(absl::string_view bytes) {
  const absl::StatusOr<weft::Program> program = weft::ParseProgram(bytes, "fuzz");
  if (!program.ok()) return;
  const std::string file = weft::SerializeProgram(*program);
  const absl::StatusOr<weft::Program> again = weft::ParseProgram(file, "again");
  if (!again.ok() || weft::SerializeProgram(*again) != file) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  const absl::string_view payload = weft::LooksLikeProgram(bytes) && size >= 24 ? bytes.substr(24) : bytes;
  std::string file = "WEFTPROG";
  const auto append = [&](uint64_t value, int count) {
    for (int i = 0; i < count; ++i) file += static_cast<char>(value >> (8 * i));
  };
  append(weft::kProgramFormatVersion, 4);
  append(payload.size(), 8);
  append(weft::Crc32c(payload), 4);
  file.append(payload.data(), payload.size());
  Check(file);
  return 0;
}
