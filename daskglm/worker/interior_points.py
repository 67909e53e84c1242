"""Interior points of the dual of a loss with corners, whose variables have bounds.

The dual is a quadratic of the rows' variables within a box, maximised here by the predictor and
corrector of Mehrotra 1992 (of quantiles Portnoy & Koenker 1997, of hinges Ferris & Munson 2002).
How many steps that takes hardly depends on C, nor on how alike rows are, by which epochs of
coordinate ascent take thousands. Each step factorises a matrix of as many entries as there are
pairs of rows, or of features where rows are many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from daskglm.core.requests import DualInterior, DualStateRef, Totals
from daskglm.kernels.storages import matrix_of
from daskglm.losses.base import Loss
from daskglm.losses.table import loss_of

# Rows up to which the system is one of the rows, which rounding hurts less: 32 MB. Of weights over
# six decades that of the features ended at gaps of 1e-5 where this one reached 1e-9 (2026-11-30).
MOST_ROWS = 2000
# Share of the way to the nearest bound that a step goes. Usual.
SHARE = 0.995
# The same of the box, where the method starts: the middle at most. Chosen.
LEAST_START, MOST_START = 1e-8, 0.5
# Roundings of a mean square of the rows that the system's diagonal is given. Chosen.
RIDGE = 4.0
# Solutions by the system of the features: each but the first takes back what rounding did. Chosen.
REFINED = 3
# Least distance from a bound, and the largest curvature of a barrier.
LEAST, MOST = 1e-300, 1e200
# Sum of the dual variables beside that of their sizes up to which it counts as zero. Chosen.
BALANCED = 1e-9

UNIT = float(np.finfo(float).eps)


class Box(NamedTuple):
    """The bounds of dual variables, (n,) each, and by how much the dual rises at either of them.

    The conjugate of a row is straight between a bound and zero.
    """

    low: np.ndarray
    high: np.ndarray
    at_low: np.ndarray
    at_high: np.ndarray

    @classmethod
    def of(cls, loss: Loss, y: np.ndarray) -> Box:
        """Return that of rows with these targets, whose weights times C are one."""
        dual = loss.dual
        assert dual is not None
        p = loss.p1, loss.p2
        ends = [[dual.into_domain(t, end, *p) for end in (-MOST, MOST)] for t in y.tolist()]
        low, high = np.array(ends, float).reshape(-1, 2).T
        slopes = [
            [-dual.derivatives(t, end, *p)[1] for end in row]
            for t, row in zip(y.tolist(), ends, strict=True)
        ]
        at_low, at_high = np.array(slopes, float).reshape(-1, 2).T
        return cls(low, high, at_low, at_high)

    def times(self, mass: np.ndarray) -> Box:
        """Return that of the same rows with C times their weights."""
        return self._replace(low=self.low * mass, high=self.high * mass)

    def rises(self, b: np.ndarray) -> float:
        """Return the part of the dual that is straight."""
        return float(self.at_high @ np.maximum(b, 0.0) + self.at_low @ np.minimum(b, 0.0))


class InteriorPoints:
    """The method over rows X (n, d) within a box.

    Parameters
    ----------
    X, box
    balanced : bool
        Whether the sum of the dual variables has to be zero: there is an intercept.

    Attributes
    ----------
    b : (n,) array
        Dual variables times C and weights.
    intercept : float
    left : float
        What distances from bounds times their forces add up to: the gap, once margins fit.
    """

    def __init__(self, X: np.ndarray, box: Box, *, balanced: bool) -> None:
        self.X, self.box, self.balanced = X, box, balanced
        n = len(X)
        self.gram = X @ X.T if n <= MOST_ROWS else None
        self.ridge = RIDGE * UNIT * float(np.vdot(X, X)) / max(n, 1)
        self._pieces()
        self.intercept, self.best, self.highest = 0.0, np.zeros(n), 0.0
        # forces of the bounds: the residuals', and as much more as these are in the mean
        residual = self.straight - self.sign * self._margins()
        more = max(float(np.abs(residual).mean()), UNIT)
        self.from_low = np.maximum(-residual, 0.0) + more
        self.from_high = np.maximum(residual, 0.0) + more
        self.left = self._complementarity()

    def _pieces(self) -> None:
        """Make what is within bounds: the variables, or, of a kink at zero, both their parts."""
        box = self.box
        if np.array_equal(box.at_low, box.at_high):
            self.sign, self.straight = np.ones((1, 1)), box.at_low[None]
            far = np.where(box.at_low > 0.0, box.high, box.low)
            v = self.X.T @ far
            share = box.rises(far) / max(float(v @ v), LEAST)
            self.b = min(max(share, LEAST_START), MOST_START) * far
            self.low, self.high = (self.b - box.low)[None], (box.high - self.b)[None]
            # where the nearest bound is zero the start is that near to it
        else:
            self.sign = np.array([[1.0], [-1.0]])
            self.straight = np.array([box.at_high, -box.at_low])
            self.low = 0.5 * np.array([box.high, -box.low])
            self.high = self.low.copy()
            self.b = self.low[0] - self.low[1]

    def _margins(self) -> np.ndarray:
        found: np.ndarray = self.X @ (self.X.T @ self.b) + self.intercept
        return found

    def _complementarity(self) -> float:
        return float((self.low * self.from_low).sum() + (self.high * self.from_high).sum())

    def step(self) -> bool:
        """Take a step; return whether there was one.

        Cost: a factorisation and a pass, and nine more where there is no Gram of the rows.
        """
        with np.errstate(all="ignore"):
            return self._step()

    def go_back(self) -> bool:
        """Go to the variables of the highest dual value so far; return whether there are any."""
        self.b = self.best
        return self.highest > 0.0

    def _step(self) -> bool:
        low, high, from_low, from_high = self.low, self.high, self.from_low, self.from_high
        off = self.straight - self.sign * self._margins() + from_low - from_high
        stiff = np.clip(from_low / low + from_high / high, 1.0 / MOST, MOST)
        soft = (1.0 / stiff).sum(axis=0)
        try:
            solve = self._solver(soft)
        except scipy.linalg.LinAlgError:
            return False
        ones = solve(np.ones(len(soft))) if self.balanced else None
        missing = float(self.b.sum())

        def direction(to_low: np.ndarray, to_high: np.ndarray) -> tuple[Any, ...]:
            """Return changes of pieces, forces, variables and intercept to these products."""
            wanted = off + to_low / low - to_high / high
            joint = (self.sign * wanted / stiff).sum(axis=0) / soft
            change, shift = solve(joint), 0.0
            if ones is not None:
                shift = (float(change.sum()) + missing) / float(ones.sum())
                change = change - shift * ones
            # (wanted - sign * margins) / stiff, without the difference: it may be all rounding
            both = wanted.sum(axis=0) / (stiff.prod(axis=0) * soft) if len(wanted) > 1 else 0.0
            pieces = both + self.sign * change / (soft * stiff)
            forces = (to_low - from_low * pieces) / low, (to_high + from_high * pieces) / high
            return pieces, *forces, (self.sign * pieces).sum(axis=0), shift

        def longest(pieces: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
            ways = (low, pieces), (high, -pieces), (from_low, one), (from_high, other)
            return min(1.0, *(_until_zero(at, by) for at, by in ways))

        count, left = low.size, self._complementarity()
        mean = left / (2.0 * count)
        pieces, one, other, _, _ = direction(-low * from_low, -high * from_high)
        far = longest(pieces, one, other)
        ahead = ((low + far * pieces) * (from_low + far * one)).sum()
        ahead += ((high - far * pieces) * (from_high + far * other)).sum()
        centre = mean * min(float(ahead) / left, 1.0) ** 3
        pieces, one, other, change, shift = direction(
            centre - low * from_low - pieces * one, centre - high * from_high + pieces * other
        )
        far = SHARE * longest(pieces, one, other)
        if not (np.isfinite(change).all() and np.isfinite(one + other).all()):
            return False
        self.low = np.maximum(low + far * pieces, LEAST)
        self.high = np.maximum(high - far * pieces, LEAST)
        self.from_low = np.maximum(from_low + far * one, LEAST)
        self.from_high = np.maximum(from_high + far * other, LEAST)
        # not the distance from a bound: of a small variable that has the rounding of the bound
        self.b = np.clip(self.b + far * change, self.box.low, self.box.high)
        self.intercept += far * float(shift)
        self.left = self._complementarity()
        self._note()
        return True

    def _note(self) -> None:
        """Keep the variables of the highest dual value so far."""
        if self.balanced and abs(float(self.b.sum())) > BALANCED * float(np.abs(self.b).sum()):
            return
        v = self.X.T @ self.b
        value = self.box.rises(self.b) - 0.5 * float(v @ v)
        if value > self.highest:
            self.highest, self.best = value, self.b

    def _solver(self, soft: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return what solves (X X' + 1 / soft) x = r for x."""
        X, gram, options = self.X, self.gram, {"check_finite": False}
        if gram is not None:
            system = gram.copy()
            system[np.diag_indices_from(system)] += 1.0 / soft + self.ridge
            factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, **options)
            return lambda r: scipy.linalg.cho_solve(factor, r, **options)

        system = X.T @ (X * soft[:, None])
        system[np.diag_indices_from(system)] += 1.0
        factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, **options)

        def by_features(r: np.ndarray) -> np.ndarray:
            x = np.zeros(len(r))
            for _ in range(REFINED):
                left = r - X @ (X.T @ x) - x / soft
                w = scipy.linalg.cho_solve(factor, X.T @ (soft * left), **options)
                x = x + soft * (left - X @ w)
            return x

        return by_features


