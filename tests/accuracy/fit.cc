#include "tests/accuracy/fit.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/io/set_field.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"

namespace weft {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Returns the number at a path such as "a.b[2].c".
absl::StatusOr<double> NumberAt(const Message& message, absl::string_view path) {
  const Message* at = &message;
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = parts[i].substr(0, parts[i].find('['));
    const FieldDescriptor* field = at->GetDescriptor()->FindFieldByName(name);
    const auto refuse = [&] {
      return absl::InvalidArgumentError(absl::StrCat("'", path, "' is no number of a cluster (at '", parts[i], "')"));
    };
    if (field == nullptr) return refuse();
    const auto* reflection = at->GetReflection();
    if (i + 1 < parts.size()) {
      if (field->message_type() == nullptr) return refuse();
      int index = -1;
      if (field->is_repeated()) {
        const size_t open = parts[i].find('[');
        if (open == std::string::npos || parts[i].back() != ']' ||
            !absl::SimpleAtoi(parts[i].substr(open + 1, parts[i].size() - open - 2), &index) || index < 0 ||
            index >= reflection->FieldSize(*at, field)) {
          return refuse();
        }
        at = &reflection->GetRepeatedMessage(*at, field, index);
      } else {
        at = &reflection->GetMessage(*at, field);
      }
    } else {
      if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) return refuse();
      return reflection->GetDouble(*at, field);
    }
  }
  return absl::InvalidArgumentError("an empty path");
}

}  // namespace

absl::StatusOr<FitResult> FitFigures(const Cluster& start, const FitOptions& options, const ErrorFn& error) {
  FitResult result;
  Cluster best = start;
  for (const std::string& field : options.fields) {
    WEFT_ASSIGN_OR_RETURN(const double value, NumberAt(start, field));
    if (!(value > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(field, " = ", value, " cannot be fitted; it must be positive"));
    }
    result.figures.push_back({field, value, value});
  }
  WEFT_ASSIGN_OR_RETURN(result.before, error(best));
  result.after = result.before;
  // Sets the figure to `value` if that makes the error smaller; returns true if it does.
  const auto improve = [&](Fitted& figure, double value) -> absl::StatusOr<bool> {
    Cluster tried = best;
    // Keep three digits, because the data cannot resolve more.
    const std::string text = absl::StrFormat("%.3g", value);
    WEFT_RETURN_IF_ERROR(SetField(&tried, figure.field, text));
    if (!Validate(tried).ok()) return false;
    WEFT_ASSIGN_OR_RETURN(const double now, error(tried));
    if (!(now < result.after)) return false;
    result.after = now;
    best = std::move(tried);
    WEFT_ASSIGN_OR_RETURN(figure.after, NumberAt(best, figure.field));
    return true;
  };
  constexpr int kMaxSteps = 20;
  for (double step = options.first_step; step >= options.last_step; step /= 2) {
    for (Fitted& figure : result.figures) {
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        int steps = 0;
        bool better = true;
        while (better && steps++ < kMaxSteps) {
          WEFT_ASSIGN_OR_RETURN(better, improve(figure, figure.after * factor));
        }
        if (steps > 1) break;
      }
    }
  }
  return result;
}

}  // namespace weft
