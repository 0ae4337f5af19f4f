// Command-line flags: declared with their targets, parsed strictly, described by --help.
//
//   Flags flags("weft schedule", "NAME [flags]", "Shows a pipeline schedule without a model.");
//   int64_t ranks = 4;
//   flags.Int("ranks", "P", "pipeline ranks", &ranks, 1, 1024);
//   WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
//
// Values are given as --flag=value or --flag value; switches as --flag, --flag=true or --flag=false. Everything after
// "--" is positional. An unknown flag, a value that does not parse or is out of range, and a flag given twice are usage
// errors. Numbers are written as in files: 10, neither 010 nor +10.
#ifndef WEFT_CLI_COMMON_FLAGS_H_
#define WEFT_CLI_COMMON_FLAGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

// The error for a command line that cannot be understood. The exit status is then 2 instead of 1.
absl::Status UsageError(absl::string_view message);
bool IsUsageError(const absl::Status& status);

// Reads a whole number from 0 to 2^63-1 for a flag with its own parser (Flags::Custom). Otherwise returns an error that
// says `expected`, as the error of an Int flag does.
absl::Status ReadCount(absl::string_view text, absl::string_view expected, int64_t* number);

// Other names of the backends, each with weft's name, for Flags::Choice.
inline constexpr std::pair<absl::string_view, absl::string_view> kBackendWords[] = {
    {"gpu", "cuda"}, {"nvidia", "cuda"}, {"device", "cuda"}, {"host", "cpu"}};

class Flags {
 public:
  // `command` is the command as typed, `arguments` what --help shows after it, `summary` one or more sentences.
  Flags(std::string command, std::string arguments, std::string summary);

  // A target keeps its value if its flag is not given; --help shows that value as the default.
  void Bool(std::string name, std::string help, bool* target);
  void String(std::string name, std::string value, std::string help, std::string* target);
  // If `*target` starts outside low..high, `help` must describe what this default means. A user gets such a default
  // only by leaving the flag out.
  void Int(std::string name, std::string value, std::string help, int64_t* target, int64_t low, int64_t high);
  // A flag for a decimal number with at most three digits after the point. `target`, `low` and `high` count
  // thousandths.
  void Thousandths(std::string name, std::string value, std::string help, int64_t* target, int64_t low, int64_t high);
  // A flag for one such number, or for several separated by commas.
  void ThousandthsList(std::string name, std::string value, std::string help, std::vector<int64_t>* target, int64_t low,
                       int64_t high);
  // A flag that may be given more than once.
  void Repeated(std::string name, std::string value, std::string help, std::vector<std::string>* target);
  // `meant` lists words that are not choices, each with the choice that it means. The error suggests that choice as the
  // nearest valid one. `meant` is not copied.
  void Choice(std::string name, std::vector<std::string> choices, std::string help, std::string* target,
              absl::Span<const std::pair<absl::string_view, absl::string_view>> meant = {});
  // For values with their own syntax. `parse` returns why it refuses a value; the error puts that after "--NAME=VALUE:
  // ". `shown` is the default in --help. `repeated`: the flag may be given more than once.
  void Custom(std::string name, std::string value, std::string help, std::string shown,
              std::function<absl::Status(const std::string&)> parse, bool repeated = false);
  // Makes -`letter` a short form of --`name`: -o for --output.
  void Short(char letter, std::string name);
  // Adds a command that works as it stands to the end of --help.
  void Example(std::string line) { examples_.push_back(std::move(line)); }

  // `args` are the arguments after the command. If they contain --help or -h before "--", Parse sets help_wanted() and
  // stops.
  absl::Status Parse(absl::Span<const std::string> args, int min_positional, int max_positional);

  bool help_wanted() const { return help_wanted_; }
  const std::vector<std::string>& positional() const { return positional_; }
  // True if the flag was on the command line.
  bool Given(absl::string_view name) const;
  // The text that --help prints.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value;  // Empty for a switch.
    std::string help;
    std::string shown_default;
    std::function<absl::Status(const std::string&)> parse;
    bool repeated = false;
    bool given = false;
    char letter = 0;
  };
  Flag& Add(std::string name, std::string value, std::string help, std::string shown_default,
            std::function<absl::Status(const std::string&)> parse);
  absl::Status Usage(absl::string_view message) const;

  std::string command_, arguments_, summary_;
  std::vector<Flag> flags_;
  std::vector<std::string> examples_;
  std::vector<std::string> positional_;
  bool help_wanted_ = false;
};

}  // namespace weft

#endif  // WEFT_CLI_COMMON_FLAGS_H_
