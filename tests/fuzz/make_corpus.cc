// Writes a seed in another format: make_corpus TYPE IN.textproto OUT, where OUT ends in .json, .bin (binary message) or
// .program (program file). TYPE is a message type of the folder `proto`, e.g. Recipe.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/cluster.pb.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/io/program_file.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/trace.pb.h"

namespace weft {
namespace {

// Naming the types makes the linker keep their descriptors.
std::unique_ptr<google::protobuf::Message> NewMessage(absl::string_view type) {
  if (type == "Recipe") return std::make_unique<Recipe>();
  if (type == "Plan") return std::make_unique<Plan>();
  if (type == "Cluster") return std::make_unique<Cluster>();
  if (type == "ModelGraph") return std::make_unique<ModelGraph>();
  if (type == "Trace") return std::make_unique<Trace>();
  if (type == "Program") return std::make_unique<Program>();
  return nullptr;
}

absl::Status Convert(absl::string_view type, const std::string& from, const std::string& to) {
  const std::unique_ptr<google::protobuf::Message> message = NewMessage(type);
  if (message == nullptr) return absl::InvalidArgumentError("unknown TYPE");
  WEFT_RETURN_IF_ERROR(ReadMessageInto(from, message.get()));
  if (absl::EndsWith(to, ".json")) {
    WEFT_ASSIGN_OR_RETURN(const std::string json, MessageToJson(*message));
    return WriteFileAtomic(to, json);
  }
  if (absl::EndsWith(to, ".program")) return WriteProgram(static_cast<const Program&>(*message), to);
  return WriteFileAtomic(to, message->SerializeAsString());
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: make_corpus TYPE IN.textproto OUT\n");
    return 2;
  }
  const absl::Status status = weft::Convert(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
