#!/bin/bash
# Checks the resources that ptxas reports for each kernel of sm_90a (the output group `resources` of :kernels). No
# kernel uses shared memory that its launch does not request. Only the kernels listed here keep per-thread data in
# memory.
set -euo pipefail

# Part of the mangled name, and the maximum bytes of a thread's stack. Argument reductions for the sines of large angles
# keep tables there; the other kernels have spills, which docs/gpu-kernels.md lists.
allowed='
FillTable 40
Embed 40
KeyGradientILNS1_4TypeE3ELi128E 32
KeyGradientILNS1_4TypeE4ELi128E 32
BackwardIfLNS1_4TypeE3ELi4E 16
BackwardIfLNS1_4TypeE4ELi4E 16
BackwardIfLNS1_4TypeE2ELi2ELb1E 8
ForwardIfLNS1_4TypeE4ELi4ELb1E 8
BackwardPartialId 8
BackwardWithSumsIf 88
StagedBackwardWithSumsI 8
'
awk -v allowed="$allowed" '
  BEGIN {
    count = split(allowed, words, /[ \n]+/)
    for (i = 1; i + 1 <= count; ++i) if (words[i] != "") { most[words[i]] = words[i + 1]; ++i }
  }
  /Compiling entry function/ { name = $0; sub(/.*function .,?/, "", name); sub(/. for .*/, "", name); mine = /sm_90a/ }
  mine && /bytes stack frame/ {
    stack = $0; sub(/ bytes stack frame.*/, "", stack); sub(/.* /, "", stack)
    limit = 0
    for (part in most) if (index(name, part) && most[part] > limit) limit = most[part]
    if (stack + 0 > limit + 0) { print name ": " stack " bytes of stack, of " limit; bad = 1 }
  }
  mine && /bytes smem/ { print name ": static shared memory:" $0; bad = 1 }
  mine && /Used [0-9]+ registers/ { ++kernels }
  END {
    print kernels + 0 " kernels of sm_90a"
    # No kernels: the library was compiled for other architectures only.
    if (bad || (kernels > 0 && kernels < 300)) exit 1
  }' "$@"
