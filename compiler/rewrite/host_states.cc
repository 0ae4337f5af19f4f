#include "compiler/rewrite/host_states.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool IsState(BufferRole role) { return role == MASTER || role == MOMENT1 || role == MOMENT2; }

// The unused ranges of the device arena, ascending.
class Holes {
 public:
  void Add(const Buffer& buffer) { list_.emplace_back(buffer.offset(), Aligned(buffer.bytes())); }
  void Sort() { std::sort(list_.begin(), list_.end()); }
  // Returns how many bytes a buffer at `offset` moves down when the holes are closed.
  int64_t Below(int64_t offset) const {
    int64_t bytes = 0;
    for (const auto& [begin, size] : list_) {
      if (begin < offset) bytes += size;
    }
    return bytes;
  }
  void Close(Template* t) const {
    for (Buffer& buffer : *t->mutable_buffers()) {
      if (buffer.place() == DEVICE) buffer.set_offset(buffer.offset() - Below(buffer.offset()));
    }
    t->set_device_arena_bytes(t->device_arena_bytes() - Below(t->device_arena_bytes()));
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> list_;
};

void PlaceInHost(Buffer* buffer, Template* t) {
  buffer->set_place(HOST);
  buffer->set_offset(t->host_arena_bytes());
  t->set_host_arena_bytes(t->host_arena_bytes() + Aligned(buffer->bytes()));
}

void Move(Template* t, Template* evaluation) {
  Holes holes;
  std::set<int> masters;
  for (Buffer& buffer : *t->mutable_buffers()) {
    if (!IsState(buffer.role())) continue;
    if (buffer.role() == MASTER) masters.insert(buffer.tensor());
    holes.Add(buffer);
  }
  holes.Sort();
  for (Template* other : {t, evaluation}) {
    if (other != nullptr) holes.Close(other);
  }
  const int buffers = t->buffers_size();
  for (int b = 0; b < buffers; ++b) {
    if (IsState(t->buffers(b).role())) PlaceInHost(t->mutable_buffers(b), t);
  }
  for (int b = 0; b < buffers; ++b) {
    if (t->buffers(b).role() != PARAM || masters.contains(t->buffers(b).tensor())) continue;
    Buffer master = t->buffers(b);
    master.set_name(absl::StrCat("master ", master.name()));
    master.set_class_(OPTIMIZER);
    master.set_role(MASTER);
    PlaceInHost(&master, t);
    *t->add_buffers() = std::move(master);
  }
}

}  // namespace

void MoveStatesToHost(Program* program) {
  for (Template& t : *program->mutable_templates()) {
    Template* evaluation = nullptr;
    if (program->has_evaluation()) {
      for (Template& other : *program->mutable_evaluation()->mutable_templates()) {
        if (other.name() == t.name()) evaluation = &other;
      }
    }
    Move(&t, evaluation);
  }
}

}  // namespace weft
