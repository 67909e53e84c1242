"""Fits to machine precision by NumPy: an oracle that shares no code with the package.

    reference = solve(X, y, "poisson", "log", exposure=years)
    reference = published_reference("randhie")      # a case of tests/published.py, cached
    reference.coef, reference.bse("HC1")

Scores are formed in long double, so that coefficients hold to about 1e-13 even where columns are
badly scaled. `tests/test_published.py` checks this module against statsmodels and glum.
"""

import dataclasses
import functools

import numpy as np
from scipy import optimize, special

from . import published

REAL = np.longdouble
LINKS = {
    "gaussian": "identity",
    "binomial": "logit",
    "poisson": "log",
    "gamma": "inverse",
    "inverse_gaussian": "1/mu^2",
    "tweedie": "log",
    "negative_binomial": "log",
    "multinomial": "logit",
    "ordinal": "logit",
    "huber": "identity",
    "quantile": "identity",
}
WITH_DISPERSION = ("gaussian", "gamma", "inverse_gaussian")  # AIC counts it, as in R


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """A fit: parameters in the order of the columns, then the intercept (or the thresholds).

    `scores` has a row of derivatives of the log-likelihood for each observation, at dispersion 1;
    `expected` and `observed` are the information matrices at dispersion 1. For "multinomial" the
    parameters of a class follow each other, classes 1, 2, ...
    """

    coef: np.ndarray
    intercept: float | np.ndarray
    params: np.ndarray
    n: int
    thresholds: np.ndarray | None = None
    mean: np.ndarray | None = None
    scores: np.ndarray | None = None
    expected: np.ndarray | None = None
    observed: np.ndarray | None = None
    groups: np.ndarray | None = None
    dispersion: float = 1.0
    pearson_chi2: float = np.nan
    deviance: float = np.nan
    null_deviance: float = np.nan
    log_likelihood: float = np.nan
    null_log_likelihood: float = np.nan
    aic: float = np.nan
    objective: float = np.nan
    theta: float | None = None

    def covariance(self, kind="classical", bread="expected"):
        """Covariance of `params`.

        Kinds: "classical" (dispersion by inverse information, as R and statsmodels do), "HC0" (no
        factor), "HC1" (n / (n - p)), "robust" (Stata: n / (n - 1)), "cluster0" (no factor),
        "cluster" (G / (G - 1) (n - 1) / (n - p), as statsmodels), "cluster_stata" (G / (G - 1)).
        `n` counts rows, whatever their weights.
        """
        inverse = np.linalg.inv(_scaled(getattr(self, bread)))
        scale = 1 / np.sqrt(np.diag(getattr(self, bread)))
        inverse = inverse * np.outer(scale, scale)
        if kind == "classical":
            return self.dispersion * inverse
        n, p, scores = self.n, len(self.params), self.scores
        if kind.startswith("cluster"):
            labels, index = np.unique(self.groups, return_inverse=True)
            groups = len(labels)
            scores = np.zeros((groups, p))
            np.add.at(scores, index, self.scores)
        factor = {
            "HC0": lambda: 1,
            "HC1": lambda: n / (n - p),
            "robust": lambda: n / (n - 1),
            "cluster0": lambda: 1,
            "cluster": lambda: groups / (groups - 1) * (n - 1) / (n - p),
            "cluster_stata": lambda: groups / (groups - 1),
        }[kind]()
        return factor * inverse @ (scores.T @ scores) @ inverse

    @property
    def pearson_dispersion(self):
        """Pearson's chi2 / (n - p), also where the family has dispersion 1."""
        return self.pearson_chi2 / (self.n - len(self.params))

    @property
    def inverse_theta(self):
        """R's theta."""
        return 1 / self.theta

    def bse(self, kind="classical", bread="expected"):
        """Standard errors: the columns, then the intercept."""
        return np.sqrt(np.diag(self.covariance(kind, bread)))


def _scaled(matrix):
    scale = 1 / np.sqrt(np.diag(matrix))
    return matrix * np.outer(scale, scale)


# ---- links: mean and its first two derivatives in z, and z of a mean


def _probit(z):
    z = z.astype(float)
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    return special.ndtr(z), density, -z * density


