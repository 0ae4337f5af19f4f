#include "cli/common/flags.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "proto/io/decimal.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

constexpr absl::string_view kUsagePayload = "weft/usage";

absl::Status Refuse(const std::string& reason) { return absl::InvalidArgumentError(reason); }

std::optional<int64_t> ParseThousandths(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('.', 1));
  const auto digits = [](absl::string_view s) { return s.find_first_not_of("0123456789") == absl::string_view::npos; };
  if (parts.first.empty() || parts.first.size() > 12 || parts.second.size() > 3) return std::nullopt;
  if (!digits(parts.first) || !digits(parts.second)) return std::nullopt;
  std::string fraction(parts.second);
  fraction.resize(3, '0');
  int64_t whole = 0, thousandths = 0;
  if (!absl::SimpleAtoi(parts.first, &whole) || !absl::SimpleAtoi(fraction, &thousandths)) return std::nullopt;
  return whole * 1000 + thousandths;
}

// Returns "1.5" for 1500.
std::string ThousandthsText(int64_t value) {
  if (value % 1000 == 0) return absl::StrCat(value / 1000);
  std::string fraction = absl::StrCat(1000 + value % 1000).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return absl::StrCat(value / 1000, ".", fraction);
}

// Reads a number of thousandths in low..high.
absl::Status ReadThousandths(absl::string_view text, int64_t low, int64_t high, int64_t* number) {
  const std::optional<int64_t> parsed = ParseThousandths(text);
  const absl::string_view without = BadBeginning(text);
  if (!without.empty() || !parsed || *parsed < low || *parsed > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a number from ", ThousandthsText(low), " to ", ThousandthsText(high),
                     without.empty() ? " with at most 3 digits after the point" : without));
  }
  *number = *parsed;
  return absl::OkStatus();
}

// Returns the form in which choices are compared, so that FORWARD_DOUBLING (proto) equals forward-doubling (flag).
std::string Plain(absl::string_view text) { return absl::AsciiStrToLower(absl::StrReplaceAll(text, {{"_", "-"}})); }

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

absl::Status ReadCount(absl::string_view text, absl::string_view expected, int64_t* number) {
  int64_t read = 0;
  const absl::string_view without = BadBeginning(text);
  if (!without.empty() || !absl::SimpleAtoi(text, &read) || read < 0) {
    return absl::InvalidArgumentError(absl::StrCat(expected, without));
  }
  *number = read;
  return absl::OkStatus();
}

bool IsUsageError(const absl::Status& status) { return status.GetPayload(kUsagePayload).has_value(); }

Flags::Flags(std::string command, std::string arguments, std::string summary)
    : command_(std::move(command)), arguments_(std::move(arguments)), summary_(std::move(summary)) {}

Flags::Flag& Flags::Add(std::string name, std::string value, std::string help, std::string shown_default,
                        std::function<absl::Status(const std::string&)> parse) {
  Flag flag;
  flag.name = std::move(name);
  flag.value = std::move(value);
  flag.help = std::move(help);
  flag.shown_default = std::move(shown_default);
  flag.parse = std::move(parse);
  flags_.push_back(std::move(flag));
  return flags_.back();
}

void Flags::Bool(std::string name, std::string help, bool* target) {
  Add(std::move(name), "", std::move(help), "", [target](const std::string& text) {
    if (text != "true" && text != "false") return Refuse("allowed: true, false");
    *target = text == "true";
    return absl::OkStatus();
  });
}

void Flags::String(std::string name, std::string value, std::string help, std::string* target) {
  Add(std::move(name), std::move(value), std::move(help), *target, [target](const std::string& text) {
    if (text.empty()) return Refuse("a value is needed");
    *target = text;
    return absl::OkStatus();
  });
}

void Flags::Int(std::string name, std::string value, std::string help, int64_t* target, int64_t low, int64_t high) {
  const bool has_default = *target >= low && *target <= high;
  Add(std::move(name), std::move(value), std::move(help), has_default ? absl::StrCat(*target) : "",
      [target, low, high](const std::string& text) {
        int64_t number = 0;
        const absl::string_view without = BadBeginning(text);
        if (!without.empty() || !absl::SimpleAtoi(text, &number)) {
          return Refuse(absl::StrCat("expected a whole number from ", low, " to ", high, without));
        }
        if (number < low || number > high) {
          return Refuse(
              absl::StrCat("allowed: ", low, " to ", high, ", nearest valid: ", std::clamp(number, low, high)));
        }
        *target = number;
        return absl::OkStatus();
      });
}

void Flags::Thousandths(std::string name, std::string value, std::string help, int64_t* target, int64_t low,
                        int64_t high) {
  Add(std::move(name), std::move(value), std::move(help), ThousandthsText(*target),
      [target, low, high](const std::string& text) { return ReadThousandths(text, low, high, target); });
}

void Flags::ThousandthsList(std::string name, std::string value, std::string help, std::vector<int64_t>* target,
                            int64_t low, int64_t high) {
  const auto shown = [](std::string* out, int64_t number) { absl::StrAppend(out, ThousandthsText(number)); };
  Add(std::move(name), std::move(value), std::move(help), absl::StrJoin(*target, ",", shown),
      [target, low, high](const std::string& text) -> absl::Status {
        std::vector<int64_t> numbers;
        for (const absl::string_view item : absl::StrSplit(text, ',')) {
          if (absl::Status status = ReadThousandths(item, low, high, &numbers.emplace_back()); !status.ok()) {
            return numbers.size() == 1 && item.size() == text.size()
                       ? status
                       : Refuse(absl::StrCat("number ", numbers.size(), ", '", item, "': ", status.message()));
          }
        }
        *target = std::move(numbers);
        return absl::OkStatus();
      });
}

