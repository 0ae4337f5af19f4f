#include "executor/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/checkpoint_branch.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_manifest.h"
#include "executor/checkpoint/checkpoint_pieces.h"
#include "executor/interpreter/control.h"
#include "executor/state/safetensors.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft::exec {
namespace {

namespace fs = std::filesystem;

// Folder of a checkpoint while another one of the same step replaces it.
std::string OldFolderName(int64_t step) { return ".old-" + FolderName(step); }

absl::Status Failed(const std::string& path, absl::string_view what) {
  return absl::UnknownError(absl::StrCat(path, ": ", what, ": ", std::strerror(errno)));
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return absl::UnknownError(absl::StrCat(path, ": cannot remove: ", error.message()));
  return absl::OkStatus();
}

// Removes the manifest first. If the removal is cut short, the files that remain are then no checkpoint.
absl::Status RemoveCheckpoint(const std::string& folder) {
  unlink((folder + "/" + kManifestName).c_str());
  return RemoveAll(folder);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : Failed(to, "cannot rename " + from);
}

struct WrittenFile {
  int64_t bytes = 0;
  uint64_t crc32c = 0;
};

bool IsWhole(const TensorHolder& holder, const LogicalTensor& tensor) {
  return holder.piece == WholePiece(tensor.shape());
}

std::string RankFileName(int rank) { return absl::StrFormat("rank-%04d.safetensors", rank); }

// Writes each tensor or piece whose first holder is this rank. If there is none, it writes no file and returns zero
// bytes.
absl::StatusOr<WrittenFile> WriteRankFile(const std::string& path, const Program& program, const RankState& state,
                                          int rank) {
  std::vector<SafetensorsWriter::Declaration> declarations;
  std::vector<std::pair<int, StatePart>> parts;
  for (int i = 0; i < program.tensors_size(); ++i) {
    const LogicalTensor& tensor = program.tensors(i);
    for (StatePart part : kStateParts) {
      if (!state.Holds(i, part)) continue;
      WEFT_ASSIGN_OR_RETURN(const std::vector<TensorHolder> holders, Holders(program, i, part));
      for (const TensorHolder& holder : holders) {
        if (holder.rank != rank) continue;
        const absl::string_view suffix = StatePartSuffix(part);
        const bool whole = IsWhole(holder, tensor);
        declarations.push_back({whole ? absl::StrCat(tensor.name(), suffix) : PieceEntryName(tensor.name(), suffix),
                                holder.buffer->dtype(),
                                whole ? std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())
                                      : std::vector<int64_t>{holder.piece.count}});
        parts.push_back({i, part});
      }
    }
  }
  WrittenFile result;
  if (parts.empty()) return result;
  WEFT_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(path, declarations, {}));
  for (const auto& [tensor, part] : parts) {
    WEFT_ASSIGN_OR_RETURN(const TensorData data, state.Read(tensor, part));
    WEFT_RETURN_IF_ERROR(writer->Append(data.bytes));
  }
  uint32_t crc = 0;
  WEFT_RETURN_IF_ERROR(writer->Finish(&result.bytes, &crc));
  result.crc32c = crc;
  return result;
}

// Every rank reports to rank 0 the size and checksum of the file that it wrote. Rank 0 returns these reports in rank
// order.
absl::StatusOr<std::vector<WrittenFile>> GatherWritten(const WrittenFile& mine, Endpoint& endpoint,
                                                       std::chrono::nanoseconds timeout) {
  std::string bytes(sizeof(mine), '\0');
  std::memcpy(bytes.data(), &mine, sizeof(mine));
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherBytes(endpoint, bytes, timeout));
  std::vector<WrittenFile> files(all.size());
  for (size_t i = 0; i < all.size(); ++i) std::memcpy(&files[i], all[i].data(), sizeof(WrittenFile));
  return files;
}

