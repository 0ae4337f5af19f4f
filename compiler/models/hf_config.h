// Fields of a Hugging Face config.json, read strictly: a name that nobody knows and a value that nobody can honour are
// refused by name.
#ifndef WEFT_COMPILER_MODELS_HF_CONFIG_H_
#define WEFT_COMPILER_MODELS_HF_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/struct.pb.h"

namespace weft {

// What is done with a field.
enum class HfUse {
  kRead,     // changes the model; a reader takes it
  kNoEffect  // concerns generation, other heads, storage or bookkeeping, not the language model's training
};

struct HfField {
  absl::string_view name;
  HfUse use;
};

// The largest extent that a config may state.
inline constexpr int64_t kHfLimit = int64_t{1} << 24;
inline constexpr int64_t kHfLayerLimit = 10000;

// Refused is what is no JSON object (RFC 8259), with its position, and numbers that no double holds, with their path.
absl::StatusOr<google::protobuf::Struct> ParseHfConfig(absl::string_view json);

// "config.json: field = given; allowed".
absl::Status RefuseHf(absl::string_view field, absl::string_view given, absl::string_view allowed);

// A value as JSON would show it, lists and objects by their kind.
std::string ShowHf(const google::protobuf::Value& value);

// The fields of a config or of an object in it. Every reader takes the value for a field that is absent or null.
class HfConfig {
 public:
  // `path` is put in front of names in messages: "rope_scaling." for the fields of that object.
  explicit HfConfig(const google::protobuf::Struct& fields, std::string path = "")
      : fields_(fields), path_(std::move(path)) {}

  const google::protobuf::Value* Find(absl::string_view name) const;
  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  bool IsNull(absl::string_view name) const {
    return Find(name) == nullptr && fields_.fields().contains(std::string(name));
  }

  // A whole number in [1, limit]; `absent` = 0 means required.
  absl::StatusOr<int64_t> Size(absl::string_view name, int64_t limit, int64_t absent) const;
  // A number in [low, high), or in (low, high) if `open`.
  absl::StatusOr<double> Number(absl::string_view name, double low, bool open, double high, double absent) const;
  absl::StatusOr<bool> Flag(absl::string_view name, bool absent) const;
  absl::StatusOr<std::string> Text(absl::string_view name, absl::string_view absent) const;
  absl::Status Refuse(absl::string_view name, absl::string_view given, absl::string_view allowed) const;

  // InvalidArgument for the first name by alphabet, but for those that are null, that is neither in `own` nor among
  // those that every config of Hugging Face may have; `family` is named in the message.
  absl::Status CheckNames(absl::Span<const HfField> own, absl::string_view family) const;
  // The same for objects in a config, which have their own fields only.
  absl::Status CheckExactNames(absl::Span<const absl::string_view> names) const;
  // If `architectures` is given and not empty, it must name this one and no other.
  absl::Status CheckArchitecture(absl::string_view architecture) const;
  // What every config may say, and no family here is: an encoder-decoder, pruned heads, chunked feed-forward layers.
  absl::Status CheckCommonVariants() const;

 private:
  const google::protobuf::Struct& fields_;
  std::string path_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_HF_CONFIG_H_
