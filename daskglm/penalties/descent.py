"""Minimise a quadratic plus the non-smooth part of a penalty: the subproblem of proximal Newton.

Coordinate descent with covariance updates (Friedman, Hastie & Tibshirani 2010), and between its
sweeps Newton's steps on the coefficients that are free, which take over where columns are
correlated and coordinate descent is slow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from daskglm.penalties.nonsmooth import NonSmooth
from daskglm.system.compiled import compiled

# Sweeps between two looks at the residual. Chosen.
SWEEPS = 4
# Looks at most: each is followed by a Newton step once those pay. Chosen.
MOST_LOOKS = 500
# Multiplications of a sweep that take as long as one of a Cholesky factorisation, which works in
# blocks: 12 for 500 free coefficients, 20 for 1,500, on one core (2026-11-25).
SWEEP_COST = 15.0
# What is added to the unit diagonal of a scaled Hessian that is singular. Chosen.
RIDGES = (0.0, 1e-9, 1e-6)
# Share of the first residual below which what is left is rounding.
ROUNDING = 1e-14


class Minimum(NamedTuple):
    """Where a model is least.

    `slope` (size,) is the quadratic's gradient there, `residual` the root of the sum of the squared
    residuals over the diagonal of the Hessian.
    """

    w: np.ndarray
    slope: np.ndarray
    residual: float


@compiled(nogil=True)
def _soften(value, threshold):  # type: ignore[no-untyped-def]
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0


@compiled(nogil=True)
def _sweep(  # type: ignore[no-untyped-def]
    H, v, slope, single, strengths, lower, upper, pointers, members, group_strengths, tops, count
):
    """Sweep `count` times over the coefficients `single` and the groups, in place.

    `slope` is the gradient of the quadratic at v, and stays it. `tops` bounds the largest
    eigenvalue of each group's block of H.
    """
    n = len(v)
    for _ in range(count):
        for j in single:
            curvature = H[j, j]
            if not curvature > 0.0:
                continue
            moved = _soften(v[j] - slope[j] / curvature, strengths[j] / curvature)
            moved = min(max(moved, lower[j]), upper[j])
            step = moved - v[j]
            if step != 0.0:
                v[j] = moved
                for k in range(n):
                    slope[k] += step * H[j, k]
        for g in range(len(tops)):
            top = tops[g]
            if not top > 0.0:
                continue
            square = 0.0
            for i in range(pointers[g], pointers[g + 1]):
                j = members[i]
                target = v[j] - slope[j] / top
                square += target * target
            norm = np.sqrt(square)
            kept = 0.0
            if norm * top > group_strengths[g]:
                kept = 1.0 - group_strengths[g] / (norm * top)
            # all of a group moves by the slope before its first change
            begin, end = pointers[g], pointers[g + 1]
            steps = np.empty(end - begin)
            for i in range(begin, end):
                j = members[i]
                steps[i - begin] = kept * (v[j] - slope[j] / top) - v[j]
            for i in range(begin, end):
                j = members[i]
                step = steps[i - begin]
                if step != 0.0:
                    v[j] += step
                    for k in range(n):
                        slope[k] += step * H[j, k]


def minimise(
    H: np.ndarray, gradient: np.ndarray, w: np.ndarray, terms: NonSmooth, share: float
) -> Minimum:
    """Minimise g'(v - w) + 1/2 (v - w)' H (v - w) + terms(v) over v.

    Parameters
    ----------
    H : (size, size) array, C order
        Symmetric, positive semi-definite.
    gradient : (size,) array
        g.
    w : (size,) array
        Within the bounds.
    terms : NonSmooth
    share : float
        Share of the residual at w that may be left.
    """
    v, slope = w.copy(), gradient.copy()
    diagonal = H.diagonal().copy()
    scale = np.where(diagonal > 0.0, diagonal, 1.0)

    def left() -> float:
        found = terms.residual(v, slope)
        return float(np.sqrt((found * found / scale).sum()))

    first = left()
    wanted = max(share, ROUNDING) * first
    if not first > 0.0:
        return Minimum(v, slope, first)
    if terms.is_empty and (step := _newton_step(H, slope)) is not None:
        v = w + step
        slope = gradient + H @ step
        if (residual := left()) <= wanted:
            return Minimum(v, slope, residual)

    single = np.flatnonzero(~terms.is_grouped)
    tops = np.array([_top(H, group) for group in terms.groups])
    where = (single, terms.strengths, terms.lower, terms.upper)
    grouped = (terms.pointers, terms.members, terms.group_strengths, tops)
    work, residual, best = 0.0, first, np.inf
    for _ in range(MOST_LOOKS):
        _sweep(H, v, slope, *where, *grouped, SWEEPS)
        residual = left()
        if residual <= wanted:
            break
        free = _free(terms, v, slope)
        work += SWEEP_COST * SWEEPS * len(free) * len(v)
        if work < len(free) ** 3 / 3.0:
            continue
        work = 0.0
        _step_on_free(H, v, slope, terms, free)
        residual = left()
        # rounding is reached where a Newton step of the free ones no longer helps
        if residual <= wanted or (residual >= 0.5 * best and residual <= 1e-6 * first):
            break
        best = min(best, residual)
    return Minimum(v, slope, residual)


def _top(H: np.ndarray, group: np.ndarray) -> float:
    """Return the largest eigenvalue of a group's block."""
    return float(np.linalg.eigvalsh(H[np.ix_(group, group)])[-1]) * (1.0 + 1e-12)


