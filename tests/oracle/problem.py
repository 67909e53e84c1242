"""Fits of losses of one margin: their objectives in long double, and the least values of those."""

import math
from functools import partial

import numpy as np
import scipy.sparse as sp

from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from tests.losses.formulas import BOUNDED, POSITIVE
from tests.oracle.descent import INF, LONG, Kinks, least
from tests.oracle.losses import CORNERS, corners_of, loss_of
from tests.oracle.penalty import Penalty

RIDGE = PenaltyConfig()
ROUNDS, NARROW = 40, 2  # of multipliers, and the power of ten of the last width


class Reference:
    """What a fit is given, and its objective, whose penalty is formed here from its definition."""

    def __init__(self, loss, X, y, C, intercept, weight=None, offset=None, penalty=RIDGE):
        self.loss = find(loss) if isinstance(loss, str) else loss
        self.name, self.X, self.y, self.C, self.intercept = loss, X, y, C, intercept
        self.weight, self.offset, self.penalty = weight, offset, penalty
        self.dense = np.asarray(X.toarray() if sp.issparse(X) else X).astype(LONG)
        n = len(self.dense)
        self.o = np.zeros(n, LONG) if offset is None else offset.astype(LONG)
        self.s = np.ones(n, LONG) if weight is None else weight.astype(LONG)
        self.scale = LONG(1) if math.isinf(C) else LONG(C)
        held = Penalty.of(penalty, self.dense, self.s, C)
        self.Q, self.kinks = held.Q, held.kinks

    def losses(self, z, rounded=None):
        """Values, slopes and curvatures of rows at margins without their offsets: see `loss_of`."""
        link = self.loss.link
        with np.errstate(all="ignore"):
            z = z + self.o
            if link is not None:
                # rows without weight may have margins that the link does not take
                inside = 1 if np.isinf(link.high) else -1 if np.isinf(link.low) else 0.5
                z = np.where(self.s > 0, z, inside)
            return loss_of(self.loss, self.y.astype(LONG), z, rounded)

    def value(self, w, b):
        """The objective at coefficients and an intercept."""
        w = w.astype(LONG)
        values = self.losses(self.dense @ w + LONG(b))[0]
        return w @ self.Q @ w / 2 + self.kinks.value(w) + self.scale * (self.s @ values)

    def noise(self, w, b):
        """How far off `value` less `least` may be: margins are rounded in long double, too.

        Both are sums with such errors, of nearly the same terms.
        """
        w, b, eps = w.astype(LONG), LONG(b), np.finfo(LONG).eps
        _, slopes, curvatures = self.losses(self.dense @ w + b)
        # what formulas add to margins, such as logarithms of targets, is about 1
        sizes = np.abs(self.dense) @ np.abs(w) + abs(b) + np.abs(self.o) + 1
        slopes = np.abs(slopes) + curvatures * 1e-19 * sizes
        value = self.value(w, b)
        off = 16 * eps * (self.scale * (self.s * slopes) @ sizes + value)
        if self.loss.name == "binomial_probit":
            off += 16 * np.finfo(float).eps * (self.scale * self.s.sum() + value)
        # products of a matrix with large coefficients cancel
        return off + 8 * eps * (np.abs(w) @ np.abs(self.Q) @ np.abs(w))

    def least(self, *near):
        """The least value: see `optimum`."""
        return self.optimum(*near)[-1]

    def optimum(self, *near):
        """Coefficients, intercept and value of the best point that is found.

        Searches begin at the constant, and at coefficients and an intercept if they are given.
        """
        d = self.dense.shape[1]
        zero = np.clip(np.zeros(d, LONG), self.kinks.lower, self.kinks.upper)
        starts = [(zero, self.constant() if self.intercept else LONG(0))]
        if near:
            starts.append((np.asarray(near[0], LONG), LONG(near[1])))
        scaled = _Scaled(self)
        found = [scaled.least(w, b) for w, b in starts if math.isfinite(self.value(w, b))]
        return min(found, key=lambda each: each[-1])

    def constant(self):
        """An intercept to start from."""
        mean = (self.s @ self.y) / max(self.s.sum(), LONG(1e-300))
        if self.loss.classifies:
            return LONG(0)
        if self.loss.family is None or self.loss.name == "squared":
            return self.s @ (self.y - self.o) / self.s.sum()
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


