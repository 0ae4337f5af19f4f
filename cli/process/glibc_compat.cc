// Two functions of glibc that Debian 12's libstdc++.a and libgcc_eh.a call and older systems lack. With them, weft-run
// and the programs of tools/gpu-check need only GLIBC_2.34. They are hidden: libraries that these programs open still
// use the functions of their own system.
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#define WEFT_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

#if __GLIBC_PREREQ(2, 36)
// std::random_device gets its numbers here.
WEFT_HIDDEN uint32_t arc4random() noexcept {
  uint32_t number = 0;
  // Up to 256 bytes arrive whole, unless a signal arrives while the kernel has no entropy yet.
  while (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    if (errno != EINTR) abort();
  }
  return number;
}
#endif

#ifdef DLFO_STRUCT_HAS_EH_DBASE
namespace {

struct Search {
  uintptr_t address;
  dl_find_object* result;
};

// Called for each loaded object. If the object holds the address, fills the result and returns 1.
int Inspect(dl_phdr_info* object, size_t, void* argument) {
  // libgcc reads only l_addr of the object that dlfo_link_map points to.
  static thread_local link_map map;
  const Search& search = *static_cast<const Search*>(argument);
  bool holds = false;
  dl_find_object found = {};
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search.address >= begin && search.address - begin < header.p_memsz) {
      holds = true;
      found.dlfo_map_start = reinterpret_cast<void*>(begin);
      found.dlfo_map_end = reinterpret_cast<void*>(begin + header.p_memsz);
    }
    if (header.p_type == PT_GNU_EH_FRAME) found.dlfo_eh_frame = reinterpret_cast<void*>(begin);
  }
  if (!holds) return 0;
  map = {};
  map.l_addr = object->dlpi_addr;
  found.dlfo_link_map = &map;
  *search.result = found;
  return 1;
}

}  // namespace

// Finds the unwinder's tables for the code at `address`; returns -1 if no loaded object holds it. libgcc has no other
// way than this function, so the function does what libgcc did before glibc had it: it asks dl_iterate_phdr.
WEFT_HIDDEN int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(Inspect, &search) == 1 ? 0 : -1;
}
#endif

}  // extern "C"
