"""Folds of lazy rows, and of splitters."""

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegressionCV as TheirCV
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedGroupKFold,
)

import daskglm
from daskglm.core.requests import Folds
from daskglm.fitting import open_grid as grids
from daskglm.fitting.cv_splits import held_out
from tests.conftest import make_problem
from tests.fitting.grids import CS, lazy

ROWS = np.arange(100)


def test_splitters_of_rows_sent_to_a_cluster(client):
    X, y = make_problem(seed=8)
    here = daskglm.LogisticRegressionCV(Cs=CS, cv=KFold(3, shuffle=True, random_state=1)).fit(X, y)
    settings = here._settings()
    with grids.open_grid(
        X, y, settings, client=client, cv=KFold(3, shuffle=True, random_state=1)
    ) as grid:
        solutions = grid.solve(grid.batch(np.array(CS)))
        np.testing.assert_allclose(
            solutions.W.reshape(3, 3, -1), here.coefs_paths_[1.0], rtol=0.05, atol=1e-4
        )
        assert grid.engine.capabilities.workers == 2


@pytest.mark.filterwarnings("ignore:The default value for l1_ratios:FutureWarning")
@pytest.mark.parametrize("cv", [GroupKFold(4), LeaveOneGroupOut(), StratifiedGroupKFold(3)])
def test_groups_stay_together(cv):
    X, y = make_problem(n=200, seed=3)
    groups = np.random.default_rng(0).integers(0, 6, len(y))
    ours = daskglm.LogisticRegressionCV(Cs=CS, cv=cv, scoring="neg_log_loss", tol=1e-10).fit(
        X, y, groups=groups
    )
    other = TheirCV(
        Cs=CS,
        cv=list(cv.split(X, y, groups)),
        scoring="neg_log_loss",
        tol=1e-10,
        max_iter=5000,
        use_legacy_attributes=True,
    ).fit(X, y)
    np.testing.assert_allclose(ours.scores_[1.0], other.scores_[1.0], atol=1e-5)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = daskglm.LogisticRegressionCV(Cs=CS, cv=cv, scoring="neg_log_loss", tol=1e-10)
        np.testing.assert_array_equal(
            routed.fit(X, y, groups=groups).scores_[1.0], ours.scores_[1.0]
        )
    with pytest.raises(ValueError, match="cv=.* cannot split the 200 rows"):
        daskglm.LogisticRegressionCV(Cs=CS, cv=cv).fit(X, y)
    with pytest.raises(ValueError, match=r"groups has shape \(3,\), but X has 200 rows"):
        daskglm.LogisticRegressionCV(Cs=CS, cv=cv).fit(X, y, groups=[1, 2, 3])


def test_groups_that_nobody_asks_for():
    X, y = make_problem(n=100)
    with pytest.warns(UserWarning, match="groups is ignored by cv=3"):
        daskglm.LogisticRegressionCV(Cs=CS, cv=3).fit(X, y, groups=np.arange(100))
    with pytest.raises(ValueError, match="groups: rows of dask collections"):
        daskglm.LogisticRegressionCV(Cs=CS, cv=3).fit(*lazy(X, y), groups=np.arange(100))
    with pytest.raises(
        ValueError, match=r"\[speed\].* only supported if enable_metadata_routing=True"
    ):
        daskglm.LogisticRegressionCV(Cs=CS).fit(X, y, speed=1)


def test_many_folds_of_one_row():
    X, y = make_problem(n=40)
    model = daskglm.LogisticRegressionCV(
        Cs=[0.1, 1.0], cv=LeaveOneOut(), use_legacy_attributes=False
    ).fit(X, y)
    assert model.scores_.shape == (40, 1, 2)


def test_masks_and_negative_indices_are_indices():
    X, y = make_problem(n=90)
    folds = list(KFold(3).split(X))
    masks = [tuple(np.isin(np.arange(90), part) for part in fold) for fold in folds]
    negative = [(train - 90, test) for train, test in folds]
    scores = [
        daskglm.LogisticRegressionCV(Cs=CS, cv=cv).fit(X, y).scores_[1.0]
        for cv in (folds, masks, negative)
    ]
    np.testing.assert_array_equal(scores[1], scores[0])
    np.testing.assert_array_equal(scores[2], scores[0])


BAD_CV = [
    (0, "cv=0: .* at least 2 folds"),
    (1, "cv=1: .* at least 2 folds"),
    (-3, "cv=-3"),
    (True, "cv=True must be a number of folds, a splitter"),
    (2.5, "cv=2.5 must be a number of folds, a splitter"),
    ("5", "cv='5' must be a number of folds, a splitter"),
    ({"folds": 5}, "cv=.* must be a number of folds, a splitter"),
    ([], "cv gives no folds"),
    (iter([]), "cv gives no folds"),
    (101, "cv=101: no class has so many rows"),
    (KFold(101), "cv=KFold.* cannot split the 100 rows"),
    ([(ROWS[:50], ROWS[50:]), 3], "cv: fold 1 is 3, not a pair"),
    (
        [(ROWS[:50], ROWS[40:])],
        "cv: fold 0 has rows both to train on and to hold out: 10 of them, such as row 40",
    ),
    (
        [(ROWS[:50], ROWS[50:]), (ROWS[50:], [100])],
        "test indices of fold 1 have 100, which is out of range for the 100",
    ),
    ([(ROWS[:50] - 101, ROWS[50:])], "train indices of fold 0 have -101, which is out of range"),
    ([(ROWS[:50], [])], "test indices of fold 0 are empty"),
    ([([], ROWS)], "train indices of fold 0 are empty"),
    (
        [(ROWS[:50], ROWS[50:] / 2)],
        "test indices of fold 0 have dtype float64; indices must be integers",
    ),
    (
        [(ROWS[:50].astype(str), ROWS[50:])],
        "train indices of fold 0 have dtype .*; indices must be integers",
    ),
    ([(ROWS[:50, None], ROWS[50:])], r"train indices of fold 0 have shape \(50, 1\)"),
    ([([[1, 2], [3]], ROWS[50:])], "train indices of fold 0 are not a sequence of integers"),
    (
        [(np.ones(99, bool), ROWS[99:])],
        "train indices of fold 0 are a mask of 99 values, but X has 100 rows",
    ),
    ([(np.zeros(100, bool), ROWS[99:])], "train indices of fold 0 are a mask that selects no row"),
    ([([1, 1, 2, 3], ROWS[50:])], "train indices of fold 0 have row 1 more than once"),
    ([(ROWS[:50], [60, -40])], "test indices of fold 0 have row 60 more than once"),
]


@pytest.mark.parametrize(("cv", "message"), BAD_CV, ids=[message[:40] for _, message in BAD_CV])
def test_folds_that_cannot_be_used_are_refused_before_work(cv, message, monkeypatch):
    X, y = make_problem(n=100)
    monkeypatch.setattr("daskglm.fitting.open_grid.loaded", lambda *args: pytest.fail("work began"))
    with pytest.raises(ValueError, match=message):
        daskglm.LogisticRegressionCV(Cs=CS, cv=cv).fit(X, y)


def test_rows_that_a_fold_neither_trains_on_nor_holds_out_are_not_held_out():
    folds = Folds("three", ((2, 0), (0, 1), (1, 0)), groups=np.array([0, 1, 2, 2, 0, 1]))
    assert held_out(folds, 0).tolist() == [2, 3]
    assert held_out(folds, 1).tolist() == [1, 5]
