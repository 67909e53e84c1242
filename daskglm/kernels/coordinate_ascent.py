"""CPU kernels of stochastic dual coordinate ascent: one sweep over rows of any storage in random
order.

What touches a row is chosen by the type of X; see `storages`. A sweep belongs to one thread and one
replica of the shared vector.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from daskglm.kernels.borrowed import borrowed
from daskglm.kernels.chosen import within_callers
from daskglm.kernels.csr import ROWS_AHEAD
from daskglm.kernels.simd import fetch
from daskglm.kernels.storages import (
    axpy,
    dot,
    fetch_places,
    fetch_rows,
    fetch_shared,
    squared_norm,
)
from daskglm.losses.conjugates import conjugate_slope, into_domain, step
from daskglm.system.compiled import compiled

# Entries up to which the shared vector is in a core's own cache anyhow.
SHARED_CACHED = 1 << 17
# A dual variable farther from zero than any.
HUGE = 1e300
REASSOCIATE = {"contract", "reassoc", "nsz"}


# ---- order of visits
@njit(nogil=True)
def _shuffled(i, mask, half, key):  # type: ignore[no-untyped-def]
    """Map [0, mask] one to one: three rounds of odd multiplications and shifts, keyed by `key`."""
    i = ((i + key) * 0x9E3779B1) & mask
    i ^= i >> half
    i = ((i + (key >> 20)) * 0x85EBCA6B) & mask
    i ^= i >> half
    i = ((i + (key >> 40)) * 0xC2B2AE35) & mask
    return i ^ (i >> half)


@njit(nogil=True)
def place_of(i, count, mask, half, key):  # type: ignore[no-untyped-def]
    """Return the i-th of `count` places in a random order, which `key` chooses.

    Threads compute places when they need them, so no list is shuffled, stored or read. Values past
    the end are permuted again (cycle walking), which keeps the map one to one.
    """
    at = _shuffled(i, mask, half, key)
    while at >= count:
        at = _shuffled(at, mask, half, key)
    return at


@njit(nogil=True)
def _bits(count):  # type: ignore[no-untyped-def]
    bits = 1
    while (1 << bits) < count:
        bits += 1
    return bits


# ---- the sweep
@within_callers(forceinline=True)
def _place(t, places):  # type: ignore[no-untyped-def]
    """Return the t-th place of the order, or the last."""
    buckets, mask, half, key = places
    return place_of(min(t, buckets - 1), buckets, mask, half, key)


@within_callers(forceinline=True)
def _fetch_ends(numbers, start, stop):  # type: ignore[no-untyped-def]
    """Prefetch the first and the last number of the rows [start, stop), if there are numbers."""
    if len(numbers) > 0:
        fetch(numbers, start)
        fetch(numbers, stop - 1)


@within_callers(forceinline=True)
def _row_at(listed, j):  # type: ignore[no-untyped-def]
    """Return the row at place j."""
    return listed[j] if len(listed) > 0 else j


@within_callers(forceinline=True)
def _fetch_bucket(rows, dual, listed, at, stop_at):  # type: ignore[no-untyped-def]
    """Prefetch the numbers of the rows at [at, stop_at), and what tells where these are."""
    start, stop = _row_at(listed, at), _row_at(listed, stop_at - 1) + 1
    _fetch_ends(rows[1], start, stop)
    _fetch_ends(rows[2], start, stop)
    _fetch_ends(dual[0], start, stop)
    _fetch_ends(dual[1], start, stop)
    _fetch_ends(dual[2], start, stop)
    _fetch_ends(dual[3], start, stop)
    fetch_places(rows[0], start, stop)


@within_callers(forceinline=True)
def _fetch_row(X, i):  # type: ignore[no-untyped-def]
    """Prefetch row i: with each row one, for all of a bucket at once have to wait."""
    fetch_rows(X, i, i + 1)


@within_callers(forceinline=True)
def _row_ahead(listed, j, stop, coming, coming_stop):  # type: ignore[no-untyped-def]
    """Return the row at ROWS_AHEAD places after place j of a bucket, or the next one's last row."""
    ahead = j + ROWS_AHEAD
    return _row_at(listed, ahead if ahead < stop else min(coming + ahead - stop, coming_stop - 1))


