"""Checkpoints: written amid a solve, gone on from to the same optimum, and refused where they do not belong."""

import json

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.fitting.checkpoint import every, load
from tests.conftest import make_problem

X, y = make_problem(900, 6)
ROWS = (da.from_array(X, chunks=(100, 6)), da.from_array(y, chunks=100))
FAR = {"newton": 2, "tron": 2, "lbfgs": 4, "gd": 6, "sdca": 10}


class Killed(BaseException):
    pass


def killer(number):
    def kill(record):
        if record["iteration"] == number:
            raise Killed

    return kill


def killed(path, *data, at, **options):
    with pytest.raises(Killed):
        daskglm.fit(*data, checkpoint=path, checkpoint_every=1, callback=killer(at), **options)


def best(**options):
    return daskglm.fit(X, y, tol=1e-12, solver="newton", **options)


@pytest.mark.parametrize("solver", list(FAR))
def test_a_killed_fit_goes_on_to_the_same_optimum_with_less_work(solver, tmp_path):
    options = {"solver": solver, "tol": 1e-8, "random_state": 0}
    if solver == "sdca":
        options["solver_options"] = {"polish": False}
    whole = daskglm.fit(X, y, **options)
    killed(tmp_path / "c", X, y, at=FAR[solver], **options)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options)
    np.testing.assert_allclose(rest.coef_, best().coef_, atol=1e-3)
    assert rest.report_.converged
    assert rest.report_.resumed == FAR[solver]
    assert rest.report_.passes < whole.report_.passes
    # a fit that was resumed and killed again counts on from there
    again = {**options, "checkpoint": tmp_path / "d", "checkpoint_every": 1}
    with pytest.raises(Killed):
        daskglm.fit(X, y, resume=tmp_path / "c", callback=killer(1), **again)
    assert load(tmp_path / "d").iteration == FAR[solver] + 1
    # the path is the same, so that together they make the iterations of the whole, up to one at the joint
    assert abs(rest.report_.n_iter + FAR[solver] - whole.report_.n_iter) <= (
        1 if solver != "sdca" else 12
    )


@pytest.mark.parametrize("solver", ["tron", "lbfgs", "gd", "newton"])
def test_the_path_goes_on_bit_by_bit(solver, tmp_path):
    options = {"solver": solver, "tol": 1e-10}
    whole = daskglm.fit(X, y, **options).report_.history
    killed(tmp_path / "c", X, y, at=2, **options)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options).report_.history
    wanted = [record["objective"] for record in whole[2:6]]
    np.testing.assert_allclose(
        [record["objective"] for record in rest[: len(wanted)]], wanted, rtol=1e-13
    )


def test_a_preconditioner_from_a_sample_comes_back(tmp_path):
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((60, 60)) * np.logspace(0, -1, 60)
    X = (rng.standard_normal((40_000, 60)) @ mixing.T).astype(np.float32)
    y = np.where(X @ rng.standard_normal(60) + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    options = {"solver": "tron", "tol": 1e-9, "C": 10.0}
    whole = daskglm.fit(X, y, **options).report_.history
    killed(tmp_path / "c", X, y, at=8, **options)
    assert {"center", "steps"} <= set(np.load(next((tmp_path / "c").rglob("*.npz"))).files)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options).report_.history
    wanted = [record["objective"] for record in whole[8:]]
    assert len(wanted) > 2
    np.testing.assert_allclose(
        [record["objective"] for record in rest[: len(wanted)]], wanted, rtol=1e-12
    )


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
def test_dual_variables_come_back(loss, tmp_path):
    y = make_problem(900, 6, loss=loss)[1]
    options = {
        "loss": loss,
        "solver": "sdca",
        "tol": 1e-6,
        "random_state": 1,
        "solver_options": {"polish": False},
    }
    history = daskglm.fit(X, y, **options).report_.history
    killed(tmp_path / "c", X, y, at=3, **options)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options).report_
    assert rest.converged
    # the first point is the saved one, certified: its gap lies where estimates had it
    assert rest.history[0]["relative_gap"] < 20 * history[3]["relative_gap"]
    assert rest.n_iter <= 2 * len(history)


