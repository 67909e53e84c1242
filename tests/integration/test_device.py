"""Fits on a device: here on the stand-in for CuPy, on a machine with a GPU there too (mark `gpu`)."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.device import gpu
from daskglm.core.requests import Problem, SDCAConfig
from daskglm.data.blocks import Place, to_block
from daskglm.duals.dual import Dual
from daskglm.engines import local as engine
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers.linear_systems import Diagonal
from daskglm.solvers.trust_region import solve_in_region
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from tests.conftest import make_problem, objective
from tests.covering import covering, first_by_default

SMOOTH = ("logistic", "squared_hinge", "squared")


def on_device(cupy, X):
    """What a user of CuPy holds."""
    if not sp.issparse(X):
        return cupy.asarray(X)
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(X)


@covering(1, solver=["newton", "tron", "lbfgs", "gd", "sdca"], loss=SMOOTH, sparse=[False, True])
def test_solvers_reach_the_optimum_of_the_host(cupy, solver, loss, sparse):
    X, y = make_problem(500, 9, loss=loss, sparse=sparse, dtype=np.float32)
    weight = np.random.default_rng(0).random(len(y)) + 0.5
    host = daskglm.fit(X, y, loss=loss, solver="newton", tol=1e-10, sample_weight=weight)
    moved = daskglm.fit(
        X,
        y,
        loss=loss,
        solver=solver,
        tol=1e-6,
        sample_weight=weight,
        device="cuda",
        random_state=0,
    )
    given = daskglm.fit(
        on_device(cupy, X),
        cupy.asarray(y),
        loss=loss,
        solver=solver,
        tol=1e-6,
        sample_weight=weight,
        random_state=0,
    )
    best = objective(X, y, host.coef_, host.intercept_, 1.0, loss, weight)
    for model in (moved, given):
        assert model.report_.converged
        assert model.report_.device == "cuda"
        value = objective(X, y, model.coef_, model.intercept_, 1.0, loss, weight)
        assert value <= best * (1 + 1.1e-6)
        assert isinstance(model.coef_, np.ndarray)


# from 256 features on vectors are on the device, by default
@covering(0, few=[256, 0], solver=["tron", "newton", "lbfgs"], sparse=[True, False])
def test_the_very_steps_of_the_host(cupy, monkeypatch, few, solver, sparse):
    monkeypatch.setattr(engine, "HOST_FEATURES", few)
    X, y = make_problem(400, 12, sparse=sparse)
    host, device = (daskglm.fit(X, y, solver=solver, tol=1e-9, device=d) for d in ("cpu", "cuda"))
    assert device.report_.passes == host.report_.passes
    assert device.report_.n_iter == host.report_.n_iter
    np.testing.assert_allclose(device.coef_, host.coef_, rtol=1e-8, atol=1e-10)
    values = [[step["objective"] for step in model.report_.history] for model in (host, device)]
    np.testing.assert_allclose(*values, rtol=1e-11)


@covering(
    0,
    loss=["hinge", "smoothed_hinge", "logistic"],
    options=[
        {},
        {"partitions": 3},
        {"partitioning": "static", "partitions": 2},
        {"aggregation": "search"},
        {"local_epochs": 3},
    ],
)
def test_dual_ascent_certifies_its_answer(cupy, loss, options):
    X, y = make_problem(200, 6, sparse=True)
    host = daskglm.fit(X, y, loss=loss, solver="sdca", tol=1e-5, random_state=0)
    device = daskglm.fit(
        X,
        y,
        loss=loss,
        solver="sdca",
        tol=1e-3,
        random_state=0,
        device="cuda",
        solver_options=options | {"polish": False},
    )
    assert device.report_.converged
    assert device.report_.relative_gap <= 1e-3
    values = [objective(X, y, m.coef_, m.intercept_, 1.0, loss) for m in (host, device)]
    assert abs(values[1] / values[0] - 1) <= 1.2e-3


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "4"])
def test_the_dual_never_falls_though_teams_work_at_once(cupy, monkeypatch, threads):
    monkeypatch.setenv("TWIN_THREADS", threads)
    X, y = make_problem(300, 20, dtype=np.float32)

    block = to_block(X, y, place=Place(), classify=True)
    engine = Local([block], where=DeviceConfig("cuda"))
    loss = LOSSES["logistic"]
    problem = Objective(engine, Problem(loss.ref, 1.0), loss, C=10.0, fit_intercept=False)
    dual = Dual(
        problem, engine.capabilities.xp.zeros(20), SDCAConfig(threads=16, partitions=2), seed=3
    )
    last = -np.inf
    for _ in range(8):
        dual.round(1.0, 2.0)
        dual.commit(1.0)
        found = dual.certificate()
        assert found.dual >= last - 1e-9 * abs(last)
        assert found.primal >= found.dual - 1e-9 * abs(found.dual)
        last = found.dual


@pytest.mark.slow
def test_several_classes_and_labels_of_any_kind(cupy):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.3 * rng.standard_normal((300, 3)), axis=1)]
    host, device = (daskglm.fit(X, y, device=d, class_weight="balanced") for d in ("cpu", "cuda"))
    np.testing.assert_allclose(host.coef_, device.coef_, rtol=1e-4, atol=1e-5)
    assert (host.predict(X) == device.predict(X)).mean() > 0.99
    assert (device.predict(on_device(cupy, X)) == device.predict(X)).all()
    np.testing.assert_allclose(
        device.predict_proba(on_device(cupy, X)), device.predict_proba(X), rtol=1e-10
    )


def test_bad_values_on_the_device_are_found_with_their_place(cupy):
    X, y = make_problem(300, 5)
    X[123, 3] = np.nan
    for data in (X, sp.csr_matrix(X)):
        with pytest.raises(ValueError, match=r"NaN.*row 123, column 3"):
            daskglm.fit(on_device(cupy, data), y)
    X[123, 3] = 1e160
    with pytest.raises(ValueError, match="overflow"):
        daskglm.fit(cupy.asarray(X), y)


@pytest.mark.parametrize("solver", first_by_default(["newton", "tron", "sdca"]))
def test_many_blocks_of_several_kinds(cupy, solver):
    """Dask without a cluster: blocks of both dtypes and storages, one of them empty, weights in between."""
    from dask import delayed

    X, y = make_problem(900, 6, dtype=np.float32)
    weight = np.random.default_rng(0).random(900)
    cuts = [0, 200, 200, 430, 600, 900]
    kinds = [
        np.asarray,
        np.asarray,
        sp.csr_matrix,
        cupy.asarray,
        lambda part: part.astype(np.float64),
    ]
    runs = [slice(lo, hi) for lo, hi in zip(cuts[:-1], cuts[1:], strict=True)]
    blocks = [delayed(kind(X[run])) for kind, run in zip(kinds, runs, strict=True)]
    labels, weights = [delayed(y[run]) for run in runs], [delayed(weight[run]) for run in runs]
    options = {
        "solver": solver,
        "sample_weight": weights,
        "tol": 1e-7,
        "random_state": 0,
        "device": "cuda",
    }
    model = daskglm.fit(blocks, labels, **options)
    best = daskglm.fit(X, y, sample_weight=weight, tol=1e-10)
    values = [
        objective(X, y, m.coef_, m.intercept_, 1.0, "logistic", weight) for m in (best, model)
    ]
    assert values[1] <= values[0] * (1 + 2e-7)


class Frame:
    """As much of a cuDF frame as is asked of one; cuDF itself cannot be installed without a GPU's driver."""

    __module__ = "cudf.core.dataframe"

    def __init__(self, frame):
        self.frame, self.iloc, self.dtypes, self.columns = frame, None, frame.dtypes, frame.columns
        self.shape, self.ndim = frame.shape, 2

    def __getitem__(self, names):
        part = self.frame[names]
        return Frame(part) if isinstance(names, list) else Column(part)

    def drop(self, columns):
        return Frame(self.frame.drop(columns=columns))

    def astype(self, dtype):
        return Frame(self.frame.astype(dtype))

    def to_cupy(self, na_value=None):
        import cupy

        return cupy.asarray(self.frame.to_numpy(na_value=na_value))


