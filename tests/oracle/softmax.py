"""Fits of unordered classes: the softmax objective in long double, and its least value."""

from dataclasses import dataclass

import numpy as np

from tests.oracle.descent import INF, LONG, Kinks, least


@dataclass
class Reference:
    """sum_k,j rho v_j |W_kj| + (1 - rho)/2 v_j W_kj^2 + C sum_i s_i softmax loss, within bounds.

    With `groups` (d,), labels, the first part is rho sum_G sqrt(features of G) v_G |W_G| instead. Of
    all classes together: W is (K, d), or (K, d + 1) with intercepts.
    """

    X: np.ndarray
    y: np.ndarray
    C: float = 1.0
    rho: float = 1.0
    s: np.ndarray | None = None
    v: np.ndarray | None = None
    lower: float = -INF
    upper: float = INF
    groups: np.ndarray | None = None
    intercept: bool = True

    def __post_init__(self):
        n, self.d = self.X.shape
        self.K, more = int(self.y.max()) + 1, int(self.intercept)
        self.s = np.ones(n, LONG) if self.s is None else self.s.astype(LONG)
        v = np.ones(self.d) if self.v is None else self.v
        self.rows = np.hstack([self.X.astype(LONG), np.ones((n, more), LONG)])
        self.factors = np.append(np.asarray(v, LONG), np.zeros(more, LONG))
        self.width = self.d + more
        shape = self.K, self.width
        l1, self.l2 = self.rho * self.factors, (1 - LONG(self.rho)) * self.factors
        lower, upper = np.full(shape, -INF), np.full(shape, INF)
        lower[:, : self.d], upper[:, : self.d] = self.lower, self.upper
        groups = []
        for label in () if self.groups is None else np.unique(self.groups):
            members = np.flatnonzero(self.groups == label)
            places = np.add.outer(np.arange(self.K) * self.width, members).ravel()
            strength = self.rho * self.factors[members[0]] * np.sqrt(LONG(len(members)))
            groups.append((places, strength, np.ones(len(places), LONG)))
        l1 = np.zeros(shape, LONG) if groups else np.broadcast_to(l1, shape)
        self.kinks = Kinks(l1.ravel(), lower.ravel(), upper.ravel(), groups)

    def _shares(self, W):
        z = self.rows @ W.T
        z -= z.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1, keepdims=True)
        return e / total, self.s @ (np.log(total[:, 0]) - z[np.arange(len(z)), self.y])

    def losses(self, W):
        """C times the sum of the losses at W, and its gradient."""
        p, value = self._shares(W)
        slopes = (p - np.eye(self.K)[self.y]) * self.s[:, None]
        return LONG(self.C) * value, LONG(self.C) * slopes.T @ self.rows

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
        last[-1] = (self.factors == 0) & (np.abs(self._within()) == INF).all(axis=0)
        lower, upper = self.kinks.lower.copy(), self.kinks.upper.copy()
        lower[last.ravel()] = upper[last.ravel()] = start[last.ravel()]
        kinks = Kinks(self.kinks.l1, lower, upper, self.kinks.groups)
        found, value = least(self._smooth, self._derivatives, start, kinks)
        found = found.reshape(W.shape)
        found[:, last[-1]] -= found[:, last[-1]].mean(axis=0)
        return found, value

    def _within(self):
        shape = self.K, self.width
        return np.vstack([self.kinks.lower.reshape(shape), self.kinks.upper.reshape(shape)])

    def _smooth(self, w):
        W = w.reshape(self.K, self.width)
        return (self.l2 * W**2).sum() / 2 + LONG(self.C) * self._shares(W)[1]

    def _derivatives(self, w):
        W, m = w.reshape(self.K, self.width), self.width
        p, _ = self._shares(W)
        g = self.losses(W)[1] + self.l2 * W
        H = np.zeros((self.K, m, self.K, m), LONG)
        for k in range(self.K):
            for j in range(k + 1):
                bent = LONG(self.C) * self.s * p[:, k] * ((k == j) - p[:, j])
                H[k, :, j] = H[j, :, k] = (self.rows * bent[:, None]).T @ self.rows
            H[k, np.arange(m), k, np.arange(m)] += self.l2
        return g.ravel(), H.reshape(self.K * m, self.K * m)
