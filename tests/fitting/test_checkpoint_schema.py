"""Checkpoints that are damaged, edited or in the way: refused with the checkpoint and what is wrong named; none pile up."""

import json
import os
import tracemalloc

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.data import npz
from daskglm.fitting.checkpoint import load
from tests.conftest import make_problem
from tests.fitting.test_checkpoint import ROWS, killed

X, y = make_problem(300, 6)
SDCA = {"solver": "sdca", "tol": 1e-9, "random_state": 0, "solver_options": {"polish": False}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A checkpoint of each solver."""
    made = {}
    for solver in ("lbfgs", "tron", "gd", "newton", "sdca"):
        made[solver] = tmp_path_factory.mktemp(solver) / "c"
        options = SDCA if solver == "sdca" else {"solver": solver, "tol": 1e-12}
        killed(made[solver], X, y, at=2, **options)
    return made


def edited(folder, tmp_path, arrays=None, **changes):
    """A copy of a checkpoint with changes to its description and arrays."""
    held = npz.read((folder / "state.npz").read_bytes())
    about = {**json.loads(held["about"].tobytes()), **changes}
    held["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    for name, value in (arrays or {}).items():
        held.pop(name, None)
        if value is not None:
            held[name] = value
    (tmp_path / "c").mkdir(exist_ok=True)
    for path in folder.glob("rows-*"):
        (tmp_path / "c" / path.name).exists() or os.symlink(path, tmp_path / "c" / path.name)
    (tmp_path / "c" / "state.npz").write_bytes(npz.write(held))
    return tmp_path / "c"


def state_of(folder):
    return json.loads(npz.read((folder / "state.npz").read_bytes())["about"].tobytes())["state"]


NAN = np.full(7, np.nan)


@pytest.mark.parametrize(
    ("solver", "arrays", "changes", "word"),
    [
        ("lbfgs", {"w": NAN}, {}, "w has numbers that are not finite"),
        ("lbfgs", {"w": np.zeros(9)}, {}, r"w has shape \(9,\), where 7 numbers"),
        ("lbfgs", {"w": np.zeros((7, 1))}, {}, "w has shape"),
        ("lbfgs", {"w": np.zeros(7, np.int64)}, {}, "float64"),
        ("lbfgs", {"w": None}, {}, "it has no 'w'"),
        ("lbfgs", {"finished": np.zeros((1, 7))}, {}, "finished has shape"),
        ("lbfgs", {"diagonal": NAN}, {}, "'diagonal'"),
        ("lbfgs", {"diagonal": -np.ones(7)}, {}, "'diagonal'"),
        ("lbfgs", {"steps": np.zeros((3, 8))}, {}, "'steps'"),
        ("lbfgs", {"steps": np.zeros((10**5, 7))}, {}, "'steps'"),
        ("lbfgs", {"evil": np.zeros(3)}, {}, "'evil', which that solver does not know"),
        ("lbfgs", {"taken": np.zeros(3)}, {}, "'taken'"),
        ("lbfgs", {}, {"solver": "evil"}, "solver 'evil' is not one of"),
        ("lbfgs", {}, {"solver": ["tron"]}, "is not one of"),
        ("lbfgs", {}, {"solver": "gd"}, "does not know"),
        ("lbfgs", {}, {"problem": True}, "problem"),
        ("lbfgs", {}, {"problem": -1}, "problem"),
        ("lbfgs", {}, {"iteration": 1.5}, "iteration"),
        ("lbfgs", {}, {"state": []}, "no dictionary"),
        ("lbfgs", {}, {"settings": {}}, "fit_intercept"),
        ("lbfgs", {}, {"counts": {"features": 0}}, "features"),
        ("lbfgs", {}, {"sums": [1.0]}, "3 numbers"),
        ("lbfgs", {}, {"sums": [1.0, float("nan"), 2.0]}, "sum over the rows"),
        ("lbfgs", {}, {"version": 3}, "version 3"),
        ("lbfgs", {}, {"rows": "rows-" + "0" * 32}, "no folder of dual variables"),
        ("tron", {}, {"state": {"radius": float("nan")}}, "'radius'"),
        ("tron", {}, {"state": {"radius": -1.0}}, "'radius'"),
        ("tron", {}, {"state": {"radius": "1"}}, "'radius'"),
        ("tron", {"center": np.zeros(3)}, {}, "'center'"),
        ("newton", {}, {"state": {"evil": 1}}, "'evil'"),
        ("newton", {}, {"left": 3}, "left is no list of problems"),
        ("newton", {}, {"left": [0, -1]}, "a problem of left is -1"),
        ("newton", {}, {"left": [1, 1]}, "left has a problem twice"),
        ("newton", {}, {"left": [True]}, "a problem of left"),
        ("newton", {}, {"solver": "batched_newton"}, r"w has shape \(7,\), where rows of 7 belong"),
        ("newton", {"w": np.zeros((2, 8))}, {"solver": "batched_newton"}, "a row of w has shape"),
        (
            "newton",
            {"w": np.stack([NAN, NAN])},
            {"solver": "batched_newton"},
            "a row of w has numbers",
        ),
        (
            "newton",
            {"w": np.zeros((2, 7))},
            {"solver": "batched_newton", "state": {"given_up": [0.5]}},
            "'given_up' of the state of 'batched_newton' is 0.5",
        ),
        ("gd", {}, {"state": {"state": {"t": float("inf"), "odd": True, "before": []}}}, "'t'"),
        ("gd", {}, {"state": {"state": {"t": 1.0, "odd": 1, "before": []}}}, "'odd'"),
        (
            "gd",
            {},
            {"state": {"state": {"t": 1.0, "odd": True, "before": [float("nan")]}}},
            "'before'",
        ),
        ("gd", {}, {"state": {"state": {"t": 1.0}}}, "lacks 'before'"),
        ("sdca", {}, {"rows": "../outside"}, "rows '../outside' is not the name of a folder in it"),
        ("sdca", {}, {"rows": "/etc"}, "is not the name of a folder"),
        ("sdca", {}, {"rows": 3}, "is not the name of a folder"),
        ("sdca", {}, {"rows": ""}, "dual variables without a folder"),
        ("sdca", {}, {"state": {"state": {}}}, "a folder without dual variables"),
        (
            "sdca",
            {},
            {"state": {"state": {"rounds": 1, "offset": float("nan"), "sigma": None}}},
            "'offset'",
        ),
        (
            "sdca",
            {},
            {"state": {"state": {"rounds": 1, "offset": 0.0, "sigma": {"outer": 1.0}}}},
            "lacks",
        ),
        (
            "sdca",
            {},
            {"state": {"state": {"rounds": 1, "offset": 0.0, "sigma": 3}}},
            "no dictionary",
        ),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_told(solver, arrays, changes, word, folders, tmp_path):
    folder = edited(folders[solver], tmp_path, arrays, **changes)
    with pytest.raises(ValueError, match=word) as caught:
        daskglm.fit(X, y, resume=folder)
    assert str(folder) in str(caught.value)


def test_unedited_copies_are_taken(folders, tmp_path):
    for solver, folder in folders.items():
        options = SDCA if solver == "sdca" else {}
        copy = edited(folder, tmp_path)
        assert daskglm.fit(X, y, resume=copy, **options).report_.resumed == 2
        (copy / "state.npz").unlink()


def test_a_problem_that_the_data_do_not_have(folders, tmp_path):
    folder = edited(folders["newton"], tmp_path, {"finished": np.zeros((1, 7))}, problem=1)
    with pytest.raises(ValueError, match="is of problem 2 of 1"):
        daskglm.fit(X, y, resume=folder)


def test_a_description_that_is_none_and_a_bomb(folders, tmp_path):
    for text in (b"[]", b"{}", b"\xff", b"[" * 10_000, b"3"):
        folder = edited(folders["newton"], tmp_path, {"about": np.frombuffer(text, np.uint8)})
        with pytest.raises(
            ValueError, match="is not a checkpoint of this version of daskglm, or damaged"
        ):
            load(folder)
    np.savez_compressed(tmp_path / "c" / "state.npz", w=np.zeros(10**7), about=np.zeros(3))
    tracemalloc.start()
    with pytest.raises(ValueError, match="compressed"):
        load(tmp_path / "c")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 << 20


def test_dual_variables_that_are_damaged(folders, tmp_path):
    folder = tmp_path / "c"
    killed(folder, X, y, at=2, **SDCA)
    (file,) = folder.glob("rows-*/*.npy")
    whole, values = file.read_bytes(), np.load(file)
    for bad in (
        values * np.nan,
        values[:-1],
        values.astype(np.float32),
        np.zeros((len(values), 2)),
    ):
        np.save(file, bad)
        with pytest.raises(ValueError, match=f"{file.name} of the checkpoint is damaged"):
            daskglm.fit(X, y, resume=folder, **SDCA)
    file.write_bytes(whole[:-8])
    with pytest.raises(ValueError, match=f"{file.name} of the checkpoint is damaged"):
        daskglm.fit(X, y, resume=folder, **SDCA)


# ---- folders
def test_what_is_no_file_in_the_place_of_the_state(tmp_path):
    (tmp_path / "a" / "state.npz").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b" / "state.npz")
    for name in "ab":
        with pytest.raises(
            ValueError, match="checkpoint=.*state.npz in it is a folder, a pipe or a device"
        ):
            daskglm.fit(X, y, checkpoint=tmp_path / name)
        with pytest.raises(
            ValueError, match="resume=.*state.npz in it is a folder, a pipe or a device"
        ):
            daskglm.fit(X, y, resume=tmp_path / name)
    assert not list((tmp_path / "a" / "state.npz").iterdir())
    assert (tmp_path / "b" / "state.npz").is_fifo()


def test_dual_variables_do_not_pile_up(tmp_path):
    folder = tmp_path / "c"
    options = {**SDCA, "tol": 1e-4}
    other = folder / "rows-of-mine"
    other.mkdir(parents=True)
    (folder / (".state.npz-" + "0" * 32)).write_bytes(b"left by a killed fit")
    daskglm.fit(*ROWS, checkpoint=folder, checkpoint_every=1, **options)
    for tol in (1e-5, 1e-6):
        daskglm.fit(
            *ROWS, checkpoint=folder, resume=folder, checkpoint_every=1, **{**options, "tol": tol}
        )
        assert len(list(folder.glob("rows-*"))) == 2, "one set, and a folder of another name"
    daskglm.fit(*ROWS, checkpoint=folder, checkpoint_every=1, solver="newton")
    assert sorted(path.name for path in folder.iterdir()) == ["rows-of-mine", "state.npz"]


def test_dual_variables_of_a_later_problem_stay_until_it_has_read_them(tmp_path):
    labels = np.digitize(X @ np.arange(6.0), [-1.0, 1.0])
    options = {
        "solver": "sdca",
        "tol": 1e-6,
        "random_state": 0,
        "solver_options": {"polish": False},
    }
    count = iter(range(10**6))
    first = daskglm.fit(X, labels, **options).report_.parts[0].n_iter

    class Stop(BaseException):
        pass

    def stop(record):
        if next(count) == first + 3:
            raise Stop

    with pytest.raises(Stop):
        daskglm.fit(
            X, labels, checkpoint=tmp_path / "c", checkpoint_every=1, callback=stop, **options
        )
    assert load(tmp_path / "c").problem == 1
    rest = daskglm.fit(
        X, labels, checkpoint=tmp_path / "c", resume=tmp_path / "c", checkpoint_every=1, **options
    )
    assert rest.report_.converged
    assert rest.report_.parts[1].resumed > 0
    assert len(list((tmp_path / "c").glob("rows-*"))) == 1


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_a_solve_that_diverges_leaves_the_last_finite_state(tmp_path):
    folder = tmp_path / "c"
    with pytest.warns(ConvergenceWarning, match="not finite"):
        daskglm.fit(
            X, y, solver="gd", solver_options={"step": 1e100}, checkpoint=folder, checkpoint_every=1
        )
    assert np.isfinite(load(folder).w).all()
