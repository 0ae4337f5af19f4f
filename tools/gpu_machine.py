"""The machine that gpu-check runs on: its properties, its CUDA libraries, and the environment for its programs."""
import os
import pathlib
import resource
import shutil
import stat
import tempfile

from gpu_process import Failure, run, say


def machine():
    try:
        name = run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], 30)
    except Failure as error:
        name = f"nvidia-smi: {error}"
    return "; ".join(name.strip().splitlines())


def facts():
    """Returns properties of the machine that may explain a failure."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    try:
        free = run(["nvidia-smi", "--query-gpu=memory.free,clocks.max.sm,persistence_mode,mig.mode.current",
                    "--format=csv,noheader"], 30).strip()
    except Failure as error:
        free = str(error)[:200]
    return {"cores": len(os.sched_getaffinity(0)), "memory_bytes": pages * page,
            "glibc": os.confstr("CS_GNU_LIBC_VERSION"),
            "locked_memory_limit": "none" if locked == resource.RLIM_INFINITY else locked,
            "gpu_free_clock_persistence_mig": free, "python3": shutil.which("python3") or "",
            "cuda_home": os.environ.get("CUDA_HOME", ""), "virtual_env": os.environ.get("VIRTUAL_ENV", ""),
            "libraries": {name: str(path or "on the loader's path") for name, path in find_libraries().items()
                          if path is not None}}


def name_python():
    """Sets VIRTUAL_ENV so that weft-run finds the packages of the python3 on the path, also behind links."""
    if "VIRTUAL_ENV" not in os.environ and shutil.which("python3"):
        try:
            os.environ["VIRTUAL_ENV"] = run(["python3", "-c", "import sys; print(sys.prefix)"], 30).strip()
        except Failure as error:
            say(f"gpu-check: python3: {error}")


def name_cuda():
    """Sets CUDA_HOME to a toolkit in an unusual place: that of nvcc, or the newest below /usr/local or /opt."""
    if "CUDA_HOME" in os.environ or pathlib.Path("/usr/local/cuda/lib64").is_dir():
        return
    nvcc = shutil.which("nvcc")
    homes = [pathlib.Path(nvcc).resolve().parent.parent] if nvcc else []
    for root in ("/usr/local", "/opt", "/opt/nvidia"):
        homes += sorted(pathlib.Path(root).glob("cuda-13*"), reverse=True)
    home = next((home for home in homes if (home / "lib64").is_dir()), None)
    if home is not None:
        os.environ["CUDA_HOME"] = str(home)


def private_folder(name):
    """Returns a temporary folder that is the same one in the next call, and that no other user may write to."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"gpu-check-{name}-{os.getuid()}"
    # The folder may hold code that will run: do not use one that another user has made or may write to.
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"gpu-check-{name}-"))
    return folder


def name_caches():
    """Keeps compiled kernels from one check to the next, in a folder outside the results."""
    folder = private_folder("cache")
    for name in ("CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ.setdefault(name, str(folder / name.split("_", maxsplit=1)[0].lower()))


def library_folders():
    """Returns the folders that weft-run searches (docs/gpu.md), as far as a script can tell."""
    folders = [pathlib.Path(f) for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    folders.append(pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64")
    python = shutil.which("python3")
    roots = [pathlib.Path(os.environ[v]) for v in ("VIRTUAL_ENV", "CONDA_PREFIX") if v in os.environ]
    roots += [pathlib.Path(python).parent.parent, pathlib.Path("/usr/local")] if python else []
    if "HOME" in os.environ:
        home = pathlib.Path(os.environ["HOME"])
        roots.append(home / ".local")
        folders += (home / ".cache/weft_cuda").glob("nvidia/*/lib")
    for root in roots:
        for packages in ("site-packages", "dist-packages"):
            folders += root.glob(f"lib/python3*/{packages}/nvidia/*/lib")
    return folders


def find_libraries():
    """Returns for each library its file, "" if the loader knows it, or None if it is not found."""
    try:
        known = run(["ldconfig", "-p"], 30) if shutil.which("ldconfig") else ""
    except Failure as error:
        say(f"gpu-check: ldconfig: {error}")
        known = ""
    folders = library_folders()
    return {name: "" if name in known else next((folder / name for folder in folders if (folder / name).exists()), None)
            for name in ("libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13", "libnccl.so.2")}


def missing_libraries():
    return [name for name, path in find_libraries().items() if path is None]