@njit(nogil=True)
def _gradient(law, y, z, a):  # type: ignore[no-untyped-def]
    """Return the dual's gradient in a, and whether a is at the lower or upper end of its domain.

    Those ends may be infinitely far. Where a cannot be positive, as for a label of -1, all of that
    is told of -a instead, so that the rows of both classes are compared.
    """
    low = into_domain(law, y, -HUGE)
    high = into_domain(law, y, HUGE)
    gradient = z + conjugate_slope(law, y, a)
    lower = a <= low and low > -HUGE
    upper = a >= high and high < HUGE
    if high <= 0.0:
        return -gradient, upper, lower
    return gradient, lower, upper


@compiled(nogil=True, error_model="numpy")
def sweep(law, rows, v, scales, dual, limits, order):  # type: ignore[no-untyped-def]
    """Visit buckets of rows in random order and give each row its best dual variable.

    Parameters
    ----------
    rows : (X, y, weight)
    v : (d + 1,) array
        This thread's replica of the shared vector: its last entry belongs to a constant feature.
    scales : (C, bias, offset, sigma, threshold)
        Weight of the losses; value of the constant feature; what margins get besides; factor by
        which changes enter v; what moves entries of v but the last towards zero (None: nothing).
    dual : (alpha, norms, seen, asleep)
        Dual variables; squared norms of rows (empty: computed); where the margins met go (empty:
        not wanted); marks of rows to pass over from the next sweep on (empty: no shrinking), set
        for rows at a bound whose gradient lies beyond `limits`.
    limits : (low, high)
        Of projected gradients, after section 3.3 of Hsieh et al. 2008 (LIBLINEAR).
    order : (listed, first, stop, bucket, key, begin, end)
        The rows that are listed (empty: all) at [first, stop) are cut into buckets of `bucket`
        rows; those at the places [begin, end) of the order that `key` stands for are visited, the
        rows of one bucket in sequence.

    Returns
    -------
    low, high : float
        The least and the greatest projected gradient met.
    """
    rows, dual, v = borrowed(rows), borrowed(dual), borrowed(v)
    (X, y, weight), (C, bias, offset, sigma, threshold) = rows, scales
    (alpha, norms, seen, asleep), (listed, first, stop, bucket, key, begin, end) = dual, order
    buckets = (stop - first + bucket - 1) // bucket
    bits = _bits(buckets)
    mask, half = (1 << bits) - 1, (bits + 1) // 2
    d, scattered = len(v) - 1, len(v) > SHARED_CACHED
    weighted, known, shrink, watch = len(weight) > 0, len(norms) > 0, len(asleep) > 0, len(seen) > 0
    low, high = np.inf, -np.inf
    if begin >= end:
        return low, high
    # a bucket's numbers are asked for two buckets ahead, its rows, which some of these find, one
    places = buckets, mask, half, key
    coming = first + bucket * _place(begin, places)
    later = first + bucket * _place(begin + 1, places)
    for t in range(begin, end):
        at, coming, later = coming, later, first + bucket * _place(t + 2, places)
        stop_at, coming_stop = min(at + bucket, stop), min(coming + bucket, stop)
        _fetch_bucket(rows, dual, listed, later, min(later + bucket, stop))
        for j in range(at, stop_at):
            i = _row_at(listed, j)
            _fetch_row(X, _row_at(listed, min(coming + j - at, coming_stop - 1)))
            cost = C * weight[i] if weighted else C
            if cost == 0.0:
                continue
            z = dot(X, i, v, threshold) + bias * v[d] + offset
            if scattered:
                fetch_shared(X, _row_ahead(listed, j, stop_at, coming, coming_stop), v)
            if watch:
                seen[i] = z
            a = alpha[i]
            if shrink:
                gradient, lower, upper = _gradient(law, y[i], z, a)
                if (lower and gradient > limits[1]) or (upper and gradient < limits[0]):
                    asleep[i] = 1
                    continue
                if not ((lower and gradient > 0.0) or (upper and gradient < 0.0)):
                    low = min(low, gradient)
                    high = max(high, gradient)
            norm = norms[i] if known else squared_norm(X, i)
            better = step(law, y[i], z, a, sigma * cost * (norm + bias * bias))
            if better != a:
                alpha[i] = better
                change = sigma * cost * (better - a)
                axpy(X, i, change, v)
                v[d] += bias * change
    return low, high


