#include "planner/search/profile_cache.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/io/crc32c.h"
#include "proto/io/io.h"
#include "proto/io/little_endian.h"
#include "proto/profile_cache.pb.h"

namespace weft::planner {
namespace {

// Changes when the order or the meaning of figures does.
constexpr int kVersion = 3;
// Length and CRC before each record.
constexpr size_t kHeader = 8;

constexpr std::array kLayerFigures = {&LayerCosts::forward,
                                      &LayerCosts::backward,
                                      &LayerCosts::backward_input,
                                      &LayerCosts::backward_weight,
                                      &LayerCosts::step,
                                      &LayerCosts::first_forward,
                                      &LayerCosts::saved_bytes,
                                      &LayerCosts::half_saved_bytes,
                                      &LayerCosts::saved_gradient_bytes,
                                      &LayerCosts::workspace_bytes,
                                      &LayerCosts::half_workspace_bytes,
                                      &LayerCosts::parameter_bytes,
                                      &LayerCosts::gradient_bytes,
                                      &LayerCosts::optimizer_bytes};
static_assert(sizeof(LayerCosts) == kLayerFigures.size() * sizeof(int64_t), "every figure of a layer is stored");

// Calls visit(figure) for every figure of the profile, whose number of runs is already right.
template <typename Profile, typename Visit>
void ForEachFigure(Profile& profile, const Visit& visit) {
  const auto layer = [&](auto& costs) {
    for (const auto figure : kLayerFigures) visit(costs.*figure);
  };
  for (auto& run : profile.runs) {
    visit(run.run.first);
    visit(run.run.layers);
    layer(run.first);
    layer(run.further);
    layer(run.less_if_sharded);
    visit(run.tiled_bytes);
  }
  layer(profile.saved_by_joining);
  visit(profile.activation_bytes);
  visit(profile.gradient_bytes);
}

std::string DeterministicBytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// Returns the hash in the notes of an ELF segment; empty = they have none. A note has the lengths of its name and its
// content and its type, 4 bytes each, then both, padded to 4 bytes.
std::string BuildIdOf(absl::string_view notes) {
  constexpr absl::string_view kOwner("GNU", 4);
  while (notes.size() >= 12) {
    const uint64_t name = LittleEndian(notes.substr(0, 4)), content = LittleEndian(notes.substr(4, 4));
    const uint64_t type = LittleEndian(notes.substr(8, 4)), begin = 12 + (name + 3) / 4 * 4;
    if (begin + content > notes.size()) return "";
    if (type == NT_GNU_BUILD_ID && notes.substr(12, name) == kOwner) return std::string(notes.substr(begin, content));
    notes.remove_prefix(std::min<size_t>(notes.size(), begin + (content + 3) / 4 * 4));
  }
  return "";
}

// Identifies the build of weft: another build may compile or time a program differently.
// The linker's hash of the program (cli/BUILD) does, wherever the program is copied. Without it, size and time do.
std::string BuildStamp() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* program, size_t, void* found) {
        for (int i = 0; i < program->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = program->dlpi_phdr[i];
          if (part.p_type != PT_NOTE) continue;
          const absl::string_view notes(reinterpret_cast<const char*>(program->dlpi_addr + part.p_vaddr), part.p_memsz);
          *static_cast<std::string*>(found) += BuildIdOf(notes);
        }
        // The first object is the program itself.
        return 1;
      },
      &id);
  if (!id.empty()) return id;
  struct stat status = {};
  if (stat("/proc/self/exe", &status) != 0) return "";
  return absl::StrCat(status.st_size, " ", status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec);
}

