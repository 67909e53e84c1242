"""Least values of convex functions in long double, with kinks and bounds: no part of the package.

Newton's method, whose models are minimised exactly by an active set, with halved steps. Every oracle
of the tests is this search; they differ in how values and derivatives are formed.
"""

from dataclasses import dataclass, field

import numpy as np

LONG = np.longdouble
INF = LONG(np.inf)


@dataclass
class Kinks:
    """sum_j l1_j |v_j| + sum_G strength_G |sizes_G v_G| for v within bounds.

    Groups are triples: places, strength, and sizes that their coefficients are multiplied by.
    """

    l1: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    groups: list = field(default_factory=list)

    @classmethod
    def none(cls, size):
        """No kink, no bound."""
        return cls(np.zeros(size, LONG), np.full(size, -INF), np.full(size, INF))

    def beside(self, more):
        """The same of a vector that so many entries follow, with no kink and no bound."""
        ends = np.full(more, INF)
        lower, upper = np.append(self.lower, -ends), np.append(self.upper, ends)
        return Kinks(np.append(self.l1, np.zeros(more, LONG)), lower, upper, self.groups)

    def value(self, v):
        total = self.l1 @ np.abs(v)
        for places, strength, sizes in self.groups:
            total += strength * norm(v[places] * sizes)
        return total


def norm(u):
    return np.sqrt((u**2).sum())


def whole(v, step):
    """All of a step may be made, wherever it leads."""
    return LONG(1)


def least(smooth, derivatives, start, kinks=None, steps=400, room=whole):
    """Return the best v that is found from a start, and its value.

    Parameters
    ----------
    smooth : callable
        v to the value of all that has no kinks; infinite outside of its domain.
    derivatives : callable
        v to its gradient and Hessian.
    start : (p,) array
    kinks : Kinks, optional
    room : callable, optional
        v and a step to the share of it, at most 1, to be tried first: what is beyond may be outside.
    """
    search = _Search(smooth, derivatives, kinks or Kinks.none(len(start)), room)
    v = np.array(start, LONG)
    value, idle = search.f(v), 0
    for _ in range(steps):
        before = value
        v, value = search.step(v, value)
        v, value = search.without_groups(v, value)
        # rounding may put a start at the end of the domain outside, where values are infinite
        falls = value < before and before - value > 1e-18 * abs(value)
        idle = 0 if falls else idle + 1
        if idle > 1:
            break
    return v, value


class _Search:
    def __init__(self, smooth, derivatives, kinks, room):
        self.smooth, self.derivatives, self.kinks, self.room = smooth, derivatives, kinks, room

    def f(self, v):
        with np.errstate(all="ignore"):
            value = self.smooth(v) + self.kinks.value(v)
        return value if np.isfinite(value) else INF

    def step(self, v, value):
        with np.errstate(all="ignore"):
            g, H = self.derivatives(v)
        lower, upper = self.kinks.lower.copy(), self.kinks.upper.copy()
        for group, strength, sizes in self.kinks.groups:
            u = v[group] * sizes
            if (length := norm(u)) > 0:
                unit = u / length
                g[group] += strength * unit * sizes
                bent = np.eye(len(group), dtype=LONG) - np.outer(unit, unit)
                H[np.ix_(group, group)] += strength / length * bent * sizes[:, None] * sizes
                continue
            # of a group at zero: it stays, or first moves along its own gradient
            pull = g[group] / sizes
            steep = norm(pull)
            lower[group] = upper[group] = 0
            if steep > strength * (1 + LONG(1e-17)):
                way = np.zeros_like(v)
                way[group] = -pull / steep / sizes
                way *= (steep - strength) / max(way @ H @ way, LONG(1e-300))
                v, value = self.along(v, value, way, g)
        to = minimum(H, g, v, self.kinks.l1, lower, upper)
        return self.along(v, value, to - v, g)

    def along(self, v, value, step, g):
        # a convex function falls by no more than its tangent: less than this is rounding
        most, t = self.fall(v, step, g), self.room(v, step)
        while t > 1e-40 and t * most > 1e-20 * abs(value):
            to = np.clip(v + t * step, self.kinks.lower, self.kinks.upper)
            if (new := self.f(to)) < value:
                return to, new
            t /= 2
        return v, value

    def fall(self, v, step, g):
        """How fast the value falls along a step, at most: `g` has the part of groups that are not zero."""
        l1 = self.kinks.l1
        rise = g @ step + l1 @ np.where(v == 0, np.abs(step), np.sign(v) * step)
        for group, strength, sizes in self.kinks.groups:
            if not v[group].any():
                rise += strength * norm(step[group] * sizes)
        return 1e-18 * (np.abs(g) @ np.abs(step) + l1 @ np.abs(step)) - rise

    def without_groups(self, v, value):
        for group, _, _ in self.kinks.groups:
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


def solve(H, g):
    """H x = g by elimination with pivots, in long double."""
    A, n = np.column_stack([H, g]), len(g)
    for k in range(n):
        best = k + int(np.argmax(np.abs(A[k:, k])))
        A[[k, best]] = A[[best, k]]
        if A[k, k] == 0:
            A[k, k] = LONG(1e-4000)
        A[k + 1 :] -= np.outer(A[k + 1 :, k] / A[k, k], A[k])
    x = np.zeros(n, LONG)
    for k in reversed(range(n)):
        x[k] = (A[k, n] - A[k, k + 1 : n] @ x[k + 1 :]) / A[k, k]
    return x
