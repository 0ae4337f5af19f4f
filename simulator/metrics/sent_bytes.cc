#include "simulator/metrics/sent_bytes.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "simulator/network/collective_call.h"
#include "simulator/network/group_form.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

int64_t SentByTransfers(const TemplateView& t) {
  int64_t sent = 0;
  for (const ActionView& view : t.actions) {
    const Action& action = *view.action;
    if (view.list != ListKind::kBody || action.kind() != SEND) continue;
    for (const int32_t source : action.sources()) sent = AddBytes(sent, t.proto->buffers(source).bytes());
  }
  return sent;
}

int64_t SentOnCommunicator(const Mesh& mesh, const TemplateView& t, const StreamView& stream) {
  const int64_t members = FormSize(mesh, stream.key.group);
  // Bytes that a rank sends for each collective; -1 = not known yet.
  std::vector<int64_t> known(t.collectives.size(), -1);
  int64_t sent = 0;
  const Range& body = stream.entries[static_cast<int>(ListKind::kBody)];
  for (int32_t e = body.begin; e < body.end; ++e) {
    for (int32_t r = t.entries[e].runs.begin; r < t.entries[e].runs.end; ++r) {
      const int32_t collective = t.runs[r].collective;
      if (known[collective] < 0) known[collective] = CollectiveBytesSent(t.collectives[collective], members);
      sent = AddBytes(sent, known[collective]);
    }
  }
  return sent;
}

}  // namespace

int64_t AddBytes(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

std::map<std::string, int64_t> BytesSent(const Mesh& mesh, const TemplateView& t) {
  std::map<std::string, int64_t> sent;
  if (const int64_t bytes = SentByTransfers(t); bytes > 0) sent["transfer"] = bytes;
  for (const StreamView& stream : t.streams) {
    if (stream.key.kind != StreamClass::kCollective) continue;
    const int64_t bytes = SentOnCommunicator(mesh, t, stream);
    if (bytes == 0) continue;
    int64_t& total = sent[absl::AsciiStrToLower(Purpose_Name(stream.key.purpose))];
    total = AddBytes(total, bytes);
  }
  return sent;
}

}  // namespace weft::sim
