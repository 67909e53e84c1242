"""The ordinal objective and its optimum in long double, from the probabilities themselves."""

import numpy as np
import scipy.sparse as sp

from daskglm.penalties.config import PenaltyConfig
from tests.oracle.descent import LONG, Kinks, least
from tests.oracle.penalty import Penalty


def logistic(m):
    """softplus, its slope and its curvature."""
    e = np.exp(-np.abs(m))
    p = np.where(m > 0, LONG(1), e) / (1 + e)
    return np.maximum(m, LONG(0)) + np.log1p(e), p, e / (1 + e) ** 2


class Reference:
    """The penalty - C sum_i s_i log P(y_i); `penalty` are arguments of `PenaltyConfig`."""

    def __init__(self, X, y, C=1.0, weight=None, offset=None, **penalty):
        X = np.asarray(X.toarray() if sp.issparse(X) else X)
        self.X = X.astype(LONG)
        n, self.d = X.shape
        self.classes, self.codes = np.unique(y, return_inverse=True)
        self.K = len(self.classes)
        self.s = (np.ones(n) if weight is None else weight).astype(LONG)
        self.o = (np.zeros(n) if offset is None else offset).astype(LONG)
        held = Penalty.of(PenaltyConfig(**penalty), self.X, self.s, C)
        self.Q, self.kinks = held.Q, held.kinks.beside(self.K - 1)
        self.C = LONG(1 if np.isinf(C) else C)
        self.has_upper, self.has_lower = self.codes < self.K - 1, self.codes > 0
        self.upper = np.minimum(self.codes, self.K - 2)
        self.lower = np.maximum(self.codes - 1, 0)

    def vector(self, coef, thresholds):
        return np.append(np.ravel(coef), thresholds).astype(LONG)

    def losses(self, v):
        """-log P(y) of each row, from the difference of two cumulative probabilities."""
        w, t = v[: self.d], v[self.d :]
        z = self.X @ w + self.o
        a, b = t[self.upper] - z, t[self.lower] - z
        below = np.where(self.has_upper, 1 / (1 + np.exp(-a)), LONG(1))
        lower = np.where(self.has_lower, 1 / (1 + np.exp(-b)), LONG(0))
        return -np.log(below - lower)

    def value(self, v):
        """The objective."""
        return self.smooth(v) + self.kinks.value(v)

    def noise(self, v):
        """How far off `value` less `least` may be: margins are rounded in long double, too."""
        margins = np.abs(self.X) @ np.abs(v[: self.d]) + np.abs(self.o)
        sizes = margins + np.abs(v[self.d :]).max() + 1
        return 16 * np.finfo(LONG).eps * (self.C * (self.s @ sizes) + self.value(v))

    def smooth(self, v):
        """All but kinks, by three terms that do not cancel; infinite where thresholds do not rise."""
        w, t = v[: self.d], v[self.d :]
        gaps = np.diff(t)
        if not (gaps > 0).all():
            return LONG(np.inf)
        z = self.X @ w + self.o
        rows = self.has_upper * logistic(z - t[self.upper])[0]
        rows = rows + self.has_lower * logistic(t[self.lower] - z)[0]
        n = np.bincount(self.codes, self.s.astype(float), self.K).astype(LONG)[1:-1]
        barrier = -(n * np.log(-np.expm1(-gaps))).sum()
        return w @ self.Q @ w / 2 + self.C * (self.s @ rows + barrier)

    def derivatives(self, v):
        """Gradient and Hessian of `smooth`."""
        d, (w, t) = self.d, (v[: self.d], v[self.d :])
        z, n = self.X @ w + self.o, len(self.X)
        H, g = np.zeros((len(v), len(v)), LONG), np.zeros(len(v), LONG)
        for has, which, sign in ((self.has_upper, self.upper, 1), (self.has_lower, self.lower, -1)):
            _, slope, curvature = logistic(sign * (z - t[which]))
            A = np.zeros((n, len(v)), LONG)
            A[:, :d], A[np.arange(n), d + which] = self.X, -1
            A *= has[:, None]
            g += A.T @ (self.s * sign * slope)
            H += A.T @ ((self.s * curvature)[:, None] * A)
        weights = np.bincount(self.codes, self.s.astype(float), self.K).astype(LONG)
        for k, gap in enumerate(np.diff(t)):
            e = np.zeros(len(v), LONG)
            e[d + k : d + k + 2] = -1, 1
            g -= weights[k + 1] / np.expm1(gap) * e
            H += weights[k + 1] / (4 * np.sinh(gap / 2) ** 2) * np.outer(e, e)
        g, H = self.C * g, self.C * H
        g[:d] += self.Q @ w
        H[:d, :d] += self.Q
        return g, H

    def least(self, start, only=None):
        """The point of the least value, from `start`, and that value; `only` is a slice of entries that move."""
        lower, upper = np.array(start, LONG), np.array(start, LONG)
        free = only or slice(None)
        lower[free], upper[free] = self.kinks.lower[free], self.kinks.upper[free]
        kinks = Kinks(self.kinks.l1, lower, upper, self.kinks.groups)
        return least(self.smooth, self.derivatives, start, kinks)
