// Fuzz target: --set. Each line of the input is one setting of the recipe or the plan.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_split.h"
#include "proto/io/io.h"
#include "proto/io/set_field.h"
#include "tests/fuzz/require.h"

using weft::Require;
using weft::RequireMessage;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  weft::Recipe recipe;
  weft::Plan plan;
  for (absl::string_view line : absl::StrSplit(bytes, '\n')) {
    const std::string recipe_before = recipe.SerializeAsString(), plan_before = plan.SerializeAsString();
    const absl::Status status = weft::ApplySetting(line, &recipe, &plan);
    if (status.ok()) {
      // Applying a setting again succeeds and changes nothing.
      const std::string recipe_after = recipe.SerializeAsString(), plan_after = plan.SerializeAsString();
      Require(weft::ApplySetting(line, &recipe, &plan).ok());
      Require(recipe.SerializeAsString() == recipe_after && plan.SerializeAsString() == plan_after);
    } else {
      RequireMessage(status);
      Require(recipe.SerializeAsString() == recipe_before && plan.SerializeAsString() == plan_before);
    }
  }
  return 0;
}
