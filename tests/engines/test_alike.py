"""Engines answer alike: each request, of rows in each storage, wherever the rows are.

Whole fits need not be compared from engine to engine, then: a fit is what these sums say.
"""

import contextlib
from typing import get_args

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.batch_requests import (
    EvaluateMany,
    GatheredRows,
    HeldOutLosses,
    ScoreHeldOut,
    WeighGroups,
)
from daskglm.core.column_requests import (
    ColumnDescent,
    ColumnGram,
    ColumnMoments,
    ColumnSigns,
    ColumnSweeps,
    ColumnTargets,
)
from daskglm.core.inference_requests import ClusterSums, InferenceSums, LeverageMeat, ScoresAlong
from daskglm.core.level_blocks import LevelPairs
from daskglm.core.requests import (
    DualRequest,
    Evaluate,
    EvaluateAlong,
    Folds,
    HessianVector,
    LossRef,
    OfProblem,
    Problem,
    RateSums,
    Request,
    ResidualSums,
    Spread,
    Together,
    TrustRegionStep,
    with_vectors,
)
from daskglm.core.sample_requests import DrawRows
from daskglm.core.view import Columns, Drawn, View
from daskglm.data.partitions import partitions
from daskglm.engines.factory import make_engine
from daskglm.worker.device_placement import DeviceConfig

N, D = 420, 5
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (N, D)) * (RNG.random((N, D)) < 0.7)
LABELS = RNG.integers(0, 3, N).astype(float)
COUNTS = RNG.poisson(1.0, N).astype(float)
BESIDE = RNG.integers(0, 4, N).astype(float), RNG.uniform(-0.5, 0.5, N), RNG.integers(0, 9, N)

FOLDS = Folds("alike", ((1, 0), (0, 1)), seed=5)
ONE = Problem(LossRef("logistic"), 1.0, folds=FOLDS)
FAMILY = Problem(LossRef("poisson"), folds=FOLDS)
SQUARES = Problem(LossRef("squared"), folds=FOLDS)
PROBIT = Problem(LossRef("binomial_probit"))
SOFTMAX = Problem(LossRef("multinomial"), classes=(0.0, 1.0, 2.0))
ORDERED = Problem(LossRef("ordinal"), classes=(0.0, 1.0, 2.0))
W, V = np.append(0.4 * RNG.standard_normal((2, D)), [[0.2], [-0.1]], axis=1)
WIDE, OTHER = RNG.standard_normal((2, 3, D + 1))
EDGES = np.array([-0.5, 0.7])
STEEP, ACROSS = np.append(W[:D], EDGES), np.append(V[:D], EDGES + 1.0)
EVERYWHERE = np.array([0, 1, 0]), np.array([-1, 0, 1])
WAY, CONSTANTS = np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([[0.0], [0.1]])

# Of labels, numbers and shares: what is asked one after another, so that margins are kept in between.
OF_LABELS = [
    (ONE, Evaluate(W, 1, gram=True, diagonal=True, curved=True, exact=True)),
    (ONE, Evaluate(V, 2, beside=1)),
    (ONE, HessianVector(V, (1, W))),
    (ONE, EvaluateAlong(((1, W), (2, V)), WAY, CONSTANTS)),
    (ONE, ColumnGram((1, W), np.array([1, 3]))),
    (ONE, ColumnMoments()),
    (ONE, ColumnSigns((0.0, 2.0))),
    (ONE, ColumnTargets(0.3)),
    (ONE, Spread(W[:D], 2.0)),
    (ONE, EvaluateMany(WIDE, *EVERYWHERE, (1.0, 2.0), gram=(0, 2), exact=True)),
    (ONE, WeighGroups((0.0, 1.0, 2.0))),
    (ONE, ScoreHeldOut(RNG.standard_normal((2, 2, 3, D + 1)), (0.0, 1.0, 2.0))),
    (ONE, ScoreHeldOut(RNG.standard_normal((2, 1, 3, D + 1)), (0.0, 1.0, 2.0), gather=True)),
    (SOFTMAX, Evaluate(WIDE, 1, gram=True, diagonal=True, exact=True)),
    (SOFTMAX, Evaluate(OTHER, 2, beside=1)),
    (SOFTMAX, HessianVector(OTHER, (1, WIDE))),
    (SOFTMAX, EvaluateAlong(((1, WIDE), (2, OTHER)), WAY, np.ones((2, 3)))),
    (SOFTMAX, InferenceSums(RNG.standard_normal(2 * (D + 1)), meat=True, clusters=True)),
    (ORDERED, Evaluate(STEEP, 1, gram=True, diagonal=True, exact=True)),
    (ORDERED, HessianVector(ACROSS, (1, STEEP))),
    (ORDERED, EvaluateAlong(((1, STEEP),), np.array([[0.5]]), EDGES[None])),
    (ORDERED, InferenceSums(STEEP, meat=True, clusters=True)),
]
OF_NUMBERS = [
    (FAMILY, Evaluate(W, 1, gram=True, exact=True)),
    (FAMILY, ResidualSums((1, W))),
    (FAMILY, ColumnTargets(0.3)),
    (FAMILY, InferenceSums(W, meat=True, clusters=True)),
    (FAMILY, ScoresAlong(W, np.eye(D + 1)[:, :2])),
    (FAMILY, ScoresAlong(W, np.eye(D + 1)[:, 1:], clusters=True)),
    (FAMILY, LeverageMeat(W, 0.01 * np.eye(D + 1), 1.0)),
    (FAMILY, EvaluateAlong((), np.empty((2, 0)), CONSTANTS)),
    (FAMILY, ResidualSums(None, 1.0)),
    (FAMILY, HeldOutLosses(RNG.standard_normal((2, 2, D + 1)), 0.5)),
    (FAMILY, EvaluateMany(WIDE, EVERYWHERE[0] * 0, EVERYWHERE[1], gram=(1,), exact=True)),
    (FAMILY, WeighGroups(())),
    (FAMILY, OfProblem(SQUARES, EvaluateAlong((), np.empty((2, 0)), CONSTANTS))),
    (
        FAMILY,
        Together((Evaluate(V, 3), EvaluateAlong(((3, V),), np.ones((1, 1)), EDGES[:1, None]))),
    ),
]
OF_SHARES = [
    (PROBIT, Evaluate(W, 1, gram=True, exact=True)),
    (PROBIT, RateSums((1, W), 1e-15, 0.1, 1.0)),
]
VIEWS = {
    "whole": View(),
    "sample": View(part=Drawn(0.4, 7)),
    "columns": View(columns=Columns(11, np.array([0, 2, 3]))),
}
OF_VIEWS = [
    (ONE, Evaluate(W, 1, gram=True, exact=True)),
    (ONE, HessianVector(V, (1, W))),
    (SOFTMAX, Evaluate(WIDE, 1, gram=True, exact=True)),
    (ORDERED, Evaluate(STEEP, 1, gram=True, exact=True)),
]


