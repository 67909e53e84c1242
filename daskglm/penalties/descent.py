"""Minimise a quadratic plus the non-smooth part of a penalty: the subproblem of proximal Newton.

Coordinate descent with covariance updates (Friedman, Hastie & Tibshirani 2010), and between its
sweeps Newton's steps on the coefficients that are free, which take over where columns are
correlated and coordinate descent is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg

from daskglm.penalties.kinks import Kinks
from daskglm.system.compiled import compiled

# Sweeps between two looks at the residual. Chosen.
SWEEPS = 4
# Looks at most: each is followed by a Newton step once those pay. Chosen.
MOST_LOOKS = 500
# Multiplications of a sweep that take as long as one of a Cholesky factorisation, which works in
# blocks: 12 for 500 free coefficients, 20 for 1,500, on one core (2026-11-25).
SWEEP_COST = 15.0
# What is added to the unit diagonal of a scaled Hessian until a step lowers the model. Chosen.
RIDGES = (0.0, 1e-8, 1e-6, 1e-4, 1e-2)
# Shares of such a step that are tried. Chosen.
LENGTHS = (1.0, 0.3, 0.1, 0.01)
# Share of the linear fall of a step by which the model must fall for no more damping. Chosen.
GOOD_STEP = 0.05
# By how many times the residual may grow before the matrix is taken to have negative eigenvalues,
# from rounding in its sums, so that there is no minimum. Chosen.
DIVERGED = 1e6
# Share of the first residual below which what is left is rounding.
ROUNDING = 1e-14
# Share of a column's mean square below which its variance may be rounding.
CONSTANT = 1e-13
# Unit roundoff of float64.
UNIT = 2.0**-53
# Newton steps in turn that may not halve the residual once it is small; ten times as many before.
# With more columns than rows each may take only one coefficient to zero: 10 to 20 of 60 features
# and 30 rows (2026-11-25).
MOST_IDLE = 20
# Steps at most to the norm of a group; 3 to 8 are usual.
MOST_NORM_STEPS = 100


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
def _group_norm(pull, curvature, strength):  # type: ignore[no-untyped-def]
    """Return the norm r of the u with the least pull.u + 1/2 sum(curvature u^2) + strength |u|.

    There u = -r pull / (r curvature + strength), whose norm is r where f(r), the norm of
    pull / (r curvature + strength), is one. 1 / f rises and is concave: Newton's steps from zero
    rise to the solution.
    """
    r = 0.0
    for _ in range(MOST_NORM_STEPS):
        square, bent = 0.0, 0.0
        for i in range(len(pull)):
            below = r * curvature[i] + strength
            part = (pull[i] / below) ** 2
            square += part
            bent += part * curvature[i] / below
        f = np.sqrt(square)
        if not (f - 1.0 > 1e-15 and bent > 0.0):
            break
        r += (f - 1.0) * square / bent
    return r


@compiled(nogil=True)
def _best_group(v, slope, basis, curvature, strength):  # type: ignore[no-untyped-def]
    """Return where the model is least along a group, from its coefficients and their slopes.

    The columns of `basis` are the eigenvectors of the group's block, `curvature` its eigenvalues.
    """
    along, pull = v @ basis, slope @ basis
    pull -= curvature * along
    if np.sqrt((pull * pull).sum()) <= strength:
        return np.zeros(len(v))
    if strength > 0.0:
        r = _group_norm(pull, curvature, strength)
        return basis @ (-r * pull / (r * curvature + strength))
    for i in range(len(pull)):
        if curvature[i] > 0.0:
            along[i] = -pull[i] / curvature[i]
    return basis @ along


@compiled(nogil=True)
def _sweep(  # type: ignore[no-untyped-def]
    H, v, slope, single, strengths, lower, upper, pointers, members, group_strengths, bases, tops,
    count,
):  # fmt: skip
    """Sweep `count` times over the coefficients `single` and the groups, in place.

    `slope` is the gradient of the quadratic at v, and stays it. `bases` has the eigenvectors of
    each group's block of H, one block after another, `tops` the eigenvalues.
    """
    n = len(v)
    for _ in range(count):
        for j in single:
            curvature = H[j, j]
            if curvature > 0.0:
                moved = _soften(v[j] - slope[j] / curvature, strengths[j] / curvature)
            elif np.abs(slope[j]) <= strengths[j]:
                moved = 0.0 if strengths[j] > 0.0 else v[j]
            else:  # the model is linear: only a bound holds it
                moved = lower[j] if slope[j] > 0.0 else upper[j]
                if np.isinf(moved):
                    continue
            moved = min(max(moved, lower[j]), upper[j])
            step = moved - v[j]
            if step != 0.0:
                v[j] = moved
                for k in range(n):
                    slope[k] += step * H[j, k]
        at = 0
        for g in range(len(group_strengths)):
            group = members[pointers[g] : pointers[g + 1]]
            size = len(group)
            basis = bases[at : at + size * size].reshape(size, size)
            at += size * size
            top = tops[pointers[g] : pointers[g + 1]]
            new = _best_group(v[group], slope[group], basis, top, group_strengths[g])
            for i in range(size):
                j = group[i]
                step = new[i] - v[j]
                if step != 0.0:
                    v[j] = new[i]
                    for k in range(n):
                        slope[k] += step * H[j, k]


def minimise(
    H: np.ndarray, gradient: np.ndarray, w: np.ndarray, kinks: Kinks, share: float
) -> Minimum:
    """Minimise g'(v - w) + 1/2 (v - w)' H (v - w) + kinks(v) over v.

    Parameters
    ----------
    H : (size, size) array, C order
        Symmetric, positive semi-definite.
    gradient : (size,) array
        g.
    w : (size,) array
        Within the bounds.
    kinks : Kinks
    share : float
        Share of the residual at w that may be left.

    Returns
    -------
    Minimum
        The point w itself if rounding has made H indefinite.
    """
    if len(w) > 1 and _is_free(kinks, -1) and H[-1, -1] > 0.0:
        return _without_last(H, gradient, w, kinks, share)
    v, slope = w.copy(), gradient.copy()
    diagonal = H.diagonal().copy()
    scale = np.where(diagonal > 0.0, diagonal, 1.0)

    def left() -> float:
        found = kinks.residual(v, slope)
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sqrt((found * found / scale).sum()))

    first = left()
    wanted = max(share, ROUNDING) * first
    if not first > 0.0:
        return Minimum(v, slope, first)
    if kinks.is_empty and (step := _newton_step(H, slope)) is not None:
        v = w + step
        slope = gradient + H @ step
        if (residual := left()) <= wanted:
            return Minimum(v, slope, residual)

    bases, tops = _eigen(H, kinks)
    # kernels take arrays that store each entry
    of_entries = kinks.strengths, kinks.lower, kinks.upper
    where = (
        np.flatnonzero(~kinks.is_grouped),
        *(np.require(values, requirements=("C", "W")) for values in of_entries),
    )
    grouped = (kinks.pointers, kinks.members, kinks.group_strengths, bases, tops)
    work, residual, best, level, idle = 0.0, first, np.inf, 0, 0
    roots = np.sqrt(diagonal)
    for _ in range(MOST_LOOKS):
        _sweep(H, v, slope, *where, *grouped, SWEEPS)
        residual = left()
        if residual <= wanted:
            break
        if not residual <= DIVERGED * first:
            return Minimum(w.copy(), gradient.copy(), first)
        free = kinks.free(v)
        work += SWEEP_COST * SWEEPS * len(free) * len(v)
        if not len(free) or work < len(free) ** 3 / 3.0:
            continue
        work = 0.0
        level = _step_on_free(H, v, slope, kinks, free, level)
        residual = left()
        # entries of H are at most the roots' products: what slopes may be off by, in those units
        sizes = (np.abs(gradient) + kinks.strengths) / np.sqrt(scale) + roots @ np.abs(v - w)
        noise = 4.0 * UNIT * float(np.linalg.norm(sizes))
        idle = idle + 1 if residual >= 0.5 * best else 0
        most = MOST_IDLE if residual <= 1e-6 * first else 10 * MOST_IDLE
        if residual <= max(wanted, noise) or idle > most:
            break
        best = min(best, residual)
    return Minimum(v, slope, residual)


def _is_free(kinks: Kinks, j: int) -> bool:
    """Return whether a coefficient has neither a kink nor bounds."""
    bounded = np.isfinite(kinks.lower[j]) or np.isfinite(kinks.upper[j])
    return bool(kinks.strengths[j] == 0.0 and not (bounded or kinks.is_grouped[j]))


def _without_last(
    H: np.ndarray, gradient: np.ndarray, w: np.ndarray, kinks: Kinks, share: float
) -> Minimum:
    """Minimise over all but the last coefficient, which is free and takes its best value.

    Of an intercept that centres the columns: with means far from zero the Hessian of both together
    is nearly singular, and coordinate descent does not come to an end.
    """
    top, beside = H[-1, -1], H[:-1, -1]
    centred = H[:-1, :-1] - np.outer(beside, beside / top)
    pull = gradient[:-1] - beside * (gradient[-1] / top)
    # columns that do not differ from the last one but for rounding
    same = centred.diagonal() <= CONSTANT * H.diagonal()[:-1]
    centred[same], centred[:, same], pull[same] = 0.0, 0.0, 0.0
    features = kinks.restricted(np.arange(len(pull)), len(pull))
    found = minimise(centred, pull, w[:-1], features, share)
    last = w[-1] - (gradient[-1] + beside @ (found.w - w[:-1])) / top
    return Minimum(np.append(found.w, last), np.append(found.slope, 0.0), found.residual)


def _eigen(H: np.ndarray, kinks: Kinks) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvectors, as columns, and eigenvalues of all groups' blocks, one after another."""
    found = [np.linalg.eigh(H[np.ix_(group, group)]) for group in kinks.groups]
    none = np.empty(0)
    bases = np.concatenate([none, *(np.ascontiguousarray(basis).ravel() for _, basis in found)])
    return bases, np.maximum(np.concatenate([none, *(values for values, _ in found)]), 0.0)


