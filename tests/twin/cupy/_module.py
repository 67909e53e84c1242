"""RawModule of the stand-in: CUDA C++ compiled by the machine's C++ compiler against `cuda_on_cpu.hpp`.

Libraries are named after what they are made of, and stay in the user's cache: the next clone finds
them. A GPU's compiler gets each loss as a constant (MODE). Here all losses are in one library, which
takes the loss as a variable: the sources compile once for all of them, not twenty times.
"""

import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from cupy._array import ndarray

HEADER = Path(__file__).resolve().parents[1] / "cuda_on_cpu.hpp"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "daskglm-stand-in"
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
FLAGS = "-std=c++20 -O1 -w -fPIC -pthread -U_FORTIFY_SOURCE -Wno-attributes".split()
if platform.machine() == "x86_64":
    # variables that every thread has are not looked up by a call
    FLAGS.append("-mtls-dialect=gnu2")
SIGNATURE = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^)]*)\)', re.S
)
FIRST_FAMILY = 20  # as in common.cu
SCALARS = {
    "int": np.int32,
    "long long": np.int64,
    "double": np.float64,
    "float": np.float32,
    "unsigned": np.uint32,
}
OTHERS = {"signed char": np.int8, "unsigned char": np.uint8, "unsigned short": np.uint16}
ONE_LAUNCH = threading.Lock()  # a launch's grid is in variables of its library


class RawModule:
    """Compiles on first use, as CuPy does."""

    def __init__(
        self, code=None, *, path=None, options=(), backend="nvrtc", name_expressions=None, **kwargs
    ):
        self.code, self.options = code, tuple(options)
        self.macros = dict(option[2:].split("=") for option in options if option.startswith("-D"))

    def get_function(self, name):
        options = [option for option in self.options if option.startswith("-D")]
        mode = int(self.macros.get("MODE", -1))
        if mode >= 0:  # a loss: any one of its kind stands for them all
            options.remove(f"-DMODE={mode}")
            options.append(f"-DMODE={FIRST_FAMILY if mode >= FIRST_FAMILY else 0}")
        library, signatures = _compile(self.code, tuple(options), mode >= 0)
        function = getattr(library, f"twin_{name}")

        def launch(*args):
            if mode >= 0:
                ctypes.c_int.in_dll(library, "twin_mode").value = mode
            return function(*args)

        return RawKernel(launch, name, signatures[name], self.macros)


def _for_every_loss(code):
    """Return a source in which the loss is the variable `twin_mode`, but for what the preprocessor asks of MODE."""
    codes = re.findall(r"if constexpr \(CODE == (\w+)\)", code)
    cases = "\n".join(f"    case {name}: return family_at<{name}>(p1, p2, y, z);" for name in codes)
    code = "\n".join(
        line if line.startswith("#") else re.sub(r"\bMODE\b", "twin_mode", line)
        for line in code.replace("family_at<MODE>(", "any_family(").split("\n")
    )
    declared = "static LossTerms any_family(double p1, double p2, double y, double z);\n"
    code = code.replace("// The loss of twin_mode.", declared, 1)
    return f"""extern "C" {{ int twin_mode; }}
{code}
static LossTerms any_family(double p1, double p2, double y, double z) {{
  switch (twin_mode) {{
{cases}
    default: std::abort();
  }}
}}"""


@functools.cache
def _compile(code, options, every_loss):
    signatures = {
        name: [_type(p) for p in params.split(",")] for name, params in SIGNATURE.findall(code)
    }
    calls = "\n".join(_entry(name, types) for name, types in signatures.items())
    code = _for_every_loss(code) if every_loss else code
    # the digest of the header is a part of the text
    text = f'#include "{HEADER.name}" // {_digest(HEADER.read_text())}\n{code}\n{calls}\n'
    folder, name = _header(), _digest(text, *options)
    options = ["-shared", f"-I{folder}", *options]
    library = _made_once(CACHE / f"{name}.so", text, f"{name}.cpp", options)
    return ctypes.CDLL(str(library)), signatures


@functools.cache
def _header():
    """Return the folder of the header, compiled beforehand: half of the time of most libraries."""
    text = HEADER.read_text()
    folder = CACHE / f"header-{_digest(text)}"
    _made_once(folder / f"{HEADER.name}.gch", text, HEADER.name, ["-x", "c++-header"])
    return folder


def _digest(*parts):
    return hashlib.sha256(repr((parts, FLAGS, COMPILER)).encode()).hexdigest()[:20]


def _made_once(made, text, source, options):
    """Compile a text unless that is done; other processes that need the same wait."""
    made.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{made}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            source, done = made.with_name(source), f"{made}.part"
            source.write_text(text)
            command = [COMPILER, *FLAGS, *options, str(source), "-o", done]
            subprocess.run(command, check=True)
            os.replace(done, made)
    return made


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
        expected = OTHERS.get(base, SCALARS.get(base))
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
