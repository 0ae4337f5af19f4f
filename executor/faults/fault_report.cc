#include "executor/faults/fault_report.h"

#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "executor/interface/channels.h"
#include "executor/interface/transport.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

// Messages may quote file names, whose bytes need not be valid in JSON. Replaces everything but printable ASCII by '?'.
std::string Quoted(absl::string_view text) {
  std::string plain(text);
  for (char& c : plain) {
    if (c < ' ' || c > '~') c = '?';
  }
  return JsonQuoted(plain);
}

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "";
  return name;
}

void AppendEntry(const Program& program, int rank, const FlightRecorder::Entry& entry, std::string* out) {
  const Action* action = ActionAt(program, rank, entry.action);
  absl::StrAppend(out, "    {\"number\": ", entry.number, ", \"step\": ", entry.step);
  if (action != nullptr) {
    absl::StrAppend(out, ", \"action\": ", action->id(), ", \"name\": ", Quoted(action->name()),
                    ", \"kind\": ", Quoted(ActionKind_Name(action->kind())));
  }
  std::string peer = "null", communicator = "null";
  if (action != nullptr && IsTransfer(*action)) {
    peer = absl::StrCat(PeerRank(program.mesh(), rank, action->peer()));
    communicator = Quoted(TransferStreamName(program.transfer_streams(), *action));
  } else if (action != nullptr && IsCollective(*action)) {
    communicator = Quoted(CommunicatorName(action->group(), action->purpose()));
  }
  absl::StrAppend(out, ", \"peer\": ", peer, ", \"communicator\": ", communicator, ", \"begin_ns\": ", entry.begin_ns,
                  ", \"end_ns\": ", entry.end_ns == 0 ? std::string("null") : absl::StrCat(entry.end_ns), "}");
}

}  // namespace

const Action* ActionAt(const Program& program, int rank, int64_t index) {
  const int t = TemplateOfRank(program, rank);
  if (t < 0 || index < 0) return nullptr;
  const Template& of = program.templates(t);
  for (const auto* list : {&of.prologue(), &of.body(), &of.epilogue()}) {
    if (index < list->size()) return &(*list)[static_cast<int>(index)];
    index -= list->size();
  }
  return nullptr;
}

int64_t ActionCount(const Program& program, int rank) {
  const int t = TemplateOfRank(program, rank);
  if (t < 0) return 0;
  const Template& of = program.templates(t);
  return int64_t{of.prologue_size()} + of.body_size() + of.epilogue_size();
}

std::string DescribeEntry(const Program& program, int rank, const FlightRecorder::Entry& entry) {
  const Action* action = ActionAt(program, rank, entry.action);
  if (action == nullptr) return absl::StrCat("step ", entry.step);
  return absl::StrCat("step ", entry.step, ", action ", action->id(), " '", action->name(), "'");
}

std::string FaultReportJson(const Program& program, int rank, const absl::Status& reason, bool first,
                            const FlightRecorder& flight) {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  std::string out = absl::StrCat(
      "{\n  \"schema_version\": 1,\n  \"program\": ", Quoted(program.name()), ",\n  \"rank\": ", rank,
      ",\n  \"ranks\": ", MeshRanks(program.mesh()), ",\n  \"host\": ", Quoted(HostName()),
      ",\n  \"process\": ", getpid(), ",\n  \"first_to_fail\": ", first ? "true" : "false",
      ",\n  \"reason\": ", Quoted(reason.message()), ",\n  \"code\": ", Quoted(absl::StatusCodeToString(reason.code())),
      ",\n  \"monotonic_ns\": ", MonotonicNanoseconds(),
      ",\n  \"unix_ns\": ", static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec,
      ",\n  \"actions_begun\": ", flight.begun(), ",\n  \"actions\": [");
  const char* separator = "\n";
  for (const FlightRecorder::Entry& entry : flight.Last()) {
    out += separator;
    AppendEntry(program, rank, entry, &out);
    separator = ",\n";
  }
  out += "\n  ]\n}\n";
  return out;
}

std::string FaultFileOfRank(const std::string& path, int rank) {
  const std::filesystem::path whole(path);
  const std::string number = rank < 0 ? "*" : absl::StrCat(rank);
  return (whole.parent_path() / absl::StrCat(whole.stem().string(), "-", number, whole.extension().string())).string();
}

std::string DefaultFaultFile(const std::string& checkpoint_directory, const std::string& trace_file) {
  constexpr char kName[] = "weft-fault.json";
  if (!checkpoint_directory.empty()) return (std::filesystem::path(checkpoint_directory) / kName).string();
  if (!trace_file.empty()) return (std::filesystem::path(trace_file).parent_path() / kName).string();
  return kName;
}

absl::Status WriteFaultReport(const std::string& path, const Program& program, int rank, const absl::Status& reason,
                              bool first, const FlightRecorder& flight) {
  return WriteFileAtomic(FaultFileOfRank(path, rank), FaultReportJson(program, rank, reason, first, flight));
}

}  // namespace weft::exec