void Flags::Repeated(std::string name, std::string value, std::string help, std::vector<std::string>* target) {
  Add(std::move(name), std::move(value), std::move(help), "", [target](const std::string& text) {
    if (text.empty()) return Refuse("a value is needed");
    target->push_back(text);
    return absl::OkStatus();
  }).repeated = true;
}

void Flags::Choice(std::string name, std::vector<std::string> choices, std::string help, std::string* target,
                   absl::Span<const std::pair<absl::string_view, absl::string_view>> meant) {
  std::string value = absl::StrJoin(choices, "|");
  Add(std::move(name), std::move(value), std::move(help), *target,
      [target, choices = std::move(choices), meant](const std::string& text) {
        const auto chosen = std::find_if(choices.begin(), choices.end(),
                                         [&](const std::string& choice) { return Plain(choice) == Plain(text); });
        if (chosen == choices.end()) {
          std::string nearest = Nearest(text, choices);
          for (const auto& [word, choice] : meant) {
            if (word == Plain(text)) nearest = std::string(choice);
          }
          return Refuse(absl::StrCat("allowed: ", absl::StrJoin(choices, ", "),
                                     nearest.empty() ? "" : absl::StrCat(", nearest valid: ", nearest)));
        }
        *target = *chosen;
        return absl::OkStatus();
      });
}

void Flags::Custom(std::string name, std::string value, std::string help, std::string shown,
                   std::function<absl::Status(const std::string&)> parse, bool repeated) {
  Add(std::move(name), std::move(value), std::move(help), std::move(shown), std::move(parse)).repeated = repeated;
}

void Flags::Short(char letter, std::string name) {
  for (Flag& flag : flags_) {
    if (flag.name == name) flag.letter = letter;
  }
}

bool Flags::Given(absl::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.given && f.name == name; });
}

absl::Status Flags::Usage(absl::string_view message) const {
  return UsageError(absl::StrCat(message, "; see ", command_, " --help"));
}

absl::Status Flags::Parse(absl::Span<const std::string> args, int min_positional, int max_positional) {
  for (const std::string& arg : args) {
    if (arg == "--") break;
    if (arg == "--help" || arg == "-h") {
      help_wanted_ = true;
      return absl::OkStatus();
    }
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--") {
      positional_.insert(positional_.end(), args.begin() + i + 1, args.end());
      break;
    }
    if (arg.size() < 2 || arg[0] != '-') {
      positional_.push_back(arg);
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string typed = arg.substr(0, equals);
    if (typed == "--help") return Usage(absl::StrCat("--help takes no value, but ", Quoted(arg), " is given"));
    Flag* flag = nullptr;
    for (Flag& candidate : flags_) {
      if (typed == absl::StrCat("--", candidate.name)) flag = &candidate;
      if (candidate.letter != 0 && typed == std::string{'-', candidate.letter}) flag = &candidate;
    }
    if (flag == nullptr) {
      std::vector<std::string> known;
      for (const Flag& candidate : flags_) known.push_back(absl::StrCat("--", candidate.name));
      const std::string nearest = Nearest(typed, known);
      return Usage(
          absl::StrCat("unknown flag ", Quoted(typed), nearest.empty() ? "" : absl::StrCat("; nearest: ", nearest)));
    }
    std::string value = "true";
    if (equals != std::string::npos) {
      value = arg.substr(equals + 1);
    } else if (!flag->value.empty()) {
      if (i + 1 == args.size() || absl::StartsWith(args[i + 1], "--")) {
        return Usage(absl::StrCat(typed, " needs a value: ", typed, "=", flag->value));
      }
      value = args[++i];
    }
    if (flag->given && !flag->repeated) return Usage(absl::StrCat("--", flag->name, " is given twice"));
    flag->given = true;
    if (absl::Status status = flag->parse(value); !status.ok()) {
      return Usage(absl::StrCat("--", flag->name, "=", Quoted(value), ": ", status.message()));
    }
  }
  const int count = static_cast<int>(positional_.size());
  if (count < min_positional) {
    return Usage(absl::StrCat("an argument is missing; usage: ", command_, " ", arguments_));
  }
  if (count > max_positional) {
    return Usage(absl::StrCat("unexpected argument ", Quoted(positional_[max_positional])));
  }
  return absl::OkStatus();
}

std::string Flags::Help() const {
  std::string help =
      absl::StrCat("usage: ", command_, arguments_.empty() ? "" : " ", arguments_, "\n\n", summary_, "\n");
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Flag& flag : flags_) {
    std::string left = flag.letter == 0 ? "--" : absl::StrCat("-", std::string(1, flag.letter), ", --");
    absl::StrAppend(&left, flag.name, flag.value.empty() ? "" : absl::StrCat("=", flag.value));
    std::string right = flag.help;
    if (!flag.shown_default.empty()) absl::StrAppend(&right, " [", flag.shown_default, "]");
    rows.emplace_back(std::move(left), std::move(right));
  }
  rows.emplace_back("--help", "this text");
  constexpr size_t kColumn = 34;
  absl::StrAppend(&help, "\nflags:\n");
  for (const auto& [left, right] : rows) {
    // A wide flag gets its own line.
    const bool fits = left.size() + 4 <= kColumn;
    absl::StrAppend(&help, "  ", left, fits ? std::string(kColumn - left.size() - 2, ' ') : "\n",
                    fits ? "" : std::string(kColumn, ' '), right, "\n");
  }
  if (!examples_.empty()) absl::StrAppend(&help, "\nexample:\n");
  for (const std::string& example : examples_) absl::StrAppend(&help, "  ", example, "\n");
  return help;
}

}  // namespace weft
