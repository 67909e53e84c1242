"""Losses at combinations of cached margins."""

import numpy as np
import pytest
from hypothesis import given, settings

from daskglm.core.requests import Evaluate, EvaluateAlong
from daskglm.kernels import margins
from daskglm.kernels.records import NOTHING
from daskglm.losses.table import LOSSES, law_of
from tests.kernels.cases import KINKED, build, problems
from tests.losses.formulas import FAMILIES, margins_of, reference, targets


@settings(max_examples=30, deadline=None)
@given(problems)
def test_hull_agrees_with_direct_evaluation_without_a_pass(case):
    engine, problem, X, y, s, o, w, rng = build(case)
    other = rng.standard_normal(len(w))
    engine.total(problem, Evaluate(w, 1))
    engine.total(problem, Evaluate(other, 2))
    coefficients = np.array([[0.3, 0.7, 0.0], [-1.0, 2.0, 0.0], [1.0, 0.0, 0.25]])
    got = engine.total(
        problem, EvaluateAlong(((1, w), (2, other)), coefficients[:, :2], coefficients[:, 2:])
    )
    assert got["rows"] == 0
    basis = np.stack([X @ w, X @ other, np.ones(len(y))], axis=1)
    for m, c in enumerate(coefficients):
        value, slope, curvature = reference(case["loss"], y, basis @ c + o)
        np.testing.assert_allclose(got["values"][m], s @ value, rtol=1e-10, atol=1e-12)
        size = np.abs(basis).T @ (s * np.abs(slope)) + 1e-9
        assert (np.abs(got["slopes"][m] - basis.T @ (s * slope)) <= 1e-9 * size).all()
        if case["loss"] not in KINKED:
            hessian = basis.T @ ((s * curvature)[:, None] * basis)
            np.testing.assert_allclose(
                got["hessians"][m], hessian, rtol=1e-8, atol=1e-9 * np.abs(hessian).max()
            )
    engine.close()


def test_constants_alone_want_no_margins():
    rng = np.random.default_rng(1)
    y, weight, offset = rng.poisson(2.0, 1500).astype(float), rng.random(1500), rng.random(1500)
    constants, law = np.array([[0.3], [-1.0]]), law_of(LOSSES["poisson"].ref)
    out = np.zeros(2), np.zeros((2, 1)), np.zeros((2, 1, 1))
    margins.along(law, y, weight, offset, (), constants, 0, 1500, out)
    for m, (c,) in enumerate(constants):
        value, slope, curvature = reference("poisson", y, c + offset)
        np.testing.assert_allclose(out[0][m], weight @ value)
        np.testing.assert_allclose(out[1][m], [weight @ slope], rtol=1e-9)
        np.testing.assert_allclose(out[2][m], [[weight @ curvature]])


@pytest.mark.parametrize("name", list(LOSSES))
def test_slopes_and_curvatures_of_some_rows(name):
    n, first, last = 1500, 100, 1300
    rng = np.random.default_rng(2)
    z, weight = margins_of(name, rng.standard_normal(n)), rng.random(n)
    y = targets(name, z, rng)
    law, of_slopes, of_curvatures = law_of(LOSSES[name].ref), np.zeros(n), np.zeros(n)
    margins.slopes(law, y, weight, NOTHING, z, first, last, of_slopes)
    margins.curvatures(law, y, weight, NOTHING, z, first, last, of_curvatures)
    _, slope, curvature = reference(name, y, z)
    inside = (np.arange(n) >= first) & (np.arange(n) < last)
    # slopes of families are differences of numbers of the size of their curvatures
    digits = 1e-14 * weight * curvature if name in FAMILIES else 0.0
    off = np.abs(of_slopes - inside * weight * slope)
    assert (off <= 1e-12 * np.abs(weight * slope) + digits).all()
    assert not of_slopes[~inside].any()
    np.testing.assert_allclose(of_curvatures, inside * weight * curvature, rtol=1e-12)
