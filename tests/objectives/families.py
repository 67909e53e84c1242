"""Random problems of families, and their optima in long double."""

import numpy as np
import scipy.sparse as sp
from scipy.special import log_ndtr, xlogy

from daskglm.losses.table import find
from tests.losses.formulas import BOUNDED, POSITIVE

LONG = np.longdouble


# ---- losses in long double, all without differences that cancel
def less_linear(d):
    """exp(d) - 1 - d."""
    total, term = np.zeros_like(d), np.ones_like(d)
    small = np.where(np.abs(d) < 0.3, d, 0)
    for k in range(1, 22):
        term = term * small / k
        total += term if k > 1 else 0
    return np.where(np.abs(d) < 0.3, total, np.expm1(d) - d)


def less_log1p(x):
    """x - log(1 + x)."""
    small = np.where(np.abs(x) < 0.1, x, 0)
    s = small / (2 + small)
    odd = sum(s ** (2 * k + 1) / (2 * k + 1) for k in range(1, 10))
    return np.where(np.abs(x) < 0.1, small * s - 2 * odd, x - np.log1p(np.maximum(x, -0.999)))


def linear_less_log(a, b):
    """t - 1 - log(t) of t = a / b."""
    x = (a - b) / b
    return np.where(np.abs(x) < 0.1, less_log1p(x), x - np.log(a / b))


def divergence(p, d, q=None):
    """Of a share p = 1 - q from that whose log odds are higher by d."""
    flip = p > 0.5
    s, t = np.where(flip, 1 - p if q is None else q, p), np.where(flip, -d, d)
    x = s * np.expm1(t)
    far = (
        np.maximum(t, 0) + np.log(np.where(t > 0, s + (1 - s) * np.exp(-np.abs(t)), 1 + x)) - s * t
    )
    return np.where(np.abs(x) < 0.5, s * less_linear(t) - less_log1p(x), far)


def loss_of(loss, y, z):
    """Values, slopes and curvatures, in long double."""
    name, p1 = loss.name, LONG(loss.p1)
    positive = y > 0
    d = z - np.log(np.where(positive, y, 1))
    mu = np.exp(z)
    if name == "poisson":
        return np.where(positive, y * less_linear(d), mu), mu - y, mu
    if name == "gamma":
        return less_linear(-d), -np.expm1(-d), np.exp(-d)
    if name == "tweedie":
        a, b = p1 - 1, 2 - p1
        least = np.where(positive, y, 1) ** b
        up, down = np.exp(b * z), np.where(positive, least * np.exp(-a * d), 0)
        value = least * (less_linear(-a * d) / a + less_linear(b * d) / b)
        return np.where(positive, value, up / b), up - down, a * down + b * up
    if name == "negative_binomial":
        share, rest = p1 * y / (1 + p1 * y), 1 / (1 + p1 * y)  # the rest of a huge count is tiny
        over = 1 / (np.exp(-z) + p1)
        x = z + np.log(p1)
        none = (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))) / p1
        value = np.where(positive, (y + 1 / p1) * divergence(share, d, rest), none)
        return value, over - y / (1 + p1 * mu), (1 + p1 * y) * over / (1 + p1 * mu)
    if name in POSITIVE:
        parts = positive_loss_of(name, y, z)
        return np.where(z > 0, parts[0], np.inf), *parts[1:]
    inside = (y > 0) & (y < 1)
    if name in BOUNDED:
        parts = bounded_share_of(name, y, z, inside)
        return np.where(loss.link.room(z) > 0, parts[0], np.inf), *parts[1:]
    if name == "binomial_probit":
        return probit_of(np.float64(y), np.float64(z))
    if name == "binomial_cloglog":
        odds = mu / np.expm1(mu)
        log_odds = mu + np.log(-np.expm1(-mu))
        shifted = log_odds - np.log(np.where(inside, y / (1 - np.where(inside, y, 0)), 1))
        label = np.where(y == 1, -np.log(-np.expm1(-mu)), mu)
        value = np.where(inside, divergence(y, shifted), label)
        bend = np.where(mu < 1e-6, mu / 2 - mu * mu / 6, odds * (mu + odds - 1))
        return value, (1 - y) * mu - y * odds, (1 - y) * mu + y * bend
    p, q = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
    odds = np.log(np.where(inside, y / (1 - np.where(inside, y, 0)), 1))
    m = np.where(y == 1, -z, z)
    label = np.maximum(m, 0) + np.log1p(np.exp(-np.abs(m)))
    return np.where(inside, divergence(y, z - odds), label), (1 - y) * p - y * q, p * q


