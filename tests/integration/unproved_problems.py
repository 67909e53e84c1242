"""Random problems where little or nothing is proved, and a judge of their fits that shares no code with the package.

    python -m tests.integration.unproved_problems --seed 0 --count 200

prints every failure with its reproduction, and counts by kind. `problem(seed)` draws one of: log links with exposures over
up to ten decades, other links with offsets, losses and families with free features; with weights, zeros among them, badly
scaled columns, fewer rows than features, all smooth solvers, `tol` from 1e-2 to 1e-8. `judge` minimises the same objective by
Newton's method from the answer, the best constant, a regression of the linked targets and random points. What it finds is
an upper bound on the optimum only, so that whatever it holds against a fit is true.
"""

import argparse
import collections
import sys
import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr, ndtri, xlogy
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import daskglm

# ---- losses: value, slope and curvature in the margin z, of targets y


def _deviance_of_log(y, z, p):
    """Tweedie's half unit deviance of power p with the log link; 1 and 2: Poisson, gamma."""
    with np.errstate(all="ignore"):
        r = np.log(y) - z  # -inf where y is zero
        if p == 2:
            return np.expm1(r) - r, -np.expm1(r), np.exp(r)
        mean = np.exp(z)
        if p == 1:
            value = np.where(y > 0, y * (np.expm1(-r) + r), mean)
            return value, mean - y, mean
        a, b = 2 - p, p - 1
        up, down = np.exp(a * z), np.where(y > 0, y * np.exp(-b * z), 0.0)
        value = y**a * (np.expm1(-a * r) / a + np.expm1(b * r) / b)
        value = np.where(y > 0, value, up / a)
        return value, up - down, a * up + b * down


def _gaussian_log(y, z):
    mean = np.exp(z)
    return (y - mean) ** 2 / 2, (mean - y) * mean, (2 * mean - y) * mean


def _negative_binomial_log(y, z, theta):
    """With v = 1 / (1 + theta y) and r = log(y / mean) nothing cancels where targets are large."""
    with np.errstate(all="ignore"):
        u, r, v = z + np.log(theta), np.log(y) - z, 1 / (1 + theta * y)
        p, q, total = expit(u), expit(-u), y + 1 / theta
        log = np.where(r < 30, np.log1p(v * np.expm1(r)), np.logaddexp(np.log1p(-v), np.log(v) + r))
        value = np.where(y > 0, total * log - r / theta, np.logaddexp(0, u) / theta)
        slope = np.where(r < 0, -np.expm1(r) * p / theta, y * np.expm1(-r) * q)
    return value, slope, total * p * q


def _entropy(y):
    return xlogy(y, y) + xlogy(1 - y, 1 - y)


def _logit(y, z):
    value = _entropy(y) - y * log_expit(z) - (1 - y) * log_expit(-z)
    return value, (1 - y) * expit(z) - y * expit(-z), expit(z) * expit(-z)


def _probit(y, z):
    up, down = (np.sqrt(2 / np.pi) / erfcx(m / np.sqrt(2)) for m in (-z, z))  # density / chance
    value = _entropy(y) - y * log_ndtr(z) - (1 - y) * log_ndtr(-z)
    bend = y * up * (up + z) + (1 - y) * down * (down - z)
    return value, (1 - y) * down - y * up, np.maximum(bend, 0)


def _cloglog(y, z):
    u = np.where((y < 1) | (z < 700), np.exp(z), np.exp(700.0))  # 0 times infinity is nan
    odds = np.where(u > 1e-300, u * np.exp(-u) / -np.expm1(-u), 1.0)
    log_chance = np.where(u > 1e-8, np.log(-np.expm1(-u)), z - u / 2)
    bend = np.where(u < 1e-4, u / 2, odds * (u + odds - 1))
    value = _entropy(y) + (1 - y) * u - np.where(y > 0, y * log_chance, 0.0)
    return value, (1 - y) * u - y * odds, (1 - y) * u + y * bend


def _gamma_identity(y, z):
    return y / z - 1 - np.log(y / z), (z - y) / z**2, (2 * y - z) / z**3


def _poisson_identity(y, z):
    return xlogy(y, y) - xlogy(y, z) - y + z, 1 - y / z, y / z**2


def _poisson_sqrt(y, z):
    return xlogy(y, y) - 2 * xlogy(y, z) - y + z**2, 2 * z - 2 * y / z, 2 + 2 * y / z**2


def _inverse_gaussian_log(y, z):
    r = np.log(y) - z
    return (
        np.expm1(r) ** 2 / (2 * y),
        -np.expm1(r) * np.exp(r) / y,
        (2 * np.exp(r) - 1) * np.exp(r) / y,
    )


