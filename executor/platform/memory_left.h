// How much more memory this process may touch before the system ends somebody for it.
#ifndef WEFT_EXECUTOR_PLATFORM_MEMORY_LEFT_H_
#define WEFT_EXECUTOR_PLATFORM_MEMORY_LEFT_H_

#include <cstdint>
#include <string>

namespace weft::exec {

// Bytes: the least of MemAvailable of /proc/meminfo and what the control groups of this process, and those that they
// are in, leave of their limits (version 2: memory.max - memory.current, version 1: memory.limit_in_bytes -
// memory.usage_in_bytes; pages of files that nobody uses are given back first and count as left). Others take of the
// same memory at any time. What is not there or does not read as the kernel writes it is no limit; the largest int64_t
// where nothing is known. `root` stands before /proc and /sys/fs/cgroup.
// Source: Documentation/filesystems/proc.rst, admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
int64_t MemoryLeft(const std::string& root = "");

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_MEMORY_LEFT_H_