def positive_loss_of(name, y, z):
    """Those whose links take margins above zero only."""
    some = np.where(y > 0, y, 1)
    if name == "poisson_identity":
        value = np.where(y > 0, y * linear_less_log(z, some), z)
        return value, 1 - y / z, y / z**2
    if name == "poisson_sqrt":
        value = np.where(y > 0, y * linear_less_log(z * z, some), z * z)
        return value, 2 * z - 2 * y / z, 2 + 2 * y / z**2
    if name == "gamma_inverse":
        return linear_less_log(z, 1 / y), y - 1 / z, 1 / z**2
    root = np.sqrt(z)
    return (y * root - 1) ** 2 / (2 * y), (y - 1 / root) / 2, root**-3 / 4


def bounded_share_of(name, y, z, inside):
    """Shares beside the links that take margins below zero, and between zero and one."""
    rest = 1 - np.where(inside, y, 0)
    shifted = -np.log(np.where(inside, y / rest, 1))
    if name == "binomial_log":
        odds = -np.exp(z) / np.expm1(z)
        log_odds = z - np.log(-np.expm1(z))
        label = np.where(y == 1, -z, -np.log(-np.expm1(z)))
        value = np.where(inside, divergence(y, log_odds + shifted), label)
        return value, (1 - y) * odds - y, (1 - y) * odds * (1 + odds)
    label = np.where(y == 1, -np.log(z), -np.log1p(-z))
    value = np.where(inside, divergence(y, np.log(z) - np.log1p(-z) + shifted), label)
    return value, (z - y) / (z * (1 - z)), y / z**2 + (1 - y) / (1 - z) ** 2


def probit_of(y, z):
    """In double precision, which special functions have."""
    up, down = (np.exp(-z * z / 2 - log_ndtr(m)) / np.sqrt(2 * np.pi) for m in (z, -z))
    value = -y * log_ndtr(z) - (1 - y) * log_ndtr(-z) + xlogy(y, y) + xlogy(1 - y, 1 - y)
    bent = y * up * (up + z) + (1 - y) * down * (down - z)
    return value, (1 - y) * down - y * up, np.maximum(bent, 0)


