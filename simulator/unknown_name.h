// The error for a name that a registry does not know.
#ifndef WEFT_SIMULATOR_UNKNOWN_NAME_H_
#define WEFT_SIMULATOR_UNKNOWN_NAME_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

// NotFound: `what` ("cost model"), the name given, the name nearest to it by edit distance, and all known names.
absl::Status UnknownNameError(absl::string_view what, absl::string_view given,
                              absl::Span<const absl::string_view> known);

}  // namespace weft

#endif  // WEFT_SIMULATOR_UNKNOWN_NAME_H_
