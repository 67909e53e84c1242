"""Fits whose Hessians have a diagonal block against the same rows as sparse ones, and the oracle."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.block_hessian import BlockHessian
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.estimators.tables import AliasedColumnWarning
from daskglm.losses.table import LOSSES
from daskglm.objectives import elimination
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.newton import newton
from tests.kernels import coded_cases
from tests.oracle.problem import Reference

LEVELS = 60


@pytest.fixture(autouse=True)
def formed(monkeypatch):
    """Small Hessians have blocks, too; the number of levels of each that is formed.

    All points have one: what is left of the gradient otherwise, within `tol`, differs.
    """
    monkeypatch.setattr(elimination, "MOST_WHOLE", 20)
    monkeypatch.setattr(costs, "LEAST_CHORDS", math.inf)
    found, made = [], BlockHessian.of_sums.__func__

    def of_sums(cls, *given):
        hessian = made(cls, *given)
        found.append(len(hessian.levels))
        return hessian

    monkeypatch.setattr(BlockHessian, "of_sums", classmethod(of_sums))
    return found


def table(loss="logistic", n=1500, dtype=float, seed=0):
    """A frame with a large factor, a small one, a column for splines, numbers, and beside."""
    rng = np.random.default_rng(seed)
    tail, kind = rng.integers(0, LEVELS, n), rng.integers(0, 4, n)
    frame = pd.DataFrame({"hour": rng.random(n)})
    for j in range(3):
        frame[f"x{j}"] = rng.normal(size=n).astype(dtype)
    frame["tail"] = pd.Categorical.from_codes(tail, [f"t{k:02d}" for k in range(LEVELS)])
    frame["kind"] = pd.Categorical.from_codes(kind, list("abcd"))
    z = 0.4 * rng.normal(size=LEVELS)[tail] + 0.5 * kind / 4 + np.sin(6 * frame["hour"]) / 2
    z = (z + 0.3 * frame["x0"]).to_numpy(float)
    if loss == "logistic":
        frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    elif loss == "poisson":
        frame["y"] = rng.poisson(np.exp(z)).astype(float)
    elif loss == "gamma":
        frame["y"] = np.exp(z) * rng.gamma(3.0, size=n)
    else:
        frame["y"] = z + rng.normal(size=n)
    return frame, rng.random(n) + 0.5, rng.normal(size=n) / 3.0


def fit(frame, **how):
    schema = {"splines": {"hour": 5}}
    return daskglm.fit(frame, "y", schema=schema, solver="newton", **how)


def by_all_entries(monkeypatch, frame, **how):
    """The fit with Hessians of all entries."""
    with monkeypatch.context() as patch:
        patch.setattr(elimination, "MOST_WHOLE", 10**9)
        return fit(frame, **how)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "squared"])
def test_coefficients_are_those_of_whole_hessians(loss, C, beside, dtype, monkeypatch, formed):
    frame, weight, offset = table(loss, dtype=dtype)
    how = {"loss": loss, "C": C, "tol": 1e-12}
    if beside:
        how |= {"sample_weight": weight, "offset": offset}
    found = fit(frame, **how)
    assert set(formed) == {LEVELS}
    formed.clear()
    wanted = by_all_entries(monkeypatch, frame, **how)
    assert not formed
    assert found.report_.converged
    scale = np.abs(wanted.coef_).max()
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=0, atol=1e-8 * scale)
    np.testing.assert_allclose(found.intercept_, wanted.intercept_, rtol=0, atol=1e-8 * scale)
    assert found.report_.passes <= wanted.report_.passes + 1
    assert found.report_.relative_gap <= 1e-12


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "squared"])
def test_fits_without_a_penalty(loss, monkeypatch, formed):
    frame, _, _ = table(loss, n=6000)
    how = {"loss": loss, "C": np.inf, "tol": 1e-10}
    found = fit(frame, **how)
    assert set(formed) == {LEVELS - 1}
    wanted = by_all_entries(monkeypatch, frame, **how)
    assert found.report_.converged
    scale = np.abs(wanted.coef_).max()
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_separated_levels_are_named(loss, monkeypatch, formed):
    frame, _, _ = table(loss, n=6000)
    frame.loc[frame["tail"] == "t07", "y"] = 0
    messages = []
    for how in (fit, lambda *given, **more: by_all_entries(monkeypatch, *given, **more)):
        with pytest.warns(ConvergenceWarning) as seen:
            found = how(frame, loss=loss, C=np.inf)
        assert not found.report_.converged
        messages.append(str(seen[0].message))
    assert "column 'tail[t07]'" in messages[0]
    assert messages[0] == messages[1]
    assert formed


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_dependent_columns_are_told(loss, formed):
    frame, _, _ = table(loss, n=6000)
    frame["x2"] = frame["x0"] - 2.0 * frame["x1"]
    with pytest.warns(AliasedColumnWarning, match="1 columns depend on others before them: x2"):
        found = fit(frame, loss=loss, C=np.inf)
    assert found.report_.converged
    assert "x2" not in found.feature_names_out_
    assert formed


def test_two_workers_and_rows_that_are_read_anew(client, formed):
    dd = pytest.importorskip("dask.dataframe")
    frame, _, _ = table("poisson", n=4000)
    wanted = fit(frame, loss="poisson", tol=1e-10)
    lazy = dd.from_pandas(frame, npartitions=4)
    for how in ({"client": client}, {"out_of_core": True, "client": None}):
        formed.clear()
        found = fit(lazy, loss="poisson", tol=1e-10, **how)
        assert set(formed) == {LEVELS}
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=0, atol=1e-9)


def objective(loss, C, seed, k=3, n=160, dtype=float):
    """An objective over random coded rows, and what the oracle says of it."""
    X = coded_cases.coded(
        n, k=k, seed=seed, dtype=dtype, counts=((4,), (30,), (40,)), ranks=(2, 0, 1)
    )
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    y = {"poisson": rng.poisson(np.exp(z)).astype(float), "gamma": np.exp(z)}.get(loss, z)
    y = np.where(z > 0, 1.0, -1.0) if loss == "logistic" else y
    known = LOSSES[loss]
    rows = Local(partitions(X, y, None, classify=known.classifies).load())
    problem = Problem(known.ref, 1.0 if known.classifies else None)
    made = Objective(rows, problem, known, C=C, fit_intercept=False)
    return made, Reference(loss, coded_cases.sparse(X), y, C, False)


def test_points_without_a_hessian_are_of_the_same_rows_then():
    """So that kernels compile for one kind of rows; a stream lets these go with the others."""
    made, _ = objective("logistic", 1.0, 0)
    w = np.random.default_rng(0).normal(size=made.size)
    before = made.at(w)
    made.at(w, gram=True)
    shard = made.engine.shard
    (cache,) = shard.caches.values()
    assert len(cache.apart) > len(cache.rows)
    after = made.at(w)
    assert after.value == pytest.approx(before.value, rel=1e-13)
    np.testing.assert_allclose(after.gradient, before.gradient, rtol=1e-12, atol=1e-13)
    shard.detach()
    assert cache.apart is None


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3, 1e7])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "squared"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_gap_is_not_below_the_truth(loss, C, dtype, formed):
    for seed in range(2):
        made, truth = objective(loss, C, seed, dtype=dtype)
        points = [each.point for each, _ in zip(newton(made, made.origin), range(20), strict=False)]
        assert formed
        least = truth.least(points[-1].w, 0.0)
        for point in points:
            true = float(truth.value(point.w, 0.0) - least)
            noise = float(truth.noise(point.w, 0.0))
            assert point.excess >= true - noise
        assert points[-1].relative_gap < 1e-6 or C > 1e6


# ---- several factors
def two_factors(loss, n=1500, dtype=float):
    """The table with a second factor, of which few levels occur with one of the first."""
    frame, weight, offset = table(loss, n=n, dtype=dtype)
    rng = np.random.default_rng(9)
    town = (frame["tail"].cat.codes.to_numpy(int) // 2 + rng.integers(0, 3, n)) % 25
    frame["town"] = pd.Categorical.from_codes(town, [f"v{k:02d}" for k in range(25)])
    return frame, weight, offset


@pytest.fixture
def all_apart(monkeypatch, formed):
    """All factors' levels are apart; the numbers of stored pairs of each Hessian."""
    monkeypatch.setattr(elimination, "FEW_PAIRS", np.inf)
    monkeypatch.setattr(elimination, "MOST_ENTRIES", 1.0)
    found, made = [], BlockHessian.of_sums.__func__

    def of_sums(cls, gram, blocks, *more):
        found.append(len(blocks.pairs))
        return made(cls, gram, blocks, *more)

    monkeypatch.setattr(BlockHessian, "of_sums", classmethod(of_sums))
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "squared"])
def test_several_factors(loss, C, dtype, monkeypatch, all_apart):
    frame, weight, offset = two_factors(loss, n=6000, dtype=dtype)
    how = {"loss": loss, "C": C, "tol": 1e-10, "sample_weight": weight, "offset": offset}
    found = fit(frame, **how)
    assert set(all_apart) == {3}
    all_apart.clear()
    wanted = by_all_entries(monkeypatch, frame, **how)
    assert not all_apart
    assert found.report_.converged
    gaps = found.report_.relative_gap, wanted.report_.relative_gap
    assert max(gaps) <= 1e-10 or np.isnan(gaps).all()
    assert np.isfinite(gaps[0]) or np.inf == C
    scale = np.abs(wanted.coef_).max()
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=0, atol=1e-6 * scale)
    # one more to find the pairs
    assert found.report_.passes <= wanted.report_.passes + 3


