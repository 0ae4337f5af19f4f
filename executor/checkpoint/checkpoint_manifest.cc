#include "executor/checkpoint/checkpoint_manifest.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/checkpoint_pieces.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft::exec {
namespace {

constexpr int kFormatVersion = 3;

// The upper bound of dynamic loss scaling (docs/kernels.md).
constexpr double kLargestLossScale = 0x1p60;

}  // namespace

std::string FolderName(int64_t step) { return absl::StrFormat("step-%08d", step); }

std::optional<int64_t> StepOfFolder(const std::string& name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, "step-") || !absl::SimpleAtoi(digits, &step) || step < 0 ||
      FolderName(step) != name) {
    return std::nullopt;
  }
  return step;
}

int FormatVersionOf(const CheckpointManifest& manifest) {
  return manifest.has_loss_scale() ? 3 : manifest.pieces().empty() ? 1 : 2;
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& checkpoint) {
  const std::string path = checkpoint + "/" + kManifestName;
  // Anything but a regular file is refused, because reading a pipe would block.
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return absl::DataLossError(absl::StrCat(path, ": is not a regular file"));
  }
  WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  WEFT_ASSIGN_OR_RETURN(CheckpointManifest manifest, ParseManifest(bytes, path));
  std::string folder = checkpoint.substr(checkpoint.rfind('/') + 1);
  // A checkpoint that is being replaced has this prefix.
  if (absl::StartsWith(folder, ".old-")) folder.erase(0, 5);
  if (const std::optional<int64_t> step = StepOfFolder(folder); step.has_value() && *step != manifest.step()) {
    return absl::DataLossError(absl::StrCat(path, ": step = ", manifest.step(), ", but its folder is named for step ",
                                            *step, ": the manifest is damaged, or it belongs to another checkpoint"));
  }
  return manifest;
}

absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view bytes, const std::string& path) {
  CheckpointManifest manifest;
  WEFT_RETURN_IF_ERROR(ParseMessage(bytes, path, &manifest));
  if (manifest.format_version() < 1 || manifest.format_version() > kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": format_version = ", manifest.format_version(),
                                                   "; this weft reads 1 to ", kFormatVersion));
  }
  if (manifest.step() < 0) {
    return absl::DataLossError(absl::StrCat(path, ": step = ", manifest.step(), " must be at least 0"));
  }
  if (const CheckpointLossScale& scale = manifest.loss_scale();
      manifest.has_loss_scale() &&
      !(scale.scale() >= 1 && scale.scale() <= kLargestLossScale && scale.steady() >= 0 &&
        scale.steady() <= manifest.step() && scale.skipped() >= 0 && scale.skipped() <= manifest.step())) {
    return absl::DataLossError(absl::StrCat(
        path, ": loss_scale has scale = ", scale.scale(), ", steady = ", scale.steady(), ", skipped = ",
        scale.skipped(), "; the scale must be from 1 to 2^60, and the other two from 0 to step = ", manifest.step()));
  }
  for (const CheckpointFile& file : manifest.files()) {
    if (file.name().empty() || file.name().find('/') != std::string::npos) {
      return absl::DataLossError(absl::StrCat(path, ": files.name = ", Quoted(file.name()), " is not a file name"));
    }
  }
  if (const absl::Status status = CheckPieces(manifest); !status.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", status.message()));
  }
  return manifest;
}

