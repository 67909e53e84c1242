"""CUDA sources compile without warnings for the GPUs we name, CuPy has what is used of it, errors say what is missing."""

import ast
import ctypes
import importlib.util
import inspect
import itertools
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import daskglm
from daskglm.losses import base
from daskglm.losses.builtin import BUILTIN
from daskglm.losses.table import find
from tests.conftest import TWIN

CUDA = Path(daskglm.__file__).parent / "kernels" / "cuda"
REALS, INDICES = ("float", "double"), ("int", "long long")
TYPES = [
    (f"-DREAL={real}", f"-DVECTOR={vector}") for real, vector in itertools.product(REALS, REALS)
]
LOGISTIC, PRODUCT, FORWARD = (f"-DMODE={code}" for code in (0, -1, -2))
# codes of the families, of which the probit's tails take the most registers
FAMILIES, PROBIT, NEGATIVE_BINOMIAL = range(20, 41), "-DMODE=32", "-DMODE=30"
BINOMIAL_LOG, BINOMIAL_IDENTITY = "-DMODE=36", "-DMODE=37"
TWEEDIE_IDENTITY, TWEEDIE_POWER = "-DMODE=39", "-DMODE=40"
BINOMIAL = "-DMODE=31"
VARIANTS = {
    ("rows",): [(f"-DVECTOR={vector}", LOGISTIC) for vector in REALS],
    ("joint",): [(f"-DVECTOR={vector}",) for vector in REALS],
    ("ball",): [()],
    ("point",): [()],
    ("dense",): [
        *((*types, mode) for types in TYPES for mode in (LOGISTIC, PRODUCT, FORWARD)),
        *((*types, "-DSCALED=double") for types in TYPES),
    ],
    ("narrow",): [
        *((*types, LOGISTIC, f"-DGRAM={gram}") for types in TYPES for gram in (0, 1)),
        *((*types, PRODUCT, "-DGRAM=0") for types in TYPES),
    ],
    ("wide",): [
        (*types, mode, f"-DEACH={each}", f"-DDIAGONAL={diagonal}")
        for types in TYPES
        for mode, each, diagonal in [
            *(
                (LOGISTIC, *of)
                for of in [(4, 0), (4, 1), (8, 0), (16, 1), (32, 0), (32, 1), (64, 0)]
            ),
            *((PRODUCT, each, 0) for each in (4, 8, 16, 32, 64)),
        ]
        if not (
            each == 64 and types[0] == "-DREAL=double"
        )  # rows of doubles go up to 1024 features
    ],
    ("csr",): [
        (*types, f"-DINDEX={index}", *others)
        for types in TYPES
        for index in INDICES
        for others in [
            (LOGISTIC, "-DDIAGONAL=0"),
            (PRODUCT, "-DDIAGONAL=0"),
            (FORWARD, "-DDIAGONAL=1", "-DSCALED=double"),
        ]
    ],
    ("codes", "coded"): [
        (*types, "-DINDEX=int", *others)
        for types in TYPES
        for others in [
            (LOGISTIC, "-DLEVEL_CODE=unsigned short"),
            (PRODUCT, "-DLEVEL_CODE=unsigned"),
            (FORWARD, "-DDIAGONAL=1", "-DSCALED=double"),
        ]
    ],
    ("codes", "coded_gram"): [(*types, "-DINDEX=int") for types in TYPES],
    ("dual", "codes", "dual_coded"): [
        (*types, "-DINDEX=int", *others) for types in TYPES for others in [(), ("-DTHRESHOLDED=1",)]
    ],
    ("dual",): [
        (*types, f"-DINDEX={index}", *others)
        for types in TYPES
        for index in INDICES
        for others in [(), ("-DTHRESHOLDED=1",)]
    ],
}
EXACT = ("-DREAL=float", "-DVECTOR=double")  # float32 rows, of a regression
OF_FAMILIES = {
    ("rows",): [EXACT[1:]],
    ("csr",): [(*EXACT, "-DINDEX=int")],
    ("codes", "coded"): [(*EXACT, "-DINDEX=int")],
    ("narrow",): [(*EXACT, f"-DGRAM={gram}") for gram in (0, 1)],
    ("wide",): [(*EXACT, "-DEACH=4", "-DDIAGONAL=1"), (*EXACT, "-DEACH=64", "-DDIAGONAL=0")],
    ("dense",): [EXACT],
    ("dual",): [(*EXACT, "-DINDEX=int"), (*EXACT, "-DINDEX=int", "-DTHRESHOLDED=1")],
    ("dual", "codes", "dual_coded"): [(*EXACT, "-DINDEX=int")],
}
WITH_DUAL = [loss.code for loss in BUILTIN if loss.has_dual and loss.code >= base.POISSON]
LIKE_CUPY = ("--std=c++17", "-ftz=true")  # the second CuPy always adds
# Blocks of 256 threads for which the registers of a multiprocessor suffice, and bytes spilled, each where it is not
# FOUR or NO; by kernel and the options it depends on. More registers than that, or a spill in a loop, are a step back.
REGISTERS = 65536
FOUR, NO = 4, 0
BUDGET = {
    ("dense_narrow", "-DREAL=float", "-DGRAM=1"): (
        3,
        88,
    ),  # read back once a tile of 256 rows, in no loop over rows
    ("dense_narrow", "-DREAL=double", "-DGRAM=1"): (2, NO),
    ("dense_wide", NEGATIVE_BINOMIAL, "-DEACH=4"): (2, NO),
    ("dense_wide", "-DEACH=4"): (3, NO),
    ("dense_wide", "-DEACH=8"): (2, 8),
    ("dense_wide", "-DEACH=16"): (1, NO),
    ("dense_wide", "-DEACH=32"): (1, NO),
    ("dense_wide", "-DEACH=64"): (1, 8),
    ("csc_segments",): (6, NO),
    ("csc_columns",): (8, NO),
    ("csr_scatter",): (6, NO),
    ("csr_scaled",): (8, NO),
    ("csr_norms",): (6, NO),
    ("coded_scatter",): (6, NO),
    ("coded_scaled",): (5, 4),
    ("coded_norms",): (6, NO),
    ("coded_pairs",): (4, 8),
    ("coded_right",): (8, NO),
    ("coded_left",): (8, NO),
    ("coded_forward", PRODUCT): (5, NO),
    ("coded_forward", FORWARD): (5, NO),
    ("dual_sweep_coded",): (4, 4),
    ("dense_norms",): (8, NO),
    ("dense_scaled",): (8, NO),
    ("dense_backward",): (6, NO),
    ("along",): (2, NO),
    ("dual_sweep",): (4, 8),
    ("dual_estimates", BINOMIAL): (3, NO),
    ("dual_along",): (3, NO),  # 72 registers, where four blocks need 64 at most
    ("csr_forward", PRODUCT): (5, NO),
    ("csr_forward", FORWARD): (5, NO),
    ("dense_forward", PRODUCT): (6, NO),
    ("dense_forward", FORWARD): (8, NO),
}
# Bytes spilled by families, where more than `BUDGET` says. They are the compiler's counts; whether the spills lie
# in loops over rows is not known, as no disassembler was at hand, and what they cost has not run on a GPU.
SPILLED = {
    ("dual_estimates", NEGATIVE_BINOMIAL): 4,
    ("dual_sweep",): 8,
    ("dense_narrow", PROBIT, "-DGRAM=0"): 56,
    ("dense_narrow", PROBIT, "-DGRAM=1"): 360,
    ("dense_narrow", NEGATIVE_BINOMIAL, "-DGRAM=0"): 8,
    ("dense_narrow", NEGATIVE_BINOMIAL, "-DGRAM=1"): 136,
    ("dense_narrow", TWEEDIE_IDENTITY, "-DGRAM=1"): 136,
    ("dense_narrow", TWEEDIE_POWER, "-DGRAM=1"): 136,
    ("dense_narrow", "-DGRAM=1"): 104,
    ("csr_forward", PROBIT): 32,
    ("csr_forward", NEGATIVE_BINOMIAL): 8,
    ("coded_forward", NEGATIVE_BINOMIAL): 8,
    ("coded_forward", BINOMIAL_LOG): 12,
    ("coded_forward", BINOMIAL_IDENTITY): 8,
    ("dense_forward", PROBIT): 8,
    ("dense_forward", NEGATIVE_BINOMIAL): 16,
    ("dense_forward", BINOMIAL_LOG): 20,
    ("dense_forward", BINOMIAL_IDENTITY): 8,
    ("dense_forward", TWEEDIE_POWER): 4,
    ("row_losses", PROBIT): 8,
    ("row_losses", BINOMIAL_LOG): 8,
    ("csr_forward", BINOMIAL_LOG): 8,
    ("csr_forward", BINOMIAL_IDENTITY): 8,
    ("dense_narrow", BINOMIAL_LOG, "-DGRAM=0"): 8,
    ("row_losses", NEGATIVE_BINOMIAL): 8,
    ("dense_wide", PROBIT, "-DEACH=4"): 8,
    ("dense_wide", PROBIT, "-DEACH=64"): 56,
    ("dense_wide", NEGATIVE_BINOMIAL, "-DEACH=64"): 24,
}


