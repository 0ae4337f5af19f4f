"""Finds the CUDA toolkit, or makes a stand-in that says there is none."""

_BUILD = """
package(default_visibility = ["//visibility:public"])
constraint_setting(name = "toolkit")
# In no platform: what asks for it is skipped by //... where there is no CUDA.
constraint_value(name = "required", constraint_setting = ":toolkit")
cc_library(
    name = "headers",
    hdrs = {hdrs},
    includes = {includes},
)
cc_library(
    name = "cudart_static",
    linkopts = {cudart},
    target_compatible_with = {compat},
    deps = [":headers"],
)
[cc_library(
    name = lib,
    linkopts = ["-L{home}/lib64", "-Wl,-rpath,{home}/lib64", "-l" + lib],
    target_compatible_with = {compat},
    deps = [":headers"],
) for lib in ["cublasLt", "cudnn", "nccl"]]
"""

def _impl(ctx):
    home = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    want = ctx.os.environ.get("WEFT_CUDA", "auto")
    have = want != "off" and ctx.path(home + "/bin/nvcc").exists and ctx.path(home + "/include/cuda_runtime.h").exists
    if want == "on" and not have:
        fail("WEFT_CUDA=on, but there is no CUDA toolkit in " + home)
    if have:
        ctx.symlink(home + "/include", "include")
    ctx.file("BUILD", _BUILD.format(
        home = home,
        hdrs = '["include"]' if have else "[]",
        includes = '["include"]' if have else "[]",
        compat = "[]" if have else '[":required"]',
        cudart = repr(["-L%s/lib64" % home, "-l:libcudart_static.a", "-ldl", "-lrt", "-lpthread"]) if have else "[]",
    ))
    ctx.file("defs.bzl", """
HAVE_CUDA = {have}
CUDA_HOME = {home}
def if_cuda(yes, no = []):
    return yes if HAVE_CUDA else no
""".format(have = have, home = repr(home)))

cuda_configure = repository_rule(implementation = _impl, environ = ["CUDA_HOME", "WEFT_CUDA"], local = True)
