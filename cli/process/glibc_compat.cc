// Two functions of glibc that Debian 12's libstdc++.a and libgcc_eh.a call and older systems lack, so that weft-run
// and the programs of tools/gpu-check need GLIBC_2.34 and no more. They are hidden: the libraries that these open go on
// using those of their own system.
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>

#define WEFT_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

#if __GLIBC_PREREQ(2, 36)
// What std::random_device asks for its numbers.
WEFT_HIDDEN uint32_t arc4random() noexcept {
  uint32_t number = 0;
  // Up to 256 bytes come whole, but for a signal that arrives while the kernel has no entropy yet.
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

// One of the loaded objects; 1 if it is the one that holds the address.
int Inspect(dl_phdr_info* object, size_t, void* argument) {
  // Of what dlfo_link_map points to, libgcc reads l_addr alone.
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

// Where the unwinder finds the tables of the code at `address`; -1 if no loaded object holds it. libgcc has no way of
// its own beside this function, so it does here what libgcc did before glibc had it: it asks dl_iterate_phdr.
WEFT_HIDDEN int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(Inspect, &search) == 1 ? 0 : -1;
}
#endif

}  // extern "C"