// Removes all but `keep` checkpoints, and folders that are not whole. Never removes the checkpoint of step `current`,
// which `latest` names. Checkpoints of higher steps are removed first, because they belong to a run that was rolled
// back; then the oldest are removed.
absl::Status Prune(const std::string& directory, int64_t current, int64_t keep) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsIn(directory));
  std::vector<int64_t> removable;
  int64_t whole = 1;
  for (int64_t step : steps) {
    const std::string folder = directory + "/" + FolderName(step);
    if (step == current) continue;
    if (!IsWholeFolder(folder)) {
      WEFT_RETURN_IF_ERROR(RemoveAll(folder));
      continue;
    }
    ++whole;
    removable.push_back(step);
  }
  const auto older = std::partition_point(removable.begin(), removable.end(), [&](int64_t s) { return s > current; });
  std::reverse(older, removable.end());
  for (size_t i = 0; i < removable.size() && whole > std::max<int64_t>(1, keep); ++i, --whole) {
    WEFT_RETURN_IF_ERROR(RemoveCheckpoint(directory + "/" + FolderName(removable[i])));
  }
  return absl::OkStatus();
}

// Cleans up after saves that were cut short: removes parts of new checkpoints, and restores a checkpoint that was being
// replaced unless the new one is there.
absl::Status CleanUp(const std::string& directory) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> temporaries, NamesIn(directory, ".tmp-"));
  for (const std::string& name : temporaries) WEFT_RETURN_IF_ERROR(RemoveAll(directory + "/" + name));
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> olds, NamesIn(directory, ".old-"));
  for (const std::string& name : olds) {
    const std::string aside = directory + "/" + name;
    const std::string folder = directory + "/" + name.substr(std::strlen(".old-"));
    std::error_code error;
    if (IsWholeFolder(aside) && !fs::exists(folder, error)) {
      WEFT_RETURN_IF_ERROR(Rename(aside, folder));
    } else {
      WEFT_RETURN_IF_ERROR(RemoveCheckpoint(aside));
    }
  }
  return absl::OkStatus();
}

