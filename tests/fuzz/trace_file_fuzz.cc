// Fuzz target: the reader of trace files. It reads the bytes as they are. Because no fuzzer guesses a checksum, it also
// reads them as the message in a file that weft writes. A trace that can be read can be summarized and compared, and it
// is unchanged after a round trip through a file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "cli/results/trace_file.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/trace.pb.h"
#include "simulator/compare/compare.h"

namespace {

void Check(absl::string_view bytes) {
  const absl::StatusOr<weft::Trace> trace = weft::ParseTrace(bytes, "fuzz");
  if (!trace.ok()) return;
  if (weft::sim::SummarizeTrace(*trace).per_rank_size() != trace->ranks_size()) std::abort();
  if (!weft::sim::CompareTraces(*trace, *trace, nullptr).ok()) std::abort();
  weft::Trace again = *weft::ParseTrace(weft::WithTrace("{}", *trace), "again");
  again.set_crc(trace->crc());
  if (!google::protobuf::util::MessageDifferencer::Equals(again, *trace)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  Check(bytes);
  weft::Trace trace;
  if (trace.ParseFromArray(data, static_cast<int>(size))) Check(weft::WithTrace("{}", trace));
  return 0;
}
