"""Fits that estimate the parameter of the family, too: theta of the negative binomial, Tweedie's
power.

Coefficients and parameter alternate: the coefficients are fitted, warm, to the family with the last
parameter; the likeliest parameter for their margins, which the workers keep, takes rounds and no
pass. Where both stand still, the likelihood is largest over both. Near there a change of one hardly
moves the other, since they are orthogonal in Fisher's information.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from daskglm.core.device import to_host
from daskglm.core.requests import ResidualSums
from daskglm.core.warn import warn
from daskglm.fitting.config import FitConfig
from daskglm.fitting.record import record_of
from daskglm.fitting.report import Report
from daskglm.fitting.runner import (
    Trained,
    WarmStart,
    objective_of,
    rows_of,
    solve_one,
    start_of,
    warn_unconverged,
)
from daskglm.fitting.setup import Loaded, loaded
from daskglm.fitting.solvable import check_width
from daskglm.losses.base import Loss
from daskglm.losses.table import find
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective

# Changes of a parameter, of its logarithm for theta, at which the fit ends.
SAME = 1e-7
# Fits of the coefficients at most; 4 to 7 were needed (2026-11).
MOST_FITS = 30
# Ranges that are searched. Of theta: differences of logarithms of Gamma functions are exact to 1e-9
# from 1e-6 on. Of the power: at 1 and 2 the densities are those of other families.
THETAS, POWERS = (1e-6, 1e6), (1.01, 1.99)
# Powers that are tried first, beside 1.5.
FIRST_POWERS = (1.1, 1.3, 1.7, 1.9)
# Differences of parameters by which derivatives are taken, and a step of Newton's method that is
# the last one.
DIFFERENCE, SURE = 2e-4, 1e-5
# Steps of Newton's method at most.
MOST_STEPS = 20


class Estimate(NamedTuple):
    """A parameter and dispersion, and the logarithm of the likelihood with them."""

    value: float
    dispersion: float
    likelihood: float


class Search(NamedTuple):
    """How to look for the parameter of a family.

    Parameters
    ----------
    first : str
        Loss of the first fit of the coefficients.
    likeliest : callable
        (likelihood, estimate, step, precision) to the best `Estimate` near the last one, at first
        within about `step`; likelihood is a function of parameter and dispersion.
    step : float
        That of the first search.
    parameters : int
        How many parameters are estimated beside the coefficients.
    """

    first: str
    likeliest: Callable[..., Estimate]
    step: float
    parameters: int


Likelihood = Callable[[float, float], float]


def train_with_parameter(
    X: Any,
    y: Any,
    settings: FitConfig,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    start: Any = None,
    client: Any = None,
) -> Trained:
    """Fit coefficients and the parameter of the family; arguments are those of `runner.train`.

    The loss of `settings` is that of the family with any parameter. The record of the fit has the
    loss with the one found: Poisson where the likelihood of the negative binomial is largest for
    theta = 0.

    Raises
    ------
    ValueError
        Also for checkpoints, which are of one loss.

    Warns
    -----
    UserWarning
        Where the likelihood is largest at the end of the range that is searched.
    """
    loss = settings.check(one_fit=True)
    if settings.checkpoint is not None or settings.resume is not None:
        raise ValueError(
            f"checkpoint={settings.checkpoint!r}, resume={settings.resume!r}: checkpoints are of "
            "one loss, but the parameter of the family is estimated; give it as a number"
        )
    data = rows_of(X, y, sample_weight, loss, offset=offset, exposure=exposure)
    check_width(start, data)
    with loaded(data, settings, client) as on:
        trained = _alternate(on, loss, settings, start)
    if not trained.report.converged:
        warn_unconverged(trained.report, settings)
    return trained


def _alternate(on: Loaded, family: Loss, settings: FitConfig, start: Any) -> Trained:
    """Fit coefficients and parameter in turn until both stand still."""
    began, search = time.perf_counter(), SEARCHES[family.name]
    loss = find(search.first)
    begin: np.ndarray | None = None
    best = Estimate(family.p1, 1.0, math.nan)
    passes, n_iter, step, precision = 0.0, 0, search.step, 1e-3
    for fits in range(1, MOST_FITS + 1):
        objective, point, report = _fit(on, loss, settings, start, begin)
        n_iter += report.n_iter
        likelihood = _likelihood(objective, point, family)
        if fits == 1:
            # of the family itself other parameters are still to be tried
            known = math.nan if loss.name == family.name else report.log_likelihood
            best = Estimate(family.p1, report.dispersion, known)
        last, best = best, search.likeliest(likelihood, best, step, precision)
        if best.value == 0.0 and fits > 1:  # the coefficients are those of another theta
            passes += objective.passes
            begin, loss = to_host(point.w), find(search.first)
            objective, point, report = _fit(on, loss, settings, start, begin)
            n_iter += report.n_iter
            best = best._replace(likelihood=report.log_likelihood)
        passes += objective.passes
        if best.value == 0.0:
            break
        moved = abs(best.value - last.value) / best.value
        if fits > 1 and moved <= SAME:
            break
        begin, loss = to_host(point.w), family.with_parameter(best.value)
        # the first estimate is of another family's fit; later ones converge fast
        step, precision = max(4.0 * moved, 1e-3) if fits > 1 else 0.3, 0.1 * SAME
    else:
        warn(f"the parameter of {family.name!r} still moved after {MOST_FITS} fits")

    _warn_at_an_end(family.name, best.value)
    assert family.parameter is not None
    criteria: dict[str, Any] = _criteria(objective, best, search.parameters if best.value else 0)
    report = replace(
        report,
        **criteria,
        why=f"{report.why}; {fits} fits, {family.parameter.name} = {best.value:.6g}",
        n_iter=n_iter,
        passes=passes,
        rounds=on.engine.rounds,
        bytes_reduced=on.engine.bytes_reduced,
        seconds=time.perf_counter() - began,
    )
    w, d = to_host(point.w), objective.n_features
    intercept = w[d:] if settings.fit_intercept else np.zeros(1)
    found = family.with_parameter(best.value) if best.value else find(search.first)
    record = record_of(
        replace(settings, loss=found.full_name),
        on.engine.facts,
        dispersion=report.dispersion,
        estimated=family.parameter.name,
    )
    return Trained(w[None, :d], intercept, None, report, record)


def _fit(
    on: Loaded, loss: Loss, settings: FitConfig, start: Any, begin: np.ndarray | None
) -> tuple[Objective, Point, Report]:
    """Fit the coefficients to one loss, from `begin`, or else from where the user starts."""
    problem, sides = on.problems[0]
    settings = replace(settings, loss=loss.full_name)
    objective = objective_of(on.engine, replace(problem, loss=loss.ref), sides, loss, settings)
    first = start_of(start, 0, 1, objective) if begin is None else begin
    solution, report = solve_one(objective, WarmStart(first), settings, on.seconds, 0, None)
    return objective, solution.point, report


def _likelihood(objective: Objective, point: Point, family: Loss) -> Likelihood:
    """Return the logarithm of the likelihood, by parameter and dispersion, at a point's margins."""

    def at(value: float, dispersion: float) -> float:
        problem = replace(objective.problem, loss=family.with_parameter(value).ref)
        request = ResidualSums((point.token, point.w), dispersion)
        return float(objective.rows.with_problem(problem).ask(request)["likelihood"])

    return at