def _inverse_gaussian_squared(y, z):
    root = np.sqrt(z)
    return (y * root - 1) ** 2 / (2 * y), y / 2 - 0.5 / root, 0.25 / root**3


def _squared_hinge(y, z):
    short = np.maximum(0, 1 - y * z)
    return short**2, -2 * y * short, 2.0 * (short > 0)


def _smoothed_hinge(y, z):
    m = y * z
    inside = (m > 0) & (m < 1)
    value = np.where(inside, (1 - m) ** 2 / 2, np.where(m <= 0, 0.5 - m, 0))
    return value, -y * np.clip(1 - m, 0, 1), 1.0 * inside


def _squared_epsilon_insensitive(y, z):
    beyond = np.maximum(np.abs(y - z) - 0.1, 0)
    return beyond**2, 2 * np.sign(z - y) * beyond, 2.0 * (beyond > 0)


def _huber(y, z):
    r = z - y
    inside = np.abs(r) <= 1.35
    return (
        np.where(inside, r * r / 2, 1.35 * np.abs(r) - 1.35**2 / 2),
        np.clip(r, -1.35, 1.35),
        1.0 * inside,
    )


class Formula(NamedTuple):
    """`rows(y, z)`; `margin(y)`: the link of a target; whether margins have to be positive."""

    rows: Any
    margin: Any
    positive: bool = False
    convex: bool = True


def _log_of(y):
    return np.log(np.maximum(y, 0.1))


def _share(y):
    return np.clip(y, 0.05, 0.95)


FORMULAS = {
    ("gaussian", "log"): Formula(_gaussian_log, _log_of, convex=False),
    ("gaussian", "identity"): Formula(lambda y, z: ((y - z) ** 2 / 2, z - y, 1.0 + 0 * z), np.copy),
    ("poisson", "log"): Formula(lambda y, z: _deviance_of_log(y, z, 1), _log_of),
    ("gamma", "log"): Formula(lambda y, z: _deviance_of_log(y, z, 2), np.log),
    ("inverse_gaussian", "log"): Formula(_inverse_gaussian_log, np.log, convex=False),
    ("tweedie(1.5)", "log"): Formula(lambda y, z: _deviance_of_log(y, z, 1.5), _log_of),
    ("tweedie(2.5)", "log"): Formula(
        lambda y, z: _deviance_of_log(y, z, 2.5), np.log, convex=False
    ),
    ("tweedie(3.5)", "log"): Formula(
        lambda y, z: _deviance_of_log(y, z, 3.5), np.log, convex=False
    ),
    ("negative_binomial(0.5)", "log"): Formula(
        lambda y, z: _negative_binomial_log(y, z, 0.5), _log_of
    ),
    ("negative_binomial(5)", "log"): Formula(
        lambda y, z: _negative_binomial_log(y, z, 5.0), _log_of
    ),
    ("binomial", "logit"): Formula(_logit, lambda y: np.log(_share(y) / (1 - _share(y)))),
    ("binomial", "probit"): Formula(_probit, lambda y: ndtri(_share(y))),
    ("binomial", "cloglog"): Formula(_cloglog, lambda y: np.log(-np.log1p(-_share(y)))),
    ("poisson", "identity"): Formula(_poisson_identity, lambda y: y + 0.1, positive=True),
    ("poisson", "sqrt"): Formula(_poisson_sqrt, lambda y: np.sqrt(y + 0.1), positive=True),
    ("gamma", "inverse"): Formula(
        lambda y, z: (y * z - 1 - np.log(y * z), y - 1 / z, 1 / z**2),
        lambda y: 1 / y,
        positive=True,
    ),
    ("gamma", "identity"): Formula(_gamma_identity, np.copy, positive=True, convex=False),
    ("inverse_gaussian", "1/mu^2"): Formula(
        _inverse_gaussian_squared, lambda y: y**-2.0, positive=True
    ),
    ("squared_hinge", None): Formula(_squared_hinge, np.copy),
    ("smoothed_hinge", None): Formula(_smoothed_hinge, np.copy),
    ("logistic", None): Formula(
        lambda y, z: (-log_expit(y * z), -y * expit(-y * z), expit(z) * expit(-z)), np.copy
    ),
    ("squared_epsilon_insensitive", None): Formula(_squared_epsilon_insensitive, np.copy),
    ("huber", None): Formula(_huber, np.copy),
}
MEANS = {
    "identity": lambda z: z,
    "log": np.exp,
    "logit": expit,
    "probit": lambda z: np.exp(log_ndtr(z)),
    "cloglog": lambda z: -np.expm1(-np.exp(z)),
    "sqrt": lambda z: z**2,
    "inverse": lambda z: 1 / z,
    "1/mu^2": lambda z: z**-0.5,
}
EXPOSED = tuple(key for key in FORMULAS if key[1] == "log")
# tried more often: nothing is ever proved of them
NONCONVEX = tuple(key for key, formula in FORMULAS.items() if not formula.convex)
LINKED = tuple(key for key in FORMULAS if key[1] not in ("log", None) and key[0] != "gaussian")
WITH_C = tuple(key for key in FORMULAS if key[1] is None)
SOLVERS = ("auto", "auto", "newton", "tron", "lbfgs")
KINKED_SOLVERS = ("auto", "auto", "proximal_newton", "owlqn")


