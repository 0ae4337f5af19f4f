// How much more memory this process may touch before the system kills a process for it.
#ifndef WEFT_EXECUTOR_PLATFORM_MEMORY_LEFT_H_
#define WEFT_EXECUTOR_PLATFORM_MEMORY_LEFT_H_

#include <cstdint>
#include <string>

namespace weft::exec {

// Returns bytes: the smallest of MemAvailable of /proc/meminfo and what is left of the limit of each control group of
// this process and of each group that contains one. What is left is memory.max - memory.current in version 2 and
// memory.limit_in_bytes - memory.usage_in_bytes in version 1. Pages of files that nobody uses are given back first and
// count as left. Other processes may take the same memory at any time. A file that is missing or does not read as the
// kernel writes it is no limit. Returns the largest int64_t if nothing is known. `root` is put before /proc and
// /sys/fs/cgroup.
//
// Source: Documentation/filesystems/proc.rst, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
int64_t MemoryLeft(const std::string& root = "");

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_MEMORY_LEFT_H_
