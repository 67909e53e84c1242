"""The multinomial objective as solvers see it: derivatives, searches, intercepts, samples."""

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.requests import Problem
from daskglm.losses.table import find
from tests.kernels.softmax_case import draw, hessian, sums
from tests.objectives.several import softmax_objective
from tests.worker.softmax_shard import engine_of

LOSS = find("multinomial")


def objective_of(X, codes, weight=None, *, C=2.0, intercept=True, K=4):
    s = np.ones(len(codes)) if weight is None else weight
    return softmax_objective(
        engine_of(X, codes, weight),
        Problem(LOSS.ref),
        LOSS,
        classes=tuple(range(K)),
        weights=np.bincount(codes, s, K),
        C=C,
        fit_intercept=intercept,
    )


def of_numpy(X, codes, weight, W, C):
    """Value and gradient (K, d + 1) of the objective."""
    found = sums(X, codes, weight, W, W)
    pull = W.copy()
    pull[:, -1] = 0.0
    return C * found["value"] + 0.5 * (pull**2).sum(), C * found["gradient"] + pull


@pytest.mark.parametrize("intercept", [True, False])
def test_value_gradient_and_hessian(intercept):
    X, codes, weight, W, V = draw()
    W, V = W - W.mean(axis=0), V - V.mean(axis=0)
    if not intercept:
        W[:, -1] = V[:, -1] = 0.0
    objective = objective_of(X, codes, weight, intercept=intercept)
    columns = slice(None) if intercept else slice(-1)
    w, v = objective.margins.vector(W[:, columns]), objective.margins.vector(V[:, columns])
    np.testing.assert_allclose(objective.margins.matrix(w), W[:, columns], atol=1e-15)
    assert np.linalg.norm(w) == pytest.approx(np.linalg.norm(W))
    assert len(w) == objective.size == 3 * (7 + intercept)

    point = objective.at(w, gram=True, diagonal=True)
    value, gradient = of_numpy(X, codes, weight, W, 2.0)
    assert point.value == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(
        objective.margins.matrix(point.gradient), gradient[:, columns], atol=1e-10
    )
    np.testing.assert_allclose(np.diag(point.hessian), point.diagonal, rtol=1e-10)
    np.testing.assert_allclose(point.hessian @ v, point.hessian_vector(v), rtol=1e-9, atol=1e-9)

    step = 1e-5
    ends = [objective.at(w + t * v) for t in (step, -step)]
    slope = (ends[0].value - ends[1].value) / (2 * step)
    assert slope == pytest.approx(point.gradient @ v, rel=1e-6)
    product = (ends[0].gradient - ends[1].gradient) / (2 * step)
    np.testing.assert_allclose(product, point.hessian @ v, rtol=1e-5, atol=1e-5)


def test_the_hessian_is_that_of_all_classes_along_contrasts():
    X, codes, weight, W, _ = draw()
    objective = objective_of(X, codes, weight)
    whole = 2.0 * hessian(sums(X, codes, weight, W, W)["grams"], 4)
    blocks = objective.margins.class_blocks(objective, objective.margins.vector(W))
    for k in range(4):
        expected = whole[k, :, k].copy()
        expected[np.arange(7), np.arange(7)] += 1.0
        np.testing.assert_allclose(blocks[k], expected, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(
            objective.margins.class_diagonals(objective, objective.margins.vector(W))[k],
            np.diag(expected),
            rtol=1e-10,
        )


def test_what_classes_have_in_common_changes_nothing():
    X, codes, weight, W, _ = draw()
    objective = objective_of(X, codes, weight, C=np.inf)
    w = objective.margins.vector(W)
    np.testing.assert_allclose(objective.margins.vector(W + 7.0), w, atol=1e-14)
    value, _ = of_numpy(X, codes, weight, W, 1.0)
    assert objective.at(w).value == pytest.approx(value - 0.5 * (W[:, :-1] ** 2).sum(), rel=1e-12)


def test_search_between_points_and_best_intercepts_read_no_rows():
    X, codes, weight, W, V = draw()
    objective = objective_of(X, codes, weight)
    a, b = (objective.at(objective.margins.vector(each)) for each in (W, V))
    before = objective.passes
    steps = np.array([0.0, 0.3, 1.0])
    values = objective.between(a, b, steps)
    assert objective.passes == before
    for t, value in zip(steps, values, strict=True):
        assert value == pytest.approx(objective.at(a.w + t * (b.w - a.w)).value, rel=1e-12)

    before = objective.passes
    best = objective.margins.best_constants(objective, a)
    assert objective.passes <= before + 2  # margins of a were evicted by the points above
    np.testing.assert_array_equal(best.w[: objective.n_features], a.w[: objective.n_features])
    assert np.abs(best.gradient[objective.n_features :]).max() < 1e-9
    assert best.value < a.value
    near = objective.margins.near_constants(objective, best)
    assert near.near < 1e-6
    assert near.relative_gap <= best.relative_gap


def test_best_intercepts_from_far_away():
    X, codes, weight, W, _ = draw()
    objective = objective_of(X, codes, weight)
    W[:, -1] = [300.0, -200.0, 0.0, 50.0]
    best = objective.margins.best_constants(objective, objective.at(objective.margins.vector(W)))
    assert np.abs(best.gradient[objective.n_features :]).max() < 1e-8


def test_samples_estimate_the_whole():
    X, codes, weight, W, _ = draw(4000)
    objective = objective_of(X, codes, weight)
    part, w = objective.sample(0.25, 3), objective.margins.vector(W)
    assert part.at(w).value == pytest.approx(objective.at(w).value, rel=0.1)
    assert objective.passes == pytest.approx(1.25)
    assert part.at(w, gram=True).hessian.shape == (24, 24)


def test_one_class_alone_is_a_constant():
    X, codes, weight, _, _ = draw()
    weight[codes != 2] = 0.0
    objective = softmax_objective(
        engine_of(X, codes, weight),
        Problem(LOSS.ref),
        LOSS,
        classes=(0, 2),
        weights=[0.0, weight.sum()],
        C=1.0,
        fit_intercept=True,
    )
    w = np.zeros(objective.size)
    w[-1] = objective.only_side * LOSS.rest_margin
    assert objective.at(w).value < 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_a_hessian_bounds_points_without_a_penalty(seed):
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(200, 600)), int(rng.integers(1, 6)), int(rng.integers(3, 6))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d)
    z = X / X.std(axis=0) @ rng.standard_normal((d, K))
    y = (0.5 * z + rng.gumbel(size=z.shape)).argmax(axis=1)

    def fitted(tol):
        return daskglm.LogisticRegression(C=np.inf, solver="newton", tol=tol).fit(X, y).report_

    best = fitted(1e-11)
    assert 0.0 <= best.relative_gap <= 1e-11
    for max_iter in (2, 3, 4):  # from afar, where a bound may be infinite
        model = daskglm.LogisticRegression(C=np.inf, solver="newton", tol=1e-11, max_iter=max_iter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = model.fit(X, y).report_
        excess = found.objective - best.objective * (1.0 + 1e-11)
        assert math.isnan(found.relative_gap) or excess <= found.relative_gap * best.objective
    assert fitted(1e-6).relative_gap <= 1e-6
