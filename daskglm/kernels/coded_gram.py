"""The Gram [X 1]' D [X 1] of coded rows.

The Gram of two code columns is T_a' C T_b, where C has the sums of the curvatures of the rows with
each pair of levels. These are added up by pairs of code columns, so that the sums of a pair stay in
the first-level cache, and meet the tables T when all rows have been added. Where the pairs of
levels are more than that saves, the rows are taken as sparse ones.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.coded_csr import count_values, expand
from daskglm.kernels.gram import add_outer as dense_add_outer
from daskglm.kernels.gram import scratch
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Sums by pairs of levels, at most: 16 MiB. Chosen.
MOST_PAIRS = 1 << 21
# Codes of a cache line.
APART = LINE_BYTES // 4


@compiled(nogil=True)
def _blocks(first, levels, ranks):  # type: ignore[no-untyped-def]
    """Return where the sums by levels of each pair of code columns begin, by places, and their end.

    In place of pairs with itself each has its first level and the number of its levels.
    """
    p = len(first)
    begins, counts = np.empty(p, np.int64), np.empty(p, np.int64)
    for j in range(p):
        end = levels
        for k in range(p):
            if first[k] > first[j]:
                end = min(end, first[k])
        begins[ranks[j]] = first[j]
        counts[ranks[j]] = end - first[j]
    starts = np.zeros((p, p), np.int64)
    total = 0
    for a in range(p):
        for b in range(a + 1, p):
            starts[a, b] = total
            total += counts[a] * counts[b]
    return begins, counts, starts, total


@compiled(nogil=True)
def longest(X):  # type: ignore[no-untyped-def]
    """Return the most values that a row can have in the tables."""
    first, indptr, ranks = X[4], X[5], X[8]
    begins, counts, _, _ = _blocks(first, len(indptr) - 1, ranks)
    total = 0
    for a in range(len(first)):
        most = 0
        for level in range(begins[a], begins[a] + counts[a]):
            most = max(most, indptr[level + 1] - indptr[level])
        total += most
    return total


@compiled(nogil=True)
def room(X, many, count, formed):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in on `count` rows, `many` at a time.

    `of` says where pairs of levels are, (codes, sums) are the codes of a tile and sums by pairs of
    levels, (data, indices, indptr) of sparse rows: one of both is empty. Then what the Gram of
    numbers works in, and that Gram.
    """
    floats, first, indptr, ranks = X[3], X[4], X[5], X[8]
    k, p, levels = floats.shape[1], len(first), len(indptr) - 1
    side = (k + 4) // 4 * 4 if formed and k > 0 else 0
    own = scratch(floats, many if side > 0 else 0), np.zeros((side, side))
    of = _blocks(first[: p if formed else 0], levels, ranks)
    pairs, beside, sparse, rows = of[3], 0, 0, 0
    if formed:
        beside, rows = levels * (k + 1), many
        if pairs > MOST_PAIRS or pairs + beside > count * (p * (p + 1) // 2 + k) or levels == 0:
            sparse, pairs, beside = longest(X) + k, 0, 0
    # more room than codes keeps those of several columns out of the same cache sets
    codes = np.empty((p, rows + APART if sparse == 0 else 0), np.uint32)
    sums = np.zeros(pairs), np.zeros((beside // (k + 1), k + 1))
    as_rows = (
        np.empty(sparse * rows),
        np.empty(sparse * rows, np.int32),
        np.empty(rows + 1, np.int64),
    )
    return of, codes, sums, as_rows, own


@compiled(nogil=True)
def _copy_part(part, ranks, start, count, codes):  # type: ignore[no-untyped-def]
    for j in range(part.shape[1]):
        to = codes[ranks[j]]
        for t in range(count):
            to[t] = part[start + t, np.uint64(j)]


@within_callers()
def _copy_codes(X, start, count, codes):  # type: ignore[no-untyped-def]
    """Copy the codes of a tile to `codes` (p, ...), in the order of their coefficients."""
    narrow, middle, wide, ranks = X[0], X[1], X[2], X[8]
    p, q = narrow.shape[1], narrow.shape[1] + middle.shape[1]
    if p > 0:
        _copy_part(narrow, ranks[:p], start, count, codes)
    if q > p:
        _copy_part(middle, ranks[p:q], start, count, codes)
    if len(ranks) > q:
        _copy_part(wide, ranks[q:], start, count, codes)


@compiled(nogil=True)
def _add_pairs(codes, curvature, count, of, sums):  # type: ignore[no-untyped-def]
    """Add curvatures to the sums of the pairs of levels of the rows of a tile."""
    _, counts, starts, _ = of
    p = len(codes)
    for a in range(p):
        one = codes[a]
        b = a + 1
        # two pairs at a time: equal rows one after another wait for each other's sums
        while b + 1 < p:
            other, next_one = codes[b], codes[b + 1]
            side, next_side = np.uint64(counts[b]), np.uint64(counts[b + 1])
            to, next_to = sums[starts[a, b] :], sums[starts[a, b + 1] :]
            for t in range(count):
                c, row = curvature[t], np.uint64(one[t])
                to[row * side + np.uint64(other[t])] += c
                next_to[row * next_side + np.uint64(next_one[t])] += c
            b += 2
        if b < p:
            other, side, to = codes[b], np.uint64(counts[b]), sums[starts[a, b] :]
            for t in range(count):
                to[np.uint64(one[t]) * side + np.uint64(other[t])] += curvature[t]


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _add_beside(floats, codes, curvature, start, count, begins, beside):  # type: ignore[no-untyped-def]
    """Add curvatures, and these times numbers, to the sums of levels: (levels, k + 1)."""
    k = floats.shape[1]
    if k == 0:
        for t in range(count):
            for a in range(len(codes)):
                beside[np.uint64(begins[a]) + np.uint64(codes[a, t]), 0] += curvature[t]
        return
    scaled = np.empty(k + 1)
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        for j in range(k):
            scaled[j] = c * floats[start + t, j]
        scaled[k] = c
        for a in range(len(codes)):
            to = beside[np.uint64(begins[a]) + np.uint64(codes[a, t])]
            for j in range(k + 1):
                to[j] += scaled[j]


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _add_sparse(X, curvature, start, count, d, rows, gram):  # type: ignore[no-untyped-def]
    """Add the rows of a tile to `gram` as sparse ones, without the products of numbers."""
    floats, width = X[3], X[9]
    data, indices, indptr = rows
    starts = indptr[: count + 1]
    count_values(X, start, start + count, starts)
    expand(X, start, start + count, rows)
    k = floats.shape[1]
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        x = floats[start + t]
        end = starts[t + 1] - k
        for q in range(starts[t], end):
            row, a = gram[np.uint64(indices[q])], c * data[q]
            for r in range(q, end):
                row[np.uint64(indices[r])] += a * data[r]
            for j in range(k):
                row[width + j] += a * x[j]
            row[d] += a


@compiled(nogil=True)
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] over one tile to `gram` and to sums that `finish_gram` adds to it."""
    floats = X[3]
    of, codes, (pairs, beside), rows, (own, numbers) = work
    if floats.shape[1] > 0:
        dense_add_outer(floats, curvature, start, count, floats.shape[1], own, numbers)
    total = 0.0
    for t in range(count):
        total += curvature[t]
    gram[d, d] += total
    if len(beside) == 0:
        _add_sparse(X, curvature, start, count, d, rows, gram)
        return
    _copy_codes(X, start, count, codes)
    _add_pairs(codes, curvature, count, of, pairs)
    _add_beside(floats, codes, curvature, start, count, of[0], beside)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _add_levels(X, d, of, pairs, beside, gram):  # type: ignore[no-untyped-def]
    """Add what sums by levels and pairs of them are in coefficients."""
    first, indptr, columns, values, _, width = X[4:]
    begins, counts, starts, _ = of
    k = d - width
    row = np.empty(width)
    for a in range(len(first)):
        for one in range(counts[a]):
            level = begins[a] + one
            begin, end = indptr[level], indptr[level + 1]
            if begin == end:
                continue
            row[:] = 0.0
            for b in range(a + 1, len(first)):
                side = counts[b]
                sums = pairs[starts[a, b] + one * side : starts[a, b] + (one + 1) * side]
                for other in range(side):
                    at = begins[b] + other
                    for q in range(indptr[at], indptr[at + 1]):
                        row[columns[q]] += values[q] * sums[other]
            whole = beside[level, k]
            for q in range(begin, end):
                to, value = gram[columns[q]], values[q]
                for r in range(q, end):
                    to[columns[r]] += value * (values[r] * whole)
                for j in range(columns[end - 1] + 1, width):
                    to[j] += value * row[j]
                for j in range(k + 1):
                    to[width + j] += value * beside[level, j]


@compiled(nogil=True)
def finish_gram(X, d, work, gram):  # type: ignore[no-untyped-def]
    """Add to `gram` what `add_outer` has added up beside it."""
    of, _, (pairs, beside), _, (_, numbers) = work
    k, width = X[3].shape[1], X[9]
    for i in range(k):
        for j in range(i, k + 1):
            gram[width + i, width + j] += numbers[i, j]
    if len(beside) > 0:
        _add_levels(X, d, of, pairs, beside, gram)
