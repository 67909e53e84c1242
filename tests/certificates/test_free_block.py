"""Bounds with features that nothing holds: never below the truth, and finite where few are free."""

import math
import warnings
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.certificates import free_block
from daskglm.data.partitions import partitions
from daskglm.fitting.config import FitConfig
from daskglm.fitting.penalised import with_columns
from daskglm.fitting.runner import objective_of, train
from daskglm.fitting.setup import loaded
from daskglm.losses.table import find
from daskglm.objectives.quadratic_model import predicted
from daskglm.penalties.config import PenaltyConfig
from daskglm.solvers import costs
from tests.covering import each_choice, first_by_default
from tests.losses.formulas import POSITIVE
from tests.objectives.families import LOCAL_NAMES
from tests.objectives.families import rows as random_rows
from tests.objectives.kinked import KINKED_NAMES, kinked_targets
from tests.oracle.problem import Reference
from tests.seeds import is_many, of_the_commit_or

# Features of ordinary problems without a penalty.
FREE = [0, 7, 2000]
NAMES = sorted(set(KINKED_NAMES) - set(LOCAL_NAMES) - set(POSITIVE))


@pytest.fixture
def without_hessians(monkeypatch):
    """As if there were more features than a Hessian may have."""
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", 0)


def random_penalty(rng, d, size):
    """A penalty that leaves out some features; `size` (d,) are sizes of coefficients."""
    given = {"l1_ratio": float(rng.choice([1.0, 1.0, rng.random(), 0.0]))}
    kind = rng.choice(["plain", "plain", "bounds", "groups", "P2"])
    free = rng.random(d) < 0.4
    free[rng.integers(d)] = True
    if kind == "P2":  # singular, and of no part of the free features
        root = rng.standard_normal((d, int(rng.integers(1, d + 1)))) * ~free[:, None]
        given["P2"] = root @ root.T
        given["P2"] = (given["P2"] + given["P2"].T) / 2
        given["l1_ratio"] = 0.0
        return given
    factors = rng.exponential(1.0, d) * ~free
    if kind == "groups":
        labels = rng.integers(0, max(d // 2, 1), d)
        factors = factors[labels]
        given |= {"groups": labels, "l1_ratio": max(given["l1_ratio"], 0.3)}
    if not factors.any():  # that would be no penalty
        factors[:] = 1.0
    if kind == "bounds":  # on one side
        lower = np.where(rng.random(d) < 0.5, -rng.exponential(0.2, d) * size, -np.inf)
        lower[rng.random(d) < 0.4] = 0.0
        given["lower_bounds"] = lower
    given["penalty_factor"] = factors
    return given


def draw(seed):
    """One random problem with features that nothing holds, and how to solve it."""
    rng = np.random.default_rng(seed)
    loss = str(rng.choice(NAMES))
    X = random_rows(rng)
    y = kinked_targets(rng, loss, X)
    n, d = X.shape
    weight = rng.exponential(1.0, n) * (rng.random(n) < 0.9) if rng.random() < 0.3 else None
    offset = rng.standard_normal(n) * rng.choice([0.3, 3.0]) if rng.random() < 0.3 else None
    if weight is not None and find(loss).classifies:
        weight[:2] += 0.1
    intercept = bool(rng.integers(2))
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    size = 1.0 / np.maximum(dense.std(axis=0), 1e-6 * np.abs(dense).max() + 1e-300)
    given = random_penalty(rng, d, size)
    probe = Reference(loss, X, y, 1.0, intercept, weight, offset)
    slope = probe.losses(np.full(n, probe.constant() if intercept else 1e-3))[1]
    pull = np.abs((dense - dense.mean(axis=0) * intercept).T @ np.asarray(probe.s * slope, float))
    C = float(10 ** rng.uniform(-0.5, 3) / (pull[rng.integers(d)] or 1.0))
    if "lower_bounds" in given and rng.random() < 0.3:
        C, given = math.inf, {"lower_bounds": given["lower_bounds"]}
    penalty = PenaltyConfig(**given)
    problem = Reference(loss, X, y, C, intercept, weight, offset, penalty)
    config = FitConfig(
        loss,
        C=C,
        fit_intercept=intercept,
        solver="proximal_newton"
        if "groups" in given
        else str(rng.choice(["proximal_newton", "owlqn"])),
        tol=float(10 ** rng.uniform(-11, -2)),
        max_iter=rng.choice([None, None, None, 2, 5]),
        penalty=penalty,
    )
    return problem, config


def check_fit(seed):
    """Fit one random problem; return its report. The bound must not be below the truth."""
    problem, config = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = train(
            problem.X, problem.y, config, sample_weight=problem.weight, offset=problem.offset
        )
    report, w, b = found.report, found.coef[0], float(found.intercept[0])
    told = report.relative_gap
    what = f"seed {seed}: {problem.name}, {report.solver}, C={config.C:g}, {config.penalty}"
    if math.isfinite(told):
        value, least = problem.value(w, b), problem.least(w, b)
        # classes that free features tell apart, 1e7 margins away: all that is left is rounding
        assert (told == 0.0 and value < 1e-14) or (
            value - least <= told * (1 + 1e-6) * least + problem.noise(w, b)
        ), f"{what}: told {told:.3e}, true is {float((value - least) / least):.3e}"
    return report, config


def objectives(problem, config):
    """The objective of a fit in this process, once."""
    classify = problem.loss.classifies
    data = partitions(
        problem.X, problem.y, problem.weight, offset=problem.offset, classify=classify
    )
    config = with_columns(config, data)
    with loaded(data, config, None) as known:
        yield objective_of(known.engine, *known.problems[0], problem.loss, config)


def check_points(seed):
    """Bound points near and far from the optimum; return whether each bound is more than a value.

    None may be below the truth, whether the features that nothing holds are near their best or not.
    """
    problem, config = draw(seed)
    rng, found = np.random.default_rng(seed), []
    d = problem.X.shape[1]
    for objective in objectives(problem, config):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            best = train(
                problem.X,
                problem.y,
                replace(config, tol=1e-12, max_iter=None),
                sample_weight=problem.weight,
                offset=problem.offset,
            )
        w = np.append(best.coef[0], best.intercept[: objective.fit_intercept])
        if not math.isfinite(best.report.objective):
            return []
        least = problem.least(best.coef[0], float(best.intercept[0]))
        points = [w]
        for share in 10 ** rng.uniform(-10, 0, 4):
            change = share * np.abs(w) * rng.standard_normal(len(w))
            if rng.random() < 0.5:
                change[~np.append(objective.penalty.may_be_free, np.ones(len(w) - d, bool))] = 0.0
            points.append(w + change)
        for at in points:
            point = objective.at(at)
            if not free_block.can_settle(objective.bounds, point):
                continue
            reach = 10 ** rng.uniform(-8, 2) if math.isinf(problem.loss.self_concordance) else 0.0
            known = free_block.with_block(objective, point, reach)
            for each in (known, free_block.settle(objective.bounds, point, 0.0)):
                bound, b = objective.bounds.of(each), float(each.w[-1]) if len(each.w) > d else 0.0
                value = problem.value(each.w[:d], b)
                what = f"seed {seed}: {problem.name}, C={config.C:g}, {config.penalty}"
                if math.isfinite(bound):
                    noise = problem.noise(each.w[:d], b)
                    assert value - least <= bound * (1 + 1e-6) + noise, (
                        f"{what}: bound {bound:.3e}, truth {float(value - least):.3e}"
                    )
                found.append(bound < 0.5 * each.value)
    return found


def check_far_points(seed):
    """Bound points where sums overflow; return whether each bound is more than a value.

    None may be below what the point's value is above that at the origin, and nothing may warn.
    """
    problem, config = draw(seed)
    rng, d, found = np.random.default_rng(seed), problem.X.shape[1], []
    problem.X = problem.X * np.float64(10) ** (rng.uniform(-140, 140) * (rng.random() < 0.5))
    given = problem.weight, problem.offset, config.penalty
    problem = Reference(problem.name, problem.X, problem.y, config.C, config.fit_intercept, *given)
    for objective in objectives(problem, config):
        zero = objective.origin
        at_origin = problem.value(zero[:d], float(zero[d:].sum()))
        for _ in range(8):
            move = np.append(rng.standard_normal(d), zero[d:] * 0.0)
            most = np.abs(problem.dense @ move[:d]).max() or 1
            # where exponentials nearly overflow, and squares
            size = rng.uniform(300, 720) if rng.random() < 0.7 else 10 ** rng.uniform(60, 156)
            with np.errstate(over="ignore", invalid="ignore"):  # as where solvers evaluate
                point = objective.at(zero + move * float(size / most))
            if not (math.isfinite(point.value) and free_block.can_settle(objective.bounds, point)):
                continue
            reach = 1.0 if math.isinf(problem.loss.self_concordance) else 0.0
            known = free_block.with_block(objective, point, reach)
            for each in (known, free_block.settle(objective.bounds, point, 0.0)):
                bound, b = objective.bounds.of(each), float(each.w[d:].sum())
                if math.isfinite(bound):
                    above = problem.value(each.w[:d], b) - at_origin
                    off = problem.noise(each.w[:d], b)
                    assert above <= bound * (1 + 1e-6) + off, f"seed {seed}: bound {bound:.3e}"
                found.append(bound < 0.5 * each.value)
    return found


@pytest.mark.parametrize("first", first_by_default([0, 40]))
def test_the_bound_of_a_hard_problem_is_not_below_the_truth(first, without_hessians):
    found = [check_fit(seed) for seed in range(first, first + 40)]
    assert np.mean([math.isfinite(report.relative_gap) for report, _ in found]) > 0.4
    assert np.mean([report.relative_gap <= config.tol for report, config in found]) > 0.3


def test_bounds_of_any_points_are_not_below_the_truth():
    found = [near for seed in range(15) for near in check_points(seed)]
    assert len(found) > 40
    assert np.mean(found) > 0.3


@pytest.mark.parametrize("seed", [501669, 226382965, 146270279])
def test_points_that_once_failed(seed):
    check_points(seed)


def test_bounds_far_out_are_right_and_overflow_without_a_warning():
    found = [near for seed in range(100) for near in check_far_points(seed)]
    assert len(found) > 400
    assert any(found)


@of_the_commit_or(range(1000, 2000), 50)
def test_bounds_of_many_points_are_not_below_the_truth(seeds):
    found = [near for seed in seeds for near in check_points(seed)]
    assert np.mean(found) > 0.3 or not is_many(seeds)


@pytest.mark.nightly
@of_the_commit_or(range(1000, 2000))
def test_the_bounds_of_many_hard_problems_are_not_below_the_truth(without_hessians, seeds):
    found = [check_fit(seed) for seed in seeds]
    proved = [math.isfinite(report.relative_gap) for report, _ in found]
    assert np.mean(proved) > 0.4 or not is_many(seeds)


def test_nothing_is_near_beyond_the_reach_of_a_hessian_without_rows_at_corners():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] + rng.standard_normal(80) > 0.0, 1.0, -1.0)
    config = FitConfig(
        "squared_hinge", C=1.0, penalty=PenaltyConfig(1.0, penalty_factor=[0.0, 1.0, 1.0])
    )
    data = partitions(X, y, None, classify=True)
    with loaded(data, with_columns(config, data), None) as known:
        objective = objective_of(known.engine, *known.problems[0], find("squared_hinge"), config)
        best = train(X, y, replace(config, tol=1e-10))
        optimum = np.append(best.coef[0], best.intercept)
        for away, reach in ((0.0, 0.05), (0.5, 1e-6)):
            point = objective.at(optimum + away * np.eye(4)[0])
            block = free_block.with_block(objective, point, reach).free_hessian
            decrement = block.factor.decrement(point.gradient[block.entries])
            moved = free_block.change(objective, block) * decrement
            near = free_block.nearness(objective, point, block, np.zeros(2))
            assert math.isfinite(moved)
            assert (moved < reach) == (away == 0.0)
            assert math.isfinite(near) == (away == 0.0)


