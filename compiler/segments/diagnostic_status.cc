#include "compiler/segments/diagnostic_status.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace weft {

namespace {

// Returns "op 'h.0.attn': " if the location has a name, else "".
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

// Removes text that only helps authors of passes: "'weft.matmul' op [shard_c1] ", and the op's name if `where` already
// states it.
std::string ForUsers(std::string text, const std::string& where) {
  const size_t op = text.find("' op ");
  const size_t begin = text[0] == '\'' && op != std::string::npos && op < text.find(' ') ? op + 5 : 0;
  size_t end = begin;
  if (text[begin] == '[') {
    const size_t bracket = text.find("] ", begin);
    const bool id = bracket < text.find(' ', begin) && text.find("_c", begin) < bracket;
    if (bracket != std::string::npos && id) end = bracket + 2;
  }
  // There is only one graph and one program, so their names do not help the user.
  const bool whole = absl::StartsWith(text, "'weft.graph' op ") || absl::StartsWith(text, "'weft.program' op ");
  text.erase(where.empty() && !whole ? begin : 0, where.empty() && !whole ? end - begin : end);
  // The op's name may appear twice: as "op 'qkv': " and again as "'qkv': ".
  if (where.size() > 3 && text.compare(0, where.size() - 3, where, 3) == 0) text.erase(0, where.size() - 3);
  return text;
}

}  // namespace

DiagnosticCollector::DiagnosticCollector(mlir::MLIRContext* context)
    : handler_(context, [this](mlir::Diagnostic& diagnostic) {
        if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error) return mlir::success();
        if (!errors_.empty()) errors_ += "; ";
        const std::string where = Where(diagnostic.getLocation());
        absl::StrAppend(&errors_, where, ForUsers(diagnostic.str(), where));
        for (mlir::Diagnostic& note : diagnostic.getNotes()) {
          absl::StrAppend(&errors_, " (", Where(note.getLocation()), note.str(), ")");
        }
        return mlir::success();
      }) {
  // Do not print the op. Error messages contain all that is needed, and a dump of the op would not fit on one line.
  context->printOpOnDiagnostic(false);
}

absl::Status DiagnosticCollector::ToStatus(mlir::LogicalResult result) {
  if (mlir::succeeded(result)) return absl::OkStatus();
  return absl::InvalidArgumentError(errors_.empty() ? "a pass of the compiler failed without an error message"
                                                    : errors_);
}

}  // namespace weft
