"""Random problems with kinks and bounds, and their optima in long double.

By Newton's method whose models are minimised exactly, by an active set: no part of the package.
"""

import math

import numpy as np
import scipy.sparse as sp

from daskglm.fitting.config import FitConfig
from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from tests.losses.formulas import BOUNDED, POSITIVE
from tests.objectives.families import LONG, LOSS_NAMES, Problem, loss_of, rows, solve, targets

OTHERS = ("squared", "logistic", "squared_hinge", "huber(1.35)")
KINKED_NAMES = LOSS_NAMES + OTHERS * 2
INF = LONG(np.inf)


def other_loss_of(loss, y, z):
    """Values, slopes and curvatures of losses without a family, and of least squares."""
    r = z - y
    if loss.name == "squared":
        return r * r / 2, r, np.ones_like(z)
    if loss.name == "huber":
        inside = np.abs(r) <= loss.p1
        far = LONG(loss.p1) * (np.abs(r) - LONG(loss.p1) / 2)
        return np.where(inside, r * r / 2, far), np.clip(r, -loss.p1, loss.p1), inside * LONG(1)
    m = y * z
    if loss.name == "logistic":
        p = 1 / (1 + np.exp(m))
        return np.maximum(-m, 0) + np.log1p(np.exp(-np.abs(m))), -y * p, p * (1 - p)
    short = np.maximum(1 - m, 0)
    return short**2, -2 * y * short, 2 * LONG(1) * (m < 1)


class Kinked(Problem):
    """A problem with a penalty of any kind, whose parts are formed here from its definition."""

    def __init__(self, loss, X, y, C, intercept, penalty, weight=None, offset=None):
        super().__init__(loss, X, y, C, intercept, weight, offset)
        self.penalty = penalty
        self.scale = LONG(1) if math.isinf(C) else LONG(C)
        d, strength = X.shape[1], LONG(0 if math.isinf(C) else 1)
        factor = np.ones(d, LONG)
        if penalty.penalty_factor is not None:
            factor = np.asarray(penalty.penalty_factor, LONG)
        size = self._deviations() if penalty.standardize else np.ones(d, LONG)
        rho = LONG(penalty.l1_ratio)
        P2 = np.diag(factor) if penalty.P2 is None else np.asarray(penalty.P2, LONG)
        self.Q = strength * (1 - rho) * P2 * size[:, None] * size
        self.l1 = strength * rho * factor * size
        self.lower, self.upper = np.full(d, -INF), np.full(d, INF)
        if penalty.lower_bounds is not None:
            self.lower = np.broadcast_to(np.asarray(penalty.lower_bounds, LONG), d).copy()
        if penalty.upper_bounds is not None:
            self.upper = np.broadcast_to(np.asarray(penalty.upper_bounds, LONG), d).copy()
        self.groups = []
        if penalty.groups is not None:
            self.l1 = np.zeros(d, LONG)
            labels = np.asarray(penalty.groups)
            for label in np.unique(labels):
                group = np.flatnonzero(labels == label)
                held = strength * rho * factor[group[0]] * np.sqrt(LONG(len(group)))
                self.groups.append((group, held))

    def _deviations(self):
        share = self.s / self.s.sum()
        centre = share @ self.dense
        variance = share @ (self.dense - centre) ** 2
        squares = share @ self.dense**2
        return np.sqrt(np.where(variance <= LONG(1e-13) * squares, 1, variance))

    def losses(self, z):
        if self.loss.name in ("squared", "logistic", "squared_hinge", "huber"):
            with np.errstate(all="ignore"):
                return other_loss_of(self.loss, self.y.astype(LONG), z + self.o)
        with np.errstate(all="ignore"):
            # rows without weight may have margins that the link does not take
            within = {"binomial_log": -1, "binomial_identity": 0.5}.get(self.loss.name, 1)
            z = np.where(self.s > 0, z + self.o, within)
            return loss_of(self.loss, self.y.astype(LONG), z)

    def kinks(self, w):
        total = self.l1 @ np.abs(w)
        for group, held in self.groups:
            total += held * np.sqrt((w[group] ** 2).sum())
        return total

    def value(self, w, b):
        w = w.astype(LONG)
        values = self.losses(self.dense @ w + LONG(b))[0]
        return w @ self.Q @ w / 2 + self.kinks(w) + self.scale * (self.s @ values)

    # ---- the optimum
    def noise(self, w, b):
        """How far off `value` may be: products of a matrix with large coefficients cancel."""
        size = np.abs(w.astype(LONG))
        return super().noise(w, b) + 8 * np.finfo(LONG).eps * (size @ np.abs(self.Q) @ size)

    def least(self, w, b):
        """The least value that is found from w and from the nearest point to zero."""
        start = np.clip(np.zeros(len(w), LONG), self.lower, self.upper)
        constant = self._constant() if self.intercept else LONG(0)
        found = [_Descent(self).run(np.asarray(w, LONG), LONG(b))]
        if math.isfinite(self.value(start, constant)):
            found.append(_Descent(self).run(start, constant))
        return min(found)

    def _constant(self):
        if self.loss.classifies:
            return LONG(0)
        if self.loss.name in ("squared", "huber"):
            return self.s @ (self.y - self.o) / self.s.sum()
        return super()._constant()


