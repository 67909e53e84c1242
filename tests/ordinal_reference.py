"""The ordinal objective and its optimum in long double, from the probabilities themselves."""

import numpy as np
import scipy.sparse as sp

LONG = np.longdouble


def solve(H, g):
    """H x = g by elimination with pivots, in long double."""
    A = np.column_stack([H, g])
    n = len(g)
    for k in range(n):
        best = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, best]] = A[[best, k]]
        A[k + 1 :] -= np.outer(A[k + 1 :, k] / A[k, k], A[k])
    x = np.zeros(n, LONG)
    for k in reversed(range(n)):
        x[k] = (A[k, n] - A[k, k + 1 : n] @ x[k + 1 :]) / A[k, k]
    return x


def logistic(m):
    """softplus, its slope and its curvature."""
    e = np.exp(-np.abs(m))
    p = np.where(m > 0, LONG(1), e) / (1 + e)
    return np.maximum(m, LONG(0)) + np.log1p(e), p, e / (1 + e) ** 2


class Reference:
    """1/2 |w|^2 - C sum_i s_i log P(y_i); without a penalty where C is infinite."""

    def __init__(self, X, y, C=1.0, weight=None, offset=None):
        X = np.asarray(X.toarray() if sp.issparse(X) else X)
        self.X = X.astype(LONG)
        n, self.d = X.shape
        self.classes, self.codes = np.unique(y, return_inverse=True)
        self.K = len(self.classes)
        self.s = (np.ones(n) if weight is None else weight).astype(LONG)
        self.o = (np.zeros(n) if offset is None else offset).astype(LONG)
        self.strength = LONG(0 if np.isinf(C) else 1)
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
        """Value from the three terms, which do not cancel; infinite where thresholds do not rise."""
        w, t = v[: self.d], v[self.d :]
        gaps = np.diff(t)
        if not (gaps > 0).all():
            return LONG(np.inf)
        z = self.X @ w + self.o
        rows = self.has_upper * logistic(z - t[self.upper])[0]
        rows = rows + self.has_lower * logistic(t[self.lower] - z)[0]
        n = np.bincount(self.codes, self.s.astype(float), self.K).astype(LONG)[1:-1]
        barrier = -(n * np.log(-np.expm1(-gaps))).sum()
        return self.strength * w @ w / 2 + self.C * (self.s @ rows + barrier)

    def derivatives(self, v):
        """Gradient and Hessian."""
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
        g[:d] += self.strength * w
        H[np.arange(d), np.arange(d)] += self.strength
        return g, H

    def least(self, start, only=None):
        """Minimise from `start` by Newton's method; `only` is a slice of entries that move."""
        v = np.array(start, LONG)
        free = np.arange(len(v))[only or slice(None)]
        value = self.value(v)
        for _ in range(200):
            g, H = self.derivatives(v)
            g, H = g[free], H[np.ix_(free, free)]
            scale = np.sqrt(np.diag(H))
            step = -solve(H / scale[:, None] / scale, g / scale) / scale
            t = LONG(1)
            while t > 1e-9:
                trial = v.copy()
                trial[free] += t * step
                new = self.value(trial)
                if new < value:
                    break
                t /= 2
            else:
                return v, value
            v, gain, value = trial, value - new, new
            if gain <= LONG(1e-18) * value:
                return v, value
        return v, value