def _logit(z):
    mean = 1 / (1 + np.exp(-z))
    slope = mean / (1 + np.exp(z))
    return mean, slope, slope * (1 - 2 * mean)


def _cloglog(z):
    slope = np.exp(z - np.exp(z))
    return -np.expm1(-np.exp(z)), slope, slope * (1 - np.exp(z))


MEANS = {
    "identity": lambda z: (z, np.ones_like(z), np.zeros_like(z)),
    "log": lambda z: (np.exp(z),) * 3,
    "logit": _logit,
    "probit": _probit,
    "cloglog": _cloglog,
    "inverse": lambda z: (1 / z, -1 / z**2, 2 / z**3),
    "sqrt": lambda z: (z**2, 2 * z, np.full_like(z, 2)),
    "1/mu^2": lambda z: (z**-0.5, -0.5 * z**-1.5, 0.75 * z**-2.5),
}
INVERSES = {
    "identity": lambda mean: mean,
    "log": np.log,
    "logit": lambda mean: np.log(mean / (1 - mean)),
    "probit": lambda mean: special.ndtri(mean.astype(float)),
    "cloglog": lambda mean: np.log(-np.log1p(-mean)),
    "inverse": lambda mean: 1 / mean,
    "sqrt": np.sqrt,
    "1/mu^2": lambda mean: mean**-2,
}


# ---- families: variance, its derivative, unit deviance


@dataclasses.dataclass(frozen=True)
class _Family:
    name: str
    power: float | None = None
    theta: float | None = None

    def variance(self, mean):
        """V(mean) and V'(mean)."""
        one = np.ones_like(mean)
        if self.name == "tweedie":
            return mean**self.power, self.power * mean ** (self.power - 1)
        if self.name == "negative_binomial":
            return mean + self.theta * mean**2, 1 + 2 * self.theta * mean
        return {
            "gaussian": (one, 0 * one),
            "binomial": (mean * (1 - mean), 1 - 2 * mean),
            "poisson": (mean, one),
            "gamma": (mean**2, 2 * mean),
            "inverse_gaussian": (mean**3, 3 * mean**2),
        }[self.name]

    def unit_deviance(self, y, mean):
        def entropy(a, b):  # a ln(a / b), 0 at a = 0
            return np.where(a > 0, a * np.log(np.where(a > 0, a, 1) / b), 0)

        if self.name == "gaussian":
            return (y - mean) ** 2
        if self.name == "binomial":
            return 2 * (entropy(y, mean) + entropy(1 - y, 1 - mean))
        if self.name == "poisson":
            return 2 * (entropy(y, mean) - y + mean)
        if self.name == "gamma":
            return 2 * (y / mean - 1 - np.log(y / mean))
        if self.name == "inverse_gaussian":
            return (y - mean) ** 2 / (y * mean**2)
        if self.name == "negative_binomial":
            theta = self.theta
            return 2 * (
                entropy(y, mean) - (y + 1 / theta) * np.log((1 + theta * y) / (1 + theta * mean))
            )
        return self._tweedie_deviance(y, mean)

    def _tweedie_deviance(self, y, mean):
        p = self.power
        if p in (1, 2):
            return _Family({1: "poisson", 2: "gamma"}[p]).unit_deviance(y, mean)
        saturated = 0 if p > 2 and np.any(y == 0) else y ** (2 - p) / ((1 - p) * (2 - p))
        return 2 * (saturated - y * mean ** (1 - p) / (1 - p) + mean ** (2 - p) / (2 - p))

    def feasible(self, mean):
        if self.name == "binomial":
            return np.all((mean > 0) & (mean < 1))
        return np.all(np.isfinite(mean)) and (self.name == "gaussian" or np.all(mean > 0))

    def start(self, y, s):
        """Means to start from, inside the domain of every link."""
        if self.name == "binomial":
            return (s * y + 0.5) / (s + 1)
        if self.name in ("poisson", "negative_binomial", "tweedie"):
            return y + np.where(y == 0, 1, 0) / REAL(6) if self.power != 2 else y
        return y

    def log_likelihood(self, y, s, mean, deviance):
        """R's: gamma and inverse Gaussian put deviance / sum of weights for the dispersion."""
        y, s, mean = (np.asarray(each, float) for each in (y, s, mean))
        phi = float(deviance) / s.sum()
        if self.name == "gaussian":
            return -(len(y) * (np.log(2 * np.pi * float(deviance) / len(y)) + 1)) / 2 + (
                np.log(s).sum() / 2
            )
        if self.name == "binomial":
            k = s * y
            choose = special.gammaln(s + 1) - special.gammaln(k + 1) - special.gammaln(s - k + 1)
            return (choose + special.xlogy(k, mean) + special.xlogy(s - k, 1 - mean)).sum()
        if self.name == "poisson":
            return s @ (special.xlogy(y, mean) - mean - special.gammaln(y + 1))
        if self.name == "gamma":
            a = 1 / phi
            return s @ (a * np.log(a * y / mean) - a * y / mean - np.log(y) - special.gammaln(a))
        if self.name == "inverse_gaussian":
            return -(s @ (np.log(2 * np.pi * phi) + 3 * np.log(y)) + s.sum()) / 2
        if self.name == "negative_binomial":
            a = 1 / self.theta
            constant = special.gammaln(y + a) - special.gammaln(a) - special.gammaln(y + 1)
            return s @ (constant - a * np.log1p(mean / a) + special.xlogy(y, mean / (a + mean)))
        return np.nan


