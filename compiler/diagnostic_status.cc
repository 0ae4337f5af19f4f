#include "compiler/diagnostic_status.h"

#include "absl/strings/str_cat.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace weft {

namespace {

// "op 'h.0.attn': " where the location has a name, "" otherwise.
std::string Where(mlir::Location location) {
  std::string where;
  location->walk([&](mlir::Location inner) {
    if (auto named = mlir::dyn_cast<mlir::NameLoc>(inner)) {
      where = absl::StrCat("op '", named.getName().str(), "': ");
      return mlir::WalkResult::interrupt();
    }
    return mlir::WalkResult::advance();
  });
  return where;
}

}  // namespace

DiagnosticCollector::DiagnosticCollector(mlir::MLIRContext* context)
    : handler_(context, [this](mlir::Diagnostic& diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error) return mlir::success();
        if (!errors_.empty()) errors_ += '\n';
        absl::StrAppend(&errors_, Where(diagnostic.getLocation()), diagnostic.str());
        for (mlir::Diagnostic& note : diagnostic.getNotes()) {
          absl::StrAppend(&errors_, " (", Where(note.getLocation()), note.str(), ")");
        }
        return mlir::success();
      }) {
  // Errors carry what is needed; a dump of the op would not stay on one line.
  context->printOpOnDiagnostic(false);
}

absl::Status DiagnosticCollector::ToStatus(mlir::LogicalResult result) {
  if (mlir::succeeded(result)) return absl::OkStatus();
  return absl::InvalidArgumentError(errors_.empty() ? "a pass failed without saying why" : errors_);
}

}  // namespace weft