@pytest.mark.slow
def test_on_other_numbers_of_workers(tmp_path, client):
    options = {"solver": "sdca", "tol": 1e-7, "random_state": 0}
    killed(tmp_path / "a", *ROWS, at=3, **options)  # two workers
    rest = daskglm.fit(*ROWS, resume=tmp_path / "a", **options)
    assert rest.report_.workers == 2
    killed(tmp_path / "b", X, y, at=3, client=client, **options)
    there = daskglm.fit(
        X, y, resume=tmp_path / "b", **options
    )  # rows in memory, cut into two, now in one piece
    assert there.report_.workers == 1
    from distributed import Client, LocalCluster

    with LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, processes=False
    ) as cluster:
        with Client(cluster):
            other = daskglm.fit(*ROWS, resume=tmp_path / "a", **options)
    assert other.report_.workers == 3
    for model in (rest, there, other):
        np.testing.assert_allclose(model.coef_, best().coef_, atol=2e-3)
        assert model.report_.history[0]["relative_gap"] < 0.1


def test_another_solver_or_problem_or_data_is_refused(tmp_path):
    killed(tmp_path / "c", X, y, at=2, solver="lbfgs")
    fit = {"resume": tmp_path / "c"}
    with pytest.raises(
        ValueError, match=r"is of solver='lbfgs', this fit asks for 'tron'.*warm_start"
    ):
        daskglm.fit(X, y, solver="tron", **fit)
    with pytest.raises(ValueError, match=r"C=1.0, this one has C=2.0"):
        daskglm.fit(X, y, C=2.0, **fit)
    with pytest.raises(ValueError, match="fit_intercept=True, this one has fit_intercept=False"):
        daskglm.fit(X, y, fit_intercept=False, **fit)
    with pytest.raises(ValueError, match="other data: rows was 900, now it is 899"):
        daskglm.fit(X[1:], y[1:], **fit)
    swapped = y.copy()
    swapped[[np.argmax(y > 0), np.argmax(y < 0)]] = (
        -1.0,
        1.0,
    )  # the same rows and counts, other labels
    with pytest.raises(ValueError, match="other data of the same shape"):
        daskglm.fit(X, swapped, **fit)
    with pytest.raises(ValueError, match="give one of them"):
        daskglm.fit(X, y, warm_start=(np.zeros(6), 0.0), **fit)
    again = daskglm.fit(X, y, **fit).report_.history
    assert again[0]["solver"] == "", "auto resumes with the solver of the checkpoint"
    assert daskglm.fit(X[::-1].copy(), y[::-1].copy(), **fit).report_.converged, (
        "the order of rows is no matter here"
    )


def test_dual_variables_of_other_partitions_are_refused(tmp_path):
    options = {"solver": "sdca", "tol": 1e-9, "solver_options": {"polish": False}}
    killed(tmp_path / "c", *ROWS, at=2, **options)
    cut = (da.from_array(X, chunks=(90, 6)), da.from_array(y, chunks=90))
    with pytest.raises(
        FileNotFoundError, match="partition 0 with 90 rows.*cut into other partitions"
    ):
        daskglm.fit(*cut, resume=tmp_path / "c", **options)


