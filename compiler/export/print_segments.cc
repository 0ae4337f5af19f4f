#include <string>

#include "compiler/export/export_segments.h"
#include "compiler/passes/passes.h"
#include "compiler/segments/segment_set.h"
#include "google/protobuf/text_format.h"
#include "llvm/Support/raw_ostream.h"

namespace weft {

#define GEN_PASS_DEF_PRINTSEGMENTS
#include "compiler/passes/passes.h.inc"

namespace {

struct PrintSegmentsPass : impl::PrintSegmentsBase<PrintSegmentsPass> {
  using PrintSegmentsBase::PrintSegmentsBase;

  void runOnOperation() override {
    SegmentSet set;
    if (mlir::failed(ExportSegmentOps(getOperation(), &set))) return signalPassFailure();
    google::protobuf::TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    printer.SetUseShortRepeatedPrimitives(true);
    for (const StageSegment& segment : set.segments) {
      std::string text;
      printer.PrintToString(segment.segment, &text);
      llvm::outs() << text << "\n";
    }
  }
};

}  // namespace
}  // namespace weft