// Adds every piece of a cut tensor to the manifest, with the file of the rank that writes it (WriteRankFile).
absl::Status AddPieces(const Program& program, CheckpointManifest* manifest) {
  for (int i = 0; i < program.tensors_size(); ++i) {
    for (const StatePart part : kStateParts) {
      WEFT_ASSIGN_OR_RETURN(const std::vector<TensorHolder> holders, Holders(program, i, part));
      for (const TensorHolder& holder : holders) {
        if (IsWhole(holder, program.tensors(i))) continue;
        CheckpointPiece* piece = manifest->add_pieces();
        piece->set_tensor(i);
        piece->set_part(std::string(StatePartSuffix(part)));
        piece->set_file(RankFileName(holder.rank));
        SetPiece(holder.piece, piece);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Commit(const CheckpointOptions& options, const Program& program, int64_t step,
                    const std::optional<LossScaleState>& loss_scale, const std::vector<WrittenFile>& files,
                    const std::string& temporary) {
  CheckpointManifest manifest;
  manifest.set_step(step);
  manifest.set_next_sample(step * program.recipe().global_batch_sequences());
  manifest.set_seed(program.recipe().seed());
  manifest.set_program(program.name());
  manifest.set_compiler_version(program.compiler_version());
  *manifest.mutable_recipe() = program.recipe();
  if (options.data.tokens > 0) {
    manifest.mutable_data()->set_tokens(options.data.tokens);
    manifest.mutable_data()->set_crc32c(options.data.crc32c);
  }
  for (const LogicalTensor& tensor : program.tensors()) {
    CheckpointTensor* out = manifest.add_tensors();
    out->set_name(tensor.name());
    *out->mutable_shape() = tensor.shape();
  }
  WEFT_RETURN_IF_ERROR(AddPieces(program, &manifest));
  if (loss_scale) {
    manifest.mutable_loss_scale()->set_scale(loss_scale->scale);
    manifest.mutable_loss_scale()->set_steady(loss_scale->steady);
    manifest.mutable_loss_scale()->set_skipped(loss_scale->skipped);
  }
  manifest.set_format_version(FormatVersionOf(manifest));
  for (size_t rank = 0; rank < files.size(); ++rank) {
    if (files[rank].bytes == 0) continue;
    CheckpointFile* file = manifest.add_files();
    file->set_name(RankFileName(static_cast<int>(rank)));
    file->set_bytes(files[rank].bytes);
    file->set_crc32c(static_cast<uint32_t>(files[rank].crc32c));
  }
  WEFT_RETURN_IF_ERROR(WriteFileAtomic(temporary + "/" + kManifestName, MessageToText(manifest)));
  WEFT_RETURN_IF_ERROR(SyncFolder(temporary));
  if (options.follows >= 0) WEFT_RETURN_IF_ERROR(SetAsideBeyond(options.directory, options.follows));
  const std::string folder = options.directory + "/" + FolderName(step);
  // A folder of the same step may exist, from a run that ended before it updated `latest` or from one that was rolled
  // back. `latest` may name it, so it is removed only when the new one is in its place.
  const std::string aside = options.directory + "/" + OldFolderName(step);
  std::error_code error;
  if (fs::exists(folder, error)) WEFT_RETURN_IF_ERROR(Rename(folder, aside));
  WEFT_RETURN_IF_ERROR(Rename(temporary, folder));
  WEFT_RETURN_IF_ERROR(SyncFolder(options.directory));
  WEFT_RETURN_IF_ERROR(WriteFileAtomic(options.directory + "/latest", FolderName(step) + "\n"));
  WEFT_RETURN_IF_ERROR(SyncFolder(options.directory));
  WEFT_RETURN_IF_ERROR(RemoveCheckpoint(aside));
  return Prune(options.directory, step, options.keep);
}

}  // namespace

namespace {

// The name of a file that marks that a rank still writes into a save's folder. The folder cannot be removed while it
// contains a mark. Without marks, the rank that fails first would remove an empty folder. The last rank would then fail
// because the folder is missing, and that second error would hide the first.
std::string MarkName(int rank) { return "." + RankFileName(rank); }

absl::Status Mark(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return Failed(path, "cannot create");
  close(file);
  return absl::OkStatus();
}

absl::Status SaveInto(const std::string& temporary, const CheckpointOptions& options, const Program& program,
                      int64_t step, const RankState& state, Endpoint& endpoint) {
  if (endpoint.rank() == 0) {
    std::error_code error;
    fs::create_directories(options.directory, error);
    if (error) return absl::UnknownError(absl::StrCat(options.directory, ": cannot create: ", error.message()));
    WEFT_RETURN_IF_ERROR(CleanUp(options.directory));
    if (mkdir(temporary.c_str(), 0777) != 0) return Failed(temporary, "cannot create");
  }
  WEFT_RETURN_IF_ERROR(Barrier(endpoint, options.timeout));
  const std::string mark = temporary + "/" + MarkName(endpoint.rank());
  WEFT_RETURN_IF_ERROR(Mark(mark));
  WEFT_RETURN_IF_ERROR(Barrier(endpoint, options.timeout));
  WEFT_ASSIGN_OR_RETURN(const WrittenFile mine, WriteRankFile(temporary + "/" + RankFileName(endpoint.rank()), program,
                                                              state, endpoint.rank()));
  unlink(mark.c_str());
  WEFT_ASSIGN_OR_RETURN(const std::vector<WrittenFile> files, GatherWritten(mine, endpoint, options.timeout));
  // Rank 0 writes the loss scale for all ranks, because it is the same on every rank.
  if (endpoint.rank() != 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const std::optional<LossScaleState> scale, state.LossScale());
  return Commit(options, program, step, scale, files, temporary);
}

}  // namespace

absl::Status SaveCheckpoint(const CheckpointOptions& options, const Program& program, int64_t step,
                            const RankState& state, Endpoint& endpoint) {
  const std::string temporary = absl::StrCat(options.directory, "/.tmp-", FolderName(step));
  const absl::Status saved = SaveInto(temporary, options, program, step, state, endpoint);
  if (saved.ok()) return saved;
  // An incomplete save is worth nothing, and the disk may be full. Each rank removes its own files, and the last rank
  // removes the folder.
  unlink((temporary + "/" + RankFileName(endpoint.rank())).c_str());
  unlink((temporary + "/" + MarkName(endpoint.rank())).c_str());
  if (endpoint.rank() == 0) unlink((temporary + "/" + kManifestName).c_str());
  rmdir(temporary.c_str());
  return saved;
}

absl::Status LoadCheckpoint(const std::string& checkpoint, const CheckpointManifest& manifest, const Program& program,
                            RankState* state) {
  WEFT_RETURN_IF_ERROR(state->ResetLossScale());
  if (const CheckpointLossScale& scale = manifest.loss_scale(); manifest.has_loss_scale()) {
    WEFT_RETURN_IF_ERROR(state->SetLossScale({scale.scale(), scale.steady(), scale.skipped()}));
  }
  struct Place {
    size_t file;
    const SafetensorsEntry* entry;
  };
  std::vector<std::unique_ptr<SafetensorsReader>> readers;
  // Whole tensors by name, pieces by file and name.
  std::map<std::string, Place> places;
  for (const CheckpointFile& file : manifest.files()) {
    const std::string path = checkpoint + "/" + file.name();
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error) return absl::DataLossError(absl::StrCat(path, ": ", error.message()));
    if (static_cast<int64_t>(bytes) != file.bytes()) {
      return absl::DataLossError(absl::StrCat(path, ": has ", bytes, " bytes, the manifest says ", file.bytes()));
    }
    absl::StatusOr<std::unique_ptr<SafetensorsReader>> opened = SafetensorsReader::Open(path);
    // The file was written whole, so a header that cannot be read is damage.
    if (!opened.ok()) return absl::DataLossError(opened.status().message());
    std::unique_ptr<SafetensorsReader> reader = *std::move(opened);
    for (const SafetensorsEntry& entry : reader->entries()) {
      places[entry.name] = {readers.size(), &entry};
      places[file.name() + "/" + entry.name] = {readers.size(), &entry};
    }
    readers.push_back(std::move(reader));
  }
  std::map<std::pair<int, std::string>, std::vector<const CheckpointPiece*>> pieces;
  for (const CheckpointPiece& piece : manifest.pieces()) pieces[{piece.tensor(), piece.part()}].push_back(&piece);
  std::vector<bool> checked(readers.size(), false);
  const auto read = [&](const std::string& name, const std::string& missing_in) -> absl::StatusOr<TensorData> {
    const auto found = places.find(name);
    if (found == places.end()) {
      return absl::DataLossError(absl::StrCat(checkpoint, ": tensor ", Quoted(name), " is ", missing_in));
    }
    const auto& [file, entry] = found->second;
    if (!checked[file]) WEFT_RETURN_IF_ERROR(CheckFile(readers[file]->path(), manifest.files(file)));
    checked[file] = true;
    TensorData data{.dtype = entry->dtype, .shape = entry->shape, .bytes = {}};
    WEFT_RETURN_IF_ERROR(readers[file]->Read(*entry, &data.bytes));
    return data;
  };
  for (int i = 0; i < program.tensors_size(); ++i) {
    for (StatePart part : kStateParts) {
      if (!state->Holds(i, part)) continue;
      const std::string& name = program.tensors(i).name();
      const std::string suffix(StatePartSuffix(part));
      const auto cut = pieces.find({i, suffix});
      absl::StatusOr<TensorData> data =
          cut == pieces.end() ? read(name + suffix, "in none of its files")
                              : JoinPieces(manifest, cut->second, [&](const CheckpointPiece& piece) {
                                  return read(absl::StrCat(piece.file(), "/", PieceEntryName(name, suffix)),
                                              "not there, though the manifest names it");
                                });
      WEFT_RETURN_IF_ERROR(data.status());
      const absl::Status status = state->Write(i, part, *data, manifest.step());
      if (!status.ok()) return absl::Status(status.code(), absl::StrCat(checkpoint, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft::exec
