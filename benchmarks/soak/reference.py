"""What is right, by NumPy alone: laws of families and losses, objectives, and their least values.

Nothing here is shared with daskglm. Problems have a few dozen coefficients, so Hessians are formed.
SciPy is imported where it is used: workers import this module, for which it takes seconds of their
lives on a busy machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Newton steps at most. Where curvatures are the expected ones (families), each gains one or two
# digits: 40 were the most in 2,000 drawn problems.
STEPS = 300
# Of the objective: a step that promises less ends the search. Below are sums of 12,000 numbers.
SURE = 1e-12
# Sweeps of coordinate descent over the quadratic of one step: 600 were the most, of groups.
SWEEPS = 5_000

Law = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
Smooth = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


# ---- losses of the first release: value, slope and (generalised) curvature in the margin z
def _logistic(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):
        p = 1.0 / (1.0 + np.exp(y * z))
    return np.logaddexp(0.0, -y * z), -y * p, p * (1.0 - p)


def _squared(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return 0.5 * (z - y) ** 2, z - y, np.ones_like(z)


def _squared_hinge(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    short = np.maximum(0.0, 1.0 - y * z)
    return short**2, -2.0 * y * short, 2.0 * (short > 0)


def _smoothed_hinge(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    short = 1.0 - y * z
    bent, straight = (short > 0) & (short < 1), short >= 1
    values = np.where(straight, short - 0.5, np.where(bent, 0.5 * short**2, 0.0))
    return values, -y * np.clip(short, 0.0, 1.0), bent * 1.0


LOSSES: dict[str, Law] = {
    "logistic": _logistic,
    "squared": _squared,
    "squared_hinge": _squared_hinge,
    "smoothed_hinge": _smoothed_hinge,
}


# ---- families
@dataclass(frozen=True)
class Family:
    """A family with its link: half unit deviance, variance function, mean, and its derivative."""

    deviance: Callable[[np.ndarray, np.ndarray], np.ndarray]
    variance: Callable[[np.ndarray], np.ndarray]
    mean: Callable[[np.ndarray], np.ndarray] = np.exp
    rise: Callable[[np.ndarray], np.ndarray] = np.exp
    fixes_dispersion: bool = False
    # by the margin, where means round to 0 or 1
    by_margin: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def law(self, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Half unit deviances, slopes and expected curvatures."""
        mu, rise = self.mean(z), self.rise(z)
        value = self.deviance(y, mu) if self.by_margin is None else self.by_margin(y, z)
        return value, (mu - y) / self.variance(mu) * rise, rise**2 / self.variance(mu)

    def observed(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Second derivatives, by differences of slopes, to nine digits."""
        step = 1e-5
        return (self.law(y, z + step)[1] - self.law(y, z - step)[1]) / (2.0 * step)


def negative_binomial(theta: float) -> Family:
    """Counts of variance mu + theta mu^2."""

    def deviance(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
        above = (y + 1.0 / theta) * np.log((1.0 + theta * y) / (1.0 + theta * mu))
        return _log_ratio(y, mu) - above

    return Family(deviance, lambda mu: mu + theta * mu**2, fixes_dispersion=True)


def tweedie(power: float) -> Family:
    """Amounts of variance mu^power, zeros among them."""

    def deviance(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
        a, b = 1.0 - power, 2.0 - power
        return y**b / (a * b) - y * mu**a / a + mu**b / b

    return Family(deviance, lambda mu: mu**power)


def _log_ratio(y: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Return y log(y / mu), which is 0 at 0."""
    from scipy.special import xlogy

    return xlogy(y, np.where(y > 0, y, 1.0) / mu)


def _probit_mean(z: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    return np.asarray(ndtr(z))


def _probit_deviance(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    from scipy.special import log_ndtr, xlogy

    best = xlogy(y, y) + xlogy(1.0 - y, 1.0 - y)
    return best - y * log_ndtr(z) - (1.0 - y) * log_ndtr(-z)


FAMILIES: dict[str, Family] = {
    "gaussian": Family(
        lambda y, mu: 0.5 * (y - mu) ** 2, np.ones_like, mean=lambda z: z, rise=np.ones_like
    ),
    "poisson": Family(
        lambda y, mu: _log_ratio(y, mu) - y + mu, lambda mu: mu, fixes_dispersion=True
    ),
    "gamma": Family(lambda y, mu: y / mu - 1.0 - np.log(y / mu), lambda mu: mu**2),
    "inverse_gaussian": Family(lambda y, mu: 0.5 * (y - mu) ** 2 / (y * mu**2), lambda mu: mu**3),
    "tweedie(1.5)": tweedie(1.5),
    "negative_binomial(0.7)": negative_binomial(0.7),
    "binomial": Family(
        lambda y, mu: np.full_like(y, np.nan),
        lambda mu: np.maximum(mu * (1.0 - mu), 1e-300),
        mean=_probit_mean,
        rise=lambda z: np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi),
        fixes_dispersion=True,
        by_margin=_probit_deviance,
    ),
}


# ---- objectives
@dataclass(frozen=True, eq=False)
class Terms:
    """sum_j strengths_j |w_j| + sum_G s_G |w_G|, within bounds."""

    strengths: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    groups: tuple[tuple[np.ndarray, float], ...] = ()

    @classmethod
    def none(cls, size: int) -> Terms:
        """No such terms."""
        return cls(np.zeros(size), np.full(size, -np.inf), np.full(size, np.inf))

    @property
    def are_none(self) -> bool:
        """Whether there are neither corners nor bounds."""
        bounded = np.isfinite(self.lower).any() or np.isfinite(self.upper).any()
        return not (self.strengths.any() or self.groups or bounded)

    def value(self, w: np.ndarray) -> float:
        """Value at w."""
        found = self.strengths @ np.abs(w)
        return float(found + sum(s * np.linalg.norm(w[members]) for members, s in self.groups))


@dataclass(frozen=True, eq=False)
class Objective:
    """A smooth part, which gives value, gradient and Hessian, and terms that are not smooth.

    Reports have the value times `scale`.
    """

    smooth: Smooth
    terms: Terms
    start: np.ndarray
    scale: float = 1.0
    convex: bool = True

    def value(self, w: np.ndarray) -> float:
        """Value at w."""
        return float(self.smooth(w)[0] + self.terms.value(w))


def penalty_terms(
    d: int,
    size: int,
    *,
    alpha: float,
    l1_ratio: float = 0.0,
    penalty_factor: Any = None,
    lower_bounds: float = -np.inf,
    upper_bounds: float = np.inf,
    groups: Any = None,
) -> tuple[np.ndarray, Terms]:
    """Return the factors of 1/2 w_j^2, and the other terms, of daskglm's arguments.

    The first d of `size` coefficients are features, with these penalties; others have none.
    """
    factor = np.ones(d) if penalty_factor is None else np.asarray(penalty_factor, float)
    ridge, first = np.zeros(size), np.zeros(size)
    ridge[:d] = alpha * (1.0 - l1_ratio) * factor
    pairs = []
    if groups is None:
        first[:d] = alpha * l1_ratio * factor
    else:
        labels = np.asarray(groups)
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            pairs.append((members, float(alpha * l1_ratio * np.sqrt(len(members)))))
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    lower[:d], upper[:d] = lower_bounds, upper_bounds
    return ridge, Terms(first, lower, upper, tuple(pairs))


def linear(
    X: np.ndarray, y: np.ndarray, law: Law, s: np.ndarray, offset: Any = 0.0, **penalty: Any
) -> Objective:
    """Return sum_i s_i law(y_i, x_i.w + b + offset_i) and a penalty, of (w, b)."""
    ones = np.column_stack([X, np.ones(len(X))])
    size = ones.shape[1]
    ridge, terms = penalty_terms(size - 1, size, **penalty)

    def smooth(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        values, slopes, curvatures = law(y, ones @ w + offset)
        gradient = (s * slopes) @ ones + ridge * w
        hessian = (ones.T * (s * curvatures)) @ ones + np.diag(ridge)
        return float(s @ values + 0.5 * ridge @ w**2), gradient, hessian

    return Objective(smooth, terms, np.zeros(size))


def multinomial(X: np.ndarray, y: np.ndarray, C: float, **penalty: Any) -> Objective:
    """Return C times the sum of softmax losses and a penalty, of rows (w_k, b_k) of each class.

    What is added to all intercepts changes nothing: the Hessian has a curvature there all the same,
    since coordinate descent would not end otherwise.
    """
    from scipy.special import log_softmax

    (n, d), K = X.shape, int(y.max()) + 1
    ones = np.column_stack([X, np.ones(n)])
    own = np.eye(K)[y]
    ridge, terms = penalty_terms(d, d + 1, **penalty)
    ridge = np.tile(ridge, K)
    common = np.tile(np.append(np.zeros(d), 1.0), K)
    all_terms = Terms(*(np.tile(part, K) for part in (terms.strengths, terms.lower, terms.upper)))

    def smooth(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        logs = log_softmax(ones @ w.reshape(K, -1).T, axis=1)
        p = np.exp(logs)
        gradient = C * ((p - own).T @ ones).ravel() + ridge * w
        blocks = [
            [(ones.T * (p[:, a] * ((a == b) - p[:, b]))) @ ones for b in range(K)] for a in range(K)
        ]
        value = -C * (logs * own).sum() + 0.5 * ridge @ w**2
        hessian = C * (np.block(blocks) + n / K**2 * np.outer(common, common)) + np.diag(ridge)
        return float(value), gradient, hessian

    return Objective(smooth, all_terms, np.zeros(K * (d + 1)))


def ordinal(X: np.ndarray, y: np.ndarray, C: float, strength: float = 1.0) -> Objective:
    """Return strength/2 |w|^2 - C sum_i log P(y_i) of (w, t) for classes 0, 1, ... in order.

    P(y <= k) = 1 / (1 + exp(x.w - t_k)).
    """
    (n, d), K = X.shape, int(y.max()) + 1
    at = np.arange(n)
    upper, lower = np.zeros((n, d + K - 1)), np.zeros((n, d + K - 1))
    upper[:, :d] = lower[:, :d] = -X
    inner = y < K - 1
    upper[at[inner], d + y[inner]] = 1.0
    lower[at[y > 0], d + y[y > 0] - 1] = 1.0
    ridge = np.append(np.full(d, strength), np.zeros(K - 1))

    def smooth(v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        if not (np.diff(v[d:]) > 0.0).all():
            return np.inf, v, np.eye(len(v))
        a = np.where(inner, upper @ v, np.inf)
        b = np.where(y > 0, lower @ v, -np.inf)
        above, below = _sigma(a), _sigma(b)
        p = above - below
        da, db = above * (1.0 - above), below * (1.0 - below)
        ca, cb = da * (1.0 - 2.0 * above), db * (1.0 - 2.0 * below)
        gradient = -C * ((da / p) @ upper - (db / p) @ lower) + ridge * v
        rows = (da / p)[:, None] * upper - (db / p)[:, None] * lower
        hessian = rows.T @ rows - (upper.T * (ca / p)) @ upper + (lower.T * (cb / p)) @ lower
        value = -C * np.log(p).sum() + 0.5 * ridge @ v**2
        return float(value), gradient, C * hessian + np.diag(ridge)

    shares = np.cumsum(np.bincount(y, minlength=K))[:-1] / n
    return Objective(
        smooth, Terms.none(d + K - 1), np.append(np.zeros(d), np.log(shares / (1.0 - shares)))
    )


def _sigma(z: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-z)))


# ---- least values
def optimum(objective: Objective) -> tuple[np.ndarray, float]:
    """Return where the objective is least, and its value, by proximal Newton steps, halved."""
    terms = objective.terms
    w = np.clip(objective.start, terms.lower, terms.upper)
    value, gradient, hessian = objective.smooth(w)
    promised = np.inf
    for _ in range(STEPS):
        step = _model_step(gradient, hessian, w, terms)
        before = value + terms.value(w)
        promised = -(gradient @ step + terms.value(w + step) - terms.value(w))
        if promised <= SURE * before:
            return w, before
        length = 1.0
        while length > 1e-10:
            there = w + length * step
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                found = objective.smooth(there)
            if found[0] + terms.value(there) <= before - 1e-4 * length * promised:
                break
            length /= 2.0
        else:  # rounding hides what is left
            break
        w, (value, gradient, hessian) = there, found
    assert promised <= 1e3 * SURE * before, f"the reference did not converge: {promised:.1e}"
    return w, value + terms.value(w)


def _model_step(
    gradient: np.ndarray, hessian: np.ndarray, w: np.ndarray, terms: Terms
) -> np.ndarray:
    """Return the step to where the quadratic model and the terms are least."""
    if terms.are_none:
        return np.asarray(np.linalg.lstsq(hessian, -gradient, rcond=None)[0])
    v, slope = w.copy(), gradient.copy()
    grouped = {int(j) for members, _ in terms.groups for j in members}
    single = [j for j in range(len(w)) if j not in grouped and hessian[j, j] > 0.0]
    tops = [float(np.linalg.eigvalsh(hessian[np.ix_(m, m)])[-1]) for m, _ in terms.groups]
    for _ in range(SWEEPS):
        moved = 0.0
        for j in single:
            own = hessian[j, j]
            t = v[j] - slope[j] / own
            t = np.sign(t) * max(abs(t) - terms.strengths[j] / own, 0.0)
            t = min(max(t, terms.lower[j]), terms.upper[j])
            if (change := t - v[j]) != 0.0:
                slope += change * hessian[j]
                v[j] = t
                moved = max(moved, own * change**2)
        for (members, s), top in zip(terms.groups, tops, strict=True):
            t = v[members] - slope[members] / top
            norm = np.linalg.norm(t)
            t = t * max(1.0 - s / (top * norm), 0.0) if norm > 0.0 else t
            change = t - v[members]
            slope += hessian[:, members] @ change
            v[members] = t
            moved = max(moved, top * float(change @ change))
        if moved <= 1e-26 * max(1.0, float(np.abs(gradient).max())):
            break
    return v - w


# ---- standard errors
def standard_errors(
    X: np.ndarray,
    y: np.ndarray,
    family: Family,
    s: np.ndarray,
    offset: Any,
    w: np.ndarray,
    *,
    covariance: str,
    observed: bool = False,
    clusters: np.ndarray | None = None,
) -> np.ndarray:
    """Return standard errors of (w, b), from all rows at once (docs/inference.md has formulas)."""
    ones = np.column_stack([X, np.ones(len(X))])
    n, p = ones.shape
    z = ones @ w + offset
    _, slopes, curvatures = family.law(y, z)
    if observed:
        curvatures = family.observed(y, z)
    inverse = np.linalg.inv((ones.T * (s * curvatures)) @ ones)
    if covariance == "classical":
        mu = family.mean(z)
        pearson = float(s @ ((y - mu) ** 2 / family.variance(mu))) / (n - p)
        return np.sqrt(np.diag(inverse) * (1.0 if family.fixes_dispersion else pearson))
    scores = (s * slopes)[:, None] * ones
    factor = 1.0
    if covariance == "cluster":
        assert clusters is not None
        labels, codes = np.unique(clusters, return_inverse=True)
        sums = np.zeros((len(labels), p))
        np.add.at(sums, codes, scores)
        scores = sums
        factor = len(labels) / (len(labels) - 1) * (n - 1) / (n - p)
    elif covariance == "HC1":
        factor = n / (n - p)
    elif covariance in ("HC2", "HC3"):
        leverage = s * curvatures * np.einsum("ij,jk,ik->i", ones, inverse, ones)
        scores /= (1.0 - leverage)[:, None] ** (0.5 if covariance == "HC2" else 1.0)
    return np.sqrt(factor * np.diag(inverse @ (scores.T @ scores) @ inverse))