def test_no_checkpoint_a_damaged_one_and_wrong_arguments(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        daskglm.fit(X, y, resume=tmp_path / "none")
    killed(tmp_path / "c", X, y, at=1, solver="lbfgs")
    state = tmp_path / "c" / "state.npz"
    content = state.read_bytes()
    for bad in (content[: len(content) // 2], b"", b"not a zip"):
        state.write_bytes(bad)
        with pytest.raises(
            ValueError, match="is not a checkpoint of this version of daskglm, or damaged"
        ):
            daskglm.fit(X, y, resume=tmp_path / "c")
    for wrong in (0, -1, True, "soon", "0s", 1.5, "7"):
        with pytest.raises(ValueError, match="checkpoint_every"):
            daskglm.fit(X, y, checkpoint_every=wrong)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        daskglm.fit(X, y, checkpoint=tmp_path / "file" / "c")
    assert every("2 minutes") == (np.inf, 120.0)


def test_the_folder_holds_one_whole_state_and_nothing_pickled(tmp_path):
    daskglm.fit(*ROWS, solver="sdca", tol=1e-5, checkpoint=tmp_path / "c", checkpoint_every=1)
    names = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert len(names) == 2, names
    assert names[1] == "state.npz"
    assert names[0].startswith("rows-")
    assert len(list((tmp_path / "c" / names[0]).iterdir())) == 9
    with np.load(tmp_path / "c" / "state.npz", allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
    assert about["solver"] == "sdca"
    assert about["iteration"] > 1
    again = daskglm.fit(*ROWS, tol=1e-5, resume=tmp_path / "c").report_
    assert again.converged
    assert again.n_iter <= 1, "the last state is the end of the fit"


def test_seconds_between_states_and_urls(tmp_path):
    daskglm.fit(
        X, y, solver="gd", tol=1e-6, checkpoint=f"file://{tmp_path}/c", checkpoint_every="1h"
    )
    assert load(tmp_path / "c").iteration > 2, "the last point is written whatever the time"
    daskglm.fit(X, y, solver="sdca", tol=1e-4, checkpoint="memory://kept/c", checkpoint_every=2)
    assert daskglm.fit(X, y, tol=1e-4, resume="memory://kept/c").report_.converged


@pytest.mark.parametrize("solver", list(FAR))
@pytest.mark.parametrize("every", ["1h", 100])
def test_the_first_iterate_is_a_state_whatever_is_asked_for(solver, every, tmp_path):
    options = {"solver": solver, "tol": 1e-10, "random_state": 0, "checkpoint_every": every}
    with pytest.raises(Killed):
        daskglm.fit(X, y, checkpoint=tmp_path / "c", callback=killer(0), **options)
    assert load(tmp_path / "c").iteration == 0
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options)
    assert rest.report_.converged
    np.testing.assert_allclose(rest.coef_, best().coef_, atol=1e-4)


@pytest.mark.parametrize("solver", ["lbfgs", "sdca"])
def test_what_a_kill_amid_a_write_leaves_is_passed_over_and_removed(solver, tmp_path):
    """Half a state, and dual variables of some partitions, beside the whole state before."""
    options = {"solver": solver, "tol": 1e-8, "random_state": 0}
    killed(tmp_path / "c", *ROWS, at=2, **options)
    state, torn = tmp_path / "c" / "state.npz", tmp_path / "c" / f"rows-{'0' * 32}"
    half = tmp_path / "c" / f".state.npz-{'0' * 32}"
    half.write_bytes(state.read_bytes()[:100])
    torn.mkdir()
    (torn / "0_0_100.npy").write_bytes(b"half")
    rest = daskglm.fit(*ROWS, checkpoint=tmp_path / "c", resume=tmp_path / "c", **options)
    assert rest.report_.resumed == 2
    assert rest.report_.converged
    assert not half.exists()
    assert not torn.exists()
    np.testing.assert_allclose(rest.coef_, best().coef_, atol=1e-3)


@pytest.mark.parametrize("solver", ["lbfgs", "sdca"])
def test_a_kill_soon_after_a_fit_is_resumed_costs_no_class(solver, tmp_path):
    """Those before the class it was at are checked again: the state in the folder is further on."""
    labels = np.digitize(X @ np.arange(6.0), [-1.0, 1.0])
    options = {"solver": solver, "tol": 1e-8, "random_state": 0, "checkpoint": tmp_path / "c"}
    begun = iter(range(10**6))

    def in_the_third(record):
        if record["iteration"] == 0 and next(begun) == 2:
            raise Killed

    with pytest.raises(Killed):
        daskglm.fit(X, labels, callback=in_the_third, **options)
    assert load(tmp_path / "c").problem == 2
    for number in range(2):  # again and again
        with pytest.raises(Killed):
            daskglm.fit(X, labels, callback=killer(0), resume=tmp_path / "c", **options)
        assert load(tmp_path / "c").problem == 2, number
    rest = daskglm.fit(X, labels, resume=tmp_path / "c", **options)
    assert rest.report_.converged
    whole = daskglm.fit(X, labels, solver="newton", tol=1e-10)
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-3)


def test_many_classes_go_on_at_the_class_they_were_at(tmp_path):
    labels = np.digitize(X @ np.arange(6.0), [-1.0, 1.0])
    whole = daskglm.fit(X, labels, solver="lbfgs", tol=1e-10)
    count = iter(range(10**6))
    first = whole.report_.parts[0].n_iter

    def kill(record):
        if next(count) == first + 4:  # in the second problem
            raise Killed

    with pytest.raises(Killed):
        daskglm.fit(
            X,
            labels,
            solver="lbfgs",
            tol=1e-10,
            checkpoint=tmp_path / "c",
            checkpoint_every=1,
            callback=kill,
        )
    saved = load(tmp_path / "c")
    assert (saved.problem, len(saved.finished)) == (1, 1)
    rest = daskglm.fit(X, labels, solver="lbfgs", tol=1e-10, resume=tmp_path / "c")
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-5)
    assert rest.report_.parts[0].n_iter <= 1
    assert rest.report_.parts[1].resumed == saved.iteration > 0


def test_second_stage_of_sdca_goes_on_in_it(tmp_path):
    options = {"solver": "sdca", "tol": 1e-12, "random_state": 0, "C": 10.0}
    history = daskglm.fit(X, y, **options).report_.history
    at = next(record["iteration"] for record in history if record["solver"] == "newton") + 1
    killed(tmp_path / "c", X, y, at=at, **options)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options).report_
    assert rest.converged
    assert {record["solver"] for record in rest.history} == {"newton"}


