// weft convert: rewrites a message in another form.
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/common/file_clash.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/results/trace_file.h"
#include "compiler/models/import_hf.h"
#include "executor/data/image_format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/cluster.pb.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/io/program_file.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"
#include "proto/report.pb.h"
#include "proto/trace.pb.h"
#include "proto/util/status.h"

namespace weft {
namespace {

using google::protobuf::Message;

struct Type {
  absl::string_view name;
  const Message& (*prototype)();
};

template <typename T>
const Message& Prototype() {
  return T::default_instance();
}

constexpr Type kTypes[] = {
    {"cluster", Prototype<Cluster>},
    {"model_graph", Prototype<ModelGraph>},
    {"plan", Prototype<Plan>},
    {"program", Prototype<Program>},
    {"recipe", Prototype<Recipe>},
    {"run_report", Prototype<RunReport>},
    {"schedule_comparison_report", Prototype<ScheduleComparisonReport>},
    {"schedule_report", Prototype<ScheduleReport>},
    {"simulation_report", Prototype<SimulationReport>},
    {"trace", Prototype<Trace>},
};

// Returns the message in `bytes`. Without a `type`, the content decides: a program file has its magic, a Hugging Face
// config and a trace for viewers have their fields, and anything else must be readable as exactly one type.
absl::StatusOr<std::unique_ptr<Message>> Read(const std::string& bytes, const std::string& path,
                                              absl::string_view type) {
  std::unique_ptr<Message> message;
  if (bytes.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  if (IsForViewers(bytes) && (type.empty() || type == "trace")) {
    message.reset(Trace::default_instance().New());
    WEFT_ASSIGN_OR_RETURN(static_cast<Trace&>(*message), ParseTrace(bytes, path));
    return message;
  }
  if (LooksLikeProgram(bytes) && (type.empty() || type == "program")) {
    message.reset(Program::default_instance().New());
    WEFT_ASSIGN_OR_RETURN(static_cast<Program&>(*message), ParseProgram(bytes, path));
    return message;
  }
  if ((type.empty() || type == "model_graph") && IsHuggingFaceConfig(bytes)) {
    message.reset(ModelGraph::default_instance().New());
    absl::StatusOr<ModelGraph> graph = ImportHuggingFaceConfig(bytes, "model");
    if (!graph.ok()) return absl::Status(graph.status().code(), absl::StrCat(path, ": ", graph.status().message()));
    static_cast<ModelGraph&>(*message) = *std::move(graph);
    return message;
  }
  std::vector<absl::string_view> matches;
  absl::Status refused;
  for (const Type& candidate : kTypes) {
    if (!type.empty() && type != candidate.name) continue;
    std::unique_ptr<Message> read(candidate.prototype().New());
    if (refused = ParseMessage(bytes, path, read.get()); !refused.ok()) continue;
    matches.push_back(candidate.name);
    message = std::move(read);
  }
  if (matches.size() == 1) return message;
  if (!type.empty()) return refused;
  return absl::InvalidArgumentError(
      matches.empty()
          ? absl::StrCat(path,
                         ": the content is of none of the known types; to see what is wrong, give the type that it "
                         "should have with --type")
          : absl::StrCat(path, ": the content could be of type ", absl::StrJoin(matches, " or "),
                         "; name one with --type"));
}

absl::StatusOr<std::string> Write(const Message& message, absl::string_view format) {
  if (format == "json") return MessageToJson(message);
  if (format == "text") return MessageToText(message);
  if (const auto* program = google::protobuf::DynamicCastToGenerated<Program>(&message)) {
    std::string bytes = SerializeProgram(*program);
    if (bytes.empty()) return absl::ResourceExhaustedError("the program is larger than 2 GiB");
    return bytes;
  }
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  if (!message.SerializeToCodedStream(&coded)) return absl::ResourceExhaustedError("the message is larger than 2 GiB");
  coded.Trim();
  return bytes;
}

// Returns raw pixels with the header of an image file in front.
absl::StatusOr<std::string> ImageFile(const std::string& raw, const std::string& path, absl::string_view shape,
                                      absl::string_view dtype) {
  if (exec::LooksLikeImageFile(raw))
    return absl::InvalidArgumentError(absl::StrCat(path, ": is an image file already"));
  const absl::StatusOr<exec::ImageLayout> layout =
      exec::LayoutOfRawImages(shape, dtype, static_cast<int64_t>(raw.size()));
  if (!layout.ok()) {
    return absl::Status(layout.status().code(), absl::StrCat("--image: ", path, ": ", layout.status().message()));
  }
  return exec::ImageFileHeader(*layout) + raw;
}

}  // namespace

absl::Status ConvertCommand(absl::Span<const std::string> args) {
  std::string to, type, output, image, image_type = "uint8";
  std::vector<std::string> types;
  for (const Type& known : kTypes) types.emplace_back(known.name);
  Flags flags("weft convert", "FILE --to=text|json|binary|images [flags]",
              "Converts a file of weft (model graph, recipe, plan, cluster, program, trace or report) between text "
              "proto, JSON and\n"
              "binary; the input may be in any of them. A program in binary is a program file; a Hugging Face "
              "config.json becomes\n"
              "a model graph. With --to=images, raw pixels become an image file, to train on.");
  flags.Choice("to", {"text", "json", "binary", "images"}, "output format", &to);
  flags.Choice("type", types, "what FILE holds, if weft cannot tell from the content", &type);
  flags.String("image", "HEIGHTxWIDTHxCHANNELS", "with --to=images: the size of one image in a file of raw pixels",
               &image);
  flags.Choice("image-type", {"uint8", "float32"}, "with --to=images: the type of a raw pixel, little-endian",
               &image_type);
  flags.String("output", "FILE", "the file to write; by default - (standard output)", &output);
  flags.Short('o', "output");
  flags.Example("weft convert config.json --to=text -o model.textproto");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
  if (flags.help_wanted()) return Print(flags.Help());
  if (to.empty()) return UsageError("--to=text|json|binary|images is needed; see weft convert --help");
  if ((to == "images") != !image.empty()) {
    return UsageError("--to=images and --image=HEIGHTxWIDTHxCHANNELS need each other; give both or neither");
  }
  if (output == "-") output.clear();
  if ((to == "binary" || to == "images") && output.empty() && isatty(STDOUT_FILENO)) {
    return UsageError("weft does not write binary output to a terminal; give a file with -o FILE");
  }
  WEFT_RETURN_IF_ERROR(CheckFileClashes({{"the input", flags.positional()[0]}}, {{"-o", output}}));

  WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(flags.positional()[0]));
  if (to == "images") {
    WEFT_ASSIGN_OR_RETURN(const std::string file, ImageFile(bytes, flags.positional()[0], image, image_type));
    return output.empty() ? Print(file) : WriteFileAtomic(output, file);
  }
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<Message> message, Read(bytes, flags.positional()[0], type));
  WEFT_ASSIGN_OR_RETURN(const std::string converted, Write(*message, to));
  return output.empty() ? Print(converted) : WriteFileAtomic(output, converted);
}

}  // namespace weft