class Column:
    """A column of it."""

    __module__ = "cudf.core.series"

    def __init__(self, values):
        self.values, self.shape, self.ndim = values, values.shape, 1

    def __len__(self):
        return len(self.values)

    def to_numpy(self):
        return self.values.to_numpy()


@pytest.mark.parametrize("wide", [np.float32, np.int64])
def test_frames_on_the_device(cupy, wide):
    import pandas as pd

    X, y = make_problem(300, 3, dtype=np.float32)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        d=np.arange(300).astype(wide) % 7, label=y
    )
    host, device = (
        daskglm.fit(frame, "label", tol=1e-8),
        daskglm.fit(Frame(frame), "label", tol=1e-8),
    )
    assert device.report_.device == "cuda"
    np.testing.assert_allclose(device.coef_, host.coef_, rtol=1e-3, atol=1e-5)
    assert (
        device.predict(Frame(frame.drop(columns="label")))
        == host.predict(frame.drop(columns="label"))
    ).all()
    frame.loc[7, "b"] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*row 7, column 'b'"):
        daskglm.fit(Frame(frame), "label")


def test_warm_start_and_no_penalty_and_no_intercept(cupy):
    X, y = make_problem(400, 6)
    first = daskglm.fit(X, y, device="cuda", fit_intercept=False, C=0.3)
    again = daskglm.fit(X, y, device="cuda", fit_intercept=False, C=0.3, warm_start=first)
    assert again.report_.n_iter <= 1
    free = daskglm.fit(X, y, device="cuda", C=np.inf, tol=1e-8)
    host = daskglm.fit(X, y, C=np.inf, tol=1e-8)
    np.testing.assert_allclose(free.coef_, host.coef_, rtol=1e-5)


