"""From what users ask for to both parts of a penalty, by the formulas of `PenaltyConfig`."""

import numpy as np
import pytest

from daskglm.penalties.builtin import penalty_of
from daskglm.penalties.config import PenaltyConfig

D = 5
RNG = np.random.default_rng(0)
FACTORS = np.array([1.0, 0.0, 2.0, 0.5, 3.0])
SCALE = np.array([0.5, 1.0, 2.0, 4.0, 1.5])
ROOT = RNG.standard_normal((D, D))
GROUPS = [[0, 3], [1], [2, 4]]
SAME = np.array([2.0, 0.0, 0.5, 2.0, 0.5])  # factors that agree within groups


def value(w, *, l1_ratio=0.0, penalty_factor=None, P2=None, groups=None, scale=None):
    """The penalty of the formula in the documentation."""
    v = np.ones(D) if penalty_factor is None else penalty_factor
    u = w[:D] * (np.ones(D) if scale is None else scale)
    l2 = (v * u**2).sum() if P2 is None else u @ P2 @ u
    if groups is None:
        l1 = (v * np.abs(u)).sum()
    else:
        l1 = sum(np.sqrt(len(g)) * v[g[0]] * np.linalg.norm(u[g]) for g in groups)
    return l1_ratio * l1 + 0.5 * (1.0 - l1_ratio) * l2


CASES = [
    {},
    {"l1_ratio": 1.0},
    {"l1_ratio": 0.3},
    {"l1_ratio": 0.3, "penalty_factor": FACTORS},
    {"l1_ratio": 0.3, "P2": ROOT @ ROOT.T},
    {"l1_ratio": 0.3, "P2": ROOT @ ROOT.T, "penalty_factor": FACTORS},
    {"l1_ratio": 0.7, "groups": GROUPS},
    {"l1_ratio": 1.0, "groups": GROUPS, "penalty_factor": SAME},
    {"l1_ratio": 0.6, "groups": GROUPS, "P2": ROOT @ ROOT.T},
]


def parts(case, scale, size, **how):
    found = penalty_of(PenaltyConfig(**case).for_features(D, None), scale, size, **how)
    return found.quadratic, found.kinks


@pytest.mark.parametrize("size", [D, D + 1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case) or "plain")
def test_both_parts_add_up_to_the_formula(case, size):
    w = RNG.standard_normal(size)
    quadratic, terms = parts(case, np.ones(D), size)
    assert quadratic.value(w) + terms.value(w) == pytest.approx(value(w, **case), rel=1e-13)
    assert len(terms.strengths) == size


@pytest.mark.parametrize("case", CASES[:6], ids=lambda case: "-".join(case) or "plain")
def test_standardised_is_the_penalty_of_scaled_coefficients(case):
    w = RNG.standard_normal(D + 1)
    quadratic, terms = parts(case, SCALE, D + 1)
    expected = value(w, scale=SCALE, **case)
    assert quadratic.value(w) + terms.value(w) == pytest.approx(expected, rel=1e-13)


def test_bounds_are_of_coefficients_as_they_are_and_remain_without_a_penalty():
    case = {"l1_ratio": 0.5, "lower_bounds": -1.0, "upper_bounds": np.arange(D) + 1.0}
    for strength in (0.0, 1.0):
        quadratic, terms = parts(case, SCALE, D + 1, strength=strength)
        assert terms.lower.tolist() == [-1.0] * D + [-np.inf]
        assert terms.upper.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, np.inf]
        w = 0.1 * np.ones(D + 1)
        assert (quadratic.value(w) + terms.value(w) > 0.0) == (strength > 0.0)


OUT = np.where(FACTORS > 1.0, np.inf, FACTORS)


@pytest.mark.parametrize(
    "case",
    [
        {"penalty_factor": OUT},
        {"penalty_factor": OUT, "l1_ratio": 0.5, "lower_bounds": -1.0, "upper_bounds": 2.0},
        {"penalty_factor": OUT, "l1_ratio": 0.5, "groups": [[0], [1], [2, 4], [3]]},
        {"penalty_factor": OUT, "l1_ratio": 0.5, "P2": ROOT @ ROOT.T},
    ],
    ids=lambda case: "-".join(case),
)
def test_infinite_factors_leave_features_out_and_others_as_they_are(case):
    finite = np.where(np.isinf(OUT), 1.0, OUT)
    for strength in (0.0, 1.0):
        quadratic, terms = parts(case, SCALE, D + 1, strength=strength)
        wanted = parts({**case, "penalty_factor": finite}, SCALE, D + 1, strength=strength)
        out = np.append(np.isinf(OUT), False)
        for name in ("lower", "upper"):
            bounds = np.where(out, 0.0, getattr(wanted[1], name))
            np.testing.assert_array_equal(getattr(terms, name), bounds)
        assert not np.isin(terms.members, np.flatnonzero(out)).any()
        w = np.where(out, 0.0, RNG.standard_normal(D + 1))
        value_of = [q.value(w) + t.value(w) for q, t in ((quadratic, terms), wanted)]
        assert value_of[0] == pytest.approx(value_of[1], rel=1e-13)


def test_groups_of_one_are_plain():
    _, terms = parts({"l1_ratio": 1.0, "groups": [[0], [1], [2], [3], [4]]}, np.ones(D), D)
    assert terms.groups == ()
    assert terms.strengths.tolist() == [1.0] * D
    _, terms = parts({"l1_ratio": 1.0, "groups": GROUPS}, np.ones(D), D)
    assert terms.strengths.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_plain_penalty_has_nothing_non_smooth():
    quadratic, terms = parts({}, np.ones(D), D)
    assert terms.is_empty
    assert quadratic.is_uniform