def test_several_factors_on_workers_and_read_anew(client, all_apart):
    dd = pytest.importorskip("dask.dataframe")
    frame, _, _ = two_factors("poisson", n=4000)
    wanted = fit(frame, loss="poisson", tol=1e-10)
    lazy = dd.from_pandas(frame, npartitions=4)
    for how in ({"client": client}, {"out_of_core": True, "client": None}):
        all_apart.clear()
        found = fit(lazy, loss="poisson", tol=1e-10, **how)
        assert set(all_apart) == {3}
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
@pytest.mark.parametrize("apart", ["all_apart", "nested"])
def test_the_gap_of_several_factors_is_not_below_the_truth(loss, C, apart, request):
    formed = request.getfixturevalue(apart)
    made, truth = objective(loss, C, 3)
    points = [each.point for each, _ in zip(newton(made, made.origin), range(20), strict=False)]
    assert set(formed) == {1}
    assert points[-1].hessian.is_nested == (apart == "nested")
    assert math.isfinite(points[-1].excess)
    least = truth.least(points[-1].w, 0.0)
    for point in points:
        true = float(truth.value(point.w, 0.0) - least)
        assert point.excess >= true - float(truth.noise(point.w, 0.0))
    assert points[-1].relative_gap < 1e-6


def test_pairs_are_looked_for_once(all_apart):
    made, _ = objective("logistic", 1.0, 0)
    before = made.engine.rounds
    made.at(made.origin, gram=True)
    assert made.engine.rounds == before + 2
    made.at(made.origin, gram=True)
    again = Objective(made.engine, made.problem, made.loss, C=2.0, fit_intercept=False)
    again.at(again.origin, gram=True)
    assert made.engine.rounds == before + 4