def test_a_constant_and_a_repeated_column_without_penalty(cupy):
    X, y = make_problem(300, 4)
    X = np.column_stack([X, np.ones(300), X[:, 0]])
    with pytest.warns(ConvergenceWarning, match="columns of X are linearly dependent"):
        host, device = (
            daskglm.fit(X, y, C=np.inf, solver="newton", tol=1e-8, device=d)
            for d in ("cpu", "cuda")
        )
    np.testing.assert_allclose(device.report_.objective, host.report_.objective, rtol=1e-8)


def test_a_hessian_factorised_on_the_device(cupy, monkeypatch):
    monkeypatch.setattr(engine, "HOST_FEATURES", 5)
    X, y = make_problem(400, 9)
    host, device = (
        daskglm.fit(X, y, solver="newton", tol=1e-10, device=d) for d in ("cpu", "cuda")
    )
    np.testing.assert_allclose(device.coef_, host.coef_, rtol=1e-8)
    X[:, 3] = 0.0  # singular without a penalty: left to the host's eigendecomposition
    host, device = (
        daskglm.fit(X, y, C=np.inf, solver="newton", tol=1e-8, device=d) for d in ("cpu", "cuda")
    )
    np.testing.assert_allclose(device.report_.objective, host.report_.objective, rtol=1e-8)


# ---- memory
@covering(
    0,
    storage=["sparse", "dense", "pattern"],
    solver=["tron", "newton", "lbfgs", "sdca"],
    eager="10",
)
def test_rows_beyond_the_memory_allowed_are_streamed(cupy, monkeypatch, solver, storage, eager):
    monkeypatch.setenv("TWIN_EAGER", eager)
    X, y = make_problem(1200, 10, sparse=storage != "dense", dtype=np.float32)
    if storage == "pattern":
        X.data[:] = 0.25
    whole = daskglm.fit(X, y, solver=solver, tol=1e-6, random_state=0)
    nbytes = X.nbytes if storage == "dense" else X.indices.nbytes + X.indptr.nbytes
    streamed = daskglm.fit(
        X,
        y,
        solver=solver,
        tol=1e-6,
        random_state=0,
        device="cuda",
        device_memory_limit=1200 * 24 + nbytes // 3,
    )
    assert streamed.report_.converged
    values = [objective(X, y, m.coef_, m.intercept_, 1.0, "logistic") for m in (whole, streamed)]
    assert abs(values[1] / values[0] - 1) <= 2e-6
    if solver in ("newton", "tron"):
        assert streamed.report_.passes == whole.report_.passes