def _criteria(objective: Objective, best: Estimate, parameters: int) -> dict[str, float]:
    """Return likelihood and, without a penalty, criteria that count the estimated parameters."""
    found = {"log_likelihood": best.likelihood}
    if not objective.penalty.quadratic.largest:
        count = objective.size + parameters
        found["aic"] = 2.0 * (count - best.likelihood)
        found["bic"] = math.log(objective.engine.facts.n_used) * count - 2.0 * best.likelihood
    return found


# ---- the likeliest parameter
def _likeliest_theta(
    likelihood: Likelihood, last: Estimate, step: float, precision: float
) -> Estimate:
    """Return the likeliest theta; 0 where the likelihood rises as theta falls to zero."""
    low, high = map(math.log, THETAS)
    at, value = climb(
        lambda u: likelihood(math.exp(u), 1.0), math.log(last.value), step, (low, high), precision
    )
    if at <= low + 1.0:
        return Estimate(0.0, 1.0, last.likelihood)
    return Estimate(math.exp(at), 1.0, value)


def _likeliest_power(
    likelihood: Likelihood, last: Estimate, step: float, precision: float
) -> Estimate:
    """Return the likeliest power and dispersion.

    Raises ValueError for targets without dispersion, of which no power is likelier than others.
    """
    if not last.dispersion > 0.0:
        raise ValueError(
            "power='estimate': the targets are fitted without an error, so that their dispersion "
            "is 0 and no power is the likeliest; give it as a number"
        )
    if math.isnan(last.likelihood):  # the first time
        known = [last, *(Estimate(power, last.dispersion, math.nan) for power in FIRST_POWERS)]
        tried = [each._replace(likelihood=likelihood(*each[:2])) for each in known]
        last = max(tried, key=lambda each: each.likelihood)

    def function(x: np.ndarray) -> float:
        return likelihood(float(x[0]), math.exp(x[1]))

    found = summit(function, np.array([last.value, math.log(last.dispersion)]))
    if found is not None and POWERS[0] < found[0][0] < POWERS[1]:
        return Estimate(float(found[0][0]), math.exp(found[0][1]), found[1])
    return _profiled_power(likelihood, last, step, precision)