class _Descent:
    """Proximal Newton on centred and scaled columns."""

    def __init__(self, problem):
        self.problem, d = problem, problem.dense.shape[1]
        n = len(problem.y)
        self.centre = problem.dense.mean(axis=0) if problem.intercept else np.zeros(d, LONG)
        spread = np.sqrt(((problem.dense - self.centre) ** 2).mean(axis=0))
        spread[spread < 1e-290] = 1
        self.spread, self.d = spread, d
        self.U = (problem.dense - self.centre) / spread
        more = int(problem.intercept)
        if more:
            self.U = np.column_stack([self.U, np.ones(n, LONG)])
        none = np.full(more, INF)
        self.Q = np.zeros((d + more, d + more), LONG)
        self.Q[:d, :d] = problem.Q / spread[:, None] / spread
        self.l1 = np.append(problem.l1 / spread, np.zeros(more, LONG))
        self.lower = np.append(problem.lower * spread, -none)
        self.upper = np.append(problem.upper * spread, none)

    def run(self, w, b):
        v = w * self.spread
        if self.problem.intercept:
            v = np.append(v, b + self.centre @ w)
        value, idle = self.f(v), 0
        for _ in range(300):
            before = value
            v, value = self._step(v, value)
            v, value = self._without_groups(v, value)
            idle = idle + 1 if before - value <= 1e-18 * abs(value) else 0
            if idle > 2:
                break
        return value

    def f(self, v):
        p, w = self.problem, v[: self.d] / self.spread
        with np.errstate(all="ignore"):
            value = v @ self.Q @ v / 2 + p.kinks(w) + p.scale * (p.s @ p.losses(self.U @ v)[0])
        return value if np.isfinite(value) else INF

    def _step(self, v, value):
        p = self.problem
        _, slope, curvature = p.losses(self.U @ v)
        g = p.scale * self.U.T @ (p.s * slope) + self.Q @ v
        H = p.scale * (self.U * (p.s * curvature)[:, None]).T @ self.U + self.Q
        lower, upper = self.lower.copy(), self.upper.copy()
        for group, held in p.groups:
            size = 1 / self.spread[group]
            u = v[group] * size
            norm = np.sqrt((u**2).sum())
            if norm > 0:
                unit = u / norm
                g[group] += held * unit * size
                bent = np.eye(len(group), dtype=LONG) - np.outer(unit, unit)
                H[np.ix_(group, group)] += held / norm * bent * size[:, None] * size
                continue
            # of a group at zero: it stays, or first moves along its own gradient
            pull = g[group] / size
            steep = np.sqrt((pull**2).sum())
            lower[group] = upper[group] = 0
            if steep > held * (1 + LONG(1e-17)):
                way = np.zeros_like(v)
                way[group] = -pull / steep / size
                along = way @ H @ way
                way *= (steep - held) / max(along, LONG(1e-300))
                v, value = self._search(v, value, way, g)
        to = minimum(H, g, v, self.l1, lower, upper)
        return self._search(v, value, to - v, g)

    def _search(self, v, value, step, g):
        # a convex function falls by no more than its tangent: less than this is rounding
        most, t = np.abs(g @ step) + self.l1 @ np.abs(step), LONG(1)
        for group, held in self.problem.groups:
            most += held * np.sqrt(((step[group] / self.spread[group]) ** 2).sum())
        while t > 1e-40 and t * most > 1e-20 * abs(value):
            to = np.clip(v + t * step, self.lower, self.upper)
            if (new := self.f(to)) < value:
                return to, new
            t /= 2
        return v, value

    def _without_groups(self, v, value):
        for group, _ in self.problem.groups:
            to = v.copy()
            to[group] = 0
            if v[group].any() and (new := self.f(to)) <= value:
                v, value = to, new
        return v, value