@compiled(nogil=True, error_model="numpy", fastmath=REASSOCIATE)
def merge(first, others, u, start, stop):  # type: ignore[no-untyped-def]
    """Add the replicas' changes from u to the first replica, over the entries [start, stop).

    Returns the squared norm of the sum, and the sum of those of the parts. Idle threads of a BLAS
    would spin, so this loop is our own.
    """
    joint, apart = 0.0, 0.0
    for j in range(start, stop):
        total = first[j] - u[j]
        apart += total * total
        for p in range(len(others)):
            change = others[p, j] - u[j]
            apart += change * change
            total += change
        joint += total * total
        first[j] = total
    return joint, apart


@compiled(nogil=True, error_model="numpy")
def advance(u, direction, share, start, stop):  # type: ignore[no-untyped-def]
    """Set direction to u + share * direction over the entries [start, stop)."""
    for j in range(start, stop):
        direction[j] = u[j] + share * direction[j]


@compiled(nogil=True, error_model="numpy")
def project(law, rows, scales, a, v):  # type: ignore[no-untyped-def]
    """Bring the dual variables of listed rows into the domain of the conjugate.

    Parameters
    ----------
    rows : (X, y, weight, listed)
    scales : (C, bias)
        As in `sweep`.
    a : array
        Dual variable of each listed row.
    v : (d + 1,) array
        Changes by what they do.

    Returns
    -------
    int
        The number of rows whose variables were outside.
    """
    rows, v = borrowed(rows), borrowed(v)
    (X, y, weight, listed), (C, bias) = rows, scales
    d, outside = len(v) - 1, 0
    for k in range(len(listed)):
        i = listed[k]
        inside = into_domain(law, y[i], a[k])
        if inside != a[k]:
            change = (C * weight[i] if len(weight) > 0 else C) * (inside - a[k])
            a[k] = inside
            axpy(X, i, change, v)
            v[d] += bias * change
            outside += 1
    return outside


# ---- whole runs of rows
@compiled(nogil=True, error_model="numpy")
def squared_norms(X, start, stop, out):  # type: ignore[no-untyped-def]
    """Squared norms of the rows [start, stop) into out[start:stop]."""
    for i in range(start, stop):
        out[i] = squared_norm(X, i)


@compiled(nogil=True, error_model="numpy")
def totals(X, weight, C, alpha, v, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the margins and the shared vector in one pass over X.

    `out` is (z, own, side): z gets the margins X v (without the intercept), and own (d + 1,) the
    sum of C s a x, whose last entry is that of C s a. An empty `own` is left alone. `side`, of the
    same length or empty, gets the part of the rows with a > 0. It serves to move the dual
    variables back to where an unpenalised intercept allows them.
    """
    z, own, side = out
    d = len(v) - 1
    weighted = len(weight) > 0
    both = len(side) > 0
    whole = len(own) > 0
    scattered = len(v) > SHARED_CACHED
    # vectors longer than the cache evict each other unless rows meet one after the other
    many = max(stop - start, 1) if scattered else 1
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        for i in range(lo, hi):
            if scattered and i + ROWS_AHEAD < hi:
                fetch_shared(X, i + ROWS_AHEAD, v)
            z[i] = dot(X, i, v, None)
        for i in range(lo, hi):
            change = C * weight[i] * alpha[i] if weighted else C * alpha[i]
            if whole and change != 0.0:
                axpy(X, i, change, own)
                own[d] += change
            if both and change > 0.0:
                axpy(X, i, change, side)
                side[d] += change


@compiled(nogil=True)
def clip(law, y, alpha, start, stop):  # type: ignore[no-untyped-def]
    """Bring dual variables into the domain of the conjugate."""
    for i in range(start, stop):
        alpha[i] = into_domain(law, y[i], alpha[i])