class _Scaled:
    """A problem on columns that are centred, where there is an intercept, and scaled."""

    def __init__(self, problem):
        self.problem, (n, d) = problem, problem.dense.shape
        self.centre = problem.dense.mean(axis=0) if problem.intercept else np.zeros(d, LONG)
        self.spread = np.sqrt(((problem.dense - self.centre) ** 2).mean(axis=0))
        self.spread[self.spread < 1e-290] = 1
        more = int(problem.intercept)
        self.U = np.hstack([(problem.dense - self.centre) / self.spread, np.ones((n, more), LONG)])
        self.Q = np.zeros((d + more, d + more), LONG)
        self.Q[:d, :d] = problem.Q / self.spread[:, None] / self.spread
        kinks = problem.kinks
        self.kinks = Kinks(
            kinks.l1 / self.spread,
            kinks.lower * self.spread,
            kinks.upper * self.spread,
            [(group, held, 1 / self.spread[group]) for group, held, _ in kinks.groups],
        ).beside(more)

    def least(self, w, b):
        v = w * self.spread
        if self.problem.intercept:
            v = np.append(v, b + self.centre @ w)
        if self.problem.loss.name not in CORNERS:
            how = self.value, self.derivatives, v, self.kinks
            return self.unscaled(*least(*how, room=self.room))
        return self.unscaled(*self.least_at_corners(v))

    def room(self, v, step):
        """The share of a step that leads most of the way to an end of the margins that the link takes."""
        p = self.problem
        if p.loss.link is None:
            return LONG(1)
        used = p.s > 0
        z, change = (self.U @ v + p.o)[used], (self.U @ step)[used]
        end = np.where(change > 0, LONG(p.loss.link.high), LONG(p.loss.link.low))
        with np.errstate(all="ignore"):
            shares = np.where(change != 0, (end - z) / change, INF)
        return min(LONG(1), LONG(0.99) * shares.min())

    def least_at_corners(self, v):
        """By the method of multipliers: rounded corners, whose pulls begin at those of the last point."""
        p = self.problem
        widest = LONG(1) if p.loss.classifies else np.abs(p.y - np.median(p.y)).max() or 1
        best, found = self.value(v) + self.kinks.value(v), v
        pulls, left, idle = np.zeros((2, len(p.y)), LONG), INF, 0
        for k in range(ROUNDS):
            width = widest * LONG(10) ** -min(k, NARROW)
            how = {"rounded": (width, pulls)}
            value, derivatives = (partial(f, **how) for f in (self.value, self.derivatives))
            v, below = least(value, derivatives, v, self.kinks)
            z = self.U @ v + p.o
            pulls = corners_of(p.loss, p.y.astype(LONG), z, (width, pulls))[3]
            here = self.value(v) + self.kinks.value(v)
            if here < best:
                best, found = here, v
            # values with rounded corners are below the least one
            idle = 0 if best - below < left / 2 else idle + 1
            left = min(left, best - below)
            if idle > 3 or left <= 1e-18 * abs(best):
                break
        return found, best

    def unscaled(self, v, value):
        w = v[: len(self.spread)] / self.spread
        return w, v[-1] - self.centre @ w if self.problem.intercept else LONG(0), value

    def value(self, v, rounded=None):
        """The part without kinks."""
        p = self.problem
        values = p.losses(self.U @ v, rounded)[0]
        return v @ self.Q @ v / 2 + p.scale * (p.s @ values)

    def derivatives(self, v, rounded=None):
        p = self.problem
        _, slope, curvature = p.losses(self.U @ v, rounded)
        g = p.scale * self.U.T @ (p.s * slope) + self.Q @ v
        H = p.scale * (self.U * (p.s * curvature)[:, None]).T @ self.U + self.Q
        return g, H