# ---- problems


@dataclass(frozen=True, eq=False)
class Drawn:
    """A problem: `fit()` fits it; `settings` are what `daskglm.fit` takes beside rows."""

    seed: int
    kind: str
    key: tuple
    X: np.ndarray
    y: np.ndarray
    settings: dict = field(repr=False)

    @property
    def label(self):
        family, link = self.key
        return f"{self.kind}: {family}" + (f" {link}" if link else "")

    def fit(self, **other):
        """Fit it by daskglm, perhaps with other settings."""
        return daskglm.fit(self.X, self.y, **(self.settings | other))

    def __str__(self):
        shown = {
            name: value
            if not isinstance(value, np.ndarray)
            else f"{value.min():.3g}..{value.max():.3g}"
            for name, value in self.settings.items()
        }
        return f"seed {self.seed}, {self.label}, X {self.X.shape}, {shown}"


def _targets(family, mu, rng):
    n, name = len(mu), family.partition("(")[0]
    with np.errstate(all="ignore"):
        y = {
            "gaussian": lambda: mu * (1 + 0.3 * rng.standard_normal(n)),
            "binomial": lambda: (rng.random(n) < mu).astype(float),
            "poisson": lambda: rng.poisson(np.minimum(mu, 1e15)).astype(float),
            "gamma": lambda: mu * rng.gamma(2.0, 0.5, n),
            "inverse_gaussian": lambda: rng.wald(mu, 2.0 * mu),
            "tweedie": lambda: mu * rng.gamma(2.0, 0.5, n),
            "negative_binomial": lambda: (
                rng.poisson(rng.gamma(2.0, np.minimum(mu, 1e15) / 2)) * 1.0
            ),
        }[name]()
    if family == "tweedie(1.5)":
        return np.where(rng.random(n) < 0.3, 0.0, y)
    if family in (
        "binomial",
        "gaussian",
        "poisson",
        "negative_binomial(0.5)",
        "negative_binomial(5)",
    ):
        if family == "binomial" and rng.random() < 0.3:
            return np.round(np.clip(mu + 0.2 * rng.standard_normal(n), 0, 1), 1)
        return y
    return np.clip(y, 1e-8 * np.median(mu), None)  # above zero


def _rows(rng, n, d):
    X = rng.standard_normal((n, d))
    if rng.random() < 0.2:
        X = (X > 0.5).astype(float)
        X[rng.integers(0, n, d), np.arange(d)] = 1.0
    elif rng.random() < 0.2 and d > 1:
        X[:, 1] = X[:, 0] + 10.0 ** rng.uniform(-4, -1) * X[:, 1]
    scales = 10.0 ** rng.uniform(-4, 4, d) if rng.random() < 0.3 else np.ones(d)
    return X, scales


def _weights(rng, n):
    draw = rng.random()
    if draw < 0.6:
        return None
    if draw < 0.8:
        return rng.uniform(0.1, 3.0, n)
    weights = rng.integers(0, 3, n).astype(float)
    weights[:2] = 1.0
    return weights


def _penalty(rng, d, settings):
    """Free features beside penalised ones, and perhaps an L1 part."""
    if d > 1:
        factors = np.ones(d)
        free = int(rng.integers(1, min(d, 8)))
        factors[:free] = 0.0
        if rng.random() < 0.2:
            factors[free:] = rng.uniform(0.1, 3.0, d - free)
        settings["penalty_factor"] = factors
    settings["l1_ratio"] = float(rng.choice([0.0, 0.0, 0.5, 0.9, 1.0]))
    if settings["l1_ratio"]:
        settings["solver"] = str(rng.choice(KINKED_SOLVERS))