# ---- Newton and Fisher scoring


def _design(X, fit_intercept):
    X = np.asarray(X, REAL)
    return np.column_stack([X, np.ones(len(X), REAL)]) if fit_intercept else X


def _score_and_weight(family, link, D, params, y, s, offset):
    z = D @ params + offset
    mean, slope, bend = MEANS[link](z)
    variance, variance_slope = family.variance(mean)
    score = s * (y - mean) * slope / variance
    expected = s * slope**2 / variance
    observed = expected - s * (y - mean) * (
        bend / variance - slope**2 * variance_slope / variance**2
    )
    return mean, score, expected, observed


def _least_squares(D, weight, target):
    """Minimise sum weight (target - D x)^2; columns are scaled, so that their units do not matter."""
    root = np.sqrt(np.maximum(weight, 0)).astype(float)
    A = D.astype(float) * root[:, None]
    scale = np.sqrt((A * A).sum(0))
    scale[scale == 0] = 1
    return np.linalg.lstsq(A / scale, root * target.astype(float), rcond=1e-15)[0] / scale


def _maximise(family, link, D, y, s, offset, start=None, tolerance=1e-17):
    def deviance(params):
        with np.errstate(all="ignore"):
            mean = MEANS[link](D @ params + offset)[0]
            return s @ family.unit_deviance(y, mean) if family.feasible(mean) else np.inf

    if start is None:  # least squares of link(y), as R does
        with np.errstate(all="ignore"):
            first = family.start(y, s)
            slope = MEANS[link](INVERSES[link](first))[1]
            weight = s * slope**2 / family.variance(first)[0]
            start = _least_squares(D, weight, INVERSES[link](first) - offset)
    params = start.astype(D.dtype)
    value = deviance(params)
    if not np.isfinite(value):  # the constant model is feasible
        params = np.zeros(D.shape[1], REAL)
        params[-1] = INVERSES[link](s @ y / s.sum())
        value = deviance(params)
    scale = np.sqrt((D * D).sum(0))
    best = np.inf
    for _ in range(2000):
        _, score, expected, observed = _score_and_weight(family, link, D, params, y, s, offset)
        weight = observed if np.all(observed > 0) else expected  # Newton, where that is convex
        step = _least_squares(D, weight, score / weight)
        length = 1.0
        while not (new := deviance(params + length * step)) <= value * (1 + 1e-13):
            length /= 2
            if length < 1e-10:
                raise ArithmeticError("no step lowers the deviance")
        params, value = params + length * step, new
        size = np.max(np.abs(step * scale)) / np.max(np.abs(params * scale))
        if size < tolerance or (size < 1e-14 and size > best / 2):
            return params
        best = min(best, size)
    raise ArithmeticError(f"the fit did not end: the last step was {size:.1e}")


