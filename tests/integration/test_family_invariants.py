"""What must be true of families without any other package: problems that are the same, or nearly."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import train
from daskglm.losses.table import find
from tests.losses.formulas import targets

CONVEX = (
    *("poisson", "gamma", "tweedie(1.1)", "tweedie(1.5)", "tweedie(1.9)"),
    *("negative_binomial(0.5)", "binomial", "binomial_probit"),
)
CANONICAL = ("poisson", "binomial")

problems = st.fixed_dictionaries(
    {
        "loss": st.sampled_from(CONVEX),
        "n": st.integers(40, 200),
        "d": st.integers(1, 6),
        "seed": st.integers(0, 2**31),
        "sparse": st.booleans(),
        "C": st.sampled_from([0.01, 1.0, 100.0]),
        "solver": st.sampled_from(["auto", "newton", "lbfgs", "tron"]),
    }
)
few = settings(max_examples=25, deadline=None)


class Case:
    """Rows, targets, and fits of them to the last digits."""

    def __init__(self, case):
        self.case = case
        self.rng = rng = np.random.default_rng(case["seed"])
        self.X = rng.standard_normal((case["n"], case["d"]))
        if case["sparse"]:
            self.X *= rng.random(self.X.shape) < 0.4
        z = 0.3 + self.X @ rng.standard_normal(case["d"]) / math.sqrt(case["d"])
        self.y = targets(find(case["loss"]).name, z, rng)

    def fit(self, X, y, *, loss=None, C=None, intercept=True, **beside):
        case = self.case
        config = FitConfig(
            loss or case["loss"],
            C=case["C"] if C is None else C,
            solver=case["solver"],
            fit_intercept=intercept,
            tol=1e-13,
        )
        return train(sp.csr_matrix(X) if case["sparse"] else X, y, config, **beside)


def same(one, other, *, coef=slice(None), atol=2e-6):
    # with a penalty of strength one |w - w*|^2 / 2 is at most the gap
    gaps = [each.report.relative_gap * each.report.objective for each in (one, other)]
    atol += float(np.sqrt(2.0 * np.nan_to_num(gaps)).sum())
    np.testing.assert_allclose(one.coef, other.coef[:, coef], atol=atol)
    np.testing.assert_allclose(one.intercept, other.intercept, atol=atol)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@few
@given(problems)
def test_weights_are_repeated_rows(case):
    made = Case(case)
    counts = made.rng.integers(0, 4, case["n"])
    counts[:2] = 1
    again = np.repeat(np.arange(case["n"]), counts)
    weighted = made.fit(made.X, made.y, sample_weight=counts.astype(float))
    repeated = made.fit(made.X[again], made.y[again])
    same(weighted, repeated)
    assert weighted.report.objective == pytest.approx(repeated.report.objective, rel=1e-9)


@few
@given(problems)
def test_columns_may_be_permuted_and_doubled(case):
    made = Case(case)
    whole = made.fit(made.X, made.y)
    order = made.rng.permutation(case["d"])
    same(made.fit(made.X[:, order], made.y), whole, coef=order)
    # two copies share a coefficient: half the penalty of the column alone
    twice = made.fit(np.c_[made.X, made.X], made.y)
    half = made.fit(made.X * math.sqrt(2.0), made.y)
    d = case["d"]
    np.testing.assert_allclose(twice.coef[0, :d], twice.coef[0, d:], atol=2e-6)
    np.testing.assert_allclose(2.0 * twice.coef[0, :d], half.coef[0] * math.sqrt(2.0), atol=1e-5)


@few
@given(problems, st.sampled_from([1e-3, 0.5, 1e3]))
def test_a_scaled_column_has_a_scaled_coefficient(case, scale):
    made = Case(case)
    if find(case["loss"]).name.startswith("binomial"):
        return  # few shares may be separable, and there is a penalty of none below
    whole = made.fit(made.X, made.y, C=math.inf)
    scaled = made.X.copy()
    scaled[:, 0] *= scale
    other = made.fit(scaled, made.y, C=math.inf)
    if whole.report.converged and other.report.converged and case["n"] > 20 * case["d"]:
        value = whole.report.objective
        assert other.report.objective == pytest.approx(value, rel=1e-7)
        assert other.coef[0, 0] * scale == pytest.approx(whole.coef[0, 0], abs=1e-3)


@few
@given(problems)
def test_residuals_of_canonical_links_add_up_to_zero(case):
    made = Case({**case, "loss": CANONICAL[case["seed"] % 2]})
    weight, offset = made.rng.random(case["n"]), made.rng.standard_normal(case["n"])
    found = made.fit(made.X, made.y, sample_weight=weight, offset=offset)
    link = find(made.case["loss"]).link
    mu = link.mean(made.X @ found.coef[0] + found.intercept[0] + offset)
    assert abs(weight @ (made.y - mu)) <= 1e-5 * (weight @ np.abs(made.y - mu) + 1e-3)
    # with the penalty, the features' residuals are the coefficients
    slopes = case["C"] * made.X.T @ (weight * (made.y - mu))
    np.testing.assert_allclose(slopes, found.coef[0], atol=1e-4 * (1 + case["C"]))


@few
@given(problems)
def test_negative_binomial_without_dispersion_is_poisson(case):
    made = Case({**case, "loss": "poisson"})
    poisson = made.fit(made.X, made.y)
    same(made.fit(made.X, made.y, loss="negative_binomial(1e-10)"), poisson, atol=1e-5)


@few
@given(problems)
def test_tweedie_lies_between_poisson_and_gamma(case):
    counts = Case({**case, "loss": "poisson"})
    near = counts.fit(counts.X, counts.y, loss="tweedie(1.0000001)")
    same(near, counts.fit(counts.X, counts.y), atol=1e-5)
    sizes = Case({**case, "loss": "gamma"})
    near = sizes.fit(sizes.X, sizes.y, loss="tweedie(1.9999999)")
    same(near, sizes.fit(sizes.X, sizes.y), atol=1e-5)
    assert find("tweedie(2)").name == "gamma"


@few
@given(problems)
def test_an_offset_of_least_squares_is_a_shift(case):
    made = Case({**case, "loss": "squared"})
    offset = made.rng.standard_normal(case["n"])
    same(
        made.fit(made.X, made.y, offset=offset),
        made.fit(made.X, made.y - offset),
        atol=0.0,
    )


@few
@given(problems)
def test_an_offset_along_a_column_is_taken_back_by_its_coefficient(case):
    """Without a penalty: margins are all that counts."""
    made = Case(case)
    if find(case["loss"]).name.startswith("binomial") or case["n"] < 20 * case["d"]:
        return
    whole = made.fit(made.X, made.y, C=math.inf)
    moved = made.fit(made.X, made.y, C=math.inf, offset=0.5 * made.X[:, 0] - 0.25)
    if whole.report.converged and moved.report.converged:
        assert moved.report.objective == pytest.approx(whole.report.objective, rel=1e-7)
        assert moved.coef[0, 0] == pytest.approx(whole.coef[0, 0] - 0.5, abs=1e-3)
        assert moved.intercept[0] == pytest.approx(whole.intercept[0] + 0.25, abs=1e-3)


@few
@given(problems, st.sampled_from([1e-6, 1e-2, 1e4]))
def test_scaled_targets_move_the_intercept(case, scale):
    """Means scale with targets under a log link, and losses by a power of the scale."""
    loss = ("poisson", "gamma", "tweedie(1.5)")[case["seed"] % 3]
    made = Case({**case, "loss": loss})
    power = {"poisson": 1.0, "gamma": 0.0, "tweedie(1.5)": 0.5}[loss]
    whole = made.fit(made.X, made.y)
    scaled = made.fit(made.X, scale * made.y, C=case["C"] / scale**power)
    np.testing.assert_allclose(scaled.coef, whole.coef, atol=1e-5)
    np.testing.assert_allclose(scaled.intercept - math.log(scale), whole.intercept, atol=1e-5)


@few
@given(problems)
def test_shares_of_counts_are_trials_by_trials(case):
    """A share of m trials with the weight m is m rows of labels."""
    made = Case({**case, "loss": "binomial"})
    trials = made.rng.integers(1, 5, case["n"])
    good = made.rng.binomial(trials, 0.5)
    shares = made.fit(made.X, good / trials, sample_weight=trials.astype(float))
    again = np.repeat(np.arange(case["n"]), trials)
    labels = np.concatenate([np.arange(m) < k for m, k in zip(trials, good, strict=True)]) * 1.0
    same(shares, made.fit(made.X[again], labels))


@few
@given(problems)
def test_labels_are_the_logistic_loss(case):
    made = Case({**case, "loss": "binomial"})
    y = (made.y > 0.5).astype(float)
    y[:2] = 0.0, 1.0
    config = FitConfig("logistic", C=case["C"], tol=1e-13)
    same(made.fit(made.X, y), train(made.X, y, config))
