"""The part of a penalty that has kinks or bounds: sum_G lam_G |w_G| over groups, within bounds.

A group of one coefficient has the penalty lam |w_j|, so the lasso is the case without groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from daskglm.core.summation import AT_ONCE


@dataclass(frozen=True, eq=False)
class Kinks:
    """sum_j l_j |w_j| + sum_G l_G |w_G|, for w within bounds.

    Vectors have `size` entries, those of features first, then intercepts, if there are any. A
    coefficient is in one group at most; then its own strength is zero and it has no bounds.

    Parameters
    ----------
    strengths : (size,) array
        l_j, none below zero.
    lower, upper : (size,) arrays
        Bounds, infinite where there are none.
    groups : tuple of int arrays
        Members of each group.
    group_strengths : (len(groups),) array
        l_G.
    """

    strengths: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    groups: tuple[np.ndarray, ...] = ()
    group_strengths: np.ndarray = field(default_factory=lambda: np.empty(0))

    @classmethod
    @lru_cache(maxsize=64)  # nobody writes to it, and it is small
    def nothing(cls, size: int) -> Kinks:
        """Return the part of a smooth penalty without bounds, which is nothing."""
        zero, inf = np.zeros(1), np.full(1, np.inf)
        strengths, lower, upper = (np.broadcast_to(value, size) for value in (zero, -inf, inf))
        found = cls(strengths, lower, upper)
        vars(found).update(is_empty=True, is_bounded=False)  # nobody need look at each
        return found

    def plus(self, other: Kinks) -> Kinks:
        """Return the sum with another one for vectors of the same size.

        One number is stored for entries that are all the same: three vectors of a million features
        are a third of the memory of some sparse rows.
        """
        return Kinks(
            _each(np.add, self.strengths, other.strengths),
            _each(np.maximum, self.lower, other.lower),
            _each(np.minimum, self.upper, other.upper),
            self.groups + other.groups,
            np.append(self.group_strengths, other.group_strengths),
        )

    @cached_property
    def is_empty(self) -> bool:
        """Whether there are neither kinks nor bounds."""
        return not (self.strengths.any() or self.is_bounded or len(self.groups))

    @cached_property
    def is_bounded(self) -> bool:
        """Whether any coefficient has a bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @cached_property
    def pointers(self) -> np.ndarray:
        """Where the members of each group begin in `members`, and where the last ones end."""
        sizes = [len(group) for group in self.groups]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def members(self) -> np.ndarray:
        """Members of all groups, one group after the other."""
        empty = np.empty(0, np.int64)
        return np.concatenate([empty, *self.groups]).astype(np.int64)

    @cached_property
    def is_grouped(self) -> np.ndarray:
        """Which coefficients are in a group, (size,)."""
        if not self.groups:
            return np.broadcast_to(False, len(self.strengths))
        found = np.zeros(len(self.strengths), bool)
        found[self.members] = True
        return found

    def group_norms(self, v: np.ndarray) -> np.ndarray:
        """Return the norm of each group's part of a vector."""
        if not self.groups:
            return np.empty(0)
        with np.errstate(over="ignore"):  # of what diverges, as an infinite norm tells
            squares = v[self.members] ** 2
        found: np.ndarray = np.sqrt(np.add.reduceat(squares, self.pointers[:-1]))
        return found

    def _spread(self, values: np.ndarray) -> np.ndarray:
        """Repeat a value of each group for all its members, in the order of `members`."""
        return np.repeat(values, np.diff(self.pointers))

    def clip(self, w: np.ndarray) -> np.ndarray:
        """Return the nearest coefficients within the bounds."""
        return np.clip(w, self.lower, self.upper) if self.is_bounded else w

    def value(self, w: np.ndarray) -> float:
        """Return the penalty at w, which is within the bounds."""
        if self.is_empty:
            return 0.0
        # of long vectors few entries are not zero
        live = np.flatnonzero(w != 0.0) if len(w) > AT_ONCE else slice(None)
        entries = float(self.strengths[live] @ np.abs(w[live]))
        if not self.groups:
            return entries
        return entries + float(self.group_strengths @ self.group_norms(w))

    def residual(self, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the shortest subgradient at w of this plus a smooth function.

        Parameters
        ----------
        w : (size,) array
            Within the bounds.
        gradient : (size,) array
            Of the smooth function at w.

        Returns
        -------
        (size,) array
            Zero where w is the minimum.
        """
        found = np.empty_like(gradient)
        for run, part in self._runs(w, gradient):
            found[run] = part
        if self.groups:
            norms, slopes = self.group_norms(w), self.group_norms(gradient)
            with np.errstate(divide="ignore", invalid="ignore"):
                pulled = np.where(norms > 0.0, self.group_strengths / norms, 0.0)
                kept = np.maximum(1.0 - self.group_strengths / slopes, 0.0)
            inside = (norms == 0.0) & (slopes > 0.0)
            kept = np.where(inside, kept, (norms > 0.0).astype(float))
            m = self.members
            found[m] = self._spread(kept) * gradient[m] + self._spread(pulled) * w[m]
        return found

    def residual_norm(self, w: np.ndarray, gradient: np.ndarray) -> float:
        """Return the norm of `residual`, without making it where there are no groups."""
        if self.groups:
            return float(np.linalg.norm(self.residual(w, gradient)))
        parts = [np.linalg.norm(part) for _, part in self._runs(w, gradient)]
        return float(np.linalg.norm(parts))

    def violated(self, w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return where `residual` is not zero, (size,) of bool."""
        if self.groups:
            return self.residual(w, gradient) != 0.0
        found = np.empty(len(w), bool)
        for run, part in self._runs(w, gradient):
            found[run] = part != 0.0
        return found

    def _runs(self, w: np.ndarray, gradient: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Iterate over runs of coefficients with what `_residual_of_run` returns for each."""
        for first in range(0, len(w), AT_ONCE):
            run = slice(first, first + AT_ONCE)
            yield run, self._residual_of_run(w[run], gradient[run], run)

    def _residual_of_run(self, w: np.ndarray, gradient: np.ndarray, run: slice) -> np.ndarray:
        """Return the entries of `residual` in a run, of coefficients in no group."""
        strengths = self.strengths[run]
        if not self.is_bounded:
            # where coefficients are zero, as most of many are, the slope less its strength, of the
            # few that have more than that
            found = np.zeros_like(gradient)
            over = np.flatnonzero(np.abs(gradient) > strengths)
            slopes = gradient[over]
            found[over] = slopes - np.copysign(strengths[over], slopes)
            live = np.flatnonzero(w != 0.0)
            pulled = gradient[live] + np.sign(w[live]) * strengths[live]
            found[live] = np.where(np.isnan(pulled), 0.0, pulled)
            return found
        low = gradient + np.where(w > 0.0, strengths, -strengths)
        high = gradient + np.where(w < 0.0, -strengths, strengths)
        low[w <= self.lower[run]] = -np.inf
        high[w >= self.upper[run]] = np.inf
        return np.where(low > 0.0, low, np.where(high < 0.0, high, 0.0))

    def free(self, w: np.ndarray) -> np.ndarray:
        """Return the coefficients near which this is smooth, and that no bound holds."""
        found = (w != 0.0) | ((self.strengths == 0.0) & ~self.is_grouped)
        if self.groups:
            found[self.members] = self._spread(self.group_norms(w) > 0.0)
        if self.is_bounded:
            found &= (w > self.lower) & (w < self.upper)
        return np.flatnonzero(found)

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return the gradient by the coefficients that are free."""
        found: np.ndarray = self.strengths * np.sign(w)
        if self.groups:
            found[self.members] += self._over_norms(w) * w[self.members]
        return found

    def hessian_vector(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Multiply v by the Hessian by the coefficients that are free."""
        found = np.zeros_like(v)
        if self.groups:
            m, norms = self.members, self.group_norms(w)
            inner = np.add.reduceat(w[m] * v[m], self.pointers[:-1])
            inner /= np.where(norms > 0.0, norms * norms, 1.0)
            found[m] = self._over_norms(w) * (v[m] - self._spread(inner) * w[m])
        return found

    def _over_norms(self, w: np.ndarray) -> np.ndarray:
        """Return each group's strength over its norm, for all members; zero where that is zero."""
        norms = self.group_norms(w)
        found = np.zeros_like(norms)
        np.divide(self.group_strengths, norms, out=found, where=norms > 0.0)
        return self._spread(found)

    def proximal(self, w: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """Return the v with the least 1/2 sum_j metric_j (v_j - w_j)^2 + this(v).

        `metric` (size,) is above zero, and the same for all members of a group.
        """
        found = np.sign(w) * np.maximum(np.abs(w) - self.strengths / metric, 0.0)
        if self.groups:
            m, norms = self.members, self.group_norms(w)
            shrunk = self.group_strengths / metric[m[self.pointers[:-1]]]
            kept = np.zeros_like(norms)
            np.divide(norms - shrunk, norms, out=kept, where=norms > shrunk)
            found[m] = self._spread(kept) * w[m]
        return self.clip(found)

    def conjugate(
        self, u: np.ndarray, curvature: np.ndarray, error: np.ndarray, c: float = 1.0
    ) -> tuple[float, float]:
        """Bound the maximum over v of c u.v - this(v) - 1/2 sum_j curvature_j v_j^2.

        Parameters
        ----------
        u : (size,) array
        curvature : (size,) array
            Not below zero, and zero for members of groups.
        error : (size,) array
            How far each entry of u may be from the exact one, whose maximum is bounded.
        c : float
            Not below zero.

        Returns
        -------
        tuple of float
            The bound, infinite where a coefficient without bounds is not held, and its slope in c.
        """
        norms = c * (self.group_norms(u) + self.group_norms(error))
        if (norms > self.group_strengths).any():
            return math.inf, math.inf
        if not self.is_bounded:  # both sides are alike
            return self._entries(np.abs(u) + error, curvature, c)
        return self._entries(u + error, curvature, c, u - error)

    def _entries(
        self, u: np.ndarray, curvature: np.ndarray, c: float, other: np.ndarray | None = None
    ) -> tuple[float, float]:
        """Add up that maximum of coefficients in no group, at u or where it is larger at `other`.

        Returns the sum and its slope in c.
        """
        values, slopes = self._maxima(u, curvature, c)
        if other is not None:
            more, slopes_there = self._maxima(other, curvature, c)
            slopes = np.where(more > values, slopes_there, slopes)
            values = np.maximum(values, more)
        if self.groups:
            values[self.is_grouped] = slopes[self.is_grouped] = 0.0
        return float(values.sum()), float(slopes.sum())

    def _maxima(
        self, u: np.ndarray, curvature: np.ndarray, c: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return that maximum for each coefficient by itself, and its slope in c."""
        pull = c * u
        pull = np.sign(u) * np.maximum(np.abs(pull) - self.strengths, 0.0)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            best = np.where(pull == 0.0, 0.0, pull / curvature)
            if self.is_bounded:
                best = np.clip(best, self.lower, self.upper)
            slopes = u * best
            values = c * slopes - self.strengths * np.abs(best) - 0.5 * curvature * best * best
        values[~np.isfinite(values)] = np.inf  # not held, or beyond numbers: nothing is proved
        return values, slopes

    def over(self, gradient: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Return the coefficients whose slopes may be above their strengths.

        Near the optimum they are few, and nothing as long as the vectors is made to find them.
        """
        found = [np.empty(0, np.int64)]
        for first in range(0, len(gradient), AT_ONCE):
            run = slice(first, first + AT_ONCE)
            size = np.abs(gradient[run]) + error[run]
            found.append(first + np.flatnonzero(size > self.strengths[run]))
        return np.concatenate(found)

    def most_share(
        self, gradient: np.ndarray, curvature: np.ndarray, error: np.ndarray, over: np.ndarray
    ) -> float:
        """Return the largest c in [0, 1] for which `conjugate` of -c gradient can be finite.

        `over` are the coefficients that `over` finds.
        """
        over = over[(curvature[over] == 0.0) & ~self.is_grouped[over]]
        if self.is_bounded:
            # a bound on the side to which the linear function falls holds a coefficient
            falls_up = np.isinf(self.upper[over]) & (gradient[over] - error[over] < 0.0)
            falls_down = np.isinf(self.lower[over]) & (gradient[over] + error[over] > 0.0)
            over = over[falls_up | falls_down]
        shares = [1.0]
        if len(over):
            size = np.abs(gradient[over]) + error[over]
            shares.append(float((self.strengths[over] / size).min()))
        if self.groups:
            norms = self.group_norms(gradient) + self.group_norms(error)
            big = norms > self.group_strengths
            if big.any():
                shares.append(float((self.group_strengths[big] / norms[big]).min()))
        # some roundings less, so that the products stay within
        return min(shares) * (1.0 - 1e-14) if len(shares) > 1 else 1.0

    def times(self, share: float) -> Kinks:
        """Return the same with all strengths times a share."""
        shares = np.broadcast_to(share, len(self.strengths))
        return replace(
            self,
            strengths=_each(np.multiply, self.strengths, shares),
            group_strengths=share * self.group_strengths,
        )

    def restricted(self, columns: np.ndarray, size: int) -> Kinks:
        """Return the same for vectors of some features, whole groups of them.

        Parameters
        ----------
        columns : (k,) int array
            Features in increasing order.
        size : int
            Of the new vectors: k, or more with the intercepts, which are last.
        """
        constants, whole = size - len(columns), len(self.strengths)
        if size == whole:
            return self
        entries = np.append(columns, np.arange(whole - constants, whole))
        bounds = self.strengths[entries], self.lower[entries], self.upper[entries]
        if not self.groups:
            return Kinks(*bounds)
        place = np.full(whole, -1, np.int64)
        place[entries] = np.arange(size)
        chosen = [k for k, group in enumerate(self.groups) if place[group[0]] >= 0]
        groups = tuple(place[self.groups[k]] for k in chosen)
        return Kinks(*bounds, groups, self.group_strengths[chosen])

    def of_features(self, n_features: int) -> Kinks:
        """Return the same, as views, for vectors without the intercepts, which are last."""
        return replace(
            self,
            strengths=self.strengths[:n_features],
            lower=self.lower[:n_features],
            upper=self.upper[:n_features],
        )


def _each(ufunc: np.ufunc, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Combine entries; those of the same ones are computed once, and stored once."""
    same = all(len(v) and (v.strides == (0,) or (v == v[0]).all()) for v in (a, b))
    found: np.ndarray = ufunc(a[:1], b[:1]) if same else ufunc(a, b)
    return np.broadcast_to(found, a.shape)