def problem(seed):
    """Draw a problem."""
    rng = np.random.default_rng([36, seed])
    kind = rng.choice(["exposure", "link", "free", "free family"], p=[0.45, 0.15, 0.25, 0.15])
    keys = {"exposure": EXPOSED, "link": LINKED, "free": WITH_C}.get(kind, EXPOSED + LINKED)
    if kind == "free" and rng.random() < 0.5:
        keys = (("squared_hinge", None), ("squared_epsilon_insensitive", None))
    elif kind != "free" and rng.random() < 0.3:
        keys = tuple(key for key in keys if key in NONCONVEX)
    key = family, link = keys[rng.integers(len(keys))]
    n = int(rng.choice([12, 20, 40, 100, 100, 200]))
    d = int(rng.choice([1, 1, 2, 3, 5, 10]))
    if kind == "free":
        d = int(rng.choice([3, 8, 30]))
    elif rng.random() < 0.05:
        n, d = 12, 20
    X, scales = _rows(rng, n, d)
    coef = rng.standard_normal(d) * rng.choice([0.0, 0.3, 1.0]) / np.sqrt(d)
    z = X @ coef
    settings = {
        "solver": str(rng.choice(SOLVERS)),
        "tol": float(rng.choice([1e-2, 1e-4, 1e-6, 1e-8])),
    }
    weights = _weights(rng, n)
    if weights is not None:
        settings["sample_weight"] = weights
    if kind == "free":
        settings |= {"loss": family, "C": float(10.0 ** rng.uniform(-2, 6))}
        if family in ("huber", "squared_epsilon_insensitive"):
            y = z + rng.standard_normal(n) * rng.choice([0.05, 1.0])
        else:
            y = np.where(z + X[:, 0] + rng.logistic(size=n) > 0, 1, -1)
            y[:2] = -1, 1
        _penalty(rng, d, settings)
    else:
        settings |= {"family": family, "link": link}
        positive = FORMULAS[key].positive
        z = np.maximum(1 + 0.3 * z, 0.05) if positive else z + rng.choice([-3.0, 0.0, 0.0, 3.0])
        offset = np.zeros(n)
        if link == "log":
            decades = rng.choice([0.0, 1.0, 1.5, 2.0, 3.0, 5.0])
            exposure = 10.0 ** rng.uniform(-decades, decades, n)
            if decades:
                settings["exposure"] = exposure
                offset = np.log(exposure)
        elif rng.random() < 0.6:
            offset = rng.uniform(0.0, rng.choice([0.5, 5.0]), n) * (
                1 if positive else rng.choice([-1, 1])
            )
            settings["offset"] = offset
        # half of the targets know nothing of their exposures
        mu = MEANS[link](z + offset * (rng.random() < 0.5))
        y = _targets(family, mu, rng)
        if not np.any(y > 0):
            y[0] = 1.0
        if family == "binomial":  # all on one side have no optimum, and the deviance zero
            y[:2] = 0.0, 1.0
        penalised = kind == "free family" or rng.random() < 0.35
        settings["alpha"] = float(10.0 ** rng.uniform(-6, 1)) if penalised else 0.0
        if kind == "free family":
            _penalty(rng, d, settings)
        if not positive and rng.random() < 0.1:
            settings["fit_intercept"] = False
    return Drawn(seed, str(kind), key, X * scales, y, settings)


# Shapes of ../shared/DEFECTS3.md, B: (name, seed) to a problem, whatever `problem` draws
def reported(name, seed):
    """Problems of reports: "B1 inverse Gaussian", "B1 tweedie", "B1 gamma", "B1 gamma, tol", "B2", "B3"."""
    rng = np.random.default_rng(seed)
    if name == "B2":
        X = rng.standard_normal((20, 30))
        y = (X[:, 0] + rng.logistic(size=20) > 0).astype(int)
        factors = np.ones(30)
        factors[:3] = 0
        settings = {"loss": "squared_hinge", "C": 1e5, "penalty_factor": factors, "l1_ratio": 0.5}
        return Drawn(seed, name, ("squared_hinge", None), X, 2 * y - 1, settings)
    family, decades, tol = {
        "B1 inverse Gaussian": ("inverse_gaussian", 2, 1e-6),
        "B1 tweedie": ("tweedie(2.5)", 1.5, 1e-6),
        "B1 gamma": ("gamma", 5, 1e-6),
        "B1 gamma, tol": ("gamma", 3, 1e-2),
        "B3": ("gamma", 3, 1e-2),
    }[name]
    X = rng.standard_normal((100, 1))
    y = rng.gamma(2.0, 0.5, 100)
    exposure = 10.0 ** rng.uniform(-decades, decades, 100)
    settings = {"family": family, "link": "log", "alpha": 0.0, "tol": tol, "exposure": exposure}
    return Drawn(seed, name, (family, "log"), X, y, settings)


