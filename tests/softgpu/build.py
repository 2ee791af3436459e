"""Makes the software GPU: an environment with CuPy, and the libraries that CuPy takes for CUDA's.

    python -m tests.softgpu.build

takes everything from the package index, needs g++, and keeps what it made in a cache folder:
`$SOFTGPU_CACHE`, or `gpushard-softgpu` in `$XDG_CACHE_HOME` or `~/.cache`. It is of CUDA 12, or of
the version that `$SOFTGPU_CUDA` names. There are three parts, each under a name that tells what it
was made from, so that what changed is made anew:

- `env-*`: a virtual environment with the released CuPy, of which two modules are compiled anew from
  CuPy's own sources, as the wheel has CUDA's runtime and Thrust's kernels linked into them;
- `build-*`: the driver, the run-time compiler and the libraries, from `src`;
- `kernels-*`: CuPy's cache of compiled kernels, filled by whatever runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "src"

CACHE = "SOFTGPU_CACHE"
"""The variable that names the folder to keep everything in."""

CUPY = "14.2.0"
COMMON = (
    "scipy-openblas32==0.3.34.481.3",
    "cython==3.2.4",
    "setuptools>=77,<81",  # which reads the source distribution's metadata
)

CUDA = "SOFTGPU_CUDA"
"""The variable that says which CUDA the software GPU is: one of `TOOLKITS`."""


@dataclasses.dataclass(frozen=True)
class Toolkit:
    """A version of CUDA."""

    version: tuple[int, int]
    wheels: tuple[str, ...]
    """CuPy, and the packages that have CUDA's headers."""
    headers: tuple[str, ...]
    """The folders of these in `nvidia`."""
    numbers: tuple[int, int, int]
    """What the names of cuBLAS, cuFFT and cuSOLVER end with."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """All packages, beside those that gpushard needs."""
        return (*self.wheels, *COMMON)


TOOLKITS = {
    "12": Toolkit(
        (12, 9),
        (
            f"cupy-cuda12x=={CUPY}",
            "nvidia-cuda-runtime-cu12==12.9.79",
            "nvidia-cuda-nvcc-cu12==12.9.86",  # for the headers that those of the runtime include
            "nvidia-cuda-profiler-api-cu12==12.9.79",
        ),
        ("cuda_runtime", "cuda_nvcc", "cuda_profiler_api"),
        (12, 11, 11),
    ),
    "13": Toolkit(
        (13, 0),
        (
            f"cupy-cuda13x=={CUPY}",
            "nvidia-cuda-runtime==13.0.96",
            "nvidia-cuda-crt==13.0.88",
            "nvidia-cuda-profiler-api==13.0.85",
        ),
        ("cu13",),
        (13, 12, 12),
    ),
}

EXTRAS = ("test", "bench")
"""Those of gpushard whose packages the tests need."""

CYTHON = """
import sys
from Cython.Build import cythonize
from setuptools import Extension
cythonize(
    [Extension(name, [name.replace(".", "/") + ".pyx"], language="c++") for name in sys.argv[1:]],
    language_level=3,
    compiler_directives={
        "embedsignature": True,
        "c_api_binop_methods": True,
        "binding": False,
        "warn.deprecated.IF": False,
        "freethreading_compatible": True,
    },
    compile_time_env={
        "CUPY_USE_CUDA_PYTHON": False,
        "CUPY_CUFFT_STATIC": False,
        "CUPY_CYTHON_VERSION": "3.2.4",
        "CUPY_CUDA_VERSION": VERSION,
        "CUPY_HIP_VERSION": 0,
    },
)
"""
"""The settings of CuPy's own build, for VERSION of CUDA."""

DRIVER_FLAGS = "-std=c++17 -O1 -g1 -fPIC -fvisibility=hidden -Wall -Wextra -pthread"
DEVICE_FLAGS = (
    "-O1 -fPIC -w -pedantic-errors -fvisibility=hidden -ffp-contract=off "
    "-fno-strict-aliasing -fwrapv "
    "-fno-exceptions -fno-asynchronous-unwind-tables -fmax-errors=5"
)
"""For device code. Contracted sums and products would round otherwise than NumPy's."""

DEVICE_STANDARD = "-std=c++17"
"""What kernels ask for, and so what the precompiled headers are made with."""

