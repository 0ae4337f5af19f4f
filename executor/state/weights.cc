#include "executor/state/weights.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "executor/state/weight_names.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// A file may hold both tensors of a tied pair: `head`, and `table`, which the program uses for both. They must then be
// equal. If `table` is null, `head` does not belong to the program.
absl::Status CheckTied(const SafetensorsReader& reader, const SafetensorsEntry& head, const SafetensorsEntry* table) {
  const std::string refusal = absl::StrCat(reader.path(), ": tensor ", Quoted(head.name));
  if (table == nullptr) return absl::InvalidArgumentError(refusal + " does not belong to the program");
  const std::string tied =
      absl::StrCat(" differs from ", Quoted(table->name), ", which the program uses in its place (tied); the program ",
                   "needs a model without tie_word_embeddings to keep both");
  if (head.shape != table->shape || head.dtype == DTYPE_UNSPECIFIED || head.dtype == INT32) {
    return absl::InvalidArgumentError(refusal + tied);
  }
  std::vector<std::byte> bytes[2], values[2];
  const SafetensorsEntry* entries[] = {&head, table};
  for (int i = 0; i < 2; ++i) {
    WEFT_RETURN_IF_ERROR(reader.Read(*entries[i], &bytes[i]));
    if (head.dtype == table->dtype) {
      values[i] = std::move(bytes[i]);
      continue;
    }
    values[i].resize(bytes[i].size() / DTypeBytes(entries[i]->dtype) * sizeof(double));
    WEFT_RETURN_IF_ERROR(ConvertFloats(entries[i]->dtype, bytes[i], FP64, absl::MakeSpan(values[i])));
  }
  return values[0] == values[1] ? absl::OkStatus() : absl::InvalidArgumentError(refusal + tied);
}

// Does what MatchWeights does. `copies` receives the tensors that the program replaces by others.
absl::StatusOr<std::vector<const SafetensorsEntry*>> Match(const SafetensorsReader& reader, const Program& program,
                                                           std::vector<const SafetensorsEntry*>* copies) {
  std::map<std::string, const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : reader.entries()) {
    if (!entries.emplace(CanonicalWeightName(entry.name), &entry).second) {
      return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": tensor ", Quoted(entry.name),
                                                     " is in the file twice, with and without its model's prefix"));
    }
  }
  std::vector<const SafetensorsEntry*> result;
  std::vector<std::string> missing;
  for (const LogicalTensor& tensor : program.tensors()) {
    const auto found = entries.find(CanonicalWeightName(tensor.name()));
    if (found == entries.end()) {
      missing.push_back(tensor.name());
      continue;
    }
    const SafetensorsEntry& entry = *found->second;
    if (!std::equal(entry.shape.begin(), entry.shape.end(), tensor.shape().begin(), tensor.shape().end())) {
      return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": tensor ", Quoted(entry.name), " has shape [",
                                                     absl::StrJoin(entry.shape, ", "), "], but the program expects [",
                                                     absl::StrJoin(tensor.shape(), ", "), "]"));
    }
    if (entry.dtype == DTYPE_UNSPECIFIED || entry.dtype == INT32) {
      return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": tensor ", Quoted(entry.name), " is ",
                                                     entry.type_name, "; allowed: F64, F32, F16, BF16"));
    }
    result.push_back(&entry);
    entries.erase(found);
  }
  std::vector<std::string> unknown;
  for (const auto& [name, entry] : entries) {
    if (!TiedTo(name).empty()) {
      copies->push_back(entry);
    } else if (!IsNoParameter(name)) {
      unknown.push_back(entry->name);
    }
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        reader.path(), ": ", missing.size(), " tensors of the program are missing, the first is ", Quoted(missing[0]),
        unknown.empty()
            ? std::string()
            : absl::StrCat("; it has ", unknown.size(), " unknown tensors, the first is ", Quoted(unknown[0]))));
  }
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(reader.path(), ": ", unknown.size(),
                                                   " tensors do not belong to the program, the first is ",
                                                   Quoted(unknown[0])));
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<const SafetensorsEntry*>> MatchWeights(const SafetensorsReader& reader,
                                                                  const Program& program) {
  std::vector<const SafetensorsEntry*> copies;
  WEFT_ASSIGN_OR_RETURN(auto result, Match(reader, program, &copies));
  for (const SafetensorsEntry* copy : copies) {
    const std::vector<std::string> originals = TiedTo(CanonicalWeightName(copy->name));
    const SafetensorsEntry* original = nullptr;
    for (const SafetensorsEntry* entry : result) {
      const std::string name = CanonicalWeightName(entry->name);
      if (std::find(originals.begin(), originals.end(), name) != originals.end()) original = entry;
    }
    WEFT_RETURN_IF_ERROR(CheckTied(reader, *copy, original));
  }
  return result;
}

absl::Status LoadWeights(const SafetensorsReader& reader, const Program& program, RankState* state) {
  std::vector<const SafetensorsEntry*> copies;
  WEFT_ASSIGN_OR_RETURN(const std::vector<const SafetensorsEntry*> entries, Match(reader, program, &copies));
  for (int i = 0; i < program.tensors_size(); ++i) {
    if (!state->Holds(i, StatePart::kWeight)) continue;
    TensorData data{.dtype = entries[i]->dtype, .shape = entries[i]->shape, .bytes = {}};
    WEFT_RETURN_IF_ERROR(reader.Read(*entries[i], &data.bytes));
    WEFT_RETURN_IF_ERROR(state->Write(i, StatePart::kWeight, data));
  }
  return absl::OkStatus();
}

absl::Status CheckWeightsTarget(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is not a regular file; weft writes weights to files only, not to pipes or devices"));
}

absl::Status SaveWeights(const std::string& path, const Program& program,
                         const std::function<absl::StatusOr<TensorData>(int)>& tensor) {
  std::vector<SafetensorsWriter::Declaration> declarations;
  for (const LogicalTensor& logical : program.tensors()) {
    declarations.push_back({logical.name(), FP32, {logical.shape().begin(), logical.shape().end()}});
  }
  WEFT_RETURN_IF_ERROR(CheckWeightsTarget(path));
  std::string temporary;
  const absl::Status written = ReplaceFile(path, [&](const std::string& name) -> absl::Status {
    temporary = name;
    WEFT_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(name, declarations, {{"format", "pt"}}));
    for (int i = 0; i < program.tensors_size(); ++i) {
      WEFT_ASSIGN_OR_RETURN(const TensorData data, tensor(i));
      std::vector<std::byte> bytes(data.bytes.size() / DTypeBytes(data.dtype) * sizeof(float));
      WEFT_RETURN_IF_ERROR(ConvertFloats(data.dtype, data.bytes, FP32, absl::MakeSpan(bytes)));
      WEFT_RETURN_IF_ERROR(writer->Append(bytes));
    }
    int64_t file_bytes = 0;
    uint32_t crc = 0;
    return writer->Finish(&file_bytes, &crc);
  });
  if (written.ok() || temporary.empty()) return written;
  // The error names `path`: the user does not know the temporary name, and that file does not exist any more.
  return absl::Status(written.code(), absl::StrReplaceAll(written.message(), {{temporary, path}}));
}

}  // namespace weft::exec