REPORTED = ("B1 inverse Gaussian", "B1 tweedie", "B1 gamma", "B1 gamma, tol", "B2", "B3")


# ---- the judge


class Objective:
    """The objective of a problem in NumPy, over coefficients of columns of largest value 1."""

    def __init__(self, drawn):
        settings = drawn.settings
        self.formula = FORMULAS[drawn.key]
        n, d = drawn.X.shape
        self.y = np.asarray(drawn.y, float)
        self.s = np.asarray(settings.get("sample_weight", np.ones(n)), float)
        self.offset = np.zeros(n)
        if "exposure" in settings:
            self.offset = np.log(settings["exposure"])
        elif "offset" in settings:
            self.offset = np.asarray(settings["offset"], float)
        self.intercept = settings.get("fit_intercept", True)
        largest = np.max(np.abs(drawn.X), axis=0)
        self.unit = 1 / np.where(largest > 0, largest, 1.0)
        self.D = drawn.X * self.unit
        if self.intercept:
            self.D = np.column_stack([self.D, np.ones(n)])
        ratio, factor = settings.get("l1_ratio", 0.0), settings.get("penalty_factor", np.ones(d))
        strength = settings.get("alpha", 1.0)
        self.factor = 1 / self.s.sum() if "family" in settings else settings["C"]
        width = self.D.shape[1]
        self.blur = 0.0  # |w| is rounded to the root of w^2 + blur^2
        self.l1, self.l2 = np.zeros(width), np.zeros(width)
        self.l1[:d] = strength * ratio * factor * self.unit
        self.l2[:d] = strength * (1 - ratio) * factor * self.unit**2
        # rows of weight zero are none
        keep = self.s > 0
        self.D, self.y, self.s, self.offset = (
            v[keep] for v in (self.D, self.y, self.s, self.offset)
        )
        self.y_column = self.y[:, None]

    def params(self, coef, intercept):
        """Parameters of a fitted model."""
        coef = np.ravel(coef) / self.unit
        return np.append(coef, np.ravel(intercept)[:1]) if self.intercept else coef

    def _losses(self, y, z):
        with np.errstate(all="ignore"):
            value, slope, bend = self.formula.rows(y, z)
            outside = ~np.isfinite(value) | ((z <= 0) if self.formula.positive else False)
        return np.where(outside, np.inf, value), slope, bend

    def values(self, every):
        """Values at the columns of `every`; infinite outside of the domain."""
        with np.errstate(all="ignore"):
            z = self.D @ every + self.offset[:, None]
            losses = self.factor * (self.s @ self._losses(self.y_column, z)[0])
            total = losses + self.l1 @ np.sqrt(every**2 + self.blur**2) + self.l2 @ every**2 / 2
        return np.where(np.isnan(total), np.inf, total)

    def value(self, params):
        """Value at one point; margins that rounding alone takes out of the domain count as its edge."""
        params = np.asarray(params, float)
        value = float(self.values(params[:, None])[0])
        if np.isfinite(value) or not self.formula.positive:
            return value
        z = self.D @ params + self.offset
        edge = 1e-15 * (np.abs(self.D) @ np.abs(params) + np.abs(self.offset))
        losses = self._losses(self.y, np.where(np.abs(z) < edge, edge, z))[0]
        return float(
            self.factor * (self.s @ losses) + self.l1 @ np.abs(params) + self.l2 @ params**2 / 2
        )

    def deviance(self, params):
        """Twice the weighted sum of the losses."""
        return 2 * float(self.s @ self._losses(self.y, self.D @ params + self.offset)[0])

    def derivatives(self, params):
        """Gradient and Hessian of the smooth part."""
        _, slope, bend = self._losses(self.y, self.D @ params + self.offset)
        with np.errstate(all="ignore"):
            gradient = self.factor * (self.D.T @ (self.s * slope)) + self.l2 * params
            hessian = self.factor * (self.D.T * (self.s * bend)) @ self.D
        hessian[np.diag_indices_from(hessian)] += self.l2
        return gradient, hessian

    def constant(self):
        """The best point without features."""
        params = np.zeros(self.D.shape[1])
        if not self.intercept:
            return params
        centres = self.formula.margin(self.y) - self.offset
        low, high = centres.min() - 3.0, centres.max() + 3.0
        for _ in range(16):
            every = np.zeros((len(params), 41))
            every[-1] = np.linspace(low, high, 41)
            values = self.values(every)
            at = int(np.argmin(values))
            # where all targets are at the end of their range there is no best constant
            low = every[-1, at - 1] if at else low - 2 * (high - low)
            high = every[-1, at + 1] if at < 40 else high + 2 * (high - low)
        params[-1] = every[-1, at]
        return params

    def pull(self, params, gradient):
        """The shortest subgradient, and the signs of the orthant that descent is in."""
        pulled = np.where(
            params != 0,
            gradient + self.l1 * np.sign(params),
            np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0),
        )
        return pulled, np.where(params != 0, np.sign(params), -np.sign(pulled))


