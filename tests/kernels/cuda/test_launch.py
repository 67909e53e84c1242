"""Launches: arguments compared with the kernel's signature, grids of as many blocks as the device holds at once."""

import numpy as np
import pytest

from daskglm.core.device import gpu
from daskglm.kernels import gram_side, sweep
from daskglm.kernels.records import read_only
from daskglm.losses.table import LOSSES, law_of
from tests.covering import each_choice
from tests.kernels.cuda.cases import NONE, both, close, problem

LAW = law_of(LOSSES["logistic"].ref)
SOURCE = """
#ifndef SCALED
#define SCALED REAL
#endif
extern "C" __global__ void __launch_bounds__(256)
f(const REAL* X, long long rows, int d, const VECTOR* y,
  SCALED* out) { }
"""


def launch_module():
    gpu()
    from daskglm.kernels.cuda import launch

    return launch


# ---- signatures
def test_types_are_resolved_through_options(cupy):
    from daskglm.kernels.cuda.signature import parameters

    found = parameters(SOURCE, "f", ("--std=c++17", "-DREAL=float", "-DVECTOR=double"))
    assert [(p.name, p.pointer, p.kind) for p in found] == [
        ("X", True, np.float32),
        ("rows", False, np.int64),
        ("d", False, np.int32),
        ("y", True, np.float64),
        ("out", True, np.float32),
    ]
    assert (
        parameters(SOURCE, "f", ("-DREAL=float", "-DVECTOR=float", "-DSCALED=double"))[-1].kind
        is np.float64
    )


def test_a_type_without_a_dtype_is_an_error(cupy):
    from daskglm.kernels.cuda.signature import parameters

    with pytest.raises(ValueError, match="parameter X is of the type REAL"):
        parameters(SOURCE, "f", ("-DVECTOR=double",))
    with pytest.raises(ValueError, match="no .* void g"):
        parameters(SOURCE, "g", ())


def estimates(cupy, n=5):
    """The kernel row_losses for float32 targets, and arguments that fit it."""
    kernel = launch_module().kernel(("rows",), "row_losses", "-DVECTOR=float", "-DMODE=0")
    null = launch_module().NULL
    return kernel, [
        np.int64(n),
        np.float64(0),
        np.float64(0),
        cupy.ones(n, np.float32),
        null,
        null,
        cupy.zeros(n),
        null,
        null,
        cupy.zeros(3),
    ]


def test_arguments_that_fit_are_launched(cupy):
    kernel, args = estimates(cupy)
    kernel((1,), (256,), args)
    np.testing.assert_allclose(args[-1].get()[1], 5 * np.log(2), rtol=1e-12)


@pytest.mark.parametrize(
    ("place", "wrong", "said"),
    [
        (
            3,
            lambda cupy: cupy.ones(5),
            "argument 4, y, must be a device array of float32, was given one of float64",
        ),
        (
            6,
            lambda cupy: cupy.ones(5, np.float32),
            "argument 7, z, must be a device array of float64",
        ),
        (
            6,
            lambda cupy: cupy.zeros(10)[::2],
            r"argument 7, z, .* one of shape \(5,\) that is not contiguous",
        ),
        (
            9,
            lambda cupy: np.zeros(3),
            "argument 10, partial, must be a device array of float64, was given ndarray",
        ),
        (
            3,
            lambda cupy: None,
            "argument 4, y, must be a device array of float32, was given NoneType",
        ),
        (0, lambda cupy: 5, "argument 1, rows, must be a NumPy scalar of int64, was given int"),
        (
            0,
            lambda cupy: np.int32(5),
            "argument 1, rows, must be a NumPy scalar of int64, was given int32",
        ),
        (
            1,
            lambda cupy: np.int32(0),
            "argument 2, p1, must be a NumPy scalar of float64, was given int32",
        ),
    ],
)
def test_an_argument_of_another_dtype_is_refused(cupy, place, wrong, said):
    kernel, args = estimates(cupy)
    args[place] = wrong(cupy)
    with pytest.raises(TypeError, match=f"row_losses: {said}"):
        kernel((1,), (256,), args)