def minimum(H, g, v, l1, lower, upper):
    """Where g.(x - v) + 1/2 (x - v)'H(x - v) + sum l1 |x| is least within bounds, by an active set."""
    root = np.sqrt(np.maximum(np.diag(H), LONG(1e-300)))
    H = H + np.diag(LONG(1e-17) * root**2)
    x, sign = v.copy(), np.sign(v)
    free = (lower < upper) & ((x != 0) | (l1 == 0))
    for _ in range(100 + 20 * len(v)):
        q = g + H @ (x - v)
        F = np.flatnonzero(free)
        if len(F):
            scaled = H[np.ix_(F, F)] / root[F][:, None] / root[F]
            move = -solve(scaled, (q + l1 * sign)[F] / root[F]) / root[F]
            times = np.full(len(F), INF)
            for i, j in enumerate(F):
                if l1[j] > 0 and move[i] * sign[j] < 0:
                    times[i] = -x[j] / move[i]
                edge = upper[j] if move[i] > 0 else lower[j]
                if move[i] != 0 and np.isfinite(edge):
                    times[i] = min(times[i], (edge - x[j]) / move[i])
            i = int(np.argmin(times))
            t = min(times[i], LONG(1))
            x[F] += t * move
            if times[i] < 1:
                j = F[i]
                ends = [e for e in (0, lower[j], upper[j]) if np.isfinite(e)]
                x[j] = min(ends, key=lambda e: abs(e - x[j]))
                free[j] = False
                continue
            q = g + H @ (x - v)
        low = q + np.where(x > 0, l1, -l1)
        high = q + np.where(x < 0, -l1, l1)
        low[x <= lower], high[x >= upper] = -INF, INF
        off = np.where(free, 0, np.maximum(np.maximum(low, -high), 0) / root)
        j = int(np.argmax(off))
        if not off[j] > 1e-18 * (np.abs(g / root).max() + LONG(1e-300)):
            break
        sign[j] = -1 if low[j] > 0 else 1
        if x[j] != 0:
            sign[j] = np.sign(x[j])
        free[j] = True
    return x