def _glm(X, y, family, link, s, offset, fit_intercept, groups):
    y, s, offset = (np.asarray(each, REAL) for each in (y, s, offset))
    D = _design(X, fit_intercept)
    params = _maximise(family, link, D, y, s, offset)
    mean, score, expected, observed = _score_and_weight(family, link, D, params, y, s, offset)
    deviance = s @ family.unit_deviance(y, mean)
    if fit_intercept:
        constant = np.ones((len(y), 1), REAL)
        null = _maximise(family, link, constant, y, s, offset)
        null_mean = MEANS[link](constant @ null + offset)[0]
    else:
        with np.errstate(all="ignore"):  # a mean of 0 or infinity under links with no 0
            null_mean = MEANS[link](offset)[0]
    with np.errstate(all="ignore"):
        null_deviance = s @ family.unit_deviance(y, null_mean)
        null_llf = family.log_likelihood(y, s, null_mean, null_deviance)
    chi2 = float(s @ ((y - mean) ** 2 / family.variance(mean)[0]))
    n, p = D.shape
    fixed = family.name in ("binomial", "poisson", "negative_binomial")
    llf = family.log_likelihood(y, s, mean, deviance)
    params = params.astype(float)
    return Reference(
        coef=params[:n_columns] if (n_columns := p - fit_intercept) else params[:0],
        intercept=float(params[-1]) if fit_intercept else 0.0,
        params=params,
        n=n,
        mean=mean.astype(float),
        scores=(D * score[:, None]).astype(float),
        expected=((D * expected[:, None]).T @ D).astype(float),
        observed=((D * observed[:, None]).T @ D).astype(float),
        groups=groups,
        dispersion=1.0 if fixed else chi2 / (n - p),
        pearson_chi2=chi2,
        deviance=float(deviance),
        null_deviance=float(null_deviance),
        log_likelihood=float(llf),
        null_log_likelihood=float(null_llf),
        aic=float(-2 * llf + 2 * (p + (family.name in WITH_DISPERSION))),
        theta=family.theta,
    )


def _estimate_theta(X, y, link, s, offset, fit_intercept):
    """Maximise the likelihood over theta: a root of its derivative, with the fit at each theta."""
    counts = np.asarray(y, float)

    def best(D):
        params = None

        def slope(log_a, dtype, tolerance):
            nonlocal params
            a = float(np.exp(log_a))
            family = _Family("negative_binomial", theta=1 / a)
            arrays = [np.asarray(each, dtype) for each in (D, y, s, offset)]
            params = _maximise(family, link, *arrays, start=params, tolerance=tolerance)
            mean = MEANS[link](D @ params + offset)[0].astype(float)
            rows = special.digamma(counts + a) - special.digamma(a) - np.log1p(mean / a)
            return s @ (rows + 1 - (a + counts) / (a + mean))

        rough = optimize.brentq(slope, -6, 6, args=(float, 1e-9), xtol=1e-7)
        around = rough - 1e-5, rough + 1e-5
        return float(np.exp(-optimize.brentq(slope, *around, args=(REAL, 1e-13), xtol=1e-14)))

    return best(_design(X, fit_intercept)), best(np.ones((len(counts), 1), REAL))


def _elastic_net(X, y, family, link, s, offset, fit_intercept, alpha, l1_ratio):
    """Proximal Newton: coordinate descent on the expected information, then a step that descends."""
    y, s, offset = (np.asarray(each, REAL) for each in (y, s, offset))
    D, total = _design(X, fit_intercept), s.sum()
    l1 = np.full(D.shape[1], REAL(alpha * l1_ratio))
    l2 = np.full(D.shape[1], REAL(alpha * (1 - l1_ratio)))
    if fit_intercept:
        l1[-1] = l2[-1] = 0

    def objective(params):
        with np.errstate(all="ignore"):
            mean = MEANS[link](D @ params + offset)[0]
            if not family.feasible(mean):
                return np.inf
            fit = s @ family.unit_deviance(y, mean) / (2 * total)
        return fit + l1 @ np.abs(params) + l2 @ params**2 / 2

    params = np.zeros(D.shape[1], REAL)
    if fit_intercept:
        params[-1] = INVERSES[link](s @ y / total)
    for _ in range(500):
        _, score, expected, _ = _score_and_weight(family, link, D, params, y, s, offset)
        gradient = -(D.T @ score) / total
        step = _descend(gradient, (D * expected[:, None]).T @ D / total, params, l1, l2)
        length = 1.0
        while not objective(params + length * step) <= objective(params) * (1 + REAL(1e-17)):
            length /= 2
            if length < 1e-10:
                return params
        params = params + length * step
        if np.max(np.abs(step)) < 1e-17 * np.max(np.abs(params)):
            return params
    raise ArithmeticError("proximal Newton did not end")