class OverBlocks:
    """The method over the rows of all blocks of a shard that have a weight."""

    def __init__(self, request: DualInterior, caches: Sequence[Any], n_features: int) -> None:
        blocks = [matrix_of(m.rows, n_features) for m in caches]
        # sparse ones as well: their Gram has few zeros
        X = np.vstack([part.toarray() if sp.issparse(part) else part for part in blocks])
        self.mass = self._mass(request.state, caches)
        self.counts = self.mass > 0.0
        y = np.concatenate([m.y for m in caches]).astype(float)[self.counts]
        self.domain = Box.of(loss_of(request.loss), y)
        box = self.domain.times(self.mass[self.counts])
        self.balanced = request.state.bias > 0.0
        self.points = InteriorPoints(X[self.counts], box, balanced=self.balanced)

    @staticmethod
    def _mass(state: DualStateRef, caches: Sequence[Any]) -> np.ndarray:
        """Return C times the weights of all rows."""
        weights = [m.weight if len(m.weight) else np.ones(len(m.y)) for m in caches]
        return state.C * np.concatenate(weights)

    def answer(self, request: DualInterior, caches: Sequence[Any]) -> Totals:
        """Answer a request but for the change; the blocks' variables `work` are the new ones."""
        points, n = self.points, len(self.mass)
        moved = points.go_back() if request.way == "best" else points.step()
        own = np.append(points.X.T @ points.b, request.state.bias * points.b.sum())
        alpha, first = np.zeros(n), 0
        a = points.b / self.mass[self.counts]
        alpha[self.counts] = np.clip(a, self.domain.low, self.domain.high)
        for m in caches:
            m.dual.work[:] = alpha[first : first + len(m.y)]
            first += len(m.y)
        return {
            "own": own,
            "intercept": points.intercept,
            "left": points.left,
            "moved": moved,
            "rows": (1 if points.gram is not None else 10) * n,
        }


def _until_zero(at: np.ndarray, by: np.ndarray) -> float:
    """Return the multiple of a change at which the first number is zero; infinite: none is."""
    falls = by < 0.0
    return float((-at[falls] / by[falls]).min()) if falls.any() else np.inf