def test_columns_that_depend_on_levels_of_several_factors(all_apart):
    frame, _, _ = two_factors("poisson", n=6000)
    codes = frame["tail"].cat.codes + 3.0 * frame["town"].cat.codes
    frame["sum"] = codes.to_numpy(float)
    with pytest.warns(AliasedColumnWarning, match="1 columns depend on others before them"):
        found = fit(frame, loss="poisson", C=np.inf)
    assert found.report_.converged
    assert all_apart


# ---- several factors of too many levels for a matrix of what is left
@pytest.fixture
def nested(monkeypatch, all_apart):
    """Only numbers are in a matrix of what is left; the numbers of pairs of each Hessian."""
    monkeypatch.setattr(elimination, "MOST_LEFT", 0)
    return all_apart


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "squared"])
def test_several_large_factors(loss, C, dtype, monkeypatch, nested):
    frame, weight, offset = two_factors(loss, n=6000, dtype=dtype)
    how = {"loss": loss, "C": C, "tol": 1e-10, "sample_weight": weight, "offset": offset}
    found = fit(frame, **how)
    assert set(nested) == {3}
    wanted = by_all_entries(monkeypatch, frame, **how)
    assert found.report_.converged
    assert found.report_.relative_gap <= 1e-10
    scale = np.abs(wanted.coef_).max()
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=0, atol=2e-5 * scale)
    np.testing.assert_allclose(found.report_.objective, wanted.report_.objective, rtol=1e-9)
    # one to find the pairs, and where nothing is proved with all entries, of float32, steps to a proof
    assert found.report_.passes <= wanted.report_.passes + (4 if np.isinf(C) else 2)


