#include "executor/run/job_agreement.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/interpreter/control.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Separates names and values. Names and values are short texts that weft writes. Even a path in them cannot contain
// this byte.
constexpr char kField = '\0';

}  // namespace

absl::Status AgreeOnJob(Endpoint& endpoint, const JobFacts& mine, std::chrono::nanoseconds timeout) {
  std::vector<std::string> fields;
  for (const auto& [name, value] : mine) {
    fields.push_back(name);
    fields.push_back(value);
  }
  const std::string separator(1, kField);
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                        GatherBytes(endpoint, absl::StrJoin(fields, separator), timeout));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::vector<std::string> its = absl::StrSplit(all[rank], kField);
    for (size_t i = 0; i + 1 < fields.size(); i += 2) {
      if (i + 1 < its.size() && its[i] == fields[i] && its[i + 1] == fields[i + 1]) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " was started differently from rank 0: ", fields[i], " is ",
                       i + 1 < its.size() ? its[i + 1] : "unknown", " on that rank and ", fields[i + 1],
                       " on rank 0; start all ranks with the same weft-run, flags and files"));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft::exec
