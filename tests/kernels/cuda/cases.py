"""Rows for kernels of both sides, and how close their results must be."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.device import gpu
from daskglm.kernels import gram_side, sweep
from daskglm.kernels.records import read_only
from daskglm.kernels.storages import arrays_of
from daskglm.losses.smoothed_hinge import smoothed_hinge
from daskglm.losses.table import LOSSES, find, law_of

PARAMETERS = ("tweedie(1.1)", "tweedie(2.6)", "negative_binomial(0.3)", "tweedie_power(2.6, 0.7)")
CASES = (*LOSSES.values(), smoothed_hinge(0.01), *map(find, PARAMETERS))
# whose kernels are compared in both dtypes: one of each kind, since the compiler takes a second for each
BOTH_DTYPES = ("logistic", "squared", "smoothed_hinge", "poisson", "binomial_probit")
# every loss: one of each kind by default, the others are slow
OF_EACH_KIND = [
    pytest.param(
        loss,
        id=f"{loss.name}-{loss.p1:g}",
        marks=() if loss.name in BOTH_DTYPES else pytest.mark.slow,
    )
    for loss in CASES
]
LOGISTIC, SQUARED = law_of(LOSSES["logistic"].ref), law_of(LOSSES["squared"].ref)
NONE = np.empty(0)
# what margins of standard normal size are multiplied by, and the constant that is added then, so that
# they are inside of the ends of a link's: lower and upper end
WITHIN = {(0.0, np.inf): (1.0, 8.0), (-np.inf, 0.0): (1.0, -8.0), (0.0, 1.0): (0.02, 0.5)}


def within(loss):
    """A factor and a constant that take margins to where the loss has them; 1 and None elsewhere."""
    if loss.link is None or not loss.link.is_bounded:
        return 1.0, None
    return WITHIN[loss.link.low, loss.link.high]


# narrow tiles with one and many rows of the block missing, registers of a warp at each size, two
# passes
SHAPES = [(300, 1), (600, 28), (257, 63), (1, 63), (100, 64), (60, 300), (20, 1100), (10, 2100)]


TOLERANCE = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 1e-11}


def problem(n, d, dtype, storage, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    if storage != "dense":
        X *= rng.random((n, d)) < 0.2
        X[n // 2] = 0  # an empty row
    if storage == "pattern":
        X[X != 0] = 0.5
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return (
        X,
        y,
        rng.random(n) + 0.1,
        rng.standard_normal(d + 1) / np.sqrt(d),
        rng.standard_normal(d + 1),
    )


def targets(loss, n, seed=0):
    """Targets in the domain of a loss, some of them at its border."""
    rng = np.random.default_rng(seed)
    domain = loss.family.domain if loss.family else None
    if domain is None or not np.isfinite(domain.low):
        return np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if np.isfinite(domain.high):
        return np.clip(1.4 * rng.random(n) - 0.2, domain.low, domain.high)
    return rng.gamma(2.0, 1.0, n) + 1e-3 if domain.open else rng.poisson(1.5, n).astype(float)


def both(X, storage, twin_of_columns):
    """Kernel modules and rows of host and device."""
    backend = gpu()
    if storage == "dense":
        return sweep, read_only(X), backend.dense, backend.for_rows(backend.xp.asarray(X))[1]
    S = sp.csr_matrix(X)
    data = S.data[:1] if storage == "pattern" else S.data
    indices, indptr = S.indices.astype(np.int32), S.indptr.astype(np.int32)
    arrays = [backend.xp.asarray(part) for part in (data, indices, indptr)]
    rows = backend.csr.Rows(*arrays, X.shape, pattern=storage == "pattern")
    if twin_of_columns:
        backend.csr.add_csc_copy(rows)
    return sweep, tuple(map(read_only, (data, indices, indptr))), backend.sparse, rows


def both_coded(X):
    """The same for coded rows."""
    backend, raw, upload = gpu(), arrays_of(X), gpu().Upload()
    rows = backend.move(raw, X.shape, 1.0, 0, upload)
    upload.finish()
    return sweep, raw, backend.for_rows(rows)[0], rows


def close(given, wanted, tolerance):
    np.testing.assert_allclose(
        given.get(), wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1e-30)
    )


def agree(cupy, kernels, loss, vectors, w, v):
    """Compare all that kernels make at a point, and a product there; `vectors` are y, weight and offset."""
    host, rows, device, device_rows = kernels
    backend, (n, d) = gpu(), (len(vectors[0]), len(w) - 1)
    law, side, exact = law_of(loss.ref), gram_side(d) if d < 400 else 0, not loss.classifies
    factor, constant = within(loss)
    if constant is not None:
        w = np.append(factor * w[:-1], constant)
        vectors = (*vectors[:2], factor * vectors[2])
    single = backend.vector_dtype(device_rows) == np.float32
    # of sums that are made of float64 numbers only, and of what is made of curvatures in the rows' dtype
    tolerance = 3e-6 if single and not exact else 1e-11
    rough = TOLERANCE[np.dtype(np.float32 if single else np.float64)]
    z, curvature, sums = np.empty(n), np.empty(n), np.zeros(d + 2)
    diagonal, gram, product = np.zeros(d + 1), np.zeros((side, side)), np.zeros(d + 1)
    out = z, curvature, sums, diagonal, gram
    host.evaluate(law, (rows, *map(read_only, vectors)), w[:d], w[d], 0, n, out)
    host.hessian_vector(rows, curvature, v[:d], v[d], 0, n, product)
    margins = backend.vector(None, device_rows)
    curvatures = backend.vector(None, device_rows, exact=exact)
    there = [
        backend.vector(part, device_rows, exact=exact) if part.size else part
        for part in vectors[:2]
    ]
    there += [backend.vector(vectors[2], device_rows) if vectors[2].size else vectors[2]]
    for wanted in {"diagonal", "gram" if side else "diagonal"}:
        found, D = backend.zeros(d + 2), backend.zeros(d + 1 if wanted == "diagonal" else 0)
        G = backend.zeros(*(side, side) if wanted == "gram" else (0, 0))
        out = margins, curvatures, found, D, G
        device.evaluate(law, (device_rows, *there), cupy.asarray(w), 1, 0, n, out)
        close(margins, z, tolerance)  # without the offset
        close(found, sums, tolerance)
        if wanted == "gram":
            upper = np.triu(gram[: d + 1, : d + 1])
            near = 10 * rough * max(np.abs(upper).max(), 1e-30)
            np.testing.assert_allclose(np.triu(G.get()[: d + 1, : d + 1]), upper, atol=near)
        else:
            close(D, diagonal, tolerance)
    close(curvatures, curvature, tolerance)
    found = backend.zeros(d + 1)
    device.hessian_vector(device_rows, curvatures, cupy.asarray(v), 1, 0, n, found)
    close(found, product, 10 * rough)
    frozen, flag = backend.zeros(d + 1), cupy.zeros(1, np.int32)
    device.hessian_vector(device_rows, curvatures, cupy.asarray(v), 1, 0, n, frozen, flag)
    assert not frozen.get().any()