def test_several_large_factors_on_workers_and_read_anew(client, nested):
    dd = pytest.importorskip("dask.dataframe")
    frame, _, _ = two_factors("poisson", n=4000)
    wanted = fit(frame, loss="poisson", tol=1e-10)
    lazy = dd.from_pandas(frame, npartitions=4)
    for how in ({"client": client}, {"out_of_core": True, "client": None}):
        nested.clear()
        found = fit(lazy, loss="poisson", tol=1e-10, **how)
        assert set(nested) == {3}
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_separated_levels_of_several_large_factors_are_named(loss, nested):
    frame, _, _ = two_factors(loss, n=6000)
    frame.loc[frame["town"] == "v07", "y"] = 0
    with pytest.warns(ConvergenceWarning, match=r"column 'town\[v07\]'"):
        found = fit(frame, loss=loss, C=np.inf)
    assert not found.report_.converged
    assert nested


def test_large_factors_without_common_rows_are_told_to_be_dependent(nested):
    frame, _, _ = table("poisson", n=6000)
    half = frame["tail"].cat.codes.to_numpy(int) % 2
    town = 2 * np.random.default_rng(0).integers(0, 12, len(frame)) + half
    frame["town"] = pd.Categorical.from_codes(town, [f"v{k:02d}" for k in range(24)])
    with pytest.warns(ConvergenceWarning, match="the columns of X are linearly dependent"):
        found = fit(frame, loss="poisson", C=np.inf)
    assert found.report_.converged
    assert found.report_.relative_gap <= 1e-6
    assert nested


def test_rows_without_weight_do_not_link_levels(nested):
    """Those that alone link two parts of the levels left a fit without a gap."""
    frame, weight, _ = table("poisson", n=3000)
    half = frame["tail"].cat.codes.to_numpy(int) % 2
    town = 2 * np.random.default_rng(0).integers(0, 12, len(frame)) + half
    town[:5] = (town[:5] + 1) % 24
    weight[:5] = 0.0
    frame["town"] = pd.Categorical.from_codes(town, [f"v{k:02d}" for k in range(24)])
    how = {"loss": "poisson", "C": np.inf, "solver": "newton"}
    with pytest.warns(ConvergenceWarning, match="the columns of X are linearly dependent"):
        found = daskglm.fit(frame, "y", sample_weight=weight, **how)
    assert found.report_.relative_gap <= 1e-6
    with pytest.warns(ConvergenceWarning, match="linearly dependent"):
        wanted = daskglm.fit(frame[5:], "y", sample_weight=weight[5:], **how)
    np.testing.assert_allclose(found.report_.objective, wanted.report_.objective, rtol=1e-8)
    assert nested


def test_an_intercept_that_levels_apart_make_up_costs_the_last_of_them(formed):
    """A base level without weight leaves them to be a constant together."""
    frame, weight, _ = table("poisson")
    weight[frame["tail"] == "t00"] = 0.0
    how = {"loss": "poisson", "C": np.inf, "solver": "newton", "tol": 1e-10}
    with pytest.warns(AliasedColumnWarning, match=r"1 columns depend .*: tail\[t59\];"):
        found = daskglm.fit(frame, "y", sample_weight=weight, **how)
    used = frame[weight > 0.0].assign(tail=lambda rows: rows["tail"].cat.remove_unused_categories())
    wanted = daskglm.fit(used, "y", sample_weight=weight[weight > 0.0], **how)
    assert formed
    assert found.report_.relative_gap <= 1e-10
    np.testing.assert_allclose(found.predict(used), wanted.predict(used), rtol=1e-4)