_USUAL = ("complex.cuh", "carray.cuh")
_OF_CUPY = (*_USUAL, "atomics.cuh", "math_constants.h")
PRECOMPILED = (
    (),
    _USUAL,
    (*_USUAL, "math_constants.h"),
    (*_USUAL, "float16.cuh"),
    _OF_CUPY,
    (*_OF_CUPY, "float16.cuh"),
)
"""Sets of CuPy's headers that kernels include: each is precompiled behind what the fake declares.

The run-time compiler takes the largest set that a source includes anyway, so no source sees a
header that it does not include.
"""

HOST_FLAGS = "-std=c++17 -O1 -fPIC -w -DCYTHON_EXTERN_C='extern \"C\"'"
"""For what CuPy's sources become."""


@dataclasses.dataclass(frozen=True)
class Library:
    """One that CuPy's modules find by its name, whose symbols have that name as their version."""

    soname: str
    module: str = ""
    """The module of CuPy that needs it; what that imports and nobody wrote is a stub."""
    sources: tuple[str, ...] = ()
    refusal: int = 0
    """What a stub returns: that something is not supported."""
    folder: str = "lib"
    """Where it goes: what not every machine has can be left out."""


def libraries(toolkit: Toolkit) -> tuple[Library, ...]:
    """Return the libraries of a version of CUDA."""
    cuda, (blas, fft, solver) = toolkit.version[0], toolkit.numbers
    libs = "cupy_backends/cuda/libs"
    return (
        Library(f"libcublas.so.{blas}", f"{libs}/cublas", ("libraries/blas.cpp",), 15),
        Library(f"libcufft.so.{fft}", "cupy/cuda/cufft", ("libraries/fft.cpp",), 16),
        Library(f"libcusolver.so.{solver}", f"{libs}/cusolver", ("libraries/solver.cpp",), 9),
        Library("libcusparse.so.12", f"{libs}/cusparse", (), 10),
        Library("libcurand.so.10", f"{libs}/curand", (), 201),
        Library("libnccl.so.2", f"{libs}/nccl", ("libraries/nccl.cpp",), 3, "nccl"),
        Library(f"libcublasLt.so.{blas}"),
        Library(f"libnvJitLink.so.{cuda}"),
    )


RUNTIME = "cupy_backends/cuda/api/runtime"
THRUST = "cupy/cuda/thrust"
NOT_SUPPORTED = 801


@dataclasses.dataclass(frozen=True)
class SoftGpu:
    """Where everything is."""

    toolkit: Toolkit
    environment: Path
    build: Path
    kernels: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.environment / "bin" / "python"

    @property
    def site(self) -> Path:
        """Where the interpreter's packages are."""
        return next((self.environment / "lib").glob("python*/site-packages"))


def cache() -> Path:
    """Return the folder that everything is kept in."""
    own = os.environ.get(CACHE)
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpushard-softgpu"


def find(cuda: str | None = None) -> SoftGpu:
    """Return where everything belongs, whether it is there or not.

    Args:
      cuda: which CUDA it is; as the variable says, or 12, if it is None.

    Raises:
      SystemExit: there is no such version.
    """
    name = cuda or os.environ.get(CUDA) or "12"
    if name not in TOOLKITS:
        sys.exit(f"there is no software GPU of CUDA {name}; try one of {', '.join(TOOLKITS)}")
    toolkit = TOOLKITS[name]
    packages, pyx = _packages(toolkit), _cython(toolkit)
    environment = _digest(_version(), pyx, HOST_FLAGS, *packages, _text("cupy"))
    names = (str(toolkit), str(libraries(toolkit)), str(PRECOMPILED))
    build = _digest(environment, _compiler(), DRIVER_FLAGS, DEVICE_FLAGS, *names, _text(""))
    device = (DEVICE_FLAGS, str(PRECOMPILED), _text("device"), _text("nvrtc"))
    kernels = _digest(environment, _compiler(), *device)
    folder = cache()
    return SoftGpu(
        toolkit,
        folder / f"env-{environment}",
        folder / f"build-{build}",
        folder / f"kernels-{kernels}",
    )


def make(cuda: str | None = None) -> SoftGpu:
    """Make what is not there yet."""
    made = find(cuda)
    if _is_complete(made.environment) and _is_complete(made.build):
        return made
    with alone(cache()):
        if not _is_complete(made.environment):
            _make_environment(made)
        if not _is_complete(made.build):
            _make_build(made)
    made.kernels.mkdir(exist_ok=True)
    return made


