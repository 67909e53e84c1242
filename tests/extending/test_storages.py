"""A storage is a module of operations on rows, and sweeps are written once for all of them."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from numba import typeof, types

from daskglm.core.batch_requests import EvaluateMany
from daskglm.core.column_requests import ColumnGram
from daskglm.core.inference_requests import LeverageMeat
from daskglm.core.requests import Evaluate, Folds, HessianVector, LossRef, Problem
from daskglm.core.view import ALL, Columns, Drawn, View
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.kernels import (
    coded,
    coordinate_ascent,
    csr,
    dense,
    ordinal,
    storages,
    sweep,
    sweep_thresholds,
)
from daskglm.kernels.records import NO_NUMBERS, NOTHING, read_only
from daskglm.losses.table import find, law_of
from daskglm.objectives.primal import Objective
from daskglm.solvers import get_solver
from daskglm.system import compiled
from daskglm.worker.schedule import ALL_ROWS
from tests.extending import category_codes
from tests.objectives.several import ordered_objective, softmax_objective

# what compiled code asks of rows, what of that a storage may leave out, and what Python calls
COMPILED, OPTIONAL = set(storages._of_rows.asked), set(storages._of_rows.instead)
CALLED = (
    "arrays_of",
    "take",
    "count_rows",
    "rows_between",
    "matrix_of",
    "add_by_code",
    "squared_norms",
)
CALLED = {*CALLED, "spread", "add_moments", "count_signs", "size_of", "row_at", "row_values"}
CALLED = {*CALLED, "exact_runs", "kind", "joined", "with_values", "address_of"}


def arguments(function):
    return list(inspect.signature(getattr(function, "py_func", function)).parameters)


@pytest.mark.parametrize("name", sorted(COMPILED | CALLED))
def test_storages_have_the_functions_that_are_asked_for(name):
    wanted = arguments(getattr(storages, name))
    for storage in (dense, csr, coded, *([category_codes] if name in COMPILED else [])):
        assert name in OPTIONAL or hasattr(storage, name)
        assert wanted == arguments(getattr(storage, name, getattr(storages, name)))
    if name in COMPILED:
        with pytest.raises(NotImplementedError, match="compiled code only"):
            getattr(storages, name)(*wanted)


def test_rows_of_no_storage_are_refused():
    with pytest.raises(TypeError, match="no kernels for rows of type str"):
        storages.arrays_of("abc")


storages.register(
    storages.Storage(
        category_codes,
        lambda kind: isinstance(kind, types.BaseTuple) and len(kind) == 2,
        category_codes.arrays_of,
    )
)

N, COUNTS = 300, (3, 4, 2)
RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, many, N) for many in COUNTS], axis=1)
FIRST = np.concatenate([[0], np.cumsum(COUNTS)[:-1]])
D = sum(COUNTS)
W, WEIGHT, OFFSET = RNG.standard_normal(D), RNG.random(N), RNG.random(N)
X = sp.csr_matrix((np.ones(3 * N), (FIRST + CODES).ravel(), 3 * np.arange(N + 1)), (N, D))
MARGINS = X @ W


def test_kernels_are_compiled_anew_where_a_storage_from_outside_has_changed(monkeypatch):
    codes, rows = typeof((read_only(CODES), read_only(FIRST))), typeof(read_only(np.ones((2, 2))))
    codegen, cache = sweep.evaluate.targetctx.codegen(), sweep.evaluate._cache

    def keys():
        given = (types.Tuple([kind, rows, rows]) for kind in (codes, rows))
        return [cache._index_key((each, rows), codegen) for each in given]

    before = keys()
    (takes,) = [takes for takes, _ in compiled.OUTSIDE if takes(codes)]
    monkeypatch.setattr(compiled, "OUTSIDE", [(takes, "of another source")])
    assert keys()[0] != before[0]
    assert keys()[1] == before[1], "rows of the package"


@pytest.fixture
def both():
    """The same rows as CSR and as codes, as kernels take them."""
    sparse = tuple(read_only(part) for part in (X.data, X.indices, X.indptr))
    return sparse, (read_only(CODES), read_only(FIRST))


def test_a_new_storage_is_swept_as_sparse_rows_are(both):
    law = law_of(LossRef("logistic"))
    y = read_only(np.where(RNG.random(N) < 0.5, 1.0, -1.0))
    found = []
    for rows in both:
        z, sums = np.empty(N), np.zeros(D + 2)
        diagonal, gram = np.zeros(D + 1), np.zeros((D + 1, D + 1))
        given = rows, y, read_only(WEIGHT), read_only(OFFSET)
        sweep.evaluate(law, given, read_only(W), 0.3, 0, N, (z, NOTHING, sums, diagonal, gram))
        found.append((z, sums, diagonal, np.triu(gram)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_so_it_is_for_ordered_classes(both):
    codes = read_only(RNG.integers(0, 3, N).astype(np.int32))
    edges = read_only(ordinal.edges_of(np.array([-0.5, 0.8]), 0))
    found = []
    for rows in both:
        z, sums, slopes, curvatures = np.empty(N), np.zeros(D + 1), np.zeros(4), np.zeros(4)
        diagonal, gram, cross = np.zeros(D), np.zeros((D + 1, D + 1)), np.zeros((4, D))
        out = z, sums, slopes, curvatures, diagonal, gram, cross
        given = rows, codes, read_only(WEIGHT), read_only(OFFSET)
        sweep_thresholds.evaluate(given, read_only(W), edges, 0, N, out)
        found.append((*out[:5], np.triu(gram), cross))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# ---- whole solves
def engines(y, classify):
    """Engines of the same rows as CSR and as codes."""
    stored = partitions(X, y, None, classify=classify).load()
    codes = category_codes.Codes(CODES, FIRST, (N, D))
    return [
        Local(blocks, threads=1) for blocks in (stored, [stored[0]._replace(X=codes, moved=None)])
    ]


def solved(objective, solver):
    certificate = objective.certificate(1e-9)
    for iterate in get_solver(solver).run(objective, objective.origin):
        point, gap = certificate(iterate.point)
        if gap <= 1e-9:
            return point
    raise AssertionError(f"stopped at a gap of {gap}")


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
@pytest.mark.parametrize("shape", ["one", "softmax", "ordered"])
def test_a_new_storage_is_solved_on_with_any_margins(shape, solver):
    classes, weights = (0, 1, 2), (100.0, 100.0, 100.0)
    y = np.argsort(np.argsort(MARGINS + RNG.logistic(size=N))) // (N // len(classes))
    found = []
    for engine in engines(y > 0 if shape == "one" else y, classify=True):
        if shape == "one":
            loss = find("logistic")
            problem = Problem(loss.ref, True)
            objective = Objective(engine, problem, loss, C=1.0, fit_intercept=True)
        else:
            loss = find({"softmax": "multinomial", "ordered": "ordinal"}[shape])
            problem = Problem(loss.ref, classes=classes)
            make = softmax_objective if shape == "softmax" else ordered_objective
            more = {"fit_intercept": True} if shape == "softmax" else {}
            objective = make(engine, problem, loss, classes=classes, weights=weights, C=1.0, **more)
        found.append(solved(objective, solver))
        engine.close()
    one, other = found
    assert one.value == pytest.approx(other.value, rel=2e-9)
    np.testing.assert_allclose(one.w, other.w, atol=1e-3)


def test_other_questions_have_the_same_answers():
    y = MARGINS > 0
    V, at = RNG.standard_normal((3, D + 1)), (1, np.append(W, 0.1))
    asked = [
        Evaluate(at[1], 1, gram=True, diagonal=True),
        HessianVector(V[0], at),
        ColumnGram(at, np.array([1, 4])),
        EvaluateMany(V, np.zeros(3, int), np.array([-1, 0, 1]), (True,), gram=(0, 2)),
        LeverageMeat(at[1], 0.01 * np.eye(D + 1), 1.0),
    ]
    problem = Problem(LossRef("logistic"), True, folds=Folds("two", ((1, 0), (0, 1)), seed=5))
    one, other = engines(y, classify=True)
    kept = np.array([0, 2, 5, 7])
    views = [
        (Evaluate(at[1], 2, gram=True), View(part=Drawn(0.4, 7))),
        (Evaluate(at[1][np.append(kept, D)], 3, gram=True), View(columns=Columns(11, kept))),
    ]
    for request, view in [*((request, ALL) for request in asked), *views]:
        expected = one.total(problem, request, view)
        found = other.total(problem, request, view)
        for name in expected.keys() - {"waited"}:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-10)


def test_an_epoch_of_coordinate_ascent_is_the_same(both):
    law, y = law_of(LossRef("logistic")), read_only(np.where(MARGINS > 0, 1, -1).astype(np.int8))
    found = []
    for rows in both:
        alpha, v, own = np.zeros(N), np.zeros(D + 1), np.zeros(D + 1)
        dual = alpha, NOTHING, NOTHING, np.empty(0, np.uint8)
        limits, order = (-np.inf, np.inf), (ALL_ROWS, 0, N, 8, 5, 0, -(-N // 8))
        given, scales = (rows, y, NO_NUMBERS), (0.5, 1.0, 0.0, 1.0, 0.01)
        coordinate_ascent.sweep(law, given, v, scales, dual, limits, order)
        out = np.empty(N), own, NOTHING
        coordinate_ascent.totals(rows, NO_NUMBERS, 0.5, alpha, v, 0, N, out)
        found.append((alpha, v, own))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        assert np.abs(one).max() > 0.0
