// Fuzz target: the reader of tuning files. A file that it accepts survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "executor/backends/cuda/tuning_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = weft::exec::cuda::TuningTable::Parse(text, "fuzz");
  if (!table.ok()) return 0;
  const auto again = weft::exec::cuda::TuningTable::Parse(table->Text(), "again");
  if (!again.ok() || again->Text() != table->Text() || again->Digest() != table->Digest()) std::abort();
  return 0;
}