def _is_complete(folder: Path) -> bool:
    return (folder / "complete").exists()


@contextlib.contextmanager
def new(folder: Path) -> Iterator[None]:
    """Fill a folder anew, and mark it when all went well."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    yield
    (folder / "complete").touch()
    print(f"made {folder} in {time.monotonic() - started:.0f} s", flush=True)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let other processes that build here wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _text(folder: str) -> str:
    files = sorted(path for path in (SOURCES / folder).rglob("*") if path.is_file())
    return "\0".join(f"{path.relative_to(SOURCES)}\0{path.read_text()}" for path in files)


def _version() -> str:
    return f"{sys.base_prefix} {sys.version}"


@functools.cache
def _compiler() -> str:
    return _output("g++", "--version")


def _cython(toolkit: Toolkit) -> str:
    major, minor = toolkit.version
    return CYTHON.replace("VERSION,", f"{1000 * major + 10 * minor},")


def _packages(toolkit: Toolkit) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = [package for extra in EXTRAS for package in project["optional-dependencies"][extra]]
    return [*toolkit.requirements, *project["dependencies"], *ours]


def _run(*command: str | Path, folder: Path | None = None, **environment: str) -> None:
    """Run a command; what it says is shown if it fails.

    Raises:
      SystemExit: it failed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{shlex.join(words)} failed with status {done.returncode}")


def _output(*command: str | Path) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _make_environment(made: SoftGpu) -> None:
    print(f"making {made.environment}: CuPy {CUPY}, and what tests need", flush=True)
    with new(made.environment):
        _run(sys.executable, "-m", "venv", made.environment)
        pip = (made.python, "-m", "pip", "--disable-pip-version-check", "-q")
        _run(*pip, "install", *_packages(made.toolkit))
        sources = made.environment / "cupy"
        _run(
            *pip,
            *("download", "--no-deps", "--no-build-isolation", "--no-binary", "cupy"),
            *("-d", sources, f"cupy=={CUPY}"),
            CUPY_INSTALL_USE_STUB="1",  # its metadata can be had without CUDA
        )
        with tarfile.open(sources / f"cupy-{CUPY}.tar.gz") as archive:
            archive.extractall(sources, filter="data")
        _replace_modules(made, sources / f"cupy-{CUPY}")
        shutil.rmtree(sources)


def _replace_modules(made: SoftGpu, sources: Path) -> None:
    """Compile CuPy's modules for the runtime and for sorts against shared libraries."""
    names = [module.replace("/", ".") for module in (RUNTIME, THRUST)]
    _run(made.python, "-c", _cython(made.toolkit), *names, folder=sources)
    driver = sources / "libcuda.so.1"  # names what will be found when the modules are loaded
    _run("g++", "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{driver.name}", "-o", driver)
    paths = [
        Path(sysconfig.get_path("include")),
        sources / "cupy/cuda",
        sources / "cupy_backends",
        *_cuda_includes(made),
        *_cccl(made),
    ]
    own = {RUNTIME: (), THRUST: (SOURCES / "cupy/thrust.cpp",)}
    for module, more in own.items():
        target = _module(made, module)
        _run(
            *("g++", *shlex.split(HOST_FLAGS), "-shared", *_including(paths)),
            *(sources / f"{module}.cpp", *more, "-Wl,--no-as-needed", driver, "-o", target),
        )


def _module(made: SoftGpu, name: str) -> Path:
    """The compiled module of CuPy."""
    return next(made.site.glob(f"{name}.*.so"))


def _cuda_includes(made: SoftGpu) -> list[Path]:
    return [made.site / "nvidia" / name / "include" for name in made.toolkit.headers]


def _cccl(made: SoftGpu) -> list[Path]:
    """The folders of headers that CuPy's kernels are compiled with."""
    own = made.site / "cupy/_core/include"
    return [*(own / "cupy/_cccl" / name for name in ("cub", "thrust", "libcudacxx")), own]


def _including(folders: Iterable[Path]) -> list[str]:
    return [f"-I{folder}" for folder in folders]


