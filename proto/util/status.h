// The project's only statement macros: early return on a bad absl::Status.
#ifndef WEFT_PROTO_UTIL_STATUS_H_
#define WEFT_PROTO_UTIL_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define WEFT_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                     \
    if (absl::Status weft_status_ = (expression); !weft_status_.ok()) return weft_status_; \
  } while (false)

#define WEFT_STATUS_JOIN_(a, b) a##b
#define WEFT_STATUS_JOIN(a, b) WEFT_STATUS_JOIN_(a, b)
#define WEFT_ASSIGN_OR_RETURN_(temporary, target, expression) \
  auto temporary = (expression);                              \
  if (!temporary.ok()) return std::move(temporary).status();  \
  target = *std::move(temporary)

// WEFT_ASSIGN_OR_RETURN(auto x, F()) sets x to *F(), or returns F()'s status if it is an error.
#define WEFT_ASSIGN_OR_RETURN(target, expression) \
  WEFT_ASSIGN_OR_RETURN_(WEFT_STATUS_JOIN(weft_statusor_, __LINE__), target, expression)

#endif  // WEFT_PROTO_UTIL_STATUS_H_