def _descend(gradient, gram, params, l1, l2):
    """The step to the optimum of the quadratic model with penalty, by coordinate descent."""
    new, slope = params.copy(), gradient.copy()
    for _ in range(100_000):
        largest = 0.0
        for j in range(len(new)):
            curvature = gram[j, j] + l2[j]
            target = gram[j, j] * new[j] - slope[j]
            moved = np.sign(target) * max(abs(target) - l1[j], 0) / curvature - new[j]
            new[j] += moved
            slope += gram[j] * moved
            largest = max(largest, abs(moved))
        if largest < 1e-18 * max(1e-300, np.max(np.abs(new))):
            break
    return new - params


# ---- several classes


def _newton(function, params):
    """Damped Newton: `function` gives value, gradient and Hessian; infinite values are refused."""
    value, gradient, hessian = function(params)
    best = np.inf
    for _ in range(200):
        scale = 1 / np.sqrt(np.diag(hessian))
        step = -scale * np.linalg.solve(_scaled(hessian), scale * gradient.astype(float))
        length = 1.0
        while not (new := function(params + length * step))[0] <= value + 1e-13 * abs(value):
            length /= 2
            if length < 1e-10:
                return params
        params, (value, gradient, hessian) = params + length * step, new
        size = np.max(np.abs(step / scale)) / max(1.0, np.max(np.abs(params / scale)))
        if size < 1e-17 or (size < 1e-14 and size > best / 2):
            return params
        best = min(best, size)
    raise ArithmeticError(f"Newton did not end: the last step was {size:.1e}")


def _multinomial(X, y, s, fit_intercept, groups):
    D, s = _design(X, fit_intercept), np.asarray(s, REAL)
    labels, index = np.unique(y, return_inverse=True)
    (n, p), others = D.shape, len(labels) - 1
    onehot = (index[:, None] == np.arange(1, others + 1)) * REAL(1)

    def probabilities(params):
        z = np.column_stack([np.zeros(n, REAL), D @ params.reshape(others, p).T])
        z -= z.max(1, keepdims=True)
        return np.exp(z) / np.exp(z).sum(1, keepdims=True)

    def function(params):
        every = probabilities(params)
        value = -(s @ np.log(every[np.arange(n), index]))
        chance = every[:, 1:]
        gradient = ((chance - onehot) * s[:, None]).T @ D
        hessian = np.empty((others, p, others, p))
        for a in range(others):
            for b in range(others):
                weight = s * chance[:, a] * ((a == b) - chance[:, b])
                hessian[a, :, b] = (D * weight[:, None]).T.astype(float) @ D.astype(float)
        return value, gradient.ravel(), hessian.reshape(others * p, others * p)

    params = _newton(function, np.zeros(others * p, REAL))
    value, _, hessian = function(params)
    share = np.bincount(index, np.asarray(s, float)) / float(s.sum())
    residual = (onehot - probabilities(params)[:, 1:]) * s[:, None]
    table = params.reshape(others, p).astype(float)
    return Reference(
        coef=table[:, :-1] if fit_intercept else table,
        intercept=table[:, -1] if fit_intercept else np.zeros(others),
        params=params.astype(float),
        n=n,
        mean=probabilities(params).astype(float),
        scores=(residual[:, :, None] * D[:, None, :]).reshape(n, -1).astype(float),
        expected=hessian,
        observed=hessian,
        groups=groups,
        deviance=float(2 * value),
        log_likelihood=float(-value),
        null_log_likelihood=float(s.sum()) * float(special.xlogy(share, share).sum()),
        aic=float(2 * value + 2 * others * p),
    )


