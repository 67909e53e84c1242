"""Fits of losses of one margin: their objectives in long double, and the least values of those."""

import math
from functools import partial

import numpy as np
import scipy.sparse as sp

from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from tests.losses.formulas import BOUNDED, POSITIVE
from tests.oracle.descent import INF, LONG, Kinks, least
from tests.oracle.losses import CORNERS, loss_of
from tests.oracle.penalty import Penalty

RIDGE = PenaltyConfig()


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

    def losses(self, z, width=0):
        """Values, slopes and curvatures of rows at margins without their offsets: see `loss_of`."""
        link = self.loss.link
        with np.errstate(all="ignore"):
            z = z + self.o
            if link is not None:
                # rows without weight may have margins that the link does not take
                inside = 1 if np.isinf(link.high) else -1 if np.isinf(link.low) else 0.5
                z = np.where(self.s > 0, z, inside)
            return loss_of(self.loss, self.y.astype(LONG), z, width)

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
        if self.loss.name in ("squared", "huber"):
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
            return self.unscaled(*least(self.value, self.derivatives, v, self.kinks))
        # points near the optimum: corners rounded over ever smaller widths
        best, widest = INF, 1 if self.problem.loss.classifies else np.abs(self.problem.y).max()
        for width in widest * 10.0 ** -np.arange(10):
            value, derivatives = (partial(f, width=width) for f in (self.value, self.derivatives))
            v, _ = least(value, derivatives, v, self.kinks)
            best = min(best, self.value(v) + self.kinks.value(v))
        return self.unscaled(v, best)

    def unscaled(self, v, value):
        w = v[: len(self.spread)] / self.spread
        return w, v[-1] - self.centre @ w if self.problem.intercept else LONG(0), value

    def value(self, v, width=0):
        """The part without kinks."""
        p = self.problem
        values = p.losses(self.U @ v, width)[0]
        return v @ self.Q @ v / 2 + p.scale * (p.s @ values)

    def derivatives(self, v, width=0):
        p = self.problem
        _, slope, curvature = p.losses(self.U @ v, width)
        g = p.scale * self.U.T @ (p.s * slope) + self.Q @ v
        H = p.scale * (self.U * (p.s * curvature)[:, None]).T @ self.U + self.Q
        return g, H