def test_another_number_of_arguments_is_refused(cupy):
    kernel, args = estimates(cupy)
    with pytest.raises(TypeError, match="row_losses takes 10 arguments, was given 9"):
        kernel((1,), (256,), args[:-1])


def test_targets_of_another_dtype_than_weights_are_refused(cupy):
    """The kernel reads both as VECTOR, which is the dtype of the first: the other would be read as other numbers."""
    backend = gpu()
    y, z, out = cupy.ones(4, np.float32), cupy.zeros(4), cupy.zeros(1)
    with pytest.raises(
        TypeError, match="row_losses: argument 5, weight, must be a device array of float32"
    ):
        backend.margins.losses(LAW, y, cupy.ones(4), None, z, None, None, out)


# ---- grids
def test_a_grid_is_one_wave(cupy):
    kernel, _ = estimates(cupy)
    most = kernel.most_blocks()
    assert most % launch_module().processors() == 0
    assert kernel.grid(1, 256) == 1
    assert kernel.grid(257, 256) == 2
    assert kernel.grid(1 << 40, 256) == most
    assert kernel.grid(1 << 40, 256, beside=3) == most // 3
    assert kernel.grid(1 << 40, 256, beside=most + 1) == 1
    assert kernel.most_blocks(256, 100 << 10) < most


def test_more_shared_memory_than_there_is_is_an_error(cupy):
    launch = launch_module()
    kernel = launch.Kernel(launch.kernel(("rows",), "along", "-DVECTOR=float").function, ())
    with pytest.raises((RuntimeError, ValueError), match=r"shared memory|INVALID"):
        kernel.most_blocks(256, 1 << 20)


@pytest.mark.parametrize(
    ("d", "dtype", "offset", "wanted"),
    [
        (28, np.float32, 0, (28, True)),  # seven chunks
        (32, np.float32, 0, (36, True)),
        (28, np.float32, 1, (29, False)),  # rows that do not begin at a multiple of 16 bytes
        (6, np.float64, 0, (6, True)),
        (8, np.float64, 0, (10, True)),
        (7, np.float32, 0, (7, False)),
    ],
)
def test_rows_of_a_tile_lie_in_different_banks(cupy, d, dtype, offset, wanted):
    from daskglm.kernels.cuda.dense import _tile

    X = cupy.zeros(d * 4 + offset, dtype)[offset:].reshape(4, d)
    if X.data.ptr % 16 != offset * X.itemsize:
        pytest.skip("memory that does not begin at a multiple of 16 bytes")
    apart, chunked = _tile(X, 0)
    assert (apart, chunked) == wanted
    chunk = 16 // X.itemsize
    assert apart // (chunk if chunked else 1) % 2 == 1
    side = gram_side(d)
    apart, of_gram = _tile(X, side)
    assert of_gram == chunked
    assert apart % chunk == 0
    assert apart // chunk % 2 == 1
    assert side < apart <= side + 2 * chunk


def test_seven_blocks_of_higgs_rows_fit_in_a_multiprocessor(cupy):
    """Of an H100's 228 KiB a block takes 1 KiB for itself: what the report of a GPU must show too."""
    from daskglm.kernels.cuda import dense

    apart, _ = dense._tile(cupy.zeros((1, 28), np.float32), 0)
    shared = dense._narrow_shared(28, dense.NARROW_THREADS, 2 * dense.NARROW_THREADS * apart * 4, 0)
    assert (228 << 10) // (shared + 1024) == 7


