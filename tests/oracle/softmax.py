"""Fits of unordered classes: the softmax objective in long double, and its least value."""

import numpy as np
import scipy.sparse as sp

from daskglm.penalties.config import PenaltyConfig
from tests.oracle.descent import LONG, Kinks, least
from tests.oracle.penalty import Penalty


class Reference:
    """The penalty of each class + C sum_i s_i softmax loss; `penalty` are arguments of `PenaltyConfig`.

    Groups are of all classes together. W is (K, d), or (K, d + 1) with intercepts.
    """

    def __init__(self, X, y, C=1.0, s=None, intercept=True, offset=None, **penalty):
        X = np.asarray(X.toarray() if sp.issparse(X) else X)
        self.X, self.y, self.intercept = X.astype(LONG), y, intercept
        n, self.d = X.shape
        self.K, more = int(y.max()) + 1, int(intercept)
        self.s = np.ones(n, LONG) if s is None else s.astype(LONG)
        self.o = np.zeros((1, 1), LONG) if offset is None else offset.astype(LONG)
        self.C = LONG(1 if np.isinf(C) else C)
        self.rows = np.hstack([self.X, np.ones((n, more), LONG)])
        self.width = self.d + more
        held = Penalty.of(PenaltyConfig(**penalty), self.X, self.s, C)
        self.Q = np.zeros((self.width, self.width), LONG)
        self.Q[: self.d, : self.d] = held.Q
        one, starts = held.kinks.beside(more), np.arange(self.K) * self.width
        groups = [
            (places, each, np.ones(len(places), LONG))
            for members, each, _ in one.groups
            for places in [np.add.outer(starts, members).ravel()]
        ]
        ends = (np.tile(part, self.K) for part in (one.l1, one.lower, one.upper))
        self.kinks = Kinks(*ends, groups)
        inside = np.isinf(one.lower) & np.isinf(one.upper)
        self.free = inside & (one.l1 == 0) & ~self.Q.any(axis=0)
        for members, each, _ in one.groups:
            self.free[members] &= each == 0

    def _shares(self, W):
        z = self.rows @ W.T + self.o
        z -= z.max(axis=1, keepdims=True)
        others, each = np.exp(z), np.arange(len(z))
        others[each, z.argmax(axis=1)] = 0
        values = np.log1p(others.sum(axis=1)) - z[each, self.y]
        e = np.exp(z)
        return e / e.sum(axis=1, keepdims=True), self.s @ values

    def gradient(self, W):
        """Of all that has no kinks."""
        p, _ = self._shares(W)
        slopes = (p - np.eye(self.K)[self.y]) * self.s[:, None]
        return self.C * slopes.T @ self.rows + W @ self.Q

    def noise(self, W):
        """How far off `value` less `least` may be: margins are rounded in long double, too."""
        W = np.asarray(W, LONG)
        p, _ = self._shares(W)
        sizes = (np.abs(self.rows) @ np.abs(W).T + np.abs(self.o)).max(axis=1) + 1
        off = self.C * (self.s * np.abs(p - np.eye(self.K)[self.y]).sum(axis=1)) @ sizes
        return 16 * np.finfo(LONG).eps * (off + self.value(W))

    def value(self, W):
        """The objective at W."""
        W = np.asarray(W, LONG)
        return self._smooth(W.ravel()) + self.kinks.value(W.ravel())

    def least(self, W=None):
        """Return the W of the least value, and that value; what nothing holds has a sum of zero over classes."""
        W = np.zeros((self.K, self.width), LONG) if W is None else np.array(W, LONG)
        start = np.clip(W.ravel(), self.kinks.lower, self.kinks.upper)
        # what nothing holds may change alike in all classes: it stays in the last one
        last = np.zeros((self.K, self.width), bool)
        last[-1] = self.free
        lower, upper = self.kinks.lower.copy(), self.kinks.upper.copy()
        lower[last.ravel()] = upper[last.ravel()] = start[last.ravel()]
        kinks = Kinks(self.kinks.l1, lower, upper, self.kinks.groups)
        found, value = least(self._smooth, self._derivatives, start, kinks)
        found = found.reshape(W.shape)
        found[:, last[-1]] -= found[:, last[-1]].mean(axis=0)
        return found, value

    def _smooth(self, w):
        W = w.reshape(self.K, self.width)
        return (W @ self.Q * W).sum() / 2 + self.C * self._shares(W)[1]

    def _derivatives(self, w):
        W, m = w.reshape(self.K, self.width), self.width
        p, _ = self._shares(W)
        g = self.gradient(W)
        H = np.zeros((self.K, m, self.K, m), LONG)
        for k in range(self.K):
            for j in range(k + 1):
                bent = self.C * self.s * p[:, k] * ((k == j) - p[:, j])
                H[k, :, j] = H[j, :, k] = (self.rows * bent[:, None]).T @ self.rows
            H[k, :, k] += self.Q
        return g.ravel(), H.reshape(self.K * m, self.K * m)