// FNV-1a with 64 bits. Two of them, with different starts, name a file: its user has no reason to make names collide.
uint64_t Fnv1a(absl::string_view text, uint64_t start) {
  uint64_t hash = start;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

std::string FileName(const SearchContext& context) {
  std::string text;
  // Clear the fields that change no profile.
  Cluster cluster = context.cluster;
  cluster.mutable_device()->clear_memory_bytes();
  cluster.mutable_device()->clear_reserved_bytes();
  for (OtherDevices& other : *cluster.mutable_other_devices()) {
    if (!other.has_device()) continue;
    other.mutable_device()->clear_memory_bytes();
    other.mutable_device()->clear_reserved_bytes();
  }
  cluster.clear_reliability();
  cluster.clear_dollars_per_device_hour();
  cluster.clear_watts_per_device();
  // Lengths keep neighboring parts apart.
  for (const std::string& part : {absl::StrCat(kVersion), BuildStamp(), DeterministicBytes(context.model),
                                  DeterministicBytes(cluster), context.cost, context.network,
                                  context.runtime == nullptr ? std::string() : DeterministicBytes(*context.runtime)}) {
    absl::StrAppend(&text, part.size(), " ", part);
  }
  return absl::StrFormat("%016x%016x", Fnv1a(text, 0xcbf29ce484222325), Fnv1a(text, 0x9ae16a3b2f90404f));
}

CachedProfile ProfileOf(const StoredProfile& stored, bool* valid) {
  const auto status = [](int32_t code, const std::string& message) {
    return absl::Status(static_cast<absl::StatusCode>(code), message);
  };
  if (stored.refusal_code() != 0) return status(stored.refusal_code(), stored.refusal());
  BlockProfile profile;
  profile.halves = status(stored.halves_refusal_code(), stored.halves_refusal());
  profile.sharded = status(stored.sharded_refusal_code(), stored.sharded_refusal());
  size_t wanted = 0;
  ForEachFigure(profile, [&](auto&) { ++wanted; });
  const size_t without_runs = wanted;
  profile.runs.resize(1);
  wanted = 0;
  ForEachFigure(profile, [&](auto&) { ++wanted; });
  const size_t of_run = wanted - without_runs;
  const size_t figures = stored.figures_size();
  if (figures < wanted || (figures - without_runs) % of_run != 0) {
    *valid = false;
    return profile;
  }
  profile.runs.resize((figures - without_runs) / of_run);
  int next = 0;
  ForEachFigure(profile, [&](auto& figure) {
    figure = static_cast<std::remove_reference_t<decltype(figure)>>(stored.figures(next));
    *valid &= figure == stored.figures(next++) && figure >= 0;
  });
  return profile;
}

}  // namespace

std::string ProfileRecord(const std::string& key, const CachedProfile& profile) {
  StoredProfile stored;
  stored.set_key(key);
  if (profile.ok()) {
    ForEachFigure(*profile, [&](const auto& figure) { stored.add_figures(figure); });
    stored.set_halves_refusal(std::string(profile->halves.message()));
    stored.set_halves_refusal_code(static_cast<int32_t>(profile->halves.code()));
    stored.set_sharded_refusal(std::string(profile->sharded.message()));
    stored.set_sharded_refusal_code(static_cast<int32_t>(profile->sharded.code()));
  } else {
    stored.set_refusal(std::string(profile.status().message()));
    stored.set_refusal_code(static_cast<int32_t>(profile.status().code()));
  }
  const std::string bytes = DeterministicBytes(stored);
  std::string record;
  AppendLittleEndian(bytes.size(), 4, &record);
  AppendLittleEndian(Crc32c(bytes), 4, &record);
  return record + bytes;
}

StoredProfiles ReadProfiles(absl::string_view file) {
  StoredProfiles read;
  while (file.size() - read.bytes >= kHeader) {
    const absl::string_view header = file.substr(read.bytes, kHeader);
    const uint64_t length = LittleEndian(header.substr(0, 4)), crc = LittleEndian(header.substr(4));
    if (length > file.size() - read.bytes - kHeader) break;
    const absl::string_view bytes = file.substr(read.bytes + kHeader, length);
    StoredProfile stored;
    if (Crc32c(bytes) != crc || !stored.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) break;
    bool valid = true;
    CachedProfile profile = ProfileOf(stored, &valid);
    if (!valid) break;
    read.profiles.insert_or_assign(stored.key(), std::move(profile));
    read.bytes += kHeader + length;
  }
  return read;
}

ProfileCache::ProfileCache(const std::string& folder, const SearchContext& context) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return;
  path_ = absl::StrCat(folder, "/", FileName(context), ".profiles");
  const absl::StatusOr<std::string> file = ReadFile(path_);
  if (!file.ok()) return;
  StoredProfiles read = ReadProfiles(*file);
  known_ = std::move(read.profiles);
  if (read.bytes == file->size()) return;
  // Cut off a damaged end, unless another process has written since.
  const int descriptor = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status = {};
  if (flock(descriptor, LOCK_EX) == 0 && fstat(descriptor, &status) == 0 &&
      status.st_size == static_cast<off_t>(file->size()) &&
      ftruncate(descriptor, static_cast<off_t>(read.bytes)) != 0) {
    path_.clear();
  }
  close(descriptor);
}

const CachedProfile* ProfileCache::Find(const std::string& key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

void ProfileCache::Store(const std::string& key, const CachedProfile& profile) const {
  if (path_.empty()) return;
  const std::string record = ProfileRecord(key, profile);
  const int descriptor = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return;
  // A record that is cut short, for example by a full disk, is taken back, so that later ones can be read.
  struct stat status = {};
  if (flock(descriptor, LOCK_EX) == 0 && fstat(descriptor, &status) == 0 &&
      write(descriptor, record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
    if (ftruncate(descriptor, status.st_size) != 0) unlink(path_.c_str());
  }
  close(descriptor);
}

}  // namespace weft::planner