def _profiled_power(
    likelihood: Likelihood, last: Estimate, step: float, precision: float
) -> Estimate:
    """Return the likeliest power within its range, each with its likeliest dispersion."""
    best, precision = last._replace(likelihood=-math.inf), max(precision, 1e-6)

    def profile(power: float) -> float:
        nonlocal best
        start = math.log(best.dispersion)
        of_phi = climb(
            lambda u: likelihood(power, math.exp(u)), start, step, (-60.0, 60.0), precision
        )
        if of_phi[1] > best.likelihood:
            best = Estimate(power, math.exp(of_phi[0]), of_phi[1])
        return of_phi[1]

    climb(profile, last.value, 0.5 * step, POWERS, precision)
    return best


def _warn_at_an_end(family: str, value: float) -> None:
    """Warn where the likelihood is largest at the end of the range that is searched."""
    if value == 0.0:
        warn(
            "the likelihood is largest for theta = 0: the counts vary no more than Poisson's, "
            "which is fitted instead"
        )
    elif family == "negative_binomial" and value > 0.999 * THETAS[1]:
        warn(
            f"the likelihood is largest for theta={value:.4g}, the end of the range that is "
            "searched: almost all counts are zero"
        )
    elif family == "tweedie" and not POWERS[0] + 1e-3 < value < POWERS[1] - 1e-3:
        like = "gamma" if value > 1.5 else "multiples of Poisson"
        warn(
            f"the likelihood is largest for power={value:.4g}, an end of the range that is "
            f"searched: targets are as those of {like}"
        )


SEARCHES = {
    "negative_binomial": Search("poisson", _likeliest_theta, 2.0, 1),
    "tweedie": Search("tweedie(1.5)", _likeliest_power, 0.4, 2),
}
"""Families whose parameter can be estimated."""


def climb(
    function: Callable[[float], float],
    at: float,
    step: float,
    bounds: tuple[float, float],
    precision: float,
) -> tuple[float, float]:
    """Return where a function of one number is largest near `at`, and its value there.

    Steps, which double, go uphill until the function falls; then Brent's method.
    """
    known: dict[float, float] = {}

    def value(x: float) -> float:
        if x not in known:
            found = function(x)
            known[x] = found if math.isfinite(found) else -math.inf
        return known[x]

    low, high = bounds
    middle = min(max(at, low), high)
    left, right = max(middle - step, low), min(middle + step, high)
    while value(left) > value(middle):
        step *= 2.0
        left, middle, right = max(left - step, low), left, middle
    while value(right) > value(middle):
        step *= 2.0
        left, middle, right = middle, right, min(right + step, high)
    if right - left > precision:
        minimize_scalar(
            lambda x: -value(float(x)),
            bounds=(left, right),
            method="bounded",
            options={"xatol": precision},
        )
    return max(known.items(), key=lambda pair: pair[1])


def summit(
    function: Callable[[np.ndarray], float], at: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Return where a function of few numbers is largest near `at`, and its value there.

    By Newton's method with differences for derivatives; None where the function is not concave.
    """
    steps = DIFFERENCE * np.eye(len(at))
    value = function(at)
    for _ in range(MOST_STEPS):
        up, down = (np.array([function(at + way * step) for step in steps]) for way in (1, -1))
        slope = (up - down) / (2.0 * DIFFERENCE)
        hessian = np.diag((up + down - 2.0 * value) / DIFFERENCE**2)
        for i, j in zip(*np.triu_indices(len(at), 1), strict=True):
            both = function(at + steps[i] + steps[j])
            hessian[i, j] = hessian[j, i] = (both - up[i] - up[j] + value) / DIFFERENCE**2
        if not (np.isfinite(hessian).all() and np.linalg.eigvalsh(hessian)[-1] < 0.0):
            return None
        move = -np.linalg.solve(hessian, slope)
        if np.abs(move).max() <= SURE:  # the error that is left is about its square
            return at + move, value + 0.5 * float(slope @ move)
        for _ in range(5):
            ahead = function(at + move)
            if ahead >= value:
                break
            move *= 0.5
        else:
            return None
        at, value = at + move, ahead
    return None
