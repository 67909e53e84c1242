"""Multinomial fits with L1, L2 and group penalties and bounds, by accelerated proximal gradients.

Plain NumPy, and nothing of daskglm: FISTA with restarts (O'Donoghue & Candes 2015), to rounding.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Problem:
    """sum_k,j rho v_j |W_kj| + (1 - rho)/2 v_j W_kj^2 + C sum_i s_i softmax loss, within bounds.

    With `groups` (d,), labels, the first part is rho sum_G sqrt(features of G) v_G |W_G| instead.
    """

    X: np.ndarray
    y: np.ndarray
    C: float = 1.0
    rho: float = 1.0
    s: np.ndarray | None = None
    v: np.ndarray | None = None
    lower: float = -np.inf
    upper: float = np.inf
    groups: np.ndarray | None = None
    intercept: bool = True

    def __post_init__(self):
        n, self.d = self.X.shape
        self.K = int(self.y.max()) + 1
        self.s = np.ones(n) if self.s is None else self.s
        self.v = np.ones(self.d) if self.v is None else np.asarray(self.v, float)
        self.rows = np.hstack([self.X, np.ones((n, 1))]) if self.intercept else self.X
        self.factors = np.zeros(self.rows.shape[1])
        self.factors[: self.d] = self.v

    def losses(self, W):
        """C times the sum of the losses at W (K, d or d + 1), and its gradient."""
        z = self.rows @ W.T
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        total = e.sum(axis=1, keepdims=True)
        own = z[np.arange(len(z)), self.y]
        value = self.C * (self.s @ (np.log(total[:, 0]) + top[:, 0] - own))
        slopes = (e / total - np.eye(self.K)[self.y]) * self.s[:, None]
        return value, self.C * slopes.T @ self.rows

    def parts(self):
        """Features of each group, and its strength."""
        if self.groups is None:
            return []
        members = [np.flatnonzero(self.groups == label) for label in np.unique(self.groups)]
        return [(each, self.rho * self.v[each[0]] * np.sqrt(len(each))) for each in members]

    def penalty(self, W):
        square = 0.5 * (1 - self.rho) * float((self.factors * W**2).sum())
        if self.groups is None:
            return square + self.rho * float((self.factors * np.abs(W)).sum())
        return square + sum(each[1] * np.linalg.norm(W[:, each[0]]) for each in self.parts())

    def value(self, W):
        """The objective at W."""
        return self.losses(W)[0] + self.penalty(W)

    def prox(self, W, step):
        """The V with the least step * (kinks and bounds of V) + 1/2 |V - W|^2."""
        W = W.copy()
        if self.groups is None:
            W = np.sign(W) * np.maximum(np.abs(W) - step * self.rho * self.factors, 0.0)
        for features, strength in self.parts():
            norm = np.linalg.norm(W[:, features])
            W[:, features] *= max(0.0, 1.0 - step * strength / norm) if norm > 0.0 else 0.0
        W[:, : self.d] = np.clip(W[:, : self.d], self.lower, self.upper)
        return W

    def solve(self, steps=100_000):
        """W (K, d or d + 1) with the intercepts' sum at zero."""
        curvature = (1 - self.rho) * self.factors
        largest = 0.5 * self.C * np.linalg.norm(self.rows * np.sqrt(self.s)[:, None], 2) ** 2
        step = 1.0 / (largest + curvature.max())
        W = Z = self.prox(np.zeros((self.K, self.rows.shape[1])), step)
        t = 1.0
        for _ in range(steps):
            new = self.prox(Z - step * (self.losses(Z)[1] + curvature * Z), step)
            change = float(np.abs(new - W).max())
            if float(((Z - new) * (new - W)).sum()) > 0.0:
                Z, t = new, 1.0
            else:
                faster = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
                Z, t = new + (t - 1.0) / faster * (new - W), faster
            W = new
            if change <= 1e-14:
                break
        if self.intercept:
            W[:, -1] -= W[:, -1].mean()
        return W