def test_every_request_is_compared():
    # rounds of dual ascent and draws depend on how rows are divided, trust regions are a device's,
    # sweeps and descents one process's, and pairs of levels those of rows by codes
    apart = {
        *get_args(DualRequest),
        TrustRegionStep,
        LevelPairs,
        DrawRows,
        ColumnSweeps,
        ColumnDescent,
    }
    asked = {type(request) for _, request in OF_LABELS + OF_NUMBERS + OF_SHARES}
    assert asked == {*get_args(Request)} - apart


def data_of(storage, y, *, classify, of_classes=None):
    """Rows in three partitions."""
    rows = {
        "dense": lambda: X,
        "columns first": lambda: np.asfortranarray(X),
        "csr": lambda: sp.csr_matrix(X),
        "pattern": lambda: sp.csr_matrix((X != 0.0).astype(float)),
    }[storage]()
    chunks = [da.from_array(rows[k : k + 140], chunks=-1, asarray=False) for k in (0, 140, 280)]
    beside = [da.from_array(each, chunks=140) for each in (y, *BESIDE)]
    y, weight, offset, clusters = beside
    given = {"offset": offset, "clusters": clusters, "classify": classify}
    if of_classes is not None:
        given["offset"] = da.from_array(of_classes, chunks=(140, 1))
    return partitions(da.concatenate(chunks), y, weight, **given)


@contextlib.contextmanager
def engine_of(kind, client, data):
    """An engine: in this process, or on two workers; with the rows in memory, or read every time."""
    where = client if "workers" in kind else None
    threads = None if where else 2 if kind == "threads" else 1
    read = "read" in kind
    with contextlib.closing(
        make_engine(data, where, DeviceConfig(), read=read, threads=threads)
    ) as engine:
        yield engine


def plain(value):
    """A part of a reply as arrays, in an order that all engines have."""
    if isinstance(value, ClusterSums):
        order = np.argsort(value.labels)
        return [value.labels[order], value.sums[order]]
    if isinstance(value, GatheredRows):
        return [part for fold in (0, 1) for part in value.of(fold)]
    return [np.asarray(value, float)]


def check(engine, reference, asked, view=None):
    view = VIEWS["whole"] if view is None else view
    for problem, request in asked:
        expected = reference.total(problem, request, view)
        found = engine.total(problem, request, view)
        assert found.keys() - {"waited"} == expected.keys() - {"waited"}
        costs = {name for name in expected if name.split()[-1] in ("waited", "stored", "rows")}
        for name in expected.keys() - costs:
            for one, other in zip(plain(found[name]), plain(expected[name]), strict=True):
                what = f"{type(request).__name__}: {name}"
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=what)


KINDS = ["threads", "read", "workers", "read by workers"]
STORAGES = ["dense", "columns first", "csr", "pattern"]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_one_thread(client, kind, storage):
    for y, asked in ((LABELS, OF_LABELS), (COUNTS, OF_NUMBERS), (LABELS / 2, OF_SHARES)):
        data = data_of(storage, y, classify=y is LABELS)
        with engine_of("one", client, data) as reference, engine_of(kind, client, data) as engine:
            check(engine, reference, asked)


@pytest.mark.parametrize("storage", ["dense", "pattern"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_with_an_offset_for_each_class_are_those_of_one_thread(client, kind, storage):
    asked = [each for each in OF_LABELS if each[0] is SOFTMAX]
    data = data_of(storage, LABELS, classify=True, of_classes=RNG.standard_normal((N, 3)))
    plain = data_of(storage, LABELS, classify=True)
    with engine_of("one", client, data) as reference, engine_of(kind, client, data) as engine:
        check(engine, reference, asked)
        with engine_of("one", client, plain) as without:
            one, other = (each.total(*asked[0])["value"] for each in (without, reference))
            assert abs(one - other) > 1.0


# samples are drawn block by block, and workers have blocks of their own
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(
    ("kind", "view"), [*((kind, "columns") for kind in KINDS), *((k, "sample") for k in KINDS[:2])]
)
def test_sums_over_a_view_are_those_of_one_thread(client, kind, storage, view):
    data = data_of(storage, LABELS, classify=True)
    shapes = {"sample": OF_VIEWS, "columns": [(p, _narrow(r)) for p, r in OF_VIEWS]}[view]
    with engine_of("one", client, data) as reference, engine_of(kind, client, data) as engine:
        check(engine, reference, shapes, VIEWS[view])


def _narrow(request):
    """A request about the columns of the view."""
    return with_vectors(request, lambda w: np.delete(w, [1, 4], axis=-1))