def test_what_is_streamed_and_what_stays(cupy):

    X, y = make_problem(3000, 10, dtype=np.float32)
    block = to_block(X, y, place=Place(), classify=True)
    vectors = 24 * 3000
    shard = Shard([block], 1, where=DeviceConfig("cuda", vectors + X.nbytes // 2))
    rows = shard.blocks[0].X
    assert isinstance(rows, gpu().streamed.Rows)
    assert 0 < rows.resident.n < 3000
    assert not shard.solves_trust_regions
    seen = np.zeros(3000, int)
    for lo, hi, part in rows.chunks():
        seen[lo:hi] += 1
        np.testing.assert_array_equal(part.X.get(), X[lo:hi])
    assert (seen == 1).all()
    assert rows.bytes_copied == X[rows.resident.n :].nbytes
    assert len(rows.cuts) > 3  # several chunks
    assert isinstance(
        Shard([block], 1, where=DeviceConfig("cuda", 1 << 30)).blocks[0].X, gpu().dense.Rows
    )


def test_a_limit_below_the_vectors_of_rows_is_an_error(cupy):
    X, y = make_problem(3000, 10)
    with pytest.raises(MemoryError, match="raise device_memory_limit"):
        daskglm.fit(X, y, device="cuda", device_memory_limit=3000 * 8)


def test_shards_of_one_fit_share_what_was_moved(cupy):
    X, y = make_problem(2000, 10)
    block = to_block(X, y, place=Place(), classify=True)
    placed, caches = {}, {}
    first = Shard([block], 1, caches, ["a"], DeviceConfig("cuda"), placed)
    again = Shard([block], 1, caches, ["a"], DeviceConfig("cuda"), placed)
    assert again.blocks[0].X is first.blocks[0].X


def test_a_solve_takes_no_memory_an_iteration(cupy):
    """After the first solve the same one again asks for no more than its totals and coefficients."""

    X, y = make_problem(2000, 30)
    loss = LOSSES["logistic"]
    engine = Local([to_block(X, y, place=Place(), classify=True)], where=DeviceConfig("cuda"))
    problem = Objective(engine, Problem(loss.ref, 1.0), loss, C=1.0, fit_intercept=True)
    point = problem.at(engine.capabilities.xp.zeros(31), diagonal=True)
    solve_in_region(point, Diagonal(engine.capabilities.xp.ones(31)), 10.0)
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    step = solve_in_region(point, Diagonal(engine.capabilities.xp.ones(31)), 10.0)
    assert (
        pool.used_bytes() - before <= 2 * 1024
    )  # step and residual, in the pool's pieces of 512 bytes
    assert float((step.step * step.step).sum()) > 0


@pytest.mark.parametrize("solver", ["newton", "tron"])
@pytest.mark.slow
def test_a_dense_fit_takes_at_most_15_per_cent_beyond_its_data(cupy, solver):
    """By the row, which is what counts for many: 28 float32 features as HIGGS has."""
    if not hasattr(cupy.ndarray, "allocate"):
        pytest.skip("the real CuPy's pool is looked at by the benchmark")
    most, pool = {}, cupy.get_default_memory_pool()
    for n in (2100, 4100):
        X, y = make_problem(n, 28, dtype=np.float32)
        rows = cupy.asarray(X)
        before, seen = pool.used_bytes(), []

        def look(record, seen=seen):
            seen.append(pool.used_bytes())

        daskglm.fit(rows, y, solver=solver, fit_intercept=False, callback=look)
        most[n] = max(seen) - before
    a_row = (most[4100] - most[2100]) / 2000
    assert 0 < a_row <= 0.15 * 28 * 4


# ---- errors
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "gpu"}, "device='gpu' is not one of"),
        ({"device": "cuda", "device_memory_limit": "much"}, "device_memory_limit='much'"),
        ({"device": "cuda", "device_memory_limit": 0}, "must be positive"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        daskglm.fit(np.eye(4), [0, 1, 0, 1], **arguments)


def test_shrinking_is_not_offered_on_a_device(cupy):
    X, y = make_problem(100, 3)
    with pytest.raises(ValueError, match="shrinking"):
        daskglm.fit(
            X, y, loss="hinge", device="cuda", solver_options={"shrinking": True}, solver="sdca"
        )


def test_rows_on_a_device_can_be_computed_on_the_host(cupy):
    X, y = make_problem(200, 3)
    model = daskglm.fit(on_device(cupy, X), cupy.asarray(y), device="cpu")
    np.testing.assert_allclose(model.coef_, daskglm.fit(X, y).coef_, rtol=1e-10)


@covering(
    0,
    model=["LogisticRegression", "OrdinalRegression"],
    solver=["newton", "tron", "lbfgs"],
    sparse=[False, True],
)
def test_losses_of_all_classes_together(cupy, model, solver, sparse):
    X, _ = make_problem(500, 9, sparse=sparse, dtype=np.float32)
    rng = np.random.default_rng(1)
    y = np.digitize(X @ rng.standard_normal(9) + rng.logistic(size=500), [-1.0, 0.5, 1.0])
    if model == "LogisticRegression":
        y = np.array(["b", "d", "a", "c"])[y]
    weight = rng.random(500) + 0.5
    given = {"solver": solver, "tol": 1e-9, "class_weight": "balanced"}
    host, device = (
        getattr(daskglm, model)(**given, device=where).fit(X, y, weight)
        for where in ("cpu", "cuda")
    )
    assert device.report_.converged
    assert device.report_.device == "cuda"
    assert device.report_.relative_gap <= 1e-9
    np.testing.assert_allclose(device.coef_, host.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(device.predict(X), host.predict(X))
    if model == "LogisticRegression":
        there = daskglm.LogisticRegression(**given).fit(on_device(cupy, X), y, weight)
        np.testing.assert_allclose(there.coef_, device.coef_, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_losses_with_corners_and_an_l1_part(cupy, l1_ratio):
    X, y = make_problem(400, 6, loss="squared", dtype=np.float32)
    how = {"alpha": 0.1, "l1_ratio": l1_ratio, "tol": 1e-5}
    host, device = (
        daskglm.QuantileRegressor(**how, device=where).fit(X, y) for where in ("cpu", "cuda")
    )
    assert device.report_.device == "cuda"
    assert device.report_.relative_gap <= 1e-5
    np.testing.assert_allclose(device.coef_, host.coef_, atol=1e-2)


@pytest.mark.slow
@covering(
    1,
    given=[{}, {"penalty_factor": np.arange(9.0)}, {"positive": True}],
    model=["LogisticRegression", "OrdinalRegression"],
)
def test_kinks_and_bounds_of_all_classes_together(cupy, model, given):
    X, _ = make_problem(500, 9, dtype=np.float32)
    rng = np.random.default_rng(1)
    y = np.digitize(X @ rng.standard_normal(9) + rng.logistic(size=500), [-1.0, 0.5, 1.0])
    how = {"l1_ratio": 1.0, "C": 0.1, "tol": 1e-8, **given}
    host, device = (
        getattr(daskglm, model)(**how, device=where).fit(X, y) for where in ("cpu", "cuda")
    )
    assert device.report_.device == "cuda"
    assert device.report_.relative_gap <= 1e-8
    np.testing.assert_allclose(device.coef_, host.coef_, atol=1e-3)


@pytest.mark.parametrize("features", [3, 300])
def test_several_classes_without_a_penalty_on_a_device(cupy, features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, features))
    z = X[:, :3] @ rng.standard_normal((3, 3)) + rng.gumbel(size=(2000, 3))
    y = z.argmax(axis=1)
    host, device = (
        daskglm.LogisticRegression(C=np.inf, tol=1e-8, device=where).fit(X, y)
        for where in ("cpu", "cuda")
    )
    assert device.report_.relative_gap <= 1e-8
    np.testing.assert_allclose(device.coef_, host.coef_, rtol=1e-3, atol=1e-4)
