// Reads the fields of a Hugging Face config.json strictly: an unknown field, or a value that weft cannot honor, is
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

// How weft treats a field.
enum class HfUse {
  kRead,     // changes the model; a reader takes it
  kNoEffect  // concerns generation, other heads, storage or bookkeeping, not the language model's training
};

struct HfField {
  absl::string_view name;
  HfUse use;
};

// The largest extent and the most layers that a config may state.
inline constexpr int64_t kHfLimit = int64_t{1} << 24;
inline constexpr int64_t kHfLayerLimit = 10000;

// Parses a JSON object (RFC 8259). Anything else is refused with its position, and a number outside the range of a
// double with its path.
absl::StatusOr<google::protobuf::Struct> ParseHfConfig(absl::string_view json);

// Returns the error "field = given; allowed".
absl::Status RefuseHf(absl::string_view field, absl::string_view given, absl::string_view allowed);

// Returns a value as JSON shows it. For a list or an object, returns only its kind.
std::string ShowHf(const google::protobuf::Value& value);

// The fields of a config, or of an object in a config. Every reader returns `absent` if the field is absent or null.
class HfConfig {
 public:
  // Messages put `path` in front of names, for example "rope_scaling." for the fields of that object.
  explicit HfConfig(const google::protobuf::Struct& fields, std::string path = "")
      : fields_(fields), path_(std::move(path)) {}

  const google::protobuf::Value* Find(absl::string_view name) const;
  bool Has(absl::string_view name) const { return Find(name) != nullptr; }
  bool IsNull(absl::string_view name) const {
    return Find(name) == nullptr && fields_.fields().contains(std::string(name));
  }

  // Returns a whole number in [1, limit]; `absent` = 0 means that the field is required.
  absl::StatusOr<int64_t> Size(absl::string_view name, int64_t limit, int64_t absent) const;
  // Returns a number in [low, high), or in (low, high) if `open`.
  absl::StatusOr<double> Number(absl::string_view name, double low, bool open, double high, double absent) const;
  absl::StatusOr<bool> Flag(absl::string_view name, bool absent) const;
  absl::StatusOr<std::string> Text(absl::string_view name, absl::string_view absent) const;
  absl::Status Refuse(absl::string_view name, absl::string_view given, absl::string_view allowed) const;

  // Returns InvalidArgument for the alphabetically first field that is neither in `own` nor common to all Hugging Face
  // configs. Null fields are ignored. The message names `family`.
  absl::Status CheckNames(absl::Span<const HfField> own, absl::string_view family) const;
  // Like CheckNames, for an object in a config: only the fields in `names` are allowed.
  absl::Status CheckExactNames(absl::Span<const absl::string_view> names) const;
  // If `architectures` is given and not empty, it must name this one and no other.
  absl::Status CheckArchitecture(absl::string_view architecture) const;
  // Refuses variants that any config may state and no family here supports: an encoder-decoder, pruned heads, chunked
  // feed-forward layers.
  absl::Status CheckCommonVariants() const;

 private:
  const google::protobuf::Struct& fields_;
  std::string path_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_MODELS_HF_CONFIG_H_
