"""The soak's own arithmetic: its reference is the optimum, wrong answers are seen, what grows is not flat."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import daskglm
from benchmarks.soak.cases import Answer, Asked, Case
from benchmarks.soak.checks import check_gap
from benchmarks.soak.jobs import KINDS, draw, judge, run, run_job
from benchmarks.soak.processes import FAULTS
from benchmarks.soak.record import flatness
from benchmarks.soak.reference import (
    FAMILIES,
    LOSSES,
    Objective,
    linear,
    negative_binomial,
    optimum,
    ordinal,
)
from daskglm.engines.placement import ClusterLost, DataLost

HERE = Asked(None, "process")


def case_of(name, seed=0, **more):
    options = KINDS[name].draw(np.random.default_rng(seed), 4)
    return Case(3, name, 300, 4, "float64", "process", options={**options, **more})


def signs(rng, n):
    return np.where(rng.random(n) < 0.5, -1.0, 1.0)


# ---- the reference
@pytest.mark.parametrize("loss", LOSSES)
def test_the_reference_is_the_optimum_and_a_worse_point_is_seen(loss):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), signs(rng, 300)
    model = daskglm.fit(X, y, loss=loss, tol=1e-8, solver="newton")
    objective = linear(X, y, LOSSES[loss], np.ones(300), alpha=1.0)
    w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))
    assert check_gap(objective, w, 1e-8) == pytest.approx(0.0, abs=1e-8)
    w[:4] *= 1.1
    with pytest.raises(AssertionError, match="the gap is"):
        check_gap(objective, w, 1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_slopes_of_families_are_derivatives(family):
    rng = np.random.default_rng(1)
    z = rng.normal(size=50)
    y = rng.random(50) if family == "binomial" else 0.1 + rng.poisson(2.0, 50)
    law, step = FAMILIES[family].law, 1e-6
    slopes = (law(y, z + step)[0] - law(y, z - step)[0]) / (2.0 * step)
    np.testing.assert_allclose(law(y, z)[1], slopes, rtol=1e-5, atol=1e-7)


def test_the_negative_binomial_deviance_is_of_its_likelihood():
    y, z, theta = np.array([0.0, 1.0, 7.0]), np.array([0.3, -0.2, 1.0]), 0.7
    r, mu = 1.0 / theta, np.exp(z)

    def log_likelihood(mean):
        return scipy.stats.nbinom.logpmf(y, r, r / (r + mean))

    halves = log_likelihood(np.maximum(y, 1e-12)) - log_likelihood(mu)
    np.testing.assert_allclose(negative_binomial(theta).law(y, z)[0], halves, atol=1e-9)


def test_derivatives_of_ordered_classes():
    rng = np.random.default_rng(2)
    objective = ordinal(rng.normal(size=(60, 2)), rng.integers(0, 3, 60), 0.5)
    at = np.array([0.3, -0.2, -0.5, 0.8])
    _, gradient, hessian = objective.smooth(at)
    moved = [at + 1e-5 * each for each in np.eye(4)], [at - 1e-5 * each for each in np.eye(4)]
    up, down = ([objective.smooth(w) for w in each] for each in moved)
    found = [(a[0] - b[0]) / 2e-5 for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(gradient, found, rtol=1e-6)
    found = [(a[1] - b[1]) / 2e-5 for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(hessian, found, rtol=1e-6)


@pytest.mark.parametrize("penalty", [{"l1_ratio": 1.0}, {"groups": [0, 0, 1, 1], "l1_ratio": 1.0}])
def test_no_point_nearby_is_less_than_the_least(penalty):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((200, 4)), rng.poisson(1.0, 200).astype(float)
    objective = linear(X, y, FAMILIES["poisson"].law, np.full(200, 1 / 200), alpha=0.1, **penalty)
    w, least = optimum(objective)
    assert (w[:4] == 0.0).any()
    for size in (1e-1, 1e-3, 1e-5):
        nearby = w + size * rng.standard_normal((100, 5))
        assert min(map(objective.value, nearby)) > least


def test_a_reference_that_does_not_converge_is_an_error():
    start = np.ones(1)
    wrong = linear(np.ones((2, 0)), np.ones(2), LOSSES["squared"], np.ones(2), alpha=0.0)
    with pytest.raises(AssertionError, match="did not converge"):
        optimum(Objective(lambda w: (1.0, start, np.eye(1)), wrong.terms, start))


# ---- jobs
@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_right_here(name):
    case = case_of(name)
    answer = run(case, HERE)
    assert judge(case, answer) == "right"


@pytest.mark.parametrize(
    "name", ["loss", "family", "family CV", "multinomial", "ordinal", "quantile"]
)
def test_wrong_coefficients_are_seen(name):
    case = case_of(name)
    answer = run(case, HERE)
    model = answer.found[0][1] if name == "loss" else answer.found
    model.coef_ = model.coef_ + 0.1
    with pytest.raises(AssertionError, match="the gap is|the objective is"):
        judge(case, answer)


def test_wrong_standard_errors_are_seen():
    case = case_of("inference", covariance="HC1")
    model, _ = run(case, HERE).found
    other = replace(case, options={**case.options, "covariance": "classical"})
    with pytest.raises(AssertionError, match="standard errors are off"):
        judge(other, Answer((model, run(case, HERE).found[1])))


def test_a_path_of_another_strength_is_seen():
    case = case_of("path")
    found = run(case, HERE).found
    with pytest.raises(AssertionError, match="the gap is"):
        judge(case, Answer(replace(found, coefs=found.coefs[::-1])))


@pytest.mark.parametrize("name", KINDS)
def test_faulty_input_is_the_error_that_it_explains(name):
    for fault in KINDS[name].spoils:
        case = replace(case_of(name), fault=fault)
        assert judge(case, run_job(case, HERE)) == "ValueError"
        with pytest.raises(AssertionError, match="should have failed"):
            judge(case, Answer(None))


def test_errors_are_explained_by_their_faults_alone():
    lost, gone = DataLost("it cannot be computed again"), ClusterLost("the scheduler is gone")
    sent = replace(case_of("loss"), storage="sent", fault="kill")
    assert judge(sent, lost) == "DataLost"
    assert judge(replace(sent, fault="none"), lost, workers_come_and_go=True) == "DataLost"
    assert judge(replace(sent, fault="kill scheduler"), gone) == "ClusterLost"
    wrong = (
        (replace(sent, fault="none"), lost),
        (replace(sent, storage="dask"), lost),
        (sent, gone),
        (replace(sent, fault="kill scheduler"), OSError("the scheduler is gone")),
    )
    for case, error in wrong:
        with pytest.raises(AssertionError, match="ended with"):
            judge(case, error)


def test_cases_are_drawn_again_from_a_seed():
    def cases():
        rng = np.random.default_rng(4)
        return [draw(number, rng, (*FAULTS, "kill scheduler")) for number in range(300)]

    drawn = cases()
    assert drawn == cases()
    assert {case.kind for case in drawn} == set(KINDS)
    assert not [c for c in drawn if c.fault == "kill scheduler" and c.storage == "process"]


# ---- what is flat
def samples(growth):
    taken = {"pid": 1, "threads": 5, "fds": 20}
    names = ("client", "scheduler", "a", "b")
    return [
        {
            "kind": "sample",
            "t": float(t),
            **{n: {**taken, "rss_mb": 300.0 + growth * t} for n in names},
        }
        for t in range(5, 1800, 5)
    ]


def test_what_grows_is_not_flat():
    assert all(row["flat"] for row in flatness(samples(0.005)))
    uneven = [row for row in flatness(samples(0.05)) if not row["flat"]]
    assert {row["measure"] for row in uneven} == {"rss_mb"}
    assert len(uneven) == 4


def test_only_the_last_cluster_counts():
    steep = [record for record in samples(5.0) if record["t"] < 1500]
    late = [record for record in samples(0.005) if record["t"] > 1500]
    started = {"kind": "cluster", "t": 1500.0}
    assert all(row["flat"] for row in flatness([*steep, started, *late]))
    assert not all(row["flat"] for row in flatness([*steep, *late]))
