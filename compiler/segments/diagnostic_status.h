// Turns MLIR diagnostics into an absl::Status.
#ifndef WEFT_COMPILER_SEGMENTS_DIAGNOSTIC_STATUS_H_
#define WEFT_COMPILER_SEGMENTS_DIAGNOSTIC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace weft {

// Collects the errors that a context reports during the collector's lifetime instead of printing them. The status has
// one line, with "; " between errors. Each error has the name of the op if its location has one, the message, and its
// notes in brackets.
class DiagnosticCollector {
 public:
  explicit DiagnosticCollector(mlir::MLIRContext* context);

  // Ok if `result` is success, else InvalidArgument with the errors so far.
  absl::Status ToStatus(mlir::LogicalResult result);

 private:
  std::string errors_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_DIAGNOSTIC_STATUS_H_