def _make_build(made: SoftGpu) -> None:
    print(f"making {made.build}: the driver, the compiler and the libraries", flush=True)
    with new(made.build):
        for name in ("lib", "nccl", "include", "objects"):
            (made.build / name).mkdir()
        for folder in _cuda_includes(made):  # NVRTC's folder looks like that of a CUDA toolkit
            for path in folder.iterdir():
                (made.build / "include" / path.name).symlink_to(path)
        runtime = _stubs(made, "cuda", [_module(made, RUNTIME)], NOT_SUPPORTED)
        driver = [_object(made, path) for path in sorted((SOURCES / "driver").glob("*.cpp"))]
        _link(made, "libcuda.so.1", [*driver, runtime], "-pthread", "-ldl")
        _link(
            made,
            f"libnvrtc.so.{made.toolkit.version[0]}",
            [_object(made, SOURCES / "nvrtc/compiler.cpp")],
        )
        for library in libraries(made.toolkit):
            _make_library(made, library)
        _precompile(made)
        shutil.rmtree(made.build / "objects")


def _object(made: SoftGpu, source: Path) -> Path:
    target = made.build / "objects" / f"{source.parent.name}-{source.stem}.o"
    include = _including(_cuda_includes(made))
    major, minor = made.toolkit.version
    flags = [
        f'-DSOFTGPU_DEVICE_FLAGS="{DEVICE_FLAGS}"',  # for the run-time compiler
        f"-DSOFTGPU_CUDA_MAJOR={major}",
        f"-DSOFTGPU_CUDA_MINOR={minor}",
    ]
    _run("g++", *DRIVER_FLAGS.split(), *flags, *include, "-c", source, "-o", target)
    return target


def _stubs(made: SoftGpu, prefix: str, modules: Sequence[Path], refusal: int) -> Path:
    """Compile a function for each that modules import, which says that it is not there.

    They are weak: what was written is taken instead.
    """
    words = [line.split()[-1] for m in modules for line in _output("nm", "-Du", m).splitlines()]
    names = sorted({word.partition("@")[0] for word in words if word.startswith(prefix)})
    source = made.build / "objects" / f"stubs-{prefix}.c"
    lines = [
        f'__attribute__((weak)) int {name}(void) {{ return refuse("{name}"); }}' for name in names
    ]
    refuse = f"""
#include <stdio.h>
static int refuse(const char* name) {{
  fprintf(stderr, "softgpu: %s is not there\\n", name);
  return {refusal};
}}
"""
    source.write_text(refuse + "\n".join(lines))
    target = source.with_suffix(".o")
    _run("gcc", "-c", "-fPIC", "-w", source, "-o", target)
    return target


def _link(
    made: SoftGpu, name: str, objects: Sequence[Path], *options: str | Path, folder: str = "lib"
) -> None:
    target = made.build / folder / name
    _run("g++", "-shared", f"-Wl,-soname,{name}", "-o", target, *objects, *options)


def _make_library(made: SoftGpu, library: Library) -> None:
    objects = [_object(made, SOURCES / source) for source in library.sources]
    if library.module:
        prefix = library.soname.removeprefix("lib").partition(".")[0]
        module = _module(made, library.module)
        objects.append(_stubs(made, prefix, [module], library.refusal))
    script = made.build / "objects" / f"{library.soname}.map"
    script.write_text(f"{library.soname} {{ global: *; }};\n")
    lapack = made.site / "scipy_openblas32" / "lib"
    _link(
        *(made, library.soname, objects, f"-Wl,--version-script={script}"),
        *(made.build / "lib" / "libcuda.so.1", "-Wl,--as-needed", f"-L{lapack}"),
        *("-lscipy_openblas", f"-Wl,-rpath,{lapack}"),
        folder=library.folder,
    )


def _precompile(made: SoftGpu) -> None:
    """Put the device headers where the compiler takes them from, and precompile them."""
    folder = made.build / "device"
    shutil.copytree(SOURCES / "device", folder)
    major, minor = made.toolkit.version
    for headers in PRECOMPILED:
        header = folder / (
            "+".join(["precompiled", *headers]) + ".h"
        )  # the compiler reads the name
        lines = [f"#define __CUDACC_VER_MAJOR__ {major}", f"#define __CUDACC_VER_MINOR__ {minor}"]
        lines += ['#include "softcuda.h"', *(f"#include <cupy/{name}>" for name in headers)]
        header.write_text("\n".join([*lines, ""]), encoding="utf-8")
        _run(
            *("g++", "-x", "c++-header", *DEVICE_FLAGS.split(), DEVICE_STANDARD),
            *(f"-isystem{path}" for path in (folder, *_cccl(made), made.build / "include")),
            *(header, "-o", f"{header}.gch"),
        )


if __name__ == "__main__":
    print(make())
