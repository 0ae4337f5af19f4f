// Fuzz target: the importer of Hugging Face's config.json. Every model that it accepts is valid.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "compiler/models/import_hf.h"
#include "kernels/graph_row.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view json(reinterpret_cast<const char*>(data), size);
  weft::IsHuggingFaceConfig(json);
  const auto graph = weft::ImportHuggingFaceConfig(json, "fuzz");
  if (graph.ok() && !weft::kernels::ValidateModelGraph(*graph).ok()) std::abort();
  return 0;
}