# ---- ordinary problems with more features than a Hessian may have
def ordinary(loss, sparse, n=3000, d=2500):
    """Rows with twenty features that matter; three have no penalty."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    w = np.zeros(d)
    w[:20] = 0.3 * rng.standard_normal(20)
    if sparse:
        X, w = sp.csr_matrix(X * (rng.random((n, d)) < 0.02)), 5.0 * w
    z = X @ w
    if find(loss).classifies:
        y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.clip(z, -3.0, 3.0))).astype(float)
    else:
        y = z + rng.standard_normal(n)
    factors = np.ones(d)
    factors[FREE if d > 2000 else [0, 7]] = 0.0
    return X, y, factors


@each_choice
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("solver", ["proximal_newton", "owlqn"])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "squared", "squared_hinge", "huber"])
def test_a_gap_of_1e6_is_proved_for_ordinary_problems(loss, solver, sparse):
    X, y, factors = ordinary(loss, sparse)
    how = {"loss": loss, "C": 0.02, "l1_ratio": 1.0, "penalty_factor": factors}
    model = daskglm.fit(X, y, solver=solver, **how)
    report = model.report_
    assert report.converged
    assert report.relative_gap <= 1e-6
    assert (np.ravel(model.coef_)[FREE] != 0.0).all()
    assert np.count_nonzero(model.coef_) < 2000


@pytest.mark.slow
def test_a_proof_is_that_of_the_rows_wherever_they_are(client):
    X, y, factors = ordinary("logistic", sparse=False)
    how = {"C": 0.02, "l1_ratio": 1.0, "penalty_factor": factors, "solver": "owlqn"}
    lazy = da.from_array(X, chunks=(700, 2500)), da.from_array(y, chunks=700)
    alone = daskglm.fit(X, y, **how).report_
    for model in (daskglm.fit(*lazy, **how), daskglm.fit(*lazy, out_of_core=True, **how)):
        assert model.report_.relative_gap <= 1e-6
        assert model.report_.objective == pytest.approx(alone.objective, rel=1e-6)


def test_copies_of_a_feature_without_a_penalty_leave_the_gradient_to_end_the_fit():
    X, y, factors = ordinary("logistic", sparse=False)
    X[:, 7] = X[:, 0]
    report = daskglm.fit(X, y, C=0.02, l1_ratio=1.0, penalty_factor=factors, solver="owlqn").report_
    assert report.converged
    assert math.isnan(report.relative_gap)


# ---- what a look costs
def objective_of_rows(loss, X, y, factors):
    config = FitConfig(loss, C=0.02, penalty=PenaltyConfig(l1_ratio=1.0, penalty_factor=factors))
    data = partitions(X, y, classify=find(loss).classifies)
    with loaded(data, config, None) as known:
        yield objective_of(known.engine, *known.problems[0], find(loss), config)


def test_a_block_costs_a_pass_and_a_step_two():
    X, y, factors = ordinary("poisson", sparse=True, n=400, d=30)
    factors[[0, 7, 20]] = 0.0
    for objective in objective_of_rows("poisson", X, y, factors):
        point = objective.at(objective.origin)
        passes = objective.passes
        known = free_block.with_block(objective, point)
        assert objective.passes == passes + 1
        assert known.free_hessian.entries.tolist() == [0, 7, 20, 30]
        near = point
        for _ in range(4):
            near = free_block.settle(objective.bounds, near, 0.0)
        assert np.linalg.norm(near.gradient[known.free_hessian.entries]) < 1e-8
        held = np.setdiff1d(np.arange(30), known.free_hessian.entries)
        np.testing.assert_array_equal(near.w[held], point.w[held])
        passes = objective.passes
        free_block.settle(objective.bounds, near, 0.0)
        assert objective.passes - passes in (1, 3)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "squared", "squared_hinge", "huber"])
@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_gradients_and_values_change_no_more_than_the_block_says(loss, share):
    X, y, factors = ordinary(loss, sparse=False, n=400, d=30)
    rng = np.random.default_rng(1)
    for objective in objective_of_rows(loss, X, y, factors):
        best = objective.at(0.1 * rng.standard_normal(31))
        for _ in range(8):
            best = free_block.settle(objective.bounds, best, 0.0)
        entries = best.free_hessian.entries
        assert np.linalg.norm(best.gradient[entries]) < 1e-9
        w = best.w.copy()
        w[entries] += share * rng.standard_normal(len(entries))
        point = free_block.with_block(
            objective, objective.at(w), 0.2 * find(loss).has_two_curvatures
        )
        # rows that were left out may have a curvature on the way
        assert math.isinf(point.free_hessian.curvature) == find(loss).has_two_curvatures
        near = free_block.nearness(objective, point, point.free_hessian, np.zeros(len(entries)))
        if share <= 1e-4 and loss != "huber":
            assert math.isfinite(near)
        elif not math.isfinite(near):
            continue
        fall, rounding = point.value - best.value, 1e-13 * point.value
        assert 0.5 * fall - rounding <= 0.5 * near**2
        assert fall <= 0.5 * near**2 + rounding
        changed = np.abs(point.gradient - best.gradient)[:30]
        most = free_block.moved_gradient(objective, point.free_hessian, near)
        assert (changed <= most * (1.0 + 1e-6) + 1e-9).all()
        assert changed.max() > 1e-2 * most.max()


def test_a_point_far_from_the_best_coefficients_proves_nothing():
    X, y, factors = ordinary("logistic", sparse=False, n=400, d=30)
    for objective in objective_of_rows("logistic", X, y, factors):
        far = objective.origin
        far[[0, 7]] = 3.0
        point = free_block.with_block(objective, objective.at(far))
        assert objective.bounds.of(point) == point.value
        assert objective.bounds.of(replace(point, near=0.0)) < point.value


def test_bounds_on_one_side_hold_a_feature_that_is_at_one():
    X, y, _ = ordinary("logistic", sparse=False, n=400, d=30)
    config = FitConfig("logistic", C=math.inf, penalty=PenaltyConfig(lower_bounds=0.0))
    with loaded(partitions(X, y, classify=True), config, None) as known:
        config = with_columns(config, partitions(X, y, classify=True))
        objective = objective_of(known.engine, *known.problems[0], find("logistic"), config)
        assert objective.penalty.may_be_free.all()
        w = objective.origin
        assert free_block.features_of(objective, w).tolist() == []
        w[3] = 0.1
        assert free_block.features_of(objective, w).tolist() == [3]


def test_a_model_of_quadratic_losses_forgets_the_block():
    X, y, factors = ordinary("squared", sparse=False, n=400, d=30)
    for objective in objective_of_rows("squared", X, y, factors):
        point = free_block.with_block(objective, objective.at(objective.origin, gram=True))
        moved = predicted(point, point.w + 0.1)
        assert moved.free_hessian is None