def _free(terms: NonSmooth, v: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return the coefficients near which the penalty is smooth, and that no bound holds."""
    free = (v != 0.0) | ((terms.strengths == 0.0) & ~terms.is_grouped)
    if terms.groups:
        live = np.repeat(terms.group_norms(v) > 0.0, np.diff(terms.pointers))
        free[terms.members] = live
    if terms.is_bounded:
        free &= (v > terms.lower) & (v < terms.upper)
    return np.flatnonzero(free)


def _newton_step(H: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
    """Solve H s = -slope, with more on the diagonal if H is nearly singular; None if that fails.

    Equal columns, of which many steps are as good, make it singular.
    """
    root = np.sqrt(np.maximum(H.diagonal(), 1e-300))
    scaled = H / root[:, None] / root
    for ridge in RIDGES:
        scaled.flat[:: len(scaled) + 1] = 1.0 + ridge
        factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
        if not failed and factor.diagonal().min(initial=1.0) > 1e-7:
            found = scipy.linalg.lapack.dpotrs(factor, slope / root, lower=1)[0] / root
            return np.asarray(-found)
    return None


def _step_on_free(
    H: np.ndarray, v: np.ndarray, slope: np.ndarray, terms: NonSmooth, free: np.ndarray
) -> None:
    """Take Newton's step of the free coefficients, in place, as far as the model falls.

    The whole step with coefficients that would change sign at zero; else as far as the first of
    them.
    """
    if not len(free):
        return
    pull = (slope + terms.strengths * np.sign(v))[free]
    K = H[np.ix_(free, free)]
    if terms.groups:
        pull, K = _with_groups(pull, K, v, terms, free)
    step = _newton_step(K, pull)
    if step is None:
        return
    here = v[free]
    kinked = terms.strengths[free] > 0.0
    turned = kinked & (here * (here + step) < 0.0)
    whole = np.where(turned, 0.0, here + step)
    whole = np.clip(whole, terms.lower[free], terms.upper[free])
    if _move(H, v, slope, terms, free, whole):
        return

    # until the first kink or bound the model is convex and falls at first
    with np.errstate(divide="ignore", invalid="ignore"):
        to_kink = np.where(turned, -here / step, 1.0)
        bound = np.where(step > 0.0, terms.upper[free], terms.lower[free])
        to_bound = np.where(step != 0.0, (bound - here) / step, 1.0)
    reach = np.minimum(to_kink, to_bound)
    t = min(1.0, float(reach.min()))
    part = here + t * step
    part[turned & (to_kink <= t)] = 0.0
    _move(H, v, slope, terms, free, np.clip(part, terms.lower[free], terms.upper[free]))


def _with_groups(
    pull: np.ndarray, K: np.ndarray, v: np.ndarray, terms: NonSmooth, free: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Add gradient and Hessian of the norms of groups that are not zero."""
    place = np.full(len(v), -1)
    place[free] = np.arange(len(free))
    for group, strength in zip(terms.groups, terms.group_strengths, strict=True):
        at = place[group]
        if at[0] < 0:
            continue
        norm = float(np.linalg.norm(v[group]))
        unit = v[group] / norm
        pull[at] += strength * unit
        K[np.ix_(at, at)] += strength / norm * (np.eye(len(group)) - np.outer(unit, unit))
    return pull, K


def _move(
    H: np.ndarray,
    v: np.ndarray,
    slope: np.ndarray,
    terms: NonSmooth,
    free: np.ndarray,
    to: np.ndarray,
) -> bool:
    """Move the free coefficients, in place, if the model does not rise; return whether it did."""
    step = to - v[free]
    change = step @ H[free]
    moved = v.copy()
    moved[free] = to
    rise = float(slope[free] @ step) + 0.5 * float(change[free] @ step)
    rise += terms.value(moved) - terms.value(v)
    if not rise <= 0.0:
        return False
    v[:] = moved
    slope += change
    return True