class Problem:
    """One problem: what `train` is given, and its objective in long double."""

    def __init__(self, loss, X, y, C, intercept, weight=None, offset=None):
        self.loss, self.X, self.y, self.C, self.intercept = find(loss), X, y, C, intercept
        self.name, self.weight, self.offset = loss, weight, offset
        dense = np.asarray(X.toarray() if sp.issparse(X) else X).astype(LONG)
        self.dense, n = dense, len(y)
        self.o = np.zeros(n, LONG) if offset is None else offset.astype(LONG)
        self.s = np.ones(n, LONG) if weight is None else weight.astype(LONG)
        self.scale, self.mu = (LONG(1), 0) if np.isinf(C) else (LONG(C), 1)

    def losses(self, z):
        with np.errstate(all="ignore"):
            # rows without weight may have margins that the link does not take
            link = self.loss.link
            inside = 1 if np.isinf(link.high) else -1 if np.isinf(link.low) else 0.5
            z = np.where(self.s > 0, z + self.o, inside)
            return loss_of(self.loss, self.y.astype(LONG), z)

    def value(self, w, b):
        w = w.astype(LONG)
        values = self.losses(self.dense @ w + LONG(b))[0]
        return self.mu * (w @ w) / 2 + self.scale * (self.s @ values)

    def noise(self, w, b):
        """How far off `value` less `least` may be: margins are rounded in long double, too.

        Both are sums with such errors, of nearly the same terms.
        """
        w, b = w.astype(LONG), LONG(b)
        _, slopes, curvatures = self.losses(self.dense @ w + b)
        sizes = np.abs(self.dense) @ np.abs(w) + abs(b) + np.abs(self.o)
        slopes = np.abs(slopes) + curvatures * 1e-19 * sizes
        margins = self.scale * (self.s * slopes) @ sizes
        off = 2 * 8 * np.finfo(LONG).eps * (margins + self.value(w, b))
        if self.loss.name == "binomial_probit":
            off += 2 * 8 * np.finfo(float).eps * (self.scale * self.s.sum() + self.value(w, b))
        return off

    def least(self):
        """The least value, by Newton's method on centred and scaled columns."""
        n, d = self.dense.shape
        centre = self.dense.mean(axis=0) if self.intercept else np.zeros(d, LONG)
        spread = np.sqrt(((self.dense - centre) ** 2).mean(axis=0))
        spread[spread < 1e-290] = 1
        U = (self.dense - centre) / spread
        penalty = self.mu * np.append(spread**-2, LONG(0))[: d + self.intercept]
        v = np.zeros(d + self.intercept, LONG)
        if self.intercept:
            U = np.column_stack([U, np.ones(n, LONG)])
            v[-1] = self._constant()
        return newton(self, U, penalty, v)

    def _constant(self):
        mean = (self.s @ self.y) / max(self.s.sum(), LONG(1e-300))
        if self.loss.name in POSITIVE:
            return LONG(self.loss.link.of_mean(float(max(mean, LONG(1e-8))))) + abs(self.o).max()
        if self.loss.name in BOUNDED:  # shares
            mean = LONG(min(max(mean, LONG(0.25)), LONG(0.75)))
            largest = abs(self.o).max() if np.isinf(self.loss.link.low) else 0
            return LONG(self.loss.link.of_mean(float(mean))) - largest
        if self.loss.family.name == "binomial":
            mean = min(max(mean, LONG(1e-3)), LONG(1 - 1e-3))
            return LONG(self.loss.link.of_mean(float(mean)))
        return np.log(max(mean, LONG(1e-8))) - self.o.mean()


def solve(H, g):
    """H x = g by elimination with pivots, in long double."""
    A, n = np.column_stack([H, g]), len(g)
    for k in range(n):
        best = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, best]] = A[[best, k]]
        if A[k, k] == 0:
            A[k, k] = LONG(1e-4000)
        A[k + 1 :] -= np.outer(A[k + 1 :, k] / A[k, k], A[k])
    x = np.zeros(n, LONG)
    for k in reversed(range(n)):
        x[k] = (A[k, n] - A[k, k + 1 : n] @ x[k + 1 :]) / A[k, k]
    return x


def newton(problem, U, penalty, v):
    """Newton's method with halved steps on a diagonal scaled to one."""

    def f(v):
        with np.errstate(all="ignore"):
            value = (v * penalty) @ v / 2 + problem.scale * (problem.s @ problem.losses(U @ v)[0])
        return value if np.isfinite(value) else LONG(np.inf)

    value, idle = f(v), 0
    for _ in range(400):
        _, slope, curvature = problem.losses(U @ v)
        g = problem.scale * U.T @ (problem.s * slope) + penalty * v
        H = problem.scale * (U * (problem.s * curvature)[:, None]).T @ U + np.diag(penalty)
        root = np.sqrt(np.maximum(np.diag(H), LONG(1e-300)))
        A = H / root[:, None] / root + LONG(1e-17) * np.eye(len(v), dtype=LONG)
        step, t = -solve(A, g / root) / root, LONG(1)
        # a convex function falls by no more than its tangent: less than this is rounding
        fall = max(-(g @ step), LONG(0))
        while t * fall > 1e-20 * abs(value) and not f(v + t * step) < value:
            t /= 2
        if not t * fall > 1e-20 * abs(value):
            break
        v, before = v + t * step, value
        value = f(v)
        idle = idle + 1 if before - value <= 1e-18 * abs(value) else 0
        if idle > 1:
            break
    return value


# ---- random problems
LOSS_NAMES = (
    *("poisson", "gamma", "tweedie(1.1)", "tweedie(1.5)", "tweedie(1.9)"),
    *("negative_binomial(0.01)", "negative_binomial(1.0)", "negative_binomial(20.0)", "binomial"),
)
# those whose curvature changes at no bounded rate
LOCAL_NAMES = (
    *("poisson_identity", "poisson_sqrt", "gamma_inverse", "inverse_gaussian_squared"),
    *("binomial_cloglog", "binomial_probit", "binomial_log", "binomial_identity"),
)