# ---- random problems
def kinked_targets(rng, loss, X):
    """Targets of families, and numbers or labels of other losses."""
    if loss not in OTHERS:
        return targets(rng, loss, X)
    columns = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    spread = np.maximum(columns.std(axis=0), 1e-300)
    z = (columns - columns.mean(axis=0)) / spread @ rng.standard_normal(columns.shape[1])
    if find(loss).classifies:
        y = np.where(rng.random(len(z)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return y
    y = z + rng.choice([0.01, 1.0, 3.0]) * rng.standard_normal(len(z))
    return y * 10 ** rng.uniform(-3, 3) + rng.choice([0.0, 0.0, 1e3])


def random_penalty(rng, d, size):
    """A penalty of any kind; `size` (d,) are sizes of coefficients that change margins by one."""
    given = {"l1_ratio": float(rng.choice([1.0, 1.0, rng.random(), 0.0]))}
    kind = rng.choice(["plain", "plain", "factors", "P2", "groups", "bounds", "bounds"])
    if kind == "groups":
        given["groups"] = rng.integers(0, max(d // 2, 1), d)
        given["l1_ratio"] = max(given["l1_ratio"], 0.3)
    if kind == "factors" or (kind == "bounds" and rng.random() < 0.3):
        factors = rng.exponential(1.0, d) * (rng.random(d) < 0.7)
        given["penalty_factor"] = factors if factors.any() else np.ones(d)
    if kind == "P2":
        root = rng.standard_normal((d, int(rng.integers(1, d + 1))))
        given["P2"] = root @ root.T
        given["P2"] = (given["P2"] + given["P2"].T) / 2
        given["l1_ratio"] = min(given["l1_ratio"], 0.9)
    if kind == "bounds":
        lower = np.where(rng.random(d) < 0.6, -rng.exponential(0.2, d) * size, -np.inf)
        upper = np.where(rng.random(d) < 0.6, rng.exponential(0.2, d) * size, np.inf)
        lower[rng.random(d) < 0.3] = 0.0
        if rng.random() < 0.2:  # zero is outside
            lower[0], upper[0] = 0.1 * size[0], 0.3 * size[0]
        given |= {"lower_bounds": lower, "upper_bounds": upper}
    if kind != "groups" and rng.random() < 0.2:
        given["standardize"] = True
    return given


def draw(seed, loss=None):
    """One random problem, and how to solve it: the configuration of a fit."""
    rng = np.random.default_rng(seed)
    loss = loss or str(rng.choice(KINKED_NAMES))
    X = rows(rng)
    y = kinked_targets(rng, loss, X)
    n, d = X.shape
    weight = rng.exponential(1.0, n) * (rng.random(n) < 0.9) if rng.random() < 0.3 else None
    offset = rng.standard_normal(n) * rng.choice([0.3, 3.0]) if rng.random() < 0.3 else None
    if offset is not None and loss in POSITIVE:
        offset *= 0.1 * float(find(loss).link.of_mean(y.mean() or 1.0))
    elif offset is not None and loss in BOUNDED:
        offset *= 0.05
    if weight is not None and find(loss).classifies:
        weight[:2] += 0.1
    intercept = bool(rng.integers(2)) or loss in BOUNDED
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    size = 1.0 / np.maximum(dense.std(axis=0), 1e-6 * np.abs(dense).max() + 1e-300)
    given = random_penalty(rng, d, size)
    # of a strength at which some feature that is drawn is near leaving zero
    probe = Kinked(loss, X, y, 1.0, intercept, PenaltyConfig(), weight, offset)
    constant = probe._constant() if intercept else LONG(1e-3)
    slope = probe.losses(np.full(n, constant))[1]
    pull = np.abs((dense - dense.mean(axis=0) * intercept).T @ np.asarray(probe.s * slope, float))
    C = float(10 ** rng.uniform(-0.5, 3) / (pull[rng.integers(d)] or 1.0))
    bounded = "lower_bounds" in given
    if bounded and rng.random() < 0.3:
        C = math.inf
        given = {name: given[name] for name in ("lower_bounds", "upper_bounds")}
    penalty = PenaltyConfig(**given)
    problem = Kinked(loss, X, y, C, intercept, penalty, weight, offset)
    max_iter = rng.choice([*[None] * 4, 0, 1, 2, 3, 5])
    tol = float(10 ** rng.uniform(-12, -1))
    config = FitConfig(
        loss,
        C=C,
        fit_intercept=intercept,
        solver=str(rng.choice(["auto", "proximal_newton"])),
        tol=tol,
        max_iter=max_iter,
        penalty=penalty,
    )
    return problem, config
