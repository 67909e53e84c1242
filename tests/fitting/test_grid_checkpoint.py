"""Checkpoints of paths and of folds: killed amid a solve, resumed to the same optimum, refused where they do not belong."""

import asyncio
import json
import warnings

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.core.requests import Folds
from daskglm.data import npz
from daskglm.fitting.checkpoint import load
from daskglm.fitting.grid_checkpoint import digest
from tests.conftest import make_problem

X, y = make_problem(900, 6)
ROWS = (da.from_array(X, chunks=(300, 6)), da.from_array(y, chunks=300))
CS = [0.01, 1.0, 30.0]
FAR = (np.array([3.0, -2.0, 4.0, 1.0, -3.0, 2.0]), 2.0)  # several steps away


class Killed(BaseException):
    pass


def killer(number):
    """Kill a fit when it has called back so often."""
    records = []

    def kill(record):
        records.append(record)
        if len(records) == number:
            raise Killed

    return kill


def killed(path, *data, at, **options):
    with pytest.raises(Killed):
        daskglm.fit(*data, checkpoint=path, checkpoint_every=1, callback=killer(at), **options)


def coefficients(models):
    return np.array([model.coef_ for model in models])


@pytest.mark.parametrize("labels", [y, np.digitize(X @ np.arange(6.0), [-1.0, 1.0])])
def test_problems_solved_together_go_on_where_they_were(labels, tmp_path):
    options = {"C": CS, "tol": 1e-10}
    start = FAR if len(np.unique(labels)) == 2 else (np.tile(FAR[0], (3, 1)), np.full(3, 2.0))
    whole = daskglm.fit(X, labels, warm_start=start, **options)
    history = whole[0].report_.history
    at = len(history) - 2
    assert at > 1
    killed(tmp_path / "c", X, labels, at=at, warm_start=start, **options)
    saved = load(tmp_path / "c")
    assert saved.solver == "batched_newton"
    assert saved.w.shape == (3 * len(whole[0].report_.parts or [0]), 7)
    rest = daskglm.fit(X, labels, resume=tmp_path / "c", **options)
    for model in rest:
        assert model.report_.converged
        assert model.report_.resumed == at - 1
    first = rest[0].report_.history[0]
    assert first["objective"] <= history[at - 1]["objective"] * (1 + 1e-12)
    assert len(rest[0].report_.history) < len(history)
    np.testing.assert_allclose(coefficients(rest), coefficients(whole), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("solver", ["lbfgs", "sdca"])
def test_problems_solved_one_by_one_go_on_where_they_were(solver, tmp_path):
    options = {"C": CS, "tol": 1e-8, "solver": solver, "random_state": 0}
    if solver == "sdca":
        options |= {"tol": 1e-5, "solver_options": {"polish": False}}
    whole = daskglm.fit(X, y, **options)
    # steps beyond tol, which follow L-BFGS, call nothing back
    first = len(whole[0].report_.history) - (solver == "lbfgs")
    killed(tmp_path / "c", X, y, at=first + 4, **options)
    saved = load(tmp_path / "c")
    assert (saved.problem, saved.left, len(saved.finished)) == (1, [0, 1, 2], 1)
    rest = daskglm.fit(X, y, checkpoint=tmp_path / "c", resume=tmp_path / "c", **options)
    assert rest[0].report_.n_iter <= 1
    assert [model.report_.resumed for model in rest] == [0, 3, 0]
    assert all(model.report_.converged for model in rest)
    assert rest[0].report_.passes < whole[0].report_.passes + 3
    np.testing.assert_allclose(coefficients(rest), coefficients(whole), rtol=1e-2, atol=2e-2)


def test_a_problem_of_its_own_beside_those_solved_together(tmp_path):
    """A fold without one class needs no solver, so it is left by those that are solved together."""
    order = np.argsort(y, kind="stable")
    folds = [
        (order[: int((y < 0).sum())], order[int((y < 0).sum()) :]),
        (np.arange(0, 900, 2), np.arange(1, 900, 2)),
    ]
    options = {"Cs": CS, "cv": folds, "tol": 1e-10}
    whole = daskglm.LogisticRegressionCV(**options).fit(X, y)
    records = len(whole.report_.history)
    for at in range(2, records + 1):
        with pytest.raises(Killed):
            daskglm.LogisticRegressionCV(**options).fit(
                X, y, checkpoint=tmp_path / "c", checkpoint_every=1, callback=killer(at)
            )
        rest = daskglm.LogisticRegressionCV(**options).fit(X, y, resume=tmp_path / "c")
        np.testing.assert_allclose(rest.coef_, whole.coef_, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(rest.scores_[1.0], whole.scores_[1.0], atol=1e-12)


def test_folds_on_a_cluster_are_resumed_in_process_with_the_same_seed(tmp_path, client):
    def model(seed):
        return daskglm.LogisticRegressionCV(Cs=CS, cv=3, random_state=seed, tol=1e-9)

    whole = model(0).fit(*ROWS, checkpoint=tmp_path / "c", checkpoint_every=1)
    rest = model(0).fit(*ROWS, resume=tmp_path / "c")
    assert rest.report_.passes < whole.report_.passes
    np.testing.assert_allclose(rest.coef_, whole.coef_, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="is of a fit with folds="):
        model(1).fit(*ROWS, resume=tmp_path / "c")
    with pytest.raises(ValueError, match="is of a fit with folds="):
        daskglm.fit(*ROWS, C=CS, resume=tmp_path / "c")


def test_other_problems_are_refused(tmp_path):
    daskglm.fit(X, y, C=CS, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match=r"fit with C=\[0.01, 1.0, 30.0\], this one has C=\[1.0\]"):
        daskglm.fit(X, y, C=[1.0], resume=tmp_path / "c")
    with pytest.raises(ValueError, match=r"fit with C=\[0.01, 1.0, 30.0\], this one has C=1.0"):
        daskglm.fit(X, y, resume=tmp_path / "c")
    with pytest.raises(ValueError, match="is of solver='newton', this fit asks for 'lbfgs'"):
        daskglm.fit(X, y, C=CS, solver="lbfgs", resume=tmp_path / "c")
    with pytest.raises(ValueError, match="other data: rows was 900, now it is 899"):
        daskglm.fit(X[1:], y[1:], C=CS, resume=tmp_path / "c")
    with pytest.raises(ValueError, match="resume and warm_start"):
        daskglm.fit(X, y, C=CS, resume=tmp_path / "c", warm_start=FAR)
    assert all(m.report_.converged for m in daskglm.fit(X, y, C=CS, resume=tmp_path / "c"))


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({"left": [7]}, 3),
        ({"left": [0]}, 3),
        ({}, 2),
        ({"state": {"given_up": [3]}}, 3),
        ({"solver": "newton", "state": {}}, 3),
    ],
)
def test_states_that_do_not_fit_together_are_damaged(changes, rows, tmp_path):
    daskglm.fit(X, y, C=CS, checkpoint=tmp_path)
    arrays = npz.read((tmp_path / "state.npz").read_bytes())
    about = json.loads(arrays.pop("about").tobytes()) | changes
    arrays["w"] = arrays["w"][:rows] if about["solver"] == "batched_newton" else arrays["w"][0]
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    (tmp_path / "state.npz").write_bytes(npz.write(arrays))
    with pytest.raises(ValueError, match="damaged: it is of other problems"):
        daskglm.fit(X, y, C=CS, resume=tmp_path)