@pytest.fixture(scope="module")
def nvrtc():
    found = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in found.submodule_search_locations] if found else []
    libraries = [path for place in places for path in place.rglob("libnvrtc.so*")]
    if not libraries:
        pytest.skip("NVRTC is not installed (requirements-cuda.lock; Linux on x86-64)")
    for builtins in libraries[0].parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(libraries[0]))


def compiled(nvrtc, source, *options):
    """Result code, log, size of the machine code and, for a virtual architecture, the PTX."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert (
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None
        )
        == 0
    )
    given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    result = nvrtc.nvrtcCompileProgram(program, len(options), given)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    code, text = ctypes.c_size_t(), b""
    if result == 0:
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(code))
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        if any("compute_" in option for option in options):
            ptx = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetPTX(program, ptx)
            text = ptx.value
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return result, log.value.decode().strip(), code.value, text.decode()


def source(*files):
    return "\n".join((CUDA / f"{name}.cu").read_text() for name in ("common", "families", *files))


USAGE = re.compile(
    r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
    re.S,
)
TOLD = re.compile(r"^ptxas (info .*|.* bytes stack frame.*)\n?", re.M)  # what -v tells, no warnings


def first(table, kernel, options, default):
    """The entry of a table for a kernel and options."""
    known = [key for key in table if key[0] == kernel and set(key[1:]) <= set(options)]
    return table[known[0]] if known else default


def blocks_of(registers, threads=256):
    """Blocks for which a multiprocessor has registers, which warps take by 256, and threads (2048)."""
    return min(REGISTERS // (threads // 32 * (-(-32 * registers // 256) * 256)), 2048 // threads)


def keeps_to_its_registers(nvrtc, architecture, files, options, spills):
    """Compile a variant, and hold its kernels against `BUDGET` and the table of bytes spilled."""
    result, log, size, _ = compiled(
        nvrtc,
        source(*files),
        f"--gpu-architecture={architecture}",
        *LIKE_CUPY,
        "--ptxas-options=-v",
        *options,
    )
    assert (result, TOLD.sub("", log)) == (0, ""), f"{files} {options}: {log}"
    assert size > 0
    usage = USAGE.findall(log)
    assert len(usage) == source(*files).count("__global__")
    for kernel, stores, _, registers in usage:
        blocks, spilled = first(BUDGET, kernel, options, (FOUR, NO))
        spilled = first(spills, kernel, options, spilled)
        assert blocks_of(int(registers)) >= blocks, f"{kernel} {options}: {registers} registers"
        assert int(stores) <= spilled, f"{kernel} {options}: {stores} bytes spilled"


@pytest.mark.slow
@pytest.mark.parametrize(
    "architecture", [pytest.param("sm_80", marks=pytest.mark.nightly), "sm_90"]
)
@pytest.mark.parametrize("files", VARIANTS, ids="+".join)
def test_every_source_compiles_without_a_warning_and_keeps_to_its_registers(
    nvrtc, files, architecture
):
    for options in VARIANTS[files]:
        keeps_to_its_registers(nvrtc, architecture, files, options, {})


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(files, marks=() if files == ("rows",) else pytest.mark.nightly)
        for files in OF_FAMILIES
    ],
    ids="+".join,
)
@pytest.mark.slow
def test_every_family_compiles_without_a_warning_and_keeps_to_its_registers(nvrtc, files):
    codes = WITH_DUAL if files[0] == "dual" else FAMILIES
    for code, options in itertools.product(codes, OF_FAMILIES[files]):
        keeps_to_its_registers(nvrtc, "sm_90", files, (f"-DMODE={code}", *options), SPILLED)


def test_codes_are_those_of_the_losses():
    """The sources name each code as `losses.base` does."""
    text = source()
    for loss in (*BUILTIN, find("tweedie(3)")):
        names = re.findall(rf"^#define (\w+) {loss.code}$", text, re.M)
        assert loss.code in [getattr(base, name, None) for name in names], loss.name


@pytest.mark.parametrize("files", VARIANTS, ids="+".join)
def test_floats_become_doubles_by_one_instruction(nvrtc, files):
    """By `widen`: a cast makes 0 of subnormals first (-ftz=true), by a multiplication, and drops what a CPU keeps."""
    for options in VARIANTS[files][:2]:
        result, log, _, ptx = compiled(
            nvrtc, source(*files), "--gpu-architecture=compute_90", *LIKE_CUPY, *options
        )
        assert result == 0, log
        assert "cvt.ftz.f64.f32" not in ptx, f"{files} {options}"


def test_a_warning_would_be_seen(nvrtc):
    bad = 'extern "C" __global__ void f(double* x) { int unused_thing; x[0] = 1.0; }'
    assert compiled(nvrtc, bad, "--gpu-architecture=sm_90")[1]
    assert compiled(nvrtc, bad.replace("x[0]", "x[0"), "--gpu-architecture=sm_90")[0] != 0


def test_every_source_is_compiled_here_and_shipped():
    assert {path.stem for path in CUDA.glob("*.cu")} == {
        name for files in VARIANTS for name in files
    } | {"common", "families"}


# ---- the real CuPy
def chains(tree, names):
    """Attribute chains such as cuda.runtime.memGetInfo that start at one of the names."""
    for node in ast.walk(tree):
        parts, at = [], node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if parts and isinstance(at, ast.Name) and at.id in names:
            yield tuple(reversed(parts))


@pytest.fixture(scope="module")
def real_cupy():
    if str(TWIN) in sys.path:
        pytest.fail("the stand-in is still on the path")
    return pytest.importorskip(
        "cupy", reason="CuPy is not installed (requirements-cuda.lock; Linux on x86-64)"
    )


def test_cupy_has_all_that_is_used_of_it(real_cupy):
    used = set()
    for path in CUDA.glob("*.py"):
        used |= set(chains(ast.parse(path.read_text()), {"cp", "xp"}))
    assert len(used) > 20
    for chain in used:
        at = real_cupy
        for name in chain:
            assert hasattr(at, name), f"cupy has no {'.'.join(chain)}"
            at = getattr(at, name)


def test_the_stand_in_claims_nothing_that_cupy_has_not(real_cupy):
    check = """
