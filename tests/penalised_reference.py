"""Fits with penalties to machine precision by NumPy: an oracle that shares no code with the package.

    found = solve(X, y, "poisson", alpha=0.03, l1_ratio=0.5, penalty_factor=[0, 1, 2])
    found.coef, found.intercept, found.objective, found.residual

The problem is, on scikit-learn's and glum's scale,

    sum_i s_i l(y_i, z_i) / sum_i s_i + alpha (rho sum_j v_j |w_j| + (1 - rho)/2 sum_j v_j w_j^2)

with l half the unit deviance, z = X w + b + offset, rho = l1_ratio, v = penalty_factor; a matrix P2
takes the place of v in the second term, w'P2 w. `groups` replace |w_j| by sqrt(|G|) |w_G|.
Standardised columns are penalised as if they were divided by their standard deviations. Dense
matrices of a few columns only; `tests/test_penalised_reference.py` checks this module.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_softmax, xlogy

# Largest residual of the optimality conditions of a mean of losses that counts as solved.
SOLVED = 1e-12
# Newton steps, and sweeps of coordinate descent over the quadratic of one.
STEPS, SWEEPS = 100, 20_000


@dataclasses.dataclass(frozen=True, eq=False)
class Terms:
    """sum_j strengths_j |w_j| + sum_G s_G |w_G|, for lower <= w <= upper."""

    strengths: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    groups: tuple = ()  # pairs of members and s_G

    def value(self, w):
        found = self.strengths @ np.abs(w)
        return found + sum(s * np.linalg.norm(w[members]) for members, s in self.groups)

    def residual(self, w, gradient):
        """Largest entry of the shortest subgradient, of everything, at w."""
        down = gradient + np.where(w > 0, self.strengths, -self.strengths)
        up = gradient + np.where(w < 0, -self.strengths, self.strengths)
        down = np.where(w <= self.lower, -np.inf, down)
        up = np.where(w >= self.upper, np.inf, up)
        short = np.maximum(np.maximum(down, -up), 0)
        for members, s in self.groups:
            g, norm = gradient[members], np.linalg.norm(w[members])
            if norm > 0:
                short[members] = g + s * w[members] / norm
            else:
                size = np.linalg.norm(g)
                short[members] = g * max(1 - s / size, 0) if size > 0 else 0
        return np.abs(short).max()

    def model_minimum(self, gradient, H, w):
        """Where gradient'(v - w) + 1/2 (v - w)'H(v - w) + these terms is least."""
        v, slope = w.copy(), gradient.copy()
        grouped = {j for members, _ in self.groups for j in members}
        single = [j for j in range(len(w)) if j not in grouped and H[j, j] > 0]
        tops = [np.linalg.eigvalsh(H[np.ix_(m, m)])[-1] for m, _ in self.groups]
        # below the second term there is only rounding
        target = 1e-3 * min(self.residual(w, gradient), 1) ** 2 + 4e-16 * max(1, H.max())
        for _ in range(SWEEPS):
            for j in single:
                t, threshold = v[j] - slope[j] / H[j, j], self.strengths[j] / H[j, j]
                t = np.sign(t) * max(abs(t) - threshold, 0)
                t = min(max(t, self.lower[j]), self.upper[j])
                if t != v[j]:
                    slope += (t - v[j]) * H[j]
                    v[j] = t
            for (members, s), top in zip(self.groups, tops, strict=True):
                t = v[members] - slope[members] / top
                norm = np.linalg.norm(t)
                t = t * max(1 - s / (top * norm), 0) if norm > 0 else t
                slope += H[:, members] @ (t - v[members])
                v[members] = t
            if self.residual(v, slope) <= target:
                break
        return v


def minimise(smooth: Callable, terms: Terms, start: np.ndarray):
    """The least of smooth(w) + terms(w) by proximal Newton steps, and its residual.

    `smooth` gives value, gradient and Hessian. Steps go on while they make the residual smaller.
    """
    w = np.clip(start, terms.lower, terms.upper)
    value, gradient, H = smooth(w)
    residual = terms.residual(w, gradient)
    for _ in range(STEPS):
        step = terms.model_minimum(gradient, H, w) - w
        before = value + terms.value(w)
        for t in 0.5 ** np.arange(40):
            there = w + t * step
            with np.errstate(over="ignore", invalid="ignore"):
                found = smooth(there)
            left = terms.residual(there, found[1]) if np.isfinite(found[0]) else np.inf
            # close to the minimum values are rounding, but the residual still falls
            if found[0] + terms.value(there) < before - 1e-10 * abs(before) or left < residual:
                break
        else:
            break
        w, residual, (value, gradient, H) = there, left, found
        if residual < 4e-16 * max(1, H.max()):
            break
    return w, residual


# ---- families: value, slope and curvature of half the unit deviance in the margin


def _tweedie(y, z, p):
    a, b = (1 - p) * z, (2 - p) * z
    value = y * np.exp(a) / (p - 1) + np.exp(b) / (2 - p) - y ** (2 - p) / ((p - 1) * (2 - p))
    return value, np.exp(b) - y * np.exp(a), (p - 1) * y * np.exp(a) + (2 - p) * np.exp(b)


def _negative_binomial(y, z, theta):
    mean, r = np.exp(z), 1 / theta
    saturated = xlogy(y, np.where(y > 0, y, 1)) - (y + r) * np.log1p(theta * y)
    value = (y + r) * np.log1p(theta * mean) - y * z + saturated
    return value, (mean - y) / (1 + theta * mean), (1 + theta * y) * mean / (1 + theta * mean) ** 2


def _huber(y, z, delta):
    r = z - y
    inside = np.abs(r) <= delta
    value = np.where(inside, r * r / 2, delta * np.abs(r) - delta * delta / 2)
    return value, np.clip(r, -delta, delta), inside.astype(float)


def _squared_hinge(y, z):
    m = np.maximum(1 - y * z, 0)
    return m * m, -2 * y * m, 2.0 * (m > 0)


ROWS = {
    "gaussian": lambda y, z, p: ((z - y) ** 2 / 2, z - y, np.ones_like(z)),
    "binomial": lambda y, z, p: (
        np.logaddexp(0, z) - y * z + xlogy(y, y) + xlogy(1 - y, 1 - y),
        expit(z) - y,
        expit(z) * expit(-z),
    ),
    "poisson": lambda y, z, p: (
        np.exp(z) - y - y * z + xlogy(y, np.where(y > 0, y, 1)),
        np.exp(z) - y,
        np.exp(z),
    ),
    "gamma": lambda y, z, p: (
        y * np.exp(-z) - 1 - np.log(y) + z,
        1 - y * np.exp(-z),
        y * np.exp(-z),
    ),
    "tweedie": _tweedie,
    "negative_binomial": _negative_binomial,
    "huber": _huber,
    "squared_hinge": lambda y, z, p: _squared_hinge(y, z),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Penalised:
    """A solution, and the largest residual of its optimality conditions."""

    coef: np.ndarray
    intercept: float | np.ndarray
    objective: float
    residual: float


def spread(X, sample_weight=None):
    """Weighted standard deviations of columns, with the sum of weights as the divisor."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    s = np.ones(len(X)) if sample_weight is None else sample_weight
    mean = s @ X / s.sum()
    return np.sqrt(s @ (X - mean) ** 2 / s.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """The smooth part as a function of all coefficients, the other terms, and the columns' number."""

    smooth: Callable
    terms: Terms
    features: int

    def objective(self, coef, intercept=0.0):
        """The value at coefficients of a fit."""
        w = np.append(coef, intercept)[: len(self.terms.strengths)]
        return float(self.smooth(w)[0] + self.terms.value(w))


def problem(
    X,
    y,
    family,
    *,
    parameter=None,
    scale=None,
    alpha=1.0,
    l1_ratio=1.0,
    penalty_factor=None,
    P2=None,
    lower_bounds=-np.inf,
    upper_bounds=np.inf,
    positive=False,
    groups=None,
    standardize=False,
    fit_intercept=True,
    sample_weight=None,
    offset=0.0,
):
    """A family or a loss; `parameter` is Tweedie's power, theta, or Huber's delta.

    `scale` replaces 1 / sum(s) before the losses: C of scikit-learn's classifiers, with alpha=1.
    `groups` are arrays of members; columns in none have |w_j|.
    """
    X = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    n, d = X.shape
    s = np.ones(n) if sample_weight is None else np.asarray(sample_weight, float)
    s = s / s.sum() if scale is None else s * scale
    factor = np.ones(d) if penalty_factor is None else np.asarray(penalty_factor, float)
    unit = spread(X, sample_weight) if standardize else np.ones(d)
    first = alpha * l1_ratio * factor * unit
    second = np.diag(factor * unit**2) if P2 is None else np.asarray(P2, float)
    pairs = []
    for members in groups or ():
        pairs.append((np.asarray(members), alpha * l1_ratio * np.sqrt(len(members))))
        first[members] = 0
    size = d + fit_intercept
    P = np.zeros((size, size))
    P[:d, :d] = alpha * (1 - l1_ratio) * second
    limits = np.full((2, size), [[-np.inf], [np.inf]])
    limits[0, :d], limits[1, :d] = 0.0 if positive else lower_bounds, upper_bounds
    terms = Terms(np.append(first, [0] * (size - d)), *limits, tuple(pairs))
    columns = np.column_stack([X, np.ones(n)]) if fit_intercept else X

    def smooth(w):
        value, slope, curvature = ROWS[family](y, columns @ w + offset, parameter)
        gradient = columns.T @ (s * slope) + P @ w
        H = (columns * (s * curvature)[:, None]).T @ columns + P
        return s @ value + w @ P @ w / 2, gradient, H

    return Problem(smooth, terms, d)


def solve(X, y, family, **given):
    """The solution of a `problem`, of whose arguments these are."""
    asked = problem(X, y, family, **given)
    d, size = asked.features, len(asked.terms.strengths)
    w, residual = minimise(asked.smooth, asked.terms, np.zeros(size))
    intercept = float(w[d]) if size > d else 0.0
    allowed = SOLVED * max(1.0, given.get("scale") or 0.0) * max(1.0, np.abs(w).max())
    assert residual <= allowed, f"the reference was not solved: {residual:.1e}"
    return Penalised(w[:d], intercept, asked.objective(w[:d], intercept), residual)


def solve_classes(X, y, C, l1_ratio=1.0, groups_of_rows=False):
    """Multinomial classes 0, 1, ...: C times the sum of losses, penalty of the (K, d) matrix.

    The intercepts are not penalised and sum to zero. `groups_of_rows`: |.|_2 of a feature's
    coefficients in all classes, times sqrt(K), instead of the sum of their sizes.
    """
    X = np.asarray(X, float)
    n, d = X.shape
    K = int(y.max()) + 1
    columns = np.column_stack([X, np.ones(n)])
    place = np.arange(K * (d + 1)).reshape(K, d + 1)
    first = np.zeros((K, d + 1))
    ridge = np.zeros((K, d + 1))
    ridge[:, :d] = 1 - l1_ratio
    groups = ()
    if groups_of_rows:
        groups = tuple((place[:, j], l1_ratio * np.sqrt(K)) for j in range(d))
    else:
        first[:, :d] = l1_ratio
    free = np.full(K * (d + 1), np.inf)
    terms = Terms(first.ravel(), -free, free, groups)
    P = np.diag(ridge.ravel())
    # the intercepts' common part changes nothing: this holds it at zero
    common = np.zeros(K * (d + 1))
    common[place[:, d]] = 1
    P += np.outer(common, common) / K

    def smooth(w):
        z = columns @ w.reshape(K, d + 1).T
        logs = log_softmax(z, axis=1)
        p = np.exp(logs)
        slope = p.copy()
        slope[np.arange(n), y] -= 1
        gradient = C * (slope.T @ columns).ravel() + P @ w
        H = P.copy()
        for a in range(K):
            for b in range(K):
                curvature = p[:, a] * ((a == b) - p[:, b])
                H[np.ix_(place[a], place[b])] += C * (columns * curvature[:, None]).T @ columns
        return -C * logs[np.arange(n), y].sum() + w @ P @ w / 2, gradient, H

    w, residual = minimise(smooth, terms, np.zeros(K * (d + 1)))
    objective = smooth(w)[0] + terms.value(w)
    assert residual <= SOLVED * C * n, f"the reference was not solved: {residual:.1e}"
    W = w.reshape(K, d + 1)
    return Penalised(W[:, :d], W[:, d], float(objective), residual)
