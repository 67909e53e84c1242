"""CUDA sources compile without warnings for the GPUs we name, CuPy has what is used of it, errors say what is missing."""

import ast
import ctypes
import importlib.util
import inspect
import itertools
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import daskglm
from tests.conftest import TWIN

CUDA = Path(daskglm.__file__).parent / "kernels" / "cuda"
REALS, INDICES = ("float", "double"), ("int", "long long")
TYPES = [(f"-DREAL={real}", f"-DVECTOR={vector}") for real, vector in itertools.product(REALS, REALS)]
VARIANTS = {
    ("rows",): [(f"-DVECTOR={vector}",) for vector in REALS],
    ("ball",): [()],
    ("dense",): [*TYPES, *((*types, "-DSCALED=double") for types in TYPES)],
    ("narrow",): [(*types, f"-DGRAM={gram}") for types in TYPES for gram in (0, 1)],
    ("wide",): [
        (*types, f"-DEACH={each}", f"-DDIAGONAL={diagonal}")
        for types in TYPES
        for each, diagonal in [(4, 0), (4, 1), (8, 0), (16, 1), (32, 0), (32, 1), (64, 0)]
    ],
    ("csr",): [
        (*types, f"-DINDEX={index}", *scaled)
        for types in TYPES
        for index in INDICES
        for scaled in [(), ("-DSCALED=double",)]
    ],
    ("dual",): [(*types, f"-DINDEX={index}") for types in TYPES for index in INDICES],
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
    """Result code, log and size of the machine code."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None) == 0
    given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    result = nvrtc.nvrtcCompileProgram(program, len(options), given)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    code = ctypes.c_size_t()
    if result == 0:
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(code))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return result, log.value.decode().strip(), code.value


def source(*files):
    return "\n".join((CUDA / f"{name}.cu").read_text() for name in ("common", *files))


@pytest.mark.parametrize("architecture", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
@pytest.mark.parametrize("files", VARIANTS, ids="+".join)
def test_every_source_compiles_without_a_warning(nvrtc, files, architecture):
    for options in VARIANTS[files]:
        result, log, size = compiled(
            nvrtc, source(*files), f"--gpu-architecture={architecture}", "--std=c++17", *options
        )  # fmt: skip
        assert (result, log) == (0, ""), f"{files} {options}: {log}"
        assert size > 0


def test_a_warning_would_be_seen(nvrtc):
    bad = 'extern "C" __global__ void f(double* x) { int unused_thing; x[0] = 1.0; }'
    assert compiled(nvrtc, bad, "--gpu-architecture=sm_90")[1]
    assert compiled(nvrtc, bad.replace("x[0]", "x[0"), "--gpu-architecture=sm_90")[0] != 0


def test_every_source_is_compiled_here_and_shipped():
    assert {path.stem for path in CUDA.glob("*.cu")} == {name for files in VARIANTS for name in files} | {"common"}


# ---------------------------------------------------------------------------- the real CuPy
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
    return pytest.importorskip("cupy", reason="CuPy is not installed (requirements-cuda.lock; Linux on x86-64)")


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

    found = json.loads(subprocess.run([sys.executable, "-c", check, str(TWIN)], capture_output=True, check=True).stdout)
    own = {
        "": {"unwrap", "wrap"},
        "ndarray": {"allocate", "used", "check"},
        "cuda": {"os", "np", "wait_for_default_stream", "allocators"},
        "cuda.Stream": {"enqueue", "run"},
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
    text = {name: getattr(real_cupy.ndarray, name).__doc__ for name in ("get", "set", "sum", "astype")}
    assert "stream=None" in text["get"]
    assert "blocking=True" in text["get"]
    assert "out=None" in text["get"]
    assert "stream=None" in text["set"]
    assert "minlength" in inspect.signature(real_cupy.bincount).parameters
    assert "non_blocking" in real_cupy.cuda.Stream.__doc__


def test_cupys_kernels_tell_what_a_grid_is_made_of(real_cupy):
    for name in ("kernel", "name", "num_regs", "max_dynamic_shared_size_bytes"):
        assert hasattr(real_cupy.RawKernel, name)
    assert hasattr(real_cupy.cuda.function.Function, "ptr")
    occupancy = real_cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor.__doc__
    assert "(intptr_t func, int blockSize, size_t dynamicSMemSize) -> int" in occupancy


# ---------------------------------------------------------------------------- without a GPU
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
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(block=block)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_cupy_the_extra_is_named():
    message = said("sys.modules['cupy'] = None")
    assert "daskglm[cuda13]" in message
    assert message.count("\n") == 1


def test_without_a_driver_the_driver_is_named(real_cupy):
    try:
        real_cupy.cuda.runtime.getDeviceCount()
    except real_cupy.cuda.runtime.CUDARuntimeError:
        assert "nvidia-smi" in said("")
    else:
        pytest.skip("there is a driver here")


def test_without_a_device_that_is_said():
    message = said(f"sys.path.insert(0, {str(TWIN)!r}); import os; os.environ['TWIN_DEVICES'] = '0'")
    assert "CUDA_VISIBLE_DEVICES" in message


@pytest.mark.parametrize("error", [NameError("no such name"), ImportError("no library of CUDA"), OSError("a bad file")])
def test_an_error_of_the_kernels_themselves_is_shown_as_it_is(monkeypatch, error):
    from daskglm import kernels

    runtime = types.SimpleNamespace(getDeviceCount=lambda: 1)

    def import_module(name):
        if name == "cupy":
            return types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
        raise error

    monkeypatch.setattr(kernels, "importlib", types.SimpleNamespace(import_module=import_module))
    with pytest.raises(type(error)) as found:
        kernels.gpu()
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
