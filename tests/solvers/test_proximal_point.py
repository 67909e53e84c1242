"""Proximal points: of the hinge after dual ascent; of quantiles from the start, also without a penalty."""

import numpy as np
import pytest
import scipy.sparse

import daskglm
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.losses.programs import quantile_optimum, value


def test_hand_over_of_the_hinge_to_proximal_points():
    X, y = make_problem(3000, 6, seed=2)
    params = {"loss": "hinge", "solver": "sdca", "C": 1.0, "random_state": 0}
    for intercept in (False, True):
        model = daskglm.fit(X, y, tol=1e-8, fit_intercept=intercept, **params)
        assert model.report_.solver == "sdca+newton"
        assert model.report_.converged
        assert model.report_.relative_gap <= 1e-8
        options = {"polish": False}
        crawl = daskglm.fit(
            X, y, tol=1e-4, fit_intercept=intercept, solver_options=options, max_iter=5000, **params
        )
        assert crawl.report_.solver == "sdca"
        excess = crawl.report_.objective - model.report_.objective
        assert -1e-8 * model.report_.objective <= excess <= 1e-4 * crawl.report_.objective


LOSSES = ["quantile(0.5)", "quantile(0.97)", "epsilon_insensitive(0.4)"]


def heavy(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_t(2, n) + 7.0


@each_choice
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1e-2, 10.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_proximal_points_and_dual_ascent_agree(loss, C, intercept):
    X, y = heavy(400, 4)
    params = {"loss": loss, "C": C, "fit_intercept": intercept, "tol": 1e-8}
    steps = daskglm.fit(X, y, solver="proximal", **params)
    ascent = daskglm.fit(X, y, solver="sdca", max_iter=3000, random_state=0, **params)
    assert steps.report_.converged
    assert ascent.report_.converged
    assert steps.report_.objective == pytest.approx(ascent.report_.objective, rel=2e-8)
    assert steps.solver_ == "proximal"


@pytest.mark.parametrize("q", [0.05, 0.5, 0.8])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_linear_program_is_solved_to_rounding_and_proved(q, sparse):
    X, y = heavy(300, 3, seed=4)
    weight = np.random.default_rng(5).exponential(size=300)
    coef, intercept, optimum = quantile_optimum(X, y, q, weight=weight)
    rows = scipy.sparse.csr_matrix(X) if sparse else X
    model = daskglm.fit(rows, y, loss=f"quantile({q})", C=np.inf, tol=1e-9, sample_weight=weight)
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-9
    assert model.report_.objective == pytest.approx(optimum, rel=1e-9)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-6)
    assert model.intercept_ == pytest.approx(intercept, abs=1e-6)


def random_problem(seed):
    """Rows with ties, offsets and scales of 1e-6 to 1e6; a quantile, weights, a tolerance."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 60)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d))
    X = np.round(X, 1) if rng.random() < 0.3 else X
    y = X @ rng.standard_normal(d) + rng.standard_t(2, n)
    y = np.round(y, 1) if rng.random() < 0.3 else y
    X = (X + (rng.random() < 0.3) * 30.0) * 10.0 ** rng.uniform(-6, 6)
    y = (y + (rng.random() < 0.3) * 100.0) * 10.0 ** rng.uniform(-6, 6)
    weight = rng.exponential(size=n) if rng.random() < 0.5 else np.ones(n)
    q = float(rng.choice([0.5, 0.1, 0.9, 0.37, 0.99]))
    return X, y, weight, q, bool(rng.integers(2)), 10.0 ** -float(rng.integers(3, 10))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gaps_of_random_linear_programs_are_bounds():
    met = 0
    for seed in range(100):
        X, y, weight, q, intercept, tol = random_problem(seed)
        params = {"loss": f"quantile({q})", "C": np.inf, "fit_intercept": intercept, "tol": tol}
        model = daskglm.fit(X, y, sample_weight=weight, **params)
        found = value("quantile", q, X, y, model.coef_, model.intercept_, weight)
        size, of_y = X.std(), np.abs(y).max()
        coef, b, _ = quantile_optimum(X / size, y / of_y, q, weight=weight, intercept=intercept)
        optimum = value("quantile", q, X, y, coef * of_y / size, b * of_y, weight)
        assert found / (1.0 + model.report_.relative_gap) <= optimum * (1 + 1e-13), seed
        met += model.report_.converged
    assert met >= 97  # of tolerances down to 1e-9, where columns may have large means


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", ["quantile", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"]
)
def test_gaps_of_random_problems_with_a_penalty_are_bounds(name):
    for seed in range(30):
        X, y, weight, q, intercept, tol = random_problem(1000 + seed)
        unit = 1.0 if name == "quantile" else np.abs(y - np.median(y)).mean()
        parameter = float(q * unit)
        C = 10.0 ** np.random.default_rng(seed).uniform(-3, 3) / max(unit * X.std(), 1e-9)
        params = {"loss": f"{name}({parameter!r})", "C": C, "fit_intercept": intercept}
        model = daskglm.fit(X, y, sample_weight=weight, tol=tol, **params)
        better = daskglm.fit(X, y, sample_weight=weight, tol=1e-13, **params)

        def at(model, X=X, y=y, weight=weight, parameter=parameter, C=C):
            losses = value(name, parameter, X, y, model.coef_, model.intercept_, weight)
            return 0.5 * float(model.coef_ @ model.coef_) + C * losses

        best = min(at(model), at(better))
        assert at(model) / (1.0 + model.report_.relative_gap) <= best * (1 + 1e-13), seed


def test_a_million_rows_would_take_few_passes():
    """Counts, not seconds: samples first, then two proximal steps on all rows."""
    X, y = heavy(60_000, 20, seed=6)
    for C in (np.inf, 1.0):
        report = daskglm.fit(X, y, loss="quantile(0.9)", C=C, solver="proximal").report_
        assert report.converged
        assert report.passes <= 50


def test_it_starts_where_it_is_told_and_goes_on_from_a_checkpoint(tmp_path):
    X, y = heavy(300, 3)
    params = {"loss": "quantile(0.5)", "C": 1.0, "solver": "proximal"}
    model = daskglm.fit(X, y, checkpoint=tmp_path, checkpoint_every=1, **params)
    warm = daskglm.fit(X, y, warm_start=model, **params)
    assert warm.report_.converged
    assert warm.report_.objective == pytest.approx(model.report_.objective, rel=1e-6)
    again = daskglm.fit(X, y, resume=tmp_path, **params)
    assert again.report_.converged


def test_what_it_does_not_take_is_refused():
    X, y = heavy(20, 2)
    with pytest.raises(ValueError, match="rounds the corners of a loss"):
        daskglm.fit(X, y, loss="squared", solver="proximal")
    with pytest.raises(ValueError, match="needs a smooth loss"):
        daskglm.fit(X, y, loss="quantile", solver="newton")
    with pytest.raises(ValueError, match="there is no dual problem"):
        daskglm.fit(X, y, loss="quantile", solver="sdca", C=np.inf)


@pytest.mark.parametrize("loss", LOSSES)
def test_shrinking_leaves_out_rows_at_either_end(loss):
    X, y = heavy(300, 3)
    params = {"loss": loss, "C": 0.1, "solver": "sdca", "tol": 1e-5, "max_iter": 3000}
    options = {"shrinking": True, "polish": False}
    shrunk = daskglm.fit(X, y, solver_options=options, **params)
    assert shrunk.report_.converged
    whole = daskglm.fit(X, y, **params)
    assert shrunk.report_.objective == pytest.approx(whole.report_.objective, rel=3e-5)