import inspect, json, sys
sys.path.insert(0, sys.argv[1])
import cupy
public = {}
for owner, thing in (("", cupy), ("ndarray", cupy.ndarray), ("cuda", cupy.cuda), ("cuda.Stream", cupy.cuda.Stream),
                     ("cuda.Event", cupy.cuda.Event), ("cuda.runtime", cupy.cuda.runtime), ("linalg", cupy.linalg)):
    public[owner] = [n for n in vars(thing) if not n.startswith("_")]
print(json.dumps(public))
"""
    import json

    found = json.loads(
        subprocess.run(
            [sys.executable, "-c", check, str(TWIN)], capture_output=True, check=True
        ).stdout
    )
    own = {
        "": {"unwrap", "wrap"},
        "ndarray": {"allocate", "used", "check"},
        "cuda": {
            "os",
            "np",
            "wait_for_default_stream",
            "allocators",
            "PENDING",
            "stream_at",
            "threading",
            "time",
            "weakref",
        },
        "cuda.Stream": {"enqueue", "run", "step"},
        "linalg": {"np", "unwrap", "wrap"},
    }
    import cupy.linalg  # noqa: F401

    for owner, names in found.items():
        at = real_cupy
        for part in filter(None, owner.split(".")):
            at = getattr(at, part)
        missing = {name for name in names if not hasattr(at, name)} - own.get(owner, set())
        assert not missing, f"cupy.{owner} has no {missing}"


def test_arguments_by_name_are_cupys(real_cupy):
    """What is called with keywords, whose names the stand-in might have wrong."""
    text = {
        name: getattr(real_cupy.ndarray, name).__doc__ for name in ("get", "set", "sum", "astype")
    }
    assert "stream=None" in text["get"]
    assert "blocking=True" in text["get"]
    assert "out=None" in text["get"]
    assert "stream=None" in text["set"]
    assert "minlength" in inspect.signature(real_cupy.bincount).parameters
    assert "non_blocking" in real_cupy.cuda.Stream.__doc__


def test_syrk_is_cupys(real_cupy):
    """By its text: it cannot be imported where cuBLAS is missing."""
    text = [
        (Path(folder) / "cublas.py").read_text()
        for folder in (real_cupy.__path__[0], TWIN / "cupy")
    ]
    real, stand_in = (
        next(
            node.args
            for node in ast.parse(part).body
            if isinstance(node, ast.FunctionDef) and node.name == "syrk"
        )
        for part in text
    )
    assert ast.dump(real) == ast.dump(stand_in)


def test_cupys_kernels_tell_what_a_grid_is_made_of(real_cupy):
    for name in ("kernel", "name", "num_regs", "max_dynamic_shared_size_bytes"):
        assert hasattr(real_cupy.RawKernel, name)
    assert hasattr(real_cupy.cuda.function.Function, "ptr")
    occupancy = real_cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor.__doc__
    assert "(intptr_t func, int blockSize, size_t dynamicSMemSize) -> int" in occupancy


# What CuPy's module for NCCL links to; a call that is not written out here would be seen as an error.
NCCL = r"""
#include <cstddef>
#include <cstdio>
#include <cstring>
struct Id { char internal[128]; };
extern "C" {
int ncclGetVersion(int* version) { *version = 22707; return 0; }
const char* ncclGetErrorString(int) { return "as asked"; }
int ncclGetUniqueId(Id* id) { memset(id, 0, sizeof(Id)); strcpy(id->internal, "name"); return 0; }
int ncclCommInitRankConfig(void** comm, int size, Id id, int rank, void* config) {
  fprintf(stderr, "join %d of %d at %s %d\n", rank, size, id.internal, config != nullptr);
  *comm = (void*)77;
  return 0;
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  fprintf(stderr, "sum %zu %zu %zu %d %d %zu %zu\n", (size_t)from, (size_t)to, count, type, op, (size_t)comm, (size_t)stream);
  return count == 13 ? 2 : 0;
}
int ncclCommGetAsyncError(void* comm, int* error) { fprintf(stderr, "look at %zu\n", (size_t)comm); *error = 0; return 0; }
int ncclCommAbort(void* comm) { fprintf(stderr, "abort %zu\n", (size_t)comm); return 0; }
#define OTHER(name) int name() { return 3; }
OTHER(ncclAllGather) OTHER(ncclBcast) OTHER(ncclBroadcast) OTHER(ncclCommCount) OTHER(ncclCommCuDevice)
OTHER(ncclCommDestroy) OTHER(ncclCommInitAll) OTHER(ncclCommSplit) OTHER(ncclCommUserRank) OTHER(ncclGroupEnd)
OTHER(ncclGroupStart) OTHER(ncclRecv) OTHER(ncclReduce) OTHER(ncclReduceScatter) OTHER(ncclSend)
}
"""
WITH_NCCL = """
import ctypes, json, sys, threading, types
import numpy as np
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
package = types.ModuleType("daskglm.kernels.cuda")  # the whole of it wants cuBLAS
package.__path__ = [sys.argv[2]]
sys.modules["daskglm.kernels.cuda"] = package
from daskglm.kernels.cuda import collective
from daskglm.core.requests import CollectiveLost
nccl = collective.library()
collective.cp.cuda.get_current_stream = lambda: types.SimpleNamespace(ptr=16, is_capturing=lambda: True)  # the real one asks for the driver
ranks = object.__new__(collective.Communicator)
ranks._nccl, ranks.left = nccl, threading.Event()
ranks._ranks = nccl.NcclCommunicator(2, collective.unique_id(), 1)  # as `join` does
array = types.SimpleNamespace(
    dtype=np.dtype(float), flags=types.SimpleNamespace(c_contiguous=True), data=types.SimpleNamespace(ptr=4096), size=12
)
ranks.sum(array)
ranks._ranks.check_async_error()
array.size = 13
try:
    ranks.sum(array)