# of steps, in Newton's: far out losses are flat, or walls
LENGTHS = 2.0 ** np.array(
    [12, 9, 6, 4, 3, 2, 1, 0, -1, -2, -3, -4, -6, -8, -11, -15, -20, -28, -38]
)
STEPS = 80  # of Newton's method from one start


def _direction(hessian, pulled, free):
    """Newton's direction where curvatures that are negative count by their size."""
    step = np.zeros(len(pulled))
    H = hessian[np.ix_(free, free)]
    size = np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    H = H / size[:, None] / size
    values, vectors = np.linalg.eigh(H)
    values = np.maximum(np.abs(values), 1e-13 * max(np.max(np.abs(values)), 1e-300))
    with np.errstate(all="ignore"):
        step[free] = -(vectors @ ((vectors.T @ (pulled[free] / size)) / values)) / size
    return step if np.all(np.isfinite(step)) else np.zeros(len(pulled))


@np.errstate(over="ignore")  # far out
def descend(objective, params):
    """Lower the objective from a point, by the best of many lengths of Newton's step and of a scaled gradient."""
    value = objective.value(params)
    idle = 0
    for _ in range(STEPS):
        if not np.isfinite(value):
            break
        gradient, hessian = objective.derivatives(params)
        round_ = np.sqrt(params**2 + objective.blur**2)
        if objective.blur:
            pulled, sign = gradient + objective.l1 * params / round_, np.sign(params)
        else:
            pulled, sign = objective.pull(params, gradient)
        if not (np.all(np.isfinite(hessian)) and np.all(np.isfinite(gradient))):
            break
        free = np.flatnonzero((pulled != 0) | (params != 0))
        if len(free) == 0:
            break
        if objective.blur:  # the curvature of a rounded kink, and that of a parabola above it
            bends = objective.l1 * objective.blur**2 / round_**3, objective.l1 / round_
            free = np.arange(len(params))
            steps = [_direction(hessian + np.diag(bend), pulled, free) for bend in bends]
        else:
            steps = [_direction(hessian, pulled, free)]
        if idle:  # what a singular Hessian hides
            steps.append(-pulled / max(np.max(np.abs(pulled)), 1e-300))
        every = np.column_stack([params[:, None] + step[:, None] * LENGTHS for step in steps])
        kinked = (objective.l1 > 0) & (objective.blur == 0)
        crossed = kinked[:, None] & (np.sign(every) != sign[:, None])
        every[crossed] = 0.0
        values = objective.values(every)
        at = int(np.argmin(values))
        if not values[at] < value:
            if idle:
                break
            idle = 1
            continue
        small = value - values[at] <= 1e-12 * abs(value)
        params, value = every[:, at], float(values[at])
        if small and idle > 1:
            break
        idle = idle + 1 if small else 0
    return params, value


def along_path(objective, params):
    """Descend with weaker losses first, then with kinks that are rounded less and less, and at last with none.

    Newton's steps end early at the walls of strong losses with corners, and where many coefficients change signs.
    """
    strong = objective.factor
    objective.blur = 0.1
    for share in 10.0 ** np.arange(-6, 1):
        objective.factor = strong * share
        params, _ = descend(objective, params)
    objective.factor = strong
    if np.any(objective.l1):
        for blur in 10.0 ** np.arange(-1.5, -9, -0.5):
            objective.blur = blur * max(np.max(np.abs(params)), 1e-8)
            params, _ = descend(objective, params)
        small = (objective.l1 > 0) & (np.abs(params) < 30 * objective.blur)
        params = np.where(small, 0.0, params)
    objective.blur = 0.0
    return descend(objective, params)


def settled(objective, params):
    """Whether a point is a minimum: curved in all directions that rows span, a step away by far less than margins are."""
    if not np.isfinite(objective.value(params)):
        return False
    gradient, hessian = objective.derivatives(params)
    if not (np.all(np.isfinite(hessian)) and np.all(np.isfinite(gradient))):
        return False
    pulled, _ = objective.pull(params, gradient)
    free = np.flatnonzero((pulled != 0) | (params != 0) | (objective.l1 == 0))
    if len(free) == 0:
        return True  # kinks hold all
    D, H = objective.D[:, free], hessian[np.ix_(free, free)]
    penalty = np.sqrt(objective.l2[free])
    _, sizes, basis = np.linalg.svd(np.vstack([D, np.diag(penalty)]), full_matrices=False)
    basis = (basis[sizes > 1e-9 * sizes[0]] / sizes[sizes > 1e-9 * sizes[0], None]).T
    curved = basis.T @ H @ basis
    least, largest = np.linalg.eigvalsh(curved)[[0, -1]]
    # over fewer decades than floating point has, to be told from flat
    if not least > 1e-10 * largest or largest <= 1e-12 * objective.factor * objective.s.sum():
        return False
    step = basis @ np.linalg.solve(curved, basis.T @ pulled[free])
    return bool(np.max(np.abs(D @ step)) < 1e-3)