def _ordinal(X, y, s, offset, groups):
    """Two logistic losses a row and a barrier of the thresholds, over (coef, thresholds)."""
    X, s = np.asarray(X, REAL), np.asarray(s, REAL)
    labels, k = np.unique(y, return_inverse=True)
    (n, p), cuts = X.shape, len(labels) - 1
    at = np.eye(cuts)
    upper = np.column_stack([-X, at[np.minimum(k, cuts - 1)]])  # t_k - z
    lower = np.column_stack([-X, at[np.maximum(k - 1, 0)]])  # t_(k-1) - z
    has_upper, has_lower = (k < cuts) * REAL(1), (k > 0) * REAL(1)
    inside = has_upper * has_lower

    def rows(params):
        """Loss of a row, its slopes and curvatures in the upper and the lower margin, the barrier."""
        a, b = upper @ params - offset, lower @ params - offset
        gap = np.where(inside > 0, a - b, 1)
        if np.any(gap <= 0):
            return (np.full(n, np.inf),) + (np.zeros(n),) * 6
        loss = has_upper * np.logaddexp(0, -a) + has_lower * np.logaddexp(0, b)
        loss = loss - inside * np.log(-np.expm1(-gap))
        pa, pb = 1 / (1 + np.exp(a)), 1 / (1 + np.exp(-b))
        barrier = inside / np.expm1(gap)
        curve = inside * np.exp(gap) / np.expm1(gap) ** 2
        return (
            loss,
            -has_upper * pa,
            has_lower * pb,
            barrier,
            has_upper * pa * (1 - pa),
            has_lower * pb * (1 - pb),
            curve,
        )

    def derivatives(params):
        _, ga, gb, barrier, ha, hb, curve = rows(params)
        G = (s * (ga - barrier))[:, None] * upper + (s * (gb + barrier))[:, None] * lower
        H = sum(
            (D * (s * w)[:, None]).T.astype(float) @ D.astype(float)
            for D, w in ((upper, ha), (lower, hb), (upper - lower, curve))
        )
        return G, H

    def function(params):
        loss = s @ rows(params)[0]
        if not np.isfinite(loss):
            return np.inf, None, None
        G, H = derivatives(params)
        return loss, G.sum(0), H

    share = np.cumsum(np.bincount(k, np.asarray(s, float)))[:-1] / float(s.sum())
    params = _newton(function, np.concatenate([np.zeros(p), special.logit(share)]).astype(REAL))
    value, (G, H) = s @ rows(params)[0], derivatives(params)
    counts = np.bincount(k, np.asarray(s, float)) / float(s.sum())
    params = params.astype(float)
    return Reference(
        coef=params[:p],
        intercept=0.0,
        thresholds=params[p:],
        params=params,
        n=n,
        scores=-G.astype(float),
        expected=H,  # as polr and Stata: the observed information
        observed=H,
        groups=groups,
        deviance=float(2 * value),
        log_likelihood=float(-value),
        null_log_likelihood=float(s.sum()) * float(special.xlogy(counts, counts).sum()),
        aic=float(2 * value + 2 * len(params)),
    )


# ---- robust regression and quantiles


def _huber(X, y, s, offset, delta, fit_intercept):
    """Newton on the set of rows that are inside delta; it ends when the set no longer changes."""
    D, y, s = _design(X, fit_intercept), np.asarray(y, REAL) - offset, np.asarray(s, REAL)

    def loss(params):
        r = np.abs(y - D @ params)
        return s @ np.where(r <= delta, r**2 / 2, delta * r - delta**2 / 2)

    params = _least_squares(D, s, y).astype(REAL)
    for _ in range(500):
        r = y - D @ params
        inside = (np.abs(r) <= delta) * s
        gradient = D.T @ (s * np.clip(r, -delta, delta))
        hessian = (D * inside[:, None]).T @ D
        scale = 1 / np.sqrt(np.diag(hessian))
        step = scale * np.linalg.solve(
            _scaled(hessian).astype(float), (scale * gradient).astype(float)
        )
        length = 1.0
        while length > 1e-10 and not loss(params + length * step) <= loss(params) * (1 + 1e-16):
            length /= 2
        params = params + length * step
        if np.max(np.abs(step / scale)) < 1e-17 * np.max(np.abs(params / scale)) or length < 1e-10:
            break
    return _linear(params, fit_intercept, len(y), float(loss(params)))