@pytest.mark.parametrize("C", [1.0, 1e3, np.inf])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
@pytest.mark.parametrize("apart", ["all_apart", "nested"])
def test_points_whose_hessian_is_not_factorised_would_have_no_bound(loss, C, apart, request):
    request.getfixturevalue(apart)
    made, _ = objective(loss, C, 3, n=400)
    points = [each.point for each, _ in zip(newton(made, made.origin), range(20), strict=False)]
    far = 0
    for point in points:
        if math.isinf(point.excess) and "factor" not in vars(point):
            far += 1
            error, at = point.error, point.w
            bound = made.rounding.by_hessian(point.factor, point.residual, error, at=at)
            assert math.isinf(bound)
    assert far < len(points)
    assert far or loss == "logistic"


# ---- the rule
def test_factors_are_blocks_until_little_is_left():
    of = elimination.nested_of
    assert of(((0, 100_000), (100_000, 101_000)), 101_030) == 1
    assert of(((0, 100_000), (100_000, 150_000), (150_000, 151_000)), 151_030) == 2
    assert of(((0, 9000),), 20_000) == 1
    sizes = elimination.Sizes.of(DataSummary(10**6), 151_030, ((0, 100_000), (100_000, 150_000)))
    assert (sizes.nested, sizes.levels, sizes.left) == (2, 150_000.0, 1030.0)


def test_a_block_is_for_large_factors_that_save(monkeypatch):
    monkeypatch.setattr(elimination, "MOST_WHOLE", 2000)
    of = elimination.large_factors
    facts = DataSummary(100_000, factors=((0, 10), (10, 4000), (4000, 4100)))
    assert of(facts, 4200) == ((10, 4000),)
    assert of(facts, 1900) == ()
    assert of(DataSummary(100_000, factors=((0, 400),)), 4200) == ()  # saves little
    assert of(DataSummary(100_000), 4200) == ()
    assert of(DataSummary(100_000, factors=((0, 4200),)), 4200) == ()  # nothing is left
    # takes too much memory
    assert of(DataSummary(10**7, factors=((0, 10**6),)), 10**6 + 400) == ()


def test_factors_with_few_pairs_are_stored_sparsely():
    of, million = elimination.large_factors, DataSummary(10**6)
    facts = replace(million, factors=((0, 12), (12, 1012), (1012, 101_012)))
    assert of(facts, 101_042) == ((1012, 101_012), (12, 1012))
    assert of(replace(facts, n_rows=10**9), 101_042) == ((1012, 101_012),)  # all pairs occur
    many = replace(million, factors=((0, 1000), (1000, 101_000), (101_000, 103_000)))
    assert of(many, 103_000) == ((1000, 101_000), (101_000, 103_000), (0, 1000))
    sizes = elimination.Sizes.of(many, 103_000, of(many, 103_000))
    assert sizes.pairs == (1e6, 1e6, 1e6)
    assert (sizes.levels, sizes.left, sizes.kept) == (1e5, 3000.0, 1.0)


def test_facts_of_both_have_the_factors_of_both():
    one = DataSummary(n_features=9, factors=((0, 3), (3, 7)))
    assert one.merge(DataSummary()).factors == one.factors
    assert DataSummary().merge(one).factors == one.factors
    assert one.merge(DataSummary(n_features=9, factors=((3, 7),))).factors == ((3, 7),)
    assert one.merge(DataSummary(n_features=9)).factors == ()


def test_objectives_that_have_no_block():
    made, _ = objective("logistic", 1.0, 0)
    assert len(made.blocks) == 1
    assert made.blocks[0] in made.engine.facts.factors
    assert made.on_columns(np.arange(30), 1).blocks == ()


def test_auto_takes_newtons_method(formed):
    frame, _, _ = table("logistic", n=1500)
    found = daskglm.fit(frame, "y", tol=1e-9)
    assert found.report_.solver == "newton"
    assert f"{LEVELS} of them eliminated" in found.report_.why