class Verdict(NamedTuple):
    """What is held against a fit, and what was found: `best` is the least value that is known.

    `excess` is relative to `_scale` of it and of `constant`, the value of the best constant.
    """

    failures: tuple
    converged: bool
    proved: bool
    excess: float
    value: float
    best: float
    constant: float
    reason: str
    seconds: float


# rounding of two sums of losses, relative
NOISE = 1e-11
ROUNDING = 1e-14
OF_THE_START = 1e-12
ENDLESS = ("no optimum", "for ever")


def judge(drawn, **other):
    """Fit a problem, perhaps with other settings, and say what is wrong with the answer."""
    drawn = replace(drawn, settings=drawn.settings | other)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = drawn.fit()
        except Exception as error:  # whatever it is, it is the verdict
            text = f"{type(error).__name__}: {str(error)[:150]}"
            return Verdict(
                (("raised", text),), False, False, *(np.nan,) * 4, text, time.perf_counter() - began
            )
    fitted = time.perf_counter() - began
    with threadpool_limits(1):  # threads wait for each other longer than these products take
        return held_against(drawn, model, caught)._replace(seconds=fitted)


def held_against(drawn, model, caught=()):
    """The verdict on a fitted model, with the warnings that were caught meanwhile."""
    failures = [
        ("raw warning", f"{found.category.__name__}: {str(found.message)[:100]}")
        for found in caught
        if not issubclass(found.category, UserWarning)
    ]
    report, tol = model.report_, drawn.settings.get("tol", 1e-6)
    warned = any(issubclass(found.category, ConvergenceWarning) for found in caught)
    if not report.converged and not warned:
        failures.append(("silent", "not converged, and no ConvergenceWarning"))
    objective = Objective(drawn)
    null = objective.constant()
    constant = objective.value(null)
    with np.errstate(all="ignore"):
        answer = objective.params(model.coef_, model.intercept_)
    if not np.all(np.isfinite(answer)):
        failures.append(("not finite", "coefficients"))
        answer = null
    value = objective.value(answer)
    found = [(answer, value), (null, constant)]
    found += [descend(objective, start) for start in _starts(drawn, objective, answer, null)]
    if "C" in drawn.settings or np.any(objective.l1):
        found.append(along_path(objective, null))
    null_deviance = getattr(report, "null_deviance", np.nan)
    if objective.intercept and not np.isnan(null_deviance):
        own = objective.deviance(null)
        if not abs(null_deviance - own) <= 1e-6 * own + 1e-9 * objective.s.sum():
            failures.append(("null deviance", f"{null_deviance:.8g}, it is {own:.8g}"))
    lowest, best = min(found, key=lambda each: each[1])
    scale = _scale(drawn, objective, best, constant)
    excess, gap = (value - best) / scale, report.relative_gap
    proved = bool(np.isfinite(gap))
    if proved and value - best > gap * best * (1 + 1e-6) + NOISE * scale:
        failures.append(("false proof", f"gap {gap:.2e}, above by {excess:.2e}"))
    if report.converged and not np.isnan(gap) and not gap <= tol:
        failures.append(("gap above tol", f"gap {gap:.2e}"))
    # docs/certificates.md allows that much more, since an optimum of zero has no share
    near_zero = value - best <= OF_THE_START * _at_zero(objective)
    if report.converged and not (proved or excess <= tol + NOISE or near_zero):
        # nothing lower is found from there: the descents begin with that from the answer. Or only by steps
        # over a plateau, on which a parabola tells of no fall
        from_answer = min(value - found[2][1], _foretold(objective, answer)) / scale
        local = not objective.formula.convex and from_answer <= tol + NOISE
        kind = "another optimum is lower" if local else "converged above"
        failures.append((kind, f"by {excess:.2e}, tol {tol:.0e}"))
    slack = tol if proved else 1e-9
    nothing = ROUNDING * _at_zero(objective)
    if np.isfinite(constant) and not value <= max(constant * (1 + slack) + NOISE * scale, nothing):
        failures.append(("above the constant", f"{value:.6g}, constant {constant:.6g}"))
    told = any(words in report.reason for words in ENDLESS)
    # of values that are the same, one point may be far out along a tail, and another not
    apart = excess > NOISE or settled(objective, answer)
    if told and apart and settled(objective, lowest):
        failures.append(("no optimum told", f"there is one, {best:.6g}"))
    return Verdict(
        *(tuple(failures), report.converged, proved, excess, value, best, constant, report.reason),
        0.0,
    )