except CollectiveLost as error:
    print(error)
for thread in threading.enumerate():
    if thread.name == "daskglm-nccl-end":
        thread.join()
print(json.dumps([sorted(vars(nccl)), sorted(dir(nccl.NcclCommunicator)), nccl.get_version()]))
"""


def test_the_real_cupy_calls_nccl_as_we_mean_it(real_cupy, tmp_path):
    """CuPy's own module, linked to a library that prints what it is called with: no device is needed for that."""
    import json
    import os
    import shutil

    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler to make a libnccl.so.2 with")
    (tmp_path / "nccl.cpp").write_text(NCCL)
    library = tmp_path / "libnccl.so.2"
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    subprocess.run([compiler, *flags, "-o", str(library), str(tmp_path / "nccl.cpp")], check=True)
    done = subprocess.run(
        [sys.executable, "-c", WITH_NCCL, str(library), str(CUDA)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert {"join 1 of 2 at name 0", "look at 77", "abort 77"} <= set(lines)
    assert "sum 4096 4096 12 8 0 77 16" in lines  # float64 is type 8, the sum operation 0
    assert any(line.startswith("NCCL: NCCL_ERROR_SYSTEM_ERROR") for line in lines)
    names, methods, _ = json.loads(next(line for line in lines if line.startswith("[[")))
    text = (TWIN / "cupy" / "cuda" / "nccl.py").read_text()
    known = {"available", "NCCL_SUM", "NCCL_FLOAT64"}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            known.add(node.name)
        if isinstance(node, ast.ClassDef) and node.name == "NcclCommunicator":
            calls = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            assert calls | {"abort"} <= set(methods)
            assert {"allReduce", "check_async_error", "destroy"} <= calls
    assert known <= set(names)


# ---- without a GPU
WITHOUT = """
import sys, numpy as np
{block}
import daskglm
assert sys.modules.get("cupy") is None
try:
    daskglm.fit(np.eye(4), [0, 1, 0, 1], device="cuda")
except RuntimeError as error:
    print(error)
"""


def said(block):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(block=block)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_without_cupy_the_extra_is_named():
    message = said("sys.modules['cupy'] = None")
    assert "daskglm[cuda13]" in message
    assert message.count("\n") == 1


@pytest.mark.slow
def test_without_a_driver_the_driver_is_named(real_cupy):
    try:
        real_cupy.cuda.runtime.getDeviceCount()
    except real_cupy.cuda.runtime.CUDARuntimeError:
        assert "nvidia-smi" in said("")
    else:
        pytest.skip("there is a driver here")


@pytest.mark.slow
def test_without_a_device_that_is_said():
    message = said(
        f"sys.path.insert(0, {str(TWIN)!r}); import os; os.environ['TWIN_DEVICES'] = '0'"
    )
    assert "CUDA_VISIBLE_DEVICES" in message


@pytest.mark.parametrize(
    "error", [NameError("no such name"), ImportError("no library of CUDA"), OSError("a bad file")]
)
def test_an_error_of_the_kernels_themselves_is_shown_as_it_is(monkeypatch, error):
    from daskglm.core import device

    runtime = types.SimpleNamespace(getDeviceCount=lambda: 1)

    def import_module(name):
        if name == "cupy":
            return types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
        raise error

    monkeypatch.setattr(device, "importlib", types.SimpleNamespace(import_module=import_module))
    with pytest.raises(type(error)) as found:
        device.gpu()
    assert found.value is error


def test_nothing_is_loaded_before_the_device_is_found():
    class Untouchable:
        shape = (4, 2)

        def __array__(self, *args, **kwargs):
            raise AssertionError("the data were read")

    if importlib.util.find_spec("cupy") is not None:
        import cupy

        try:
            cupy.cuda.runtime.getDeviceCount()
            pytest.skip("there is a GPU here")
        except cupy.cuda.runtime.CUDARuntimeError:
            pass
    with pytest.raises(RuntimeError, match="device='cuda' needs"):
        daskglm.fit(Untouchable(), np.array([0, 1, 0, 1]), device="cuda")