def rows(rng):
    """Rows that make floating point suffer: near copies of columns, means, scales, empty cells."""
    n, d = int(rng.integers(5, 200)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d))
    if rng.random() < 0.4:
        X = rng.standard_normal((n, 1)) + 10 ** rng.uniform(-6, -1) * X
    if rng.random() < 0.3:
        X = X + 10 ** rng.uniform(1, 4) * rng.choice([-1, 1], d)
    if rng.random() < 0.3:
        X[:, 0] = rng.random(n) < 0.1  # a rare level
    if rng.random() < 0.4:
        X = X * 10 ** rng.uniform(-6, 6, d)
    dtype = rng.choice(["float32", "float64"])
    X = X.astype(dtype)
    if rng.random() < 0.25:
        X = sp.csr_matrix(X * (rng.random(X.shape) < 0.5).astype(dtype))
    return X


def targets(rng, loss, X):
    """Targets whose mean follows the rows, at a scale of 1e-6 to 1e6; sometimes separable."""
    columns = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    spread = np.maximum(columns.std(axis=0), 1e-300)
    z = (columns - columns.mean(axis=0)) / spread @ rng.standard_normal(columns.shape[1])
    z *= rng.choice([0.3, 1.0, 2.0])
    n, family = len(z), find(loss).family.name
    if family == "binomial":
        if rng.random() < 0.2:
            return (z > 0).astype(float)
        trials, mean = rng.integers(1, 20), 1 / (1 + np.exp(-z))
        if loss in BOUNDED and rng.random() < 0.6:
            # as the link has it: else the optimum is mostly where some margin is at an end
            centre = {"binomial_log": -1.0, "binomial_identity": 0.5}[loss]
            mean = find(loss).link.mean(centre + 0.4 * np.tanh(z))
        return rng.binomial(trials, mean, n) / trials
    mean = np.exp(np.clip(z, -20, 20)) * 10 ** rng.uniform(-6, 6)
    if loss in POSITIVE and rng.random() < 0.6:
        # as the link has it: else the optimum is mostly where some margin is zero
        mean = find(loss).link.mean(1.0 + 0.5 * np.tanh(z)) * 10 ** rng.uniform(-2, 6)
    if family == "inverse_gaussian":
        return rng.wald(mean, mean * 4.0) + 1e-6 * mean
    if family == "gamma":
        return np.maximum(mean * rng.gamma(1 / 0.5, 0.5, n), 1e-200)
    if family == "tweedie":
        y = mean * rng.gamma(1.0, 1.0, n) * (rng.random(n) < 0.7)
    else:
        y = rng.poisson(np.minimum(mean, 1e15)).astype(float)
    if rng.random() < 0.2:
        y[columns[:, 0] > np.median(columns[:, 0])] = 0.0  # empty cells
    return y


def draw(seed, loss=None):
    """One random problem, and how to solve it."""
    rng = np.random.default_rng(seed)
    loss = loss or str(rng.choice(LOSS_NAMES))
    X = rows(rng)
    y = targets(rng, loss, X)
    n = len(y)
    weight = rng.exponential(1.0, n) * (rng.random(n) < 0.9) if rng.random() < 0.3 else None
    offset = rng.standard_normal(n) * rng.choice([0.3, 3.0]) if rng.random() < 0.4 else None
    if offset is not None and loss in POSITIVE:
        # of the size of margins
        offset *= 0.1 * float(find(loss).link.of_mean(y.mean() or 1.0))
    elif offset is not None and loss in BOUNDED:
        # beyond this no intercept may be inside for all rows, which is refused
        offset = np.clip(0.05 * offset, -0.45, 0.45)
    C = (
        float("inf")
        if rng.random() < 0.3
        else float(10 ** rng.uniform(-3, 4) / max(y.mean(), 1e-6))
    )
    intercept = bool(rng.integers(2)) or loss in BOUNDED
    problem = Problem(loss, X, y, C, intercept, weight, offset)
    solver = str(rng.choice(["auto", "newton", "newton", "lbfgs", "tron"]))
    return problem, solver, float(10 ** rng.uniform(-12, -1))
