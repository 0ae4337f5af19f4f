"""Finds the CUDA toolkit and the headers of its libraries, or makes a stand-in that says there are none.

The toolkit is $CUDA_HOME (default /usr/local/cuda). Headers of cuBLASLt, cuDNN and NCCL may lie there, in the system's
own include folders, or in a folder of Python packages (nvidia/*/include): $WEFT_CUDA_LIBRARIES, an active virtual or
conda environment, or ~/.cache/weft_cuda, where tools/setup puts them. Nothing links to these libraries: they are opened
at run time, so only tests need to know where they are (CUDA_LIBRARY_PATH).
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])
constraint_setting(name = "toolkit")
# No platform has this value, so //... skips targets that need it if there is no CUDA.
constraint_value(name = "required", constraint_setting = ":toolkit")
cc_library(
    name = "headers",
    hdrs = {hdrs},
    includes = {hdrs},
    target_compatible_with = {compat},
)
cc_library(
    name = "cudart_static",
    linkopts = {cudart},
    target_compatible_with = {compat},
    deps = [":headers"],
)
"""

# Header whose presence shows that a library is installed: folder in which the repository offers the library's headers.
_LIBRARIES = {
    "cublasLt.h": "cublas_include",
    "cudnn.h": "cudnn_include",
    "nccl.h": "nccl_include",
}

def _site_packages(ctx):
    """Folders that may hold nvidia/*/include, in order of preference."""
    env = ctx.os.environ
    found = [env["WEFT_CUDA_LIBRARIES"]] if env.get("WEFT_CUDA_LIBRARIES") else []
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"]:
        lib = ctx.path(env.get(variable, "/nowhere") + "/lib")
        if lib.exists:
            found += [str(entry) + "/site-packages" for entry in lib.readdir() if entry.basename.startswith("python3")]
    if env.get("HOME"):
        found.append(env["HOME"] + "/.cache/weft_cuda")
    return found

def _header_folders(ctx, home):
    folders = [home + "/include"]
    for site in _site_packages(ctx):
        nvidia = ctx.path(site + "/nvidia")
        if nvidia.exists:
            folders += sorted([str(entry) + "/include" for entry in nvidia.readdir()])
    return folders + ["/usr/include", "/usr/include/x86_64-linux-gnu"]

def _impl(ctx):
    home = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    want = ctx.os.environ.get("WEFT_CUDA", "auto")
    missing = []
    if not (ctx.path(home + "/bin/nvcc").exists and ctx.path(home + "/include/cuda_runtime.h").exists):
        missing.append("nvcc and cuda_runtime.h in " + home)
    folders = _header_folders(ctx, home)
    found = {}
    for header in _LIBRARIES:
        holding = [folder for folder in folders if ctx.path(folder + "/" + header).exists]
        if holding:
            found[header] = holding[0]
        else:
            missing.append("%s in any of %s" % (header, ", ".join(folders)))
    if want == "on" and missing:
        fail("WEFT_CUDA=on, but there is no " + "; no ".join(missing))
    have = want != "off" and not missing
    shown = []
    libraries = []
    if have:
        ctx.symlink(home + "/include", "include")
        shown.append("include")
        libraries.append(home + "/lib64")
        for header, name in _LIBRARIES.items():
            folder = found[header]
            if folder.startswith("/usr/include") or folder == home + "/include":
                continue  # on the compiler's path already
            ctx.symlink(folder, name)
            shown.append(name)
            libraries.append(folder[:-len("include")] + "lib")
    ctx.file("BUILD", _BUILD.format(
        hdrs = repr(shown),
        compat = "[]" if have else '[":required"]',
        cudart = repr(["-L%s/lib64" % home, "-l:libcudart_static.a", "-ldl", "-lrt", "-lpthread"]) if have else "[]",
    ))
    ctx.file("defs.bzl", """
HAVE_CUDA = {have}
CUDA_HOME = {home}
# Where tests look for libcublasLt.so.13, libcudnn.so.9 and libnccl.so.2 if the loader does not find them, as with
# --lib-path.
CUDA_LIBRARY_PATH = {libraries}
def if_cuda(yes, no = []):
    return yes if HAVE_CUDA else no
""".format(have = have, home = repr(home), libraries = repr(":".join(libraries))))

cuda_configure = repository_rule(
    implementation = _impl,
    environ = ["CONDA_PREFIX", "CUDA_HOME", "HOME", "VIRTUAL_ENV", "WEFT_CUDA", "WEFT_CUDA_LIBRARIES"],
    local = True,
)