def test_auto_goes_on_with_tron(tmp_path):
    rng, n = np.random.default_rng(5), 90_000
    levels = [np.minimum((m * rng.random(n) ** 3).astype(int), m - 1) for m in (2_000, 500, 30)]
    S = sp.hstack([sp.csr_matrix((np.ones(n), (np.arange(n), k))) for k in levels], "csr")
    z = sum(rng.standard_normal(k.max() + 1)[k] for k in levels)
    t = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1, 0)
    options = {"C": 100.0, "tol": 1e-8}
    whole = daskglm.fit(S, t, **options).report_
    assert whole.solver == "tron"
    at = whole.n_iter // 2
    killed(tmp_path / "c", S, t, at=at, **options)
    rest = daskglm.fit(S, t, resume=tmp_path / "c", **options).report_
    assert rest.converged
    assert rest.passes < whole.passes
    np.testing.assert_allclose(
        rest.history[0]["objective"], whole.history[at]["objective"], rtol=1e-12
    )


def test_sparse_rows_and_a_hinge_with_proximal_points(tmp_path):
    S, t = make_problem(500, 10, sparse=True)
    options = {"loss": "hinge", "solver": "sdca", "tol": 1e-6, "random_state": 0}
    history = daskglm.fit(S, t, **options).report_.history
    at = next(record["iteration"] for record in history if record["solver"] == "newton")
    killed(tmp_path / "c", S, t, at=at, **options)
    rest = daskglm.fit(sp.csr_matrix(S), t, resume=tmp_path / "c", **options)
    assert rest.report_.converged
    assert rest.report_.history[0]["relative_gap"] <= 2 * history[at]["relative_gap"] + 1e-6