absl::Status CheckContinues(const CheckpointManifest& manifest, const std::string& checkpoint, const Program& program) {
  auto shape = [](const auto& extents) { return absl::StrCat("[", absl::StrJoin(extents, ", "), "]"); };
  if (manifest.tensors_size() != program.tensors_size()) {
    return absl::FailedPreconditionError(absl::StrCat(checkpoint, ": has ", manifest.tensors_size(),
                                                      " tensors, but the program has ", program.tensors_size(),
                                                      ": the models differ"));
  }
  for (int i = 0; i < program.tensors_size(); ++i) {
    const CheckpointTensor& saved = manifest.tensors(i);
    const LogicalTensor& wanted = program.tensors(i);
    if (saved.name() != wanted.name() || shape(saved.shape()) != shape(wanted.shape())) {
      return absl::FailedPreconditionError(absl::StrCat(checkpoint, ": tensor ", i, " is ", Quoted(saved.name()), " ",
                                                        shape(saved.shape()), ", but ", Quoted(wanted.name()), " ",
                                                        shape(wanted.shape()), " in the program: the models differ"));
    }
  }
  google::protobuf::util::MessageDifferencer differencer;
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  Recipe wanted = program.recipe();
  // A program with more steps continues the same run, so the steps are then not compared.
  if (wanted.steps() > manifest.recipe().steps()) wanted.set_steps(manifest.recipe().steps());
  if (!differencer.Compare(manifest.recipe(), wanted)) {
    std::vector<std::string> fields;
    for (absl::string_view line : absl::StrSplit(differences, '\n', absl::SkipEmpty())) {
      // The differencer writes "deleted: FIELD: VALUE" or "added: FIELD: VALUE" if only one recipe sets the field; the
      // other recipe has the default.
      if (absl::ConsumePrefix(&line, "deleted: ")) {
        fields.push_back(absl::StrCat("recipe.", line, " -> default"));
      } else if (absl::ConsumePrefix(&line, "added: ")) {
        const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits(": ", 1));
        fields.push_back(absl::StrCat("recipe.", field.first, ": default -> ", field.second));
      } else {
        absl::ConsumePrefix(&line, "modified: ");
        fields.push_back(absl::StrCat("recipe.", line));
      }
    }
    return absl::FailedPreconditionError(absl::StrCat(
        checkpoint, ": its recipe differs from the program's (checkpoint -> program): ", absl::StrJoin(fields, "; ")));
  }
  // Seed and next sample follow from the recipe and step, which were compared above. If they differ, somebody has
  // changed the file, or a version of weft with another rule has written it.
  if (manifest.seed() != program.recipe().seed()) {
    return absl::DataLossError(absl::StrCat(checkpoint, "/", kManifestName, ": seed = ", manifest.seed(),
                                            ", but the seed of its recipe is ", program.recipe().seed(),
                                            ": the manifest is damaged"));
  }
  const int64_t batch = program.recipe().global_batch_sequences();
  int64_t next = 0;
  if (__builtin_mul_overflow(manifest.step(), batch, &next) || manifest.next_sample() != next) {
    return absl::DataLossError(absl::StrCat(checkpoint, "/", kManifestName, ": next_sample = ", manifest.next_sample(),
                                            " does not match step = ", manifest.step(), " with ", batch,
                                            " sequences per step: the manifest is damaged"));
  }
  return absl::OkStatus();
}

std::vector<std::string> NotesOnContinuing(const CheckpointManifest& manifest, const Program& program,
                                           const DataIdentity& data) {
  std::vector<std::string> notes;
  if (manifest.has_data() && data.tokens > 0 && manifest.data().tokens() != data.tokens) {
    notes.push_back(absl::StrCat("note: the data has ", data.tokens, " tokens, but the data of the checkpoint had ",
                                 manifest.data().tokens(), "; the run continues with other samples"));
  } else if (manifest.has_data() && data.tokens > 0 && manifest.data().crc32c() != data.crc32c) {
    notes.push_back(
        absl::StrFormat("note: the data differs from the data of the checkpoint, although both have the same length "
                        "(CRC32C of both ends: %08x, was %08x); the run continues with other samples",
                        data.crc32c, manifest.data().crc32c()));
  }
  if (manifest.has_loss_scale() && manifest.loss_scale().skipped() > 0 && !HasDynamicLossScale(program)) {
    notes.push_back(absl::StrCat("note: the program has no dynamic loss scale, so the ",
                                 manifest.loss_scale().skipped(),
                                 " steps that the checkpoint's run skipped count as optimizer steps from now on"));
  }
  const std::string& decay = program.recipe().lr().decay();
  if (manifest.recipe().steps() != program.recipe().steps() && !decay.empty() && decay != "constant") {
    notes.push_back(absl::StrCat("note: recipe.steps is ", program.recipe().steps(), ", but the checkpoint has ",
                                 manifest.recipe().steps(), "; the learning rate's ", decay,
                                 " decay uses the new number from now on"));
  }
  return notes;
}

}  // namespace weft::exec