def _newton_step(H: np.ndarray, slope: np.ndarray, ridge: float = 0.0) -> np.ndarray | None:
    """Solve H s = -slope with a share of the diagonal added to it; None if H is nearly singular."""
    root = np.sqrt(np.maximum(H.diagonal(), 1e-300))
    scaled = H / root[:, None] / root
    scaled.flat[:: len(scaled) + 1] = 1.0 + ridge
    factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    if failed or not factor.diagonal().min(initial=1.0) > 1e-7:
        return None
    found = scipy.linalg.lapack.dpotrs(factor, slope / root, lower=1)[0] / root
    return np.asarray(-found)


def _step_on_free(
    H: np.ndarray,
    v: np.ndarray,
    slope: np.ndarray,
    kinks: Kinks,
    free: np.ndarray,
    level: int,
) -> int:
    """Take a Newton step of the free coefficients, in place; return the level of its damping.

    The lowest of a few points along the step is taken. Where the model hardly falls by that, the
    step is damped by more on the diagonal (Levenberg and Marquardt): columns may be dependent.
    """
    pull = (slope + kinks.gradient(v))[free]
    part = K = H[np.ix_(free, free)]
    if kinks.groups:
        K = part.copy()
        _add_groups(K, v, kinks, free)
    here, kinked, linear = v[free], kinks.strengths[free] > 0.0, slope[free]
    before, moved = kinks.value(v), v.copy()

    def rise(to: np.ndarray) -> float:
        """Return by how much the model rises where the free coefficients become `to`."""
        step = to - here
        moved[free] = to
        return float(linear @ step) + 0.5 * float(step @ part @ step) + kinks.value(moved) - before

    lower, upper = kinks.lower[free], kinks.upper[free]
    best = (0.0, here, level)
    for k in range(max(level - 1, 0), len(RIDGES)):
        step = _newton_step(K, pull, RIDGES[k])
        if step is None:
            continue
        for to in _trials(here, step, kinked):
            to = np.clip(to, lower, upper) if kinks.is_bounded else to
            if (risen := rise(to)) < best[0]:
                best = (risen, to, k)
        if best[0] <= GOOD_STEP * float(pull @ step):
            break
    _, to, level = best
    slope += (to - here) @ H[free]
    v[free] = to
    return level


def _trials(here: np.ndarray, step: np.ndarray, kinked: np.ndarray) -> Iterator[np.ndarray]:
    """Yield points along a step: across kinks, up to the first one, and with zeros at kinks."""
    yield here + step
    crossing = kinked & (here * (here + step) < 0.0)
    if not crossing.any():
        return
    for length in (float((here[crossing] / -step[crossing]).min()), *LENGTHS):
        to = here + length * step
        yield np.where(kinked & (here * to <= 0.0), 0.0, to)


def _add_groups(K: np.ndarray, v: np.ndarray, kinks: Kinks, free: np.ndarray) -> None:
    """Add the Hessian of the norms of groups that are not zero, in place."""
    place = np.full(len(v), -1)
    place[free] = np.arange(len(free))
    for group, strength in zip(kinks.groups, kinks.group_strengths, strict=True):
        at = place[group]
        if at[0] < 0:
            continue
        norm = float(np.linalg.norm(v[group]))
        unit = v[group] / norm
        K[np.ix_(at, at)] += strength / norm * (np.eye(len(group)) - np.outer(unit, unit))
