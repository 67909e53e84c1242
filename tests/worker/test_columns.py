"""Requests about some columns are answered from a copy, which is kept; sums of single columns."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.column_requests import ColumnMoments, ColumnSigns, ColumnTargets
from daskglm.core.requests import (
    Evaluate,
    Folds,
    HessianVector,
    LossRef,
    Problem,
)
from daskglm.core.view import Columns, Drawn, View
from daskglm.kernels import Pattern
from daskglm.worker import columns as module
from daskglm.worker.fold_assignment import trained_on
from daskglm.worker.shard import Shard
from tests.worker.restricted import (
    COLUMNS,
    PROBLEM,
    STORAGES,
    answers,
    blocks_of,
    check,
    columns_of,
    draw,
    requests,
)


@pytest.fixture
def copies(monkeypatch):
    """Counts how often columns are copied."""
    made = []
    take = module.take_columns
    monkeypatch.setattr(
        module, "take_columns", lambda *args: made.append(args[1].copy()) or take(*args)
    )
    return made


def restricted(shard, columns, key=1, problem=PROBLEM):
    asked = requests(len(columns))
    return [
        shard.answer(problem, request, View(columns=Columns(key, columns))) for request in asked
    ]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_replies_are_those_of_numpy(storage, beside, threads, monkeypatch):
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    X, y, *others = draw(storage)
    given = (y, *others) if beside else (y,)
    shard = Shard(blocks_of(X, *given), threads)
    wanted = answers(columns_of(X, COLUMNS), *given)
    check(restricted(shard, COLUMNS), wanted, 1e-5 if storage == "float32" else 1e-9)
    shard.close()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("chosen", [[], [0], [11], range(12)])
def test_few_columns_and_all(storage, chosen):
    X, y, weight, offset = draw(storage)
    columns = np.array(chosen, np.int64)
    shard = Shard(blocks_of(X, y, weight, offset), 2)
    wanted = answers(columns_of(X, columns), y, weight, offset)
    check(restricted(shard, columns), wanted, 1e-5 if storage == "float32" else 1e-9)
    shard.close()


@pytest.mark.parametrize("storage", STORAGES)
def test_the_copy_is_of_the_same_kind_and_shares_what_is_beside_it(storage):
    X, y, weight, offset = draw(storage)
    shard = Shard(blocks_of(X, y, weight, offset), 2)
    shard.answer(PROBLEM, Evaluate(np.zeros(5), 1), View(columns=Columns(1, COLUMNS)))
    kept = shard.restricted.shard
    assert len(kept.blocks) == len(shard.blocks), "none is joined, which would copy y"
    stored = 0
    for part, whole in zip(kept.blocks, shard.blocks, strict=True):
        assert part.y is whole.y
        assert part.weight is whole.weight
        assert part.offset is whole.offset
        assert part.spans == whole.spans
        assert type(part.X) is type(whole.X)
        assert part.X.dtype == whole.X.dtype
        assert part.X.shape == (len(whole.y), 5)
        if storage in ("csr", "pattern"):
            assert part.X.indices.dtype == part.X.indptr.dtype == np.int32
            values = part.X.value if isinstance(part.X, Pattern) else part.X.data
            arrays = values, part.X.indices, part.X.indptr
            assert part.facts.nonzeros == part.X.nnz
            assert part.facts.nbytes == sum(each.nbytes for each in arrays)
            dense = sp.csr_matrix(
                (np.broadcast_to(values, part.X.nnz).copy(), *arrays[1:]), part.X.shape
            )
            assert dense.has_canonical_format
        else:
            assert part.X.flags.c_contiguous
            assert part.facts.nonzeros == part.X.size
            assert part.facts.nbytes == part.X.nbytes
        assert part.facts.n_features == 5
        assert part.facts.longest_row <= 5
        stored += part.facts.nonzeros
    assert stored == np.count_nonzero(columns_of(X, COLUMNS))
    shard.close()


def test_the_copy_is_kept_between_requests_about_all_columns(copies):
    X, y, *_ = draw("csr")
    shard, w = Shard(blocks_of(X, y), 1), np.linspace(-1, 1, 13)
    share = X[:, COLUMNS].nnz / X.nnz
    n, part = 900, round(900 * share)
    rows = [reply["rows"] for reply in restricted(shard, COLUMNS)]
    assert rows == [n + part, part, part, 0], "the copy, and the share of passes over it"
    assert shard.answer(PROBLEM, Evaluate(w, 1))["rows"] == n
    assert shard.answer(PROBLEM, HessianVector(w, (1, w)))["rows"] == n
    rows = [reply["rows"] for reply in restricted(shard, COLUMNS)]
    # the second point takes the room of the curvatures' point
    assert rows == [part, part, part, 0]
    assert len(copies) == 1
    assert shard.answer(PROBLEM, HessianVector(w, (1, w)))["rows"] == n, "its margins are kept"
    shard.close()


def test_another_key_replaces_the_copy(copies):
    X, y, *_ = draw()
    shard, more = Shard(blocks_of(X, y), 1), np.array([0, 1, 4, 5, 8, 11])
    restricted(shard, COLUMNS)
    first = shard.restricted.shard
    check(restricted(shard, more, key=2), answers(X[:, more], y))
    assert not first.blocks, "only one set is kept"
    check(restricted(shard, COLUMNS), answers(X[:, COLUMNS], y))
    assert [len(columns) for columns in copies] == [5, 6, 5]
    # the same name with another number of columns is no reason to read beyond the copy
    check(restricted(shard, more), answers(X[:, more], y))
    assert len(copies) == 4
    last = shard.restricted.shard
    shard.close()
    assert not last.blocks
    assert shard.restricted.shard is None


def test_another_problem_has_the_same_copy(copies):
    X, y, weight, _ = draw()
    folds = Folds("two", ((1, 0), (0, 1)), seed=1)
    shard = Shard(blocks_of(X, y, weight), 2)
    restricted(shard, COLUMNS)
    for fold in range(2):
        problem = Problem(LossRef("logistic"), -1.0, ((1.0, 3.0),), folds=folds, fold=fold)
        trained = np.concatenate([trained_on(block, folds, fold) for block in shard.blocks])
        weights = weight * trained * np.where(y > 0, 3.0, 1.0)
        assert 0 < trained.sum() < 900
        check(restricted(shard, COLUMNS, problem=problem), answers(X[:, COLUMNS], -y, weights))
    assert len(copies) == 1
    shard.close()


@pytest.mark.parametrize("storage", STORAGES)
def test_samples_of_some_columns_have_the_rows_of_samples_of_all(storage):
    X, y, weight, _ = draw(storage)
    shard = Shard(blocks_of(X, y, weight), 1)
    w = np.linspace(-1.0, 1.0, 6)
    wide = np.zeros(13)
    wide[COLUMNS], wide[-1] = w[:-1], w[-1]
    whole = shard.answer(PROBLEM, Evaluate(wide, 1), View(Drawn(0.1, 3)))
    shard.answer(PROBLEM, Evaluate(w, 1), View(columns=Columns(1, COLUMNS)))
    part = shard.answer(PROBLEM, Evaluate(w, 2), View(Drawn(0.1, 3), Columns(1, COLUMNS)))
    np.testing.assert_allclose(part["value"], whole["value"], rtol=1e-6)
    chosen = [*COLUMNS, 12]
    np.testing.assert_allclose(part["gradient"], whole["gradient"][chosen], rtol=1e-5, atol=1e-5)
    share = np.count_nonzero(columns_of(X, COLUMNS)) / np.count_nonzero(columns_of(X, range(12)))
    assert part["rows"] == round(whole["rows"] * share)
    # it costs no copy to ask all rows of the set again
    again = shard.answer(PROBLEM, Evaluate(w, 3), View(columns=Columns(1, COLUMNS)))
    assert again["rows"] == round(900 * share)
    shard.close()


def test_a_sample_of_all_columns_outlives_requests_about_some():
    X, y, *_ = draw()
    shard = Shard(blocks_of(X, y), 1)
    asked = (Evaluate(np.ones(13), 1), View(Drawn(0.1, 3)))
    shard.answer(PROBLEM, *asked)
    before = shard.sample[1]
    restricted(shard, COLUMNS)
    shard.answer(PROBLEM, *asked)
    assert shard.sample[1] is before
    shard.close()


@pytest.mark.parametrize("columns", [[3, 12], [20]])
def test_columns_that_are_not_there_are_refused(columns):
    X, y, *_ = draw()
    shard = Shard(blocks_of(X, y), 1)
    asked = (Evaluate(np.zeros(len(columns)), 1), View(columns=Columns(1, np.array(columns))))
    with pytest.raises(ValueError, match=rf"{columns[-1]}, but X has 12 columns.*0 to 11"):
        shard.answer(PROBLEM, *asked)
    check(restricted(shard, COLUMNS), answers(X[:, COLUMNS], y))
    shard.close()


def test_a_worker_without_rows_answers():
    shard = Shard(blocks_of(*draw(n=0)[:2], cuts=(0, 0)), 1)
    reply = shard.answer(PROBLEM, Evaluate(np.ones(6), 1), View(columns=Columns(1, COLUMNS)))
    assert reply["rows"] == 0
    np.testing.assert_array_equal(reply["gradient"], np.zeros(6))
    reply = Shard([], 1).answer(PROBLEM, Evaluate(np.ones(6), 1), View(columns=Columns(1, COLUMNS)))
    np.testing.assert_array_equal(reply["gradient"], np.zeros(6))
    assert Shard([], 1).answer(PROBLEM, ColumnMoments())["weight"] == 0.0


# ---- sums of single columns
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_moments_are_those_of_numpy(storage, weighted, threads, monkeypatch):
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    X, y, weight, offset = draw(storage)
    shard = Shard(blocks_of(X, y, weight if weighted else None, offset), threads)
    s = weight if weighted else np.ones(900)
    reply, dense = shard.answer(PROBLEM, ColumnMoments()), columns_of(X, range(12))
    assert reply["rows"] == 900
    assert reply["sums"].dtype == reply["squares"].dtype == np.float64
    assert reply["weight"] == pytest.approx(s.sum(), rel=1e-13)
    np.testing.assert_allclose(reply["sums"], s @ dense, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(reply["squares"], s @ dense**2, rtol=1e-12)
    inner = shard.answer(PROBLEM, ColumnMoments(), View(columns=Columns(1, COLUMNS)))
    np.testing.assert_allclose(inner["sums"], reply["sums"][COLUMNS], rtol=1e-11, atol=1e-11)
    shard.close()


def test_moments_have_the_weights_of_classes_and_folds():
    X, y, weight, _ = draw()
    folds = Folds("two", ((1, 0), (0, 1)), seed=1)
    shard = Shard(blocks_of(X, y, weight), 2)
    problem = Problem(LossRef("logistic"), 1.0, ((1.0, 3.0),), folds=folds, fold=1)
    trained = np.concatenate([trained_on(block, folds, 1) for block in shard.blocks])
    s = weight * trained * np.where(y > 0, 3.0, 1.0)
    reply = shard.answer(problem, ColumnMoments())
    assert reply["weight"] == pytest.approx(s.sum(), rel=1e-13)
    np.testing.assert_allclose(reply["squares"], s @ X**2, rtol=1e-12)
    shard.close()


def test_moments_of_all_rows_end_a_sample():
    X, y, *_ = draw()
    shard = Shard(blocks_of(X, y), 1)
    part = shard.answer(PROBLEM, ColumnMoments(), View(Drawn(0.1, 3)))
    assert part["weight"] == part["rows"] == 91  # 30 + 1 + 60
    shard.answer(PROBLEM, ColumnMoments())
    assert shard.sample is None
    shard.close()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("threads", [1, 2])
def test_signs_are_counted_by_kind_of_row(storage, threads, monkeypatch):
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    X, y, weight, _ = draw(storage)
    weight = np.where(np.arange(900) % 7 == 0, 0.0, weight)
    shard, dense = Shard(blocks_of(X, y, weight), threads), columns_of(X, range(12))
    for request, kinds in (
        (ColumnSigns(), [y < 0, y > 0, np.zeros(900, bool)]),
        (ColumnSigns((), math.nan, 1.0), [np.zeros(900, bool), y > 0, y < 0]),
        (ColumnSigns((1.0, -1.0)), [y > 0, y < 0]),
        (ColumnSigns((-1.0,)), [y < 0]),
    ):
        reply = shard.answer(PROBLEM, request)
        assert reply["rows"] == 900
        for k, kind in enumerate(kinds):
            counted = dense[kind & (weight > 0.0)]
            np.testing.assert_array_equal(reply["above"][k], (counted > 0).sum(axis=0))
            np.testing.assert_array_equal(reply["below"][k], (counted < 0).sum(axis=0))
            assert reply["counts"][k] == len(counted)
    shard.close()
    assert not Shard([], 1).answer(PROBLEM, ColumnSigns())["counts"].any()


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("threads", [1, 2])
def test_targets_are_added_up_beside_the_means_of_a_constant(storage, threads, monkeypatch):
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    X, y, weight, offset = draw(storage)
    dense = np.c_[columns_of(X, range(12)), np.ones(900)]
    counts = np.random.default_rng(3).poisson(1.0, 900).astype(float)
    z = 0.3 + offset
    for problem, target, given, mean in (
        (PROBLEM, y, y > 0, 1.0 / (1.0 + np.exp(-z))),
        (Problem(LossRef("poisson")), counts, counts, np.exp(z)),
    ):
        blocks = blocks_of(X, target, weight, offset, classify=problem is PROBLEM)
        shard = Shard(blocks, threads)
        reply = shard.answer(problem, ColumnTargets(0.3))
        assert reply["rows"] == 900
        for name, values in (("weights", 1.0), ("targets", given), ("means", mean)):
            np.testing.assert_allclose(
                reply[name], (weight * values) @ dense, rtol=1e-11, atol=1e-11
            )
        shard.close()
