"""Rows are assigned to folds as scikit-learn does it, or by seed."""

import contextlib
import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

import daskglm
from daskglm.core.requests import Folds
from daskglm.data.blocks import merge, to_block
from daskglm.data.values import Place
from daskglm.worker.fold_assignment import groups, in_order, stratified
from tests.conftest import make_problem
from tests.fitting.grids import CS, lazy


def test_stratified_folds_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        y, k = rng.integers(0, rng.integers(1, 6), rng.integers(10, 200)), int(rng.integers(2, 8))
        names, codes = np.unique(y, return_inverse=True)
        rare = np.bincount(codes).min() < k
        theirs, splitter = np.empty(len(y), int), StratifiedKFold(k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                for fold, (_, test) in enumerate(splitter.split(y, y)):
                    theirs[test] = fold
            except ValueError:
                refused += 1
                with pytest.raises(ValueError, match=f"cv={k}"):
                    stratified(codes, len(names), k)
                continue
        with (
            pytest.warns(UserWarning, match="least populated") if rare else contextlib.nullcontext()
        ):
            np.testing.assert_array_equal(stratified(codes, len(names), k), theirs)
    assert refused


def test_folds_in_order_are_those_of_scikit_learn():
    for n, k in ((10, 2), (11, 3), (13, 5), (7, 7), (40_000, 40_000)):
        theirs = np.empty(n, int)
        for fold, (_, test) in enumerate(KFold(k).split(np.empty((n, 0))) if k < 10 else ()):
            theirs[test] = fold
        found = in_order(n, k)
        np.testing.assert_array_equal(found, theirs if k < 10 else np.arange(n))
    with pytest.raises(ValueError, match="cv=4: more folds than rows, n_samples=3"):
        in_order(3, 4)


def test_dask_rows_are_dealt_to_folds_by_seed():
    X, y = make_problem(seed=7)
    first, second, other = (
        daskglm.LogisticRegressionCV(Cs=CS, cv=3, random_state=seed).fit(*lazy(X, y))
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.scores_[1.0], second.scores_[1.0])
    assert (first.scores_[1.0] != other.scores_[1.0]).any()
    whole = daskglm.fit(X, y, C=float(first.C_[0]), tol=1e-10)
    np.testing.assert_allclose(first.coef_, whole.coef_, rtol=1e-2, atol=1e-4)
    held = [part.n_rows for part in first.report_.parts]
    assert set(held) == {len(y)}


def test_blocks_that_are_joined_keep_the_groups_of_their_rows():
    rng = np.random.default_rng(0)
    parts = [
        to_block(rng.standard_normal((60, 2)), y, None, place=Place(k), classify=True)
        for k, y in enumerate([np.arange(60) % 2, np.arange(60) >= 20])
    ]
    folds = Folds("three", ((1, 0, 0), (0, 1, 0), (0, 0, 1)), seed=3)
    apart = [groups(part, folds) for part in parts]
    np.testing.assert_array_equal(groups(merge(parts), folds), np.concatenate(apart))
    for part, found in zip(parts, apart, strict=True):  # class by class
        counts = [np.bincount(found[part.y == code], minlength=3) for code in (0, 1)]
        assert np.ptp(counts, axis=1).max() <= 1
