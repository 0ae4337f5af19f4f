"""cuda_library: .cu files compiled by nvcc into an archive that C++ rules can depend on.

`--define=cuda_archs=sm_90a` (a list with commas) compiles for fewer architectures, for quick builds.

In the sources of `fused` a product and a sum may become one instruction with one rounding. Which products do is the
compiler's choice, and may be another one in another place of the same kernel; elsewhere every operation is rounded, as
C++ says and as the host's emulation does it.

Output group `resources`: what ptxas says that each kernel takes, a file for each source.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:defs.bzl", "CUDA_HOME", "HAVE_CUDA")

# Ampere, Hopper and Blackwell, and for later devices intermediate code of the last one, which the driver compiles.
_ARCHS = {
    "sm_80": "-gencode=arch=compute_80,code=sm_80",
    "sm_90a": "-gencode=arch=compute_90a,code=sm_90a",
    "sm_100": "-gencode=arch=compute_100,code=[sm_100,compute_100]",
}

def _arch_flags(ctx):
    wanted = ctx.var.get("cuda_archs", "")
    names = wanted.split(",") if wanted else _ARCHS.keys()
    for name in names:
        if name not in _ARCHS:
            fail("--define=cuda_archs: '%s' is none of %s" % (name, ", ".join(_ARCHS.keys())))
    return [_ARCHS[name] for name in names]

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    own = cc_common.create_compilation_context(headers = depset(ctx.files.hdrs))
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    context = deps.compilation_context
    objects = []
    logs = []
    for src in ctx.files.srcs:
        out = ctx.actions.declare_file("_cuda/%s/%s.o" % (ctx.label.name, src.basename))
        log = ctx.actions.declare_file("_cuda/%s/%s.resources.txt" % (ctx.label.name, src.basename))
        args = ctx.actions.args()
        args.add_all(["-c", "-std=c++20", "-Werror", "all-warnings", "-Xcompiler=-fPIC,-Wall"])
        args.add_all(["-ccbin=" + toolchain.compiler_executable, "-diag-suppress=20012"])
        # nvcc names temporary files by process number. Sandboxes have small numbers, so two builds would collide in
        # /tmp.
        args.add("--objdir-as-tempdir")
        args.add_all(["-O0", "-lineinfo"] if ctx.var["COMPILATION_MODE"] == "dbg" else ["-O3"])
        args.add_all(_arch_flags(ctx) + ctx.attr.copts)
        if src.basename not in ctx.attr.fused:
            args.add("-fmad=false")
        args.add("-Xptxas=-v")
        args.add_all(context.defines, before_each = "-D")
        args.add("-I.")
        args.add_all(context.quote_includes, before_each = "-I")
        args.add_all(context.includes, before_each = "-I")
        args.add_all(context.system_includes, before_each = "-isystem")
        args.add(src)
        args.add("-o", out)
        ctx.actions.run_shell(
            command = 'log="$1"; shift; "$@" > "$log" 2>&1 || { cat "$log" >&2; exit 1; }',
            arguments = [log.path, CUDA_HOME + "/bin/nvcc", args],
            inputs = depset([src] + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [out, log],
            env = {"PATH": "/usr/bin:/bin"},
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % src.short_path,
        )
        objects.append(out)
        logs.append(log)
    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    args = ctx.actions.args()
    args.add("rcsD", archive)
    args.add_all(objects)
    ctx.actions.run(
        executable = toolchain.ar_executable,
        arguments = [args],
        inputs = objects,
        outputs = [archive],
        mnemonic = "CudaArchive",
    )
    library = cc_common.create_library_to_link(
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = toolchain,
        pic_static_library = archive,
        alwayslink = True,
    )
    linking = cc_common.create_linking_context(
        linker_inputs = depset([cc_common.create_linker_input(owner = ctx.label, libraries = depset([library]))]),
    )
    return [
        DefaultInfo(files = depset([archive])),
        OutputGroupInfo(resources = depset(logs)),
        cc_common.merge_cc_infos(cc_infos = [CcInfo(compilation_context = own, linking_context = linking), deps]),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "fused": attr.string_list(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)

def cuda_library(name, deps = [], **kwargs):
    """Skipped by //... where there is no CUDA toolkit."""
    _cuda_library(
        name = name,
        deps = deps + ["@cuda//:cudart_static"],
        target_compatible_with = [] if HAVE_CUDA else ["@cuda//:required"],
        **kwargs
    )