def _quantile(X, y, s, offset, quantile, fit_intercept):
    """The linear programme by HiGHS, then the vertex that it names by a linear system."""
    D, y = _design(X, fit_intercept).astype(float), np.asarray(y, float) - offset
    n, p = D.shape
    costs = np.concatenate([np.zeros(p), quantile * s, (1 - quantile) * s])
    found = optimize.linprog(
        costs,
        A_eq=np.column_stack([D, np.eye(n), -np.eye(n)]),
        b_eq=y,
        bounds=[(None, None)] * p + [(0, None)] * (2 * n),
        method="highs-ds",
    )
    through = np.argsort(np.abs(y - D @ found.x[:p]))[:p]
    params = np.linalg.solve(D[through], y[through])
    r = y - D @ params
    loss = float(s @ np.where(r > 0, quantile * r, (quantile - 1) * r))
    if not np.isclose(loss, found.fun, rtol=1e-10):
        raise ArithmeticError("the optimum is not a vertex that p rows determine")
    return _linear(params, fit_intercept, n, loss)


def _linear(params, fit_intercept, n, objective):
    params = params.astype(float)
    return Reference(
        coef=params[:-1] if fit_intercept else params,
        intercept=float(params[-1]) if fit_intercept else 0.0,
        params=params,
        n=n,
        objective=objective,
    )


# ---- entry points


def solve(
    X,
    y,
    family,
    link=None,
    *,
    sample_weight=None,
    offset=None,
    exposure=None,
    fit_intercept=True,
    power=None,
    theta=None,
    delta=None,
    quantile=None,
    groups=None,
    alpha=0.0,
    l1_ratio=0.0,
):
    """The optimum to machine precision.

    X is dense, without a constant column; for names and conventions see `published.Published`.
    `theta=None` with "negative_binomial" estimates it by maximum likelihood. With `alpha` the
    objective is sum s d / (2 sum s) + alpha (l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2), d the unit
    deviance, the intercept is not penalised, and only coefficients are returned.
    """
    link = LINKS[family] if link is None else link
    y = np.asarray(y)
    s = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
    shift = np.zeros(len(y)) if offset is None else np.asarray(offset, float)
    if exposure is not None:
        shift = shift + np.log(np.asarray(exposure, float))
    if family == "multinomial":
        return _multinomial(X, y, s, fit_intercept, groups)
    if family == "ordinal":
        return _ordinal(X, y, s, shift, groups)
    if family == "huber":
        return _huber(X, y, s, shift, delta, fit_intercept)
    if family == "quantile":
        return _quantile(X, y, s, shift, quantile, fit_intercept)
    if alpha:
        each = _Family(family, power, theta)
        params = _elastic_net(X, y, each, link, s, shift, fit_intercept, alpha, l1_ratio)
        return _linear(params, fit_intercept, len(y), np.nan)
    if family == "negative_binomial" and theta is None:
        return _with_theta(X, y, link, s, shift, fit_intercept, groups)
    return _glm(X, y, _Family(family, power, theta), link, s, shift, fit_intercept, groups)


def _with_theta(X, y, link, s, offset, fit_intercept, groups):
    theta, null_theta = _estimate_theta(X, y, link, s, offset, fit_intercept)
    family = _Family("negative_binomial", theta=theta)
    found = _glm(X, y, family, link, s, offset, fit_intercept, groups)
    null_family = _Family("negative_binomial", theta=null_theta)
    null = _glm(np.empty((len(y), 0)), y, null_family, link, s, offset, True, groups)
    return dataclasses.replace(
        found, aic=found.aic + 2, null_log_likelihood=null.log_likelihood
    )  # theta counts as a parameter


def reference(case):
    """The fit of a `published.Published`; `published_reference` caches it."""
    return solve(
        case.X.to_numpy(),
        case.y,
        case.family,
        case.link,
        sample_weight=case.sample_weight,
        offset=case.offset,
        exposure=case.exposure,
        fit_intercept=case.fit_intercept,
        power=case.power,
        theta=None if case.theta_estimated else case.theta,
        delta=case.delta,
        quantile=case.quantile,
        groups=case.groups,
        alpha=case.alpha,
        l1_ratio=case.l1_ratio,
    )


@functools.cache
def published_reference(name):
    """`reference` of a case of tests/published.py, by name."""
    return reference(published.case(name))