def _scale(drawn, objective, best, constant):
    """What an excess is relative to.

    Of families the value of the best constant, where that is more than the optimum; of losses with a `C`, whose constant
    grows with it, the optimum, unless that is zero or next to it: then the constant, too. An optimum of zero counts as the
    rounding of the value at zero.
    """
    constant = constant if np.isfinite(constant) else 0.0
    best = max(abs(best), ROUNDING * _at_zero(objective))
    if "C" in drawn.settings and abs(best) > 1e-10 * constant:
        return abs(best)
    return max(abs(best), constant, 1e-300)


def _foretold(objective, params):
    """The fall that a parabola foretells, were it curved upwards in all directions as much as it is at all."""
    gradient, hessian = objective.derivatives(params)
    pulled, _ = objective.pull(params, gradient)
    size = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-300))
    curvatures, directions = np.linalg.eigh(hessian / size / size[:, None])
    along = directions.T @ (pulled / size)
    return 0.5 * np.sum(along**2 / np.maximum(np.abs(curvatures), 1e-12))


def _at_zero(objective):
    value = objective.value(np.zeros(objective.D.shape[1]))
    return value if np.isfinite(value) else 0.0


def _starts(drawn, objective, answer, null):
    """The answer, the best constant, a regression of the linked targets, random points."""
    yield answer
    yield null
    with np.errstate(all="ignore"):
        centres = objective.formula.margin(objective.y) - objective.offset
        D, root = objective.D, np.sqrt(objective.s)
        yield np.linalg.lstsq(D * root[:, None], centres * root, rcond=1e-10)[0]
        # rows of small exposures count little where the answer is that of large ones
        if np.ptp(objective.offset) > 2:
            root = root * np.exp((objective.offset - objective.offset.max()) / 2)
            yield np.linalg.lstsq(D * root[:, None], centres * root, rcond=1e-10)[0]
    if not objective.formula.convex:
        rng = np.random.default_rng(drawn.seed)
        for size in (0.3, 1.0):
            yield null + size * rng.standard_normal(len(null)) * (D.any(0))


def reproduction(drawn):
    """Lines that fit the problem again."""
    return (
        "    from tests.integration.unproved_problems import judge, problem\n"
        f"    drawn = problem({drawn.seed})   # {drawn}\n"
        "    print(drawn.fit().report_, judge(drawn))"
    )


def main():
    """Print failures and counts; exit with 1 where there are failures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--quiet", action="store_true", help="one line a failure, no reproduction")
    given = parser.parse_args()
    by_kind, by_label, ends, worst = (collections.Counter() for _ in range(4))
    began, fitting = time.perf_counter(), 0.0
    for seed in range(given.seed, given.seed + given.count):
        drawn = problem(seed)
        verdict = judge(drawn)
        fitting += verdict.seconds
        for kind, text in verdict.failures:
            by_kind[kind] += 1
            by_label[kind, drawn.label] += 1
            print(f"{kind}: {text} [{verdict.reason[:60]}] seed {seed} {drawn.label}", flush=True)
        if verdict.failures and not given.quiet:
            print(reproduction(drawn), flush=True)
        end = "proved" if verdict.proved and verdict.converged else verdict.reason[:70]
        ends[verdict.converged, end] += 1
        if not verdict.converged and np.isfinite(verdict.excess):
            worst[end, f"above by {_decade(verdict.excess)}"] += 1
    print(
        f"\n{given.count} problems, fits {fitting:.1f} s of {time.perf_counter() - began:.1f} s\nfailures"
    )
    for title, counter in (("", by_kind), ("by problem", by_label), ("ends", ends)):
        print(title, *(f"  {count:5d}  {key}" for key, count in counter.most_common()), sep="\n")
    print("not converged, how far above the least value known, relative to the best constant")
    for key, count in sorted(worst.items()):
        print(f"  {count:5d}  {key}")
    return int(bool(by_kind))


def _decade(excess):
    for limit in (1e-8, 1e-4, 1e-2, 1.0):
        if excess <= limit:
            return f"<= {limit:g}"
    return "> 1"


if __name__ == "__main__":
    sys.exit(main())
