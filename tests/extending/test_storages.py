"""A storage is a module of operations on rows, and sweeps are written once for all of them."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from numba import types

from daskglm.core.requests import LossRef
from daskglm.kernels import csr, dense, ordinal, storages, sweep, sweep_thresholds
from daskglm.kernels.records import NOTHING, read_only
from daskglm.losses.table import law_of
from tests.extending import category_codes

# what is called with the rows of one storage, beside what sweeps ask of them
OWN = ("margins", "hessian_vector", "add_by_code", "squared_norms", "spread")
ASKED = (
    *("tile_rows", "run_rows", "prepared", "gathered", "flush", "forward", "backward"),
    *("add_squares", "room", "add_outer", "add_cross"),
)


def arguments(function):
    return list(inspect.signature(getattr(function, "py_func", function)).parameters)


@pytest.mark.parametrize("name", OWN + ASKED)
def test_dense_and_sparse_rows_have_the_same_functions(name):
    assert arguments(getattr(csr, name)) == arguments(getattr(dense, name))


def test_what_sweeps_ask_is_what_storages_have():
    # a decorated function knows the one that it wraps
    asked = {name for name, found in vars(storages).items() if hasattr(found, "__wrapped__")}
    assert asked == {*ASKED}


N, COUNTS = 300, (3, 4, 2)
RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, many, N) for many in COUNTS], axis=1)
FIRST = np.concatenate([[0], np.cumsum(COUNTS)[:-1]])
D = sum(COUNTS)
W, WEIGHT, OFFSET = RNG.standard_normal(D), RNG.random(N), RNG.random(N)


@pytest.fixture
def both(monkeypatch):
    """The same rows as CSR and as codes, for the time of a test a storage."""
    is_pair = lambda X: isinstance(X, types.BaseTuple) and len(X) == 2  # noqa: E731
    monkeypatch.setitem(storages.STORAGES, category_codes, is_pair)
    columns = (FIRST + CODES).ravel()
    X = sp.csr_matrix((np.ones(3 * N), columns, 3 * np.arange(N + 1)), (N, D))
    sparse = tuple(read_only(part) for part in (X.data, X.indices, X.indptr))
    return sparse, (read_only(CODES), read_only(FIRST))


def test_a_new_storage_is_swept_as_sparse_rows_are(both):
    law = law_of(LossRef("logistic"))
    y = read_only(np.where(RNG.random(N) < 0.5, 1.0, -1.0))
    found = []
    for X in both:
        z, sums = np.empty(N), np.zeros(D + 2)
        diagonal, gram = np.zeros(D + 1), np.zeros((D + 1, D + 1))
        rows = X, y, read_only(WEIGHT), read_only(OFFSET)
        sweep.evaluate(law, rows, read_only(W), 0.3, 0, N, (z, NOTHING, sums, diagonal, gram))
        found.append((z, sums, diagonal, np.triu(gram)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_so_it_is_for_ordered_classes(both):
    codes = read_only(RNG.integers(0, 3, N).astype(np.int32))
    edges = read_only(ordinal.edges_of(np.array([-0.5, 0.8]), 0))
    found = []
    for X in both:
        z, sums, slopes, curvatures = np.empty(N), np.zeros(D + 1), np.zeros(4), np.zeros(4)
        diagonal, gram, cross = np.zeros(D), np.zeros((D + 1, D + 1)), np.zeros((4, D))
        out = z, sums, slopes, curvatures, diagonal, gram, cross
        rows = X, codes, read_only(WEIGHT), read_only(OFFSET)
        sweep_thresholds.evaluate(rows, read_only(W), edges, 0, N, out)
        found.append((*out[:5], np.triu(gram), cross))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
