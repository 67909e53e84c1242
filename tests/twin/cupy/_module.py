"""RawModule of the stand-in: CUDA C++ compiled by the machine's C++ compiler against `cuda_on_cpu.hpp`."""

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from cupy._array import ndarray

HEADER = Path(__file__).resolve().parents[1] / "cuda_on_cpu.hpp"
CACHE = Path(tempfile.gettempdir()) / f"daskglm-twin-{os.getuid()}"
SIGNATURE = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^)]*)\)', re.S
)
SCALARS = {
    "int": np.int32,
    "long long": np.int64,
    "double": np.float64,
    "float": np.float32,
    "unsigned": np.uint32,
}
ONE_LAUNCH = threading.Lock()  # a launch's grid is in variables of its library


class RawModule:
    """Compiles on first use, as CuPy does."""

    def __init__(
        self, code=None, *, path=None, options=(), backend="nvrtc", name_expressions=None, **kwargs
    ):
        self.code, self.options = code, tuple(options)
        self.macros = dict(option[2:].split("=") for option in options if option.startswith("-D"))

    def get_function(self, name):
        library, signatures = _compile(
            self.code, tuple(o for o in self.options if o.startswith("-D"))
        )
        return RawKernel(getattr(library, f"twin_{name}"), name, signatures[name], self.macros)


@functools.cache
def _compile(code, options):
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    signatures = {
        name: [_type(p) for p in params.split(",")] for name, params in SIGNATURE.findall(code)
    }
    calls = "\n".join(_entry(name, types) for name, types in signatures.items())
    text = f'#include "{HEADER}"\n{code}\n{calls}\n'
    name = hashlib.sha256(repr((text, HEADER.read_text(), options)).encode()).hexdigest()[:20]
    library = CACHE / f"{name}.so"
    if not library.exists():
        CACHE.mkdir(exist_ok=True)
        source, made = CACHE / f"{name}-{os.getpid()}.cpp", CACHE / f"{name}-{os.getpid()}.so"
        source.write_text(text)
        flags = [
            "-std=c++20",
            "-O1",
            "-w",
            "-shared",
            "-fPIC",
            "-pthread",
            "-U_FORTIFY_SOURCE",
            "-Wno-attributes",
        ]
        subprocess.run([compiler, *flags, *options, "-o", str(made), str(source)], check=True)
        made.rename(library)
    return ctypes.CDLL(str(library)), signatures


def _type(parameter):
    words = re.sub(r"\b(const|__restrict__|volatile)\b", "", parameter).replace("*", " * ").split()
    return " ".join(words[:-1])


def _entry(name, types):
    args = ", ".join(f"*({t}*)args[{i}]" for i, t in enumerate(types))
    return (
        f'extern "C" int twin_{name}(const unsigned* grid, const unsigned* block, size_t shared, void** args) '
        f"{{ return twin::launch(grid, block, shared, [=]{{ {name}({args}); }}); }}"
    )


class RawKernel:
    """Launches on the current stream, after checking the arguments against the kernel's signature."""

    num_regs = 0
    known = weakref.WeakValueDictionary()  # by what stands for their addresses

    def __init__(self, function, name, types, macros):
        self.kernel = SimpleNamespace(ptr=id(self))
        RawKernel.known[id(self)] = self
        self.function, self.name, self.types = function, name, [_expand(t, macros) for t in types]
        self.max_dynamic_shared_size_bytes = 49152

    def __call__(self, grid, block, args, *, shared_mem=0):
        from cupy import cuda

        if len(args) != len(self.types):
            raise TypeError(f"{self.name} takes {len(self.types)} arguments, not {len(args)}")
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise RuntimeError(f"{self.name}: too much shared memory ({shared_mem})")
        grid, block = ((*map(int, dims), 1, 1)[:3] for dims in (grid, block))
        if min(grid) < 1:
            raise RuntimeError("CUDA_ERROR_INVALID_VALUE: an empty grid")
        values, arrays = zip(
            *(_argument(self.name, t, a) for t, a in zip(self.types, args, strict=True)),
            strict=True,
        )

        def work():
            pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
            three = ctypes.c_uint * 3
            with ONE_LAUNCH:
                beyond = self.function(
                    three(*grid), three(*block), ctypes.c_size_t(shared_mem), pointers
                )
            if beyond:
                raise AssertionError(
                    f"{self.name} wrote past its {shared_mem} bytes of shared memory"
                )
            for array in arrays:
                if array is not None:
                    array.check()

        cuda.get_current_stream().enqueue(work)


def _expand(name, macros):
    return " ".join(macros.get(word, word) for word in name.split())


def _argument(kernel, wanted, given):
    """The argument as a ctypes object, and the array that must be kept and checked."""
    if wanted.endswith("*"):
        base = wanted[:-1].strip()
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and int(given) == 0:
            return ctypes.c_void_p(0), None
        if not isinstance(given, ndarray):
            raise TypeError(f"{kernel}: {wanted} wants a device array, not {type(given).__name__}")
        expected = {"signed char": np.int8, "unsigned char": np.uint8}.get(base, SCALARS.get(base))
        if given.dtype != expected:
            raise TypeError(f"{kernel}: {wanted} was given {given.dtype}")
        if not given._a.flags.c_contiguous:
            raise TypeError(f"{kernel}: an array that is not contiguous")
        # as in CuPy, an array of no elements has no memory: a kernel that reads it ends the process
        return ctypes.c_void_p(given._a.ctypes.data if given.size else 0), given
    expected = SCALARS[wanted]
    if type(given) is not expected:
        raise TypeError(f"{kernel}: {wanted} was given {type(given).__name__}")
    return np.ctypeslib.as_ctypes_type(expected)(given.item()), None