@each_choice
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [27, 28, 63])
def test_few_blocks_take_turns_at_all_rows(cupy, monkeypatch, d, dtype):
    """Tiles one after the other in the same shared memory, whose end the stand-in guards; rows that are not aligned."""
    launch = launch_module()
    real = launch.Kernel.most_blocks
    monkeypatch.setattr(launch.Kernel, "most_blocks", lambda *args: min(real(*args), 2))
    n = 900
    X, y, weight, w, v = problem(n + 1, d, dtype, "dense")
    backend, side, tolerance = gpu(), gram_side(d), 3e-6 if dtype == np.float32 else 1e-11
    whole = backend.dense.Rows(cupy.asarray(X))
    for start in (0, 1):
        rows, X_part = whole.part(start, n + start), X[start : n + start]
        y_part, weight_part = y[start : n + start], weight[start : n + start]
        z, curvature, sums = np.empty(n), np.empty(n), np.zeros(d + 2)
        diagonal, gram, product = np.zeros(d + 1), np.zeros((side, side)), np.zeros(d + 1)
        sweep.evaluate(
            LAW,
            tuple(map(read_only, (X_part, y_part, weight_part, NONE))),
            w[:d],
            w[d],
            0,
            n,
            (z, curvature, sums, diagonal, gram),
        )
        sweep.hessian_vector(read_only(X_part), curvature, v[:d], v[d], 0, n, product)
        vectors = [cupy.asarray(part) for part in (y_part, weight_part, w)]
        Z, D, out, G = (
            backend.zeros(n),
            backend.zeros(n),
            backend.zeros(d + 2),
            backend.zeros(side, side),
        )
        backend.dense.evaluate(
            LAW,
            (rows, vectors[0], vectors[1], np.empty(0)),
            vectors[2],
            1,
            0,
            n,
            (Z, D, out, np.empty(0), G),
        )
        close(out, sums, tolerance)
        upper = np.triu(gram)[: d + 1, : d + 1]
        np.testing.assert_allclose(
            np.triu(G.get())[: d + 1, : d + 1], upper, atol=10 * tolerance * np.abs(upper).max()
        )
        found = backend.zeros(d + 1)
        backend.dense.hessian_vector(rows, D, cupy.asarray(v), 1, 0, n, found)
        close(found, product, 10 * tolerance)


@each_choice
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("exact", [False, True])
def test_a_gram_in_runs_of_rows(cupy, monkeypatch, storage, exact):
    """Rows padded to a side that is a multiple of four, several runs of them, and the upper triangle only."""
    n, d = 50, 66
    X, y, weight, w, _ = problem(n, d, np.float64, storage)
    _, _, device, rows = both(X, storage, False)
    backend, side = gpu(), gram_side(d)
    monkeypatch.setattr(backend.dense, "GRAM_BYTES", 8 * side * 20)
    z, curvature, gram = (
        backend.vector(None, rows),
        backend.vector(None, rows),
        backend.zeros(side, side),
    )
    evaluate = device.evaluate_exactly if exact else device.evaluate
    for _ in range(2):  # the second finds the workspace used
        gram.fill(0)
        data = (rows, cupy.asarray(y), cupy.asarray(weight), np.empty(0))
        out = (z, curvature, backend.zeros(d + 2), np.empty(0), gram)
        evaluate(LAW, data, cupy.asarray(w), 1, 0, n, out)
    whole = np.column_stack([X, np.ones(n)])
    found, wanted = gram.get(), whole.T @ (curvature.get()[:, None] * whole)
    np.testing.assert_allclose(
        found[: d + 1, : d + 1], np.triu(wanted), rtol=1e-11, atol=1e-12 * wanted.max()
    )
    assert not found[d + 1 :].any()
    assert not found[:, d + 1 :].any()


def test_the_stand_in_sees_a_write_past_shared_memory(cupy):
    if "twin" not in cupy.__version__:
        pytest.skip("a GPU's shared memory has no guard")
    text = """
extern "C" __global__ void past(int at) { DYNAMIC_SHARED(double, shared); shared[at] = 1.0; }
"""
    code = launch_module().source("rows") + text
    kernel = cupy.RawModule(code=code, options=("-DVECTOR=double",)).get_function("past")
    kernel((1,), (1,), (np.int32(3),), shared_mem=32)
    with pytest.raises(AssertionError, match="past wrote past its 32 bytes"):
        kernel((1,), (1,), (np.int32(4),), shared_mem=32)