def test_divisions_are_told_apart():
    groups = np.arange(6) % 2
    one = Folds("a", ((0, 1), (1, 0)), groups=groups)
    assert digest(one) == digest(Folds("b", ((0, 1), (1, 0)), groups=groups.copy()))
    assert digest(one) != digest(Folds("a", ((0, 1), (1, 0)), groups=1 - groups))
    assert digest(one) != digest(Folds("a", ((0, 1), (1, 2)), groups=groups))
    assert digest(Folds("a", ((0, 1), (1, 0)), seed=1)) != digest(Folds("a", ((0, 1), (1, 0)), 2))


def test_a_given_up_problem_is_left_to_a_solver_of_one(tmp_path):
    """Where undamped steps fail the batch gives up; what took over is resumed, too."""
    rng = np.random.default_rng(1)
    S = rng.standard_normal((60, 3)) * [1.0, 50.0, 1000.0]
    t = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    options = {"C": [1.0, 100.0], "tol": 1e-8}
    start = (np.array([3.0, -2.0, 1.0]), 5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = daskglm.fit(S, t, warm_start=start, **options)
        count = []
        daskglm.fit(S, t, warm_start=start, callback=count.append, **options)
        for at in range(2, len(count) + 1):
            killed(tmp_path / "c", S, t, at=at, warm_start=start, **options)
            rest = daskglm.fit(S, t, resume=tmp_path / "c", **options)
            for one, other in zip(whole, rest, strict=True):
                assert other.report_.objective <= one.report_.objective * (1 + 1e-7)


def test_a_path_of_an_asynchronous_client_is_resumed(_cluster, tmp_path):
    from distributed import Client

    async def fit(**options):
        async with Client(_cluster.scheduler_address, asynchronous=True) as client:
            return await daskglm.fit(*ROWS, C=CS, client=client, **options)

    records = []
    whole = asyncio.run(fit(checkpoint=tmp_path / "c", callback=records.append))
    rest = asyncio.run(fit(resume=tmp_path / "c"))
    assert records == whole[0].report_.history
    assert rest[0].report_.passes < whole[0].report_.passes
    np.testing.assert_allclose(coefficients(rest), coefficients(whole), rtol=1e-2, atol=1e-4)


@pytest.mark.slow
def test_a_path_on_a_device_is_resumed(cupy, tmp_path):
    options = {"C": CS, "device": "cuda", "solver": "lbfgs"}
    whole = daskglm.fit(X, y, **options)
    assert whole[0].report_.device == "cuda"
    killed(tmp_path / "c", X, y, at=len(whole[0].report_.history) + 2, **options)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options)
    assert [model.report_.resumed > 0 for model in rest] == [False, True, False]
    np.testing.assert_allclose(coefficients(rest), coefficients(whole), rtol=1e-2, atol=1e-2)
