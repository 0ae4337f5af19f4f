#include "compiler/segments/diagnostic_status.h"

#include <string>

#include "gtest/gtest.h"
#include "mlir/IR/Builders.h"

namespace weft {
namespace {

std::string Shown(const std::string& name, const std::string& message) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::Builder builder(&context);
  DiagnosticCollector collector(&context);
  mlir::Location where = builder.getUnknownLoc();
  if (!name.empty()) where = mlir::NameLoc::get(builder.getStringAttr(name));
  mlir::emitError(where) << message;
  return std::string(collector.ToStatus(mlir::failure()).message());
}

TEST(DiagnosticStatus, SaysWhereOnceAndNoIds) {
  EXPECT_EQ(Shown("h.0.attn", "'weft.attention' op [shard_c1] 'h.0.attn': 2 heads"), "op 'h.0.attn': 2 heads");
  EXPECT_EQ(Shown("h.0.attn", "'weft.attention' op [shard_c1] 'other': 2 heads"), "op 'h.0.attn': 'other': 2 heads");
  EXPECT_EQ(Shown("h.0", "'weft.attention' op must have 2 heads"), "op 'h.0': must have 2 heads");
  EXPECT_EQ(Shown("", "'weft.graph' op [build_segments_c2] needs a layer"), "needs a layer");
}

TEST(DiagnosticStatus, SeveralErrorsAreOneLine) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  DiagnosticCollector collector(&context);
  const mlir::Location where = mlir::UnknownLoc::get(&context);
  mlir::emitError(where) << "first";
  mlir::InFlightDiagnostic second = mlir::emitError(where) << "second";
  second.attachNote(where) << "why";
  second.report();
  EXPECT_EQ(collector.ToStatus(mlir::failure()).message(), "first; second (why)");
}

TEST(DiagnosticStatus, OtherTextStays) {
  EXPECT_EQ(Shown("", "[4, 2] is a shape"), "[4, 2] is a shape");
  EXPECT_EQ(Shown("", "[4] is a shape"), "[4] is a shape");
  EXPECT_EQ(Shown("a", "the result of 'x' op is wrong"), "op 'a': the result of 'x' op is wrong");
  EXPECT_EQ(Shown("a", ""), "op 'a': ");
}

}  // namespace
}  // namespace weft
