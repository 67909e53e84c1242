"""Stage right: every kernel that reads rows beside NumPy in float64, at sizes with many waves of
blocks and a tail.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np
import scipy.sparse as sp

from benchmarks.gpu import reference
from benchmarks.gpu.lines import Lines
from daskglm.certificates.rounding import DEVICE_NARROW, DEVICE_SUMMED, FLOAT32, RANDOM_SIGNS
from daskglm.core.device import gpu
from daskglm.kernels import gram_side
from daskglm.kernels.coded_rows import Coded, Tables
from daskglm.kernels.storages import arrays_of
from daskglm.losses.table import LOSSES, law_of

ROWS = 1_000_003  # odd, so that no tile divides it
QUICK_ROWS = 700
FEWEST_ROWS = 30
STORED = 74  # values a row of sparse rows, as in RCV1
NUMBERS = 4  # beside codes
BY_ATOMICS = ("csr", "coded")  # kinds of rows whose sums have no order
# allowed of what is summed from float64 numbers: rounding of a million terms is far below
DOUBLE = 1e-10
SINGLE = 1e-6  # allowed of what is made of curvatures stored as float32 (6e-8 each)


class Shape(NamedTuple):
    """ROWS / `part` rows and `d` features of one kind.

    The kind is "dense", "csr", "csc" (with a copy by columns), "pattern" (equal values) or "coded".
    """

    kind: str
    dtype: str
    d: int
    part: int


DENSE = (
    ("f4", 28, 1),
    ("f8", 28, 1),
    ("f4", 18, 1),
    ("f4", 63, 2),
    ("f8", 63, 2),
    ("f4", 1, 1),
    ("f4", 64, 4),
    ("f4", 300, 10),
    ("f8", 1000, 40),
    ("f4", 2000, 60),
    ("f4", 2500, 80),
)
TEXT = (("csr", "f4"), ("csc", "f4"), ("pattern", "f4"), ("csc", "f8"))  # RCV1's number of features
SHAPES = (
    *(Shape("dense", dtype, d, part) for dtype, d, part in DENSE),
    Shape("csr", "f4", 60, 2),
    *(Shape(kind, dtype, 47_236, 50) for kind, dtype in TEXT),
    Shape("coded", "f4", 60, 1),
    Shape("coded", "f8", 60, 1),
    Shape("coded", "f8", 400, 4),  # of which one pair of codes has more sums than a block
    Shape("coded", "f8", 47_236, 10),
)


def right(lines: Lines, quick: bool) -> None:
    """Write one line for each shape: distances from NumPy's sums, and whether bits repeat.

    Rows in CSR alone, and codes, add up by atomics, in any order: there the bits may differ.
    """
    for shape in SHAPES:
        try:
            lines.add("right", **shape._asdict(), **one(shape, quick=quick))
        except Exception:
            lines.failed("right", **shape._asdict(), ok=False)


def one(shape: Shape, *, quick: bool) -> dict[str, Any]:
    """Return a shape's distances from NumPy's sums, whether these are small, and bits repeat."""
    rng = np.random.default_rng(1)
    n = max((QUICK_ROWS if quick else ROWS) // shape.part, FEWEST_ROWS)
    d = shape.d
    X, raw = _rows(shape, n, rng)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    weight = rng.random(n, np.float32).astype(np.float64)  # held by float32 exactly
    w = rng.standard_normal(d + 1)
    v = rng.standard_normal(d + 1)
    wanted = reference.sums(X, y, weight, w, v)
    rows = _on_device(raw, X.shape, shape.kind)
    first, second = (_found(rows, y, weight, w, v, wanted.gram is not None) for _ in range(2))
    errors = {
        name: reference.distance(first[name], value)
        for name, value in wanted._asdict().items()
        if value is not None
    }
    exact = SINGLE if shape.dtype == "f4" else DOUBLE
    allowed = {
        "value": DOUBLE,
        "gradient": DOUBLE,
        "diagonal": exact,
        "product": exact,
        "gram": exact,
    }
    if shape.dtype == "f4" and (shape.kind != "dense" or d > DEVICE_NARROW):
        # cuBLAS sums the products of a run in float32, as the bounds of certificates count it
        allowed["gram"] = RANDOM_SIGNS * np.sqrt(min(n, DEVICE_SUMMED / (d + 1))) * FLOAT32
    same = all(np.array_equal(first[name], second[name]) for name in errors)
    ok = all(error <= allowed[name] for name, error in errors.items()) and (
        same or shape.kind in BY_ATOMICS
    )
    return {"rows": n, "ok": ok, "same_bits_twice": same, "errors": errors}


def _rows(shape: Shape, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return rows as NumPy or SciPy has them, and as kernels take those of the host."""
    if shape.kind == "coded":
        return coded(n, shape.d, shape.dtype, rng)
    if shape.kind == "dense":
        X = rng.standard_normal((n, shape.d), np.float32) / np.float32(np.sqrt(shape.d))
        return (X.astype(shape.dtype),) * 2
    many = min(STORED, shape.d // 2)
    indices = rng.integers(0, shape.d, (n, many))
    values = rng.standard_normal(n * many) / np.sqrt(many)
    X = sp.csr_matrix((values, indices.ravel(), np.arange(0, n * many + 1, many)), (n, shape.d))
    X.sum_duplicates()
    if shape.kind == "pattern":
        X.data[:] = 0.25
    X = X.astype(shape.dtype)
    return X, (X.data[:1] if shape.kind == "pattern" else X.data, X.indices, X.indptr)


def coded(n: int, d: int, dtype: str, rng: np.random.Generator) -> tuple[sp.csr_matrix, Any]:
    """Return random rows of codes of one, two and four bytes beside numbers, as `_rows` does."""
    few = min(250, (d - NUMBERS) // 12)
    rest = d - NUMBERS - 4 * few
    counts = np.array([few] * 4 + [rest // 2, rest - rest // 2])
    first, width = np.append(0, np.cumsum(counts)[:-1]), d - NUMBERS
    codes = rng.integers(0, counts, (n, len(counts)))
    floats = rng.standard_normal((n, NUMBERS)).astype(dtype)
    values, each = rng.standard_normal(width), np.arange(width + 1)
    tables = Tables(first, each, each[:-1], values, np.arange(len(counts)), width)
    parts = codes[:, :4].astype("u1"), codes[:, 4:5].astype("u2"), codes[:, 5:].astype("u4")
    places = np.hstack([codes + first, np.tile(np.arange(width, d), (n, 1))])
    data = np.hstack([values[codes + first], floats])
    starts = np.arange(0, data.size + 1, data.shape[1])
    X = sp.csr_matrix((data.ravel(), places.ravel(), starts), (n, d))
    return X, arrays_of(Coded(*parts, floats, tables))


def _on_device(raw: Any, shape: tuple[int, int], kind: str) -> Any:
    backend, upload = gpu(), gpu().Upload()
    rows = backend.move(raw, shape, 1.0, 0, upload)
    upload.finish()
    if kind in ("csc", "pattern"):
        backend.add_csc_copy(rows, 1 << 60)
    return rows


def _found(rows: Any, y: Any, weight: Any, w: Any, v: Any, grams: bool) -> dict[str, np.ndarray]:
    """Compute the sums of `reference.Sums` by the kernels."""
    backend, n, d = gpu(), len(y), len(w) - 1
    kernels, _ = backend.for_rows(rows)
    labels, weights = (backend.vector(part, rows, exact=False) for part in (y, weight))
    z = backend.vector(None, rows)
    c = backend.vector(None, rows, exact=False)
    none = backend.zeros(0)
    sums = backend.zeros(d + 2)
    diagonal = backend.zeros(d + 1)
    product = backend.zeros(d + 1)
    at = (
        law_of(LOSSES["logistic"].ref, compiled=False),
        (rows, labels, weights, none),
        cp.asarray(w),
        1,
        0,
        n,
    )
    kernels.evaluate(*at, (z, c, sums, diagonal, backend.zeros(0, 0)))
    kernels.hessian_vector(rows, c, cp.asarray(v), 1, 0, n, product)
    found = {
        "value": sums.get()[d + 1 :],
        "gradient": sums.get()[: d + 1],
        "diagonal": diagonal.get(),
    }
    found["product"] = product.get()
    if grams:
        side = gram_side(d)
        gram = backend.zeros(side, side)
        kernels.evaluate(*at, (z, c, backend.zeros(d + 2), none, gram))
        found["gram"] = np.triu(gram.get()[: d + 1, : d + 1])
    return found
