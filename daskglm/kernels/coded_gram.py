"""The Gram [X 1]' D [X 1] of coded rows.

The Gram of two code columns is T_a' C T_b, where C has the sums of the curvatures of the rows with
each pair of levels. These are added up by pairs of code columns, so that the sums of a pair stay in
a near cache, and meet the tables T when all rows have been added. Where the pairs of levels are
more than that saves, the rows are taken as sparse ones.

Code columns of few levels are merged first: a group of them has a code for each combination of
their levels. There are fewer pairs of groups than of columns, and the sums of pairs of columns are
sums of theirs. A term goes through the additions of its combination, then through one for each
other that has rows: no more than the rows are.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.coded_csr import count_values, expand
from daskglm.kernels.gram import add_outer as dense_add_outer
from daskglm.kernels.gram import finish_outer, scratch
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Sums by pairs of levels, at most: 16 MiB. Chosen.
MOST_PAIRS = 1 << 21
# Combinations of a group, at most. Measured: of 64, 128, 256 and 512 the middle ones were fastest
# on nine columns of 5 to 100 levels (x86 server, 2026-11).
MOST_MERGED = 128
# Sums by pairs of groups, at most: 1 MiB, which a second-level cache holds.
MOST_JOINT = 1 << 17
# Time to add a sum by a pair of groups to one by columns, in additions of a row. Measured there: 2.
EXPANDED = 2
# Codes of a cache line.
APART = LINE_BYTES // 4


@within_callers()
def _starts(sizes):  # type: ignore[no-untyped-def]
    """Return where the sums of each pair begin, of sets of these sizes, and the end of all."""
    starts, total = np.zeros((len(sizes), len(sizes)), np.int64), 0
    for a in range(len(sizes)):
        for b in range(a + 1, len(sizes)):
            starts[a, b] = total
            total += sizes[a] * sizes[b]
    return starts, total


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
    starts, total = _starts(counts)
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
def _merged(counts, most):  # type: ignore[no-untyped-def]
    """Merge code columns into groups of `most` combinations, each into the first that it fits in.

    Returns the group of each column, by what its codes are multiplied there, and combinations of
    each group. A column of more levels is alone.
    """
    p, used = len(counts), 0
    group, factor, sizes = np.empty(p, np.int64), np.ones(p, np.int64), np.ones(p, np.int64)
    for a in range(p):
        g = 0
        while g < used and sizes[g] * counts[a] > most:
            g += 1
        used = max(used, g + 1)
        group[a], factor[a] = g, sizes[g]
        sizes[g] *= counts[a]
    return group, factor, sizes[:used]


@compiled(nogil=True)
def _groups(begins, counts, rows):  # type: ignore[no-untyped-def]
    """Return what `_merged` does, where sums of combinations and of their pairs begin, and the end.

    Groups are as large as so many rows are worth; each column is one if none are.
    """
    p, most = len(counts), MOST_MERGED
    while most > 1:
        group, factor, sizes = _merged(counts, most)
        starts, total = _starts(sizes)
        work = 0
        for a in range(p):
            for b in range(a + 1, p):
                if group[a] != group[b]:
                    work += sizes[group[a]] * sizes[group[b]]
        saved = (p * (p + 1) - len(sizes) * (len(sizes) + 1)) // 2
        if total <= MOST_JOINT and EXPANDED * work <= rows * saved:
            return group, factor, sizes, np.cumsum(sizes) - sizes, starts, total
        most //= 2
    starts, total = _starts(counts)
    return np.arange(p), np.ones(p, np.int64), counts, begins, starts, total


@compiled(nogil=True)
def room(X, many, count, formed):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in on `count` rows, `many` at a time.

    `of` says where levels and groups are, (codes, sums) are the codes of groups of a tile and sums
    by pairs of combinations, (data, indices, indptr) of sparse rows: one of both is empty. Then
    what the Gram of numbers works in, and that Gram.
    """
    floats, first, indptr, ranks = X[3], X[4], X[5], X[8]
    k, p, levels = floats.shape[1], len(first), len(indptr) - 1
    side = (k + 4) // 4 * 4 if formed and k > 0 else 0
    own = scratch(floats, many if side > 0 else 0), np.zeros((side, side))
    of = _blocks(first[: p if formed else 0], levels, ranks)
    groups = _groups(of[0], of[1], count)
    pairs, beside, sparse, rows = groups[5], 0, 0, 0
    if formed:
        beside, rows = groups[2].sum(), many
        most = count * (p * (p + 1) // 2 + k)
        if of[3] > MOST_PAIRS or of[3] + levels * (k + 1) > most or levels == 0:
            sparse, pairs, beside = longest(X) + k, 0, 0
    # more room than codes keeps those of several groups out of the same cache sets
    codes = np.empty((len(groups[2]), rows + APART if sparse == 0 else 0), np.uint32)
    sums = np.zeros(pairs), np.zeros((beside, k + 1))
    as_rows = (
        np.empty(sparse * rows),
        np.empty(sparse * rows, np.int32),
        np.empty(rows + 1, np.int64),
    )
    return (of, groups), codes, sums, as_rows, own


@compiled(nogil=True)
def _merge_part(part, ranks, start, count, group, factor, codes):  # type: ignore[no-untyped-def]
    rows = part[start : start + count]
    for j in range(part.shape[1]):
        to, times = codes[group[ranks[j]]], np.uint32(factor[ranks[j]])
        for t in range(count):
            to[t] += times * np.uint32(rows[t, np.uint64(j)])


@within_callers()
def _merge_codes(X, start, count, groups, codes):  # type: ignore[no-untyped-def]
    """Set `codes` (groups, ...) to those of a tile."""
    narrow, middle, wide, ranks = X[0], X[1], X[2], X[8]
    group, factor = groups[:2]
    p, q = narrow.shape[1], narrow.shape[1] + middle.shape[1]
    codes[:, :count] = 0
    if p > 0:
        _merge_part(narrow, ranks[:p], start, count, group, factor, codes)
    if q > p:
        _merge_part(middle, ranks[p:q], start, count, group, factor, codes)
    if len(ranks) > q:
        _merge_part(wide, ranks[q:], start, count, group, factor, codes)


@compiled(nogil=True)
def _add_pairs(codes, curvature, count, groups, sums):  # type: ignore[no-untyped-def]
    """Add curvatures to the sums of the pairs of combinations of the rows of a tile."""
    _, _, sizes, _, starts, _ = groups
    for a in range(len(codes)):
        one = codes[a]
        b = a + 1
        # two pairs at a time: equal rows one after another wait for each other's sums
        while b + 1 < len(codes):
            other, next_one = codes[b], codes[b + 1]
            side, next_side = np.uint64(sizes[b]), np.uint64(sizes[b + 1])
            to, next_to = sums[starts[a, b] :], sums[starts[a, b + 1] :]
            for t in range(count):
                c, row = curvature[t], np.uint64(one[t])
                to[row * side + np.uint64(other[t])] += c
                next_to[row * next_side + np.uint64(next_one[t])] += c
            b += 2
        if b < len(codes):
            other, side, to = codes[b], np.uint64(sizes[b]), sums[starts[a, b] :]
            for t in range(count):
                to[np.uint64(one[t]) * side + np.uint64(other[t])] += curvature[t]


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _add_beside(floats, codes, curvature, start, count, firsts, beside):  # type: ignore[no-untyped-def]
    """Add curvatures, and these times numbers, to the sums of combinations: (..., k + 1).

    Without numbers only to those of the last group: those of others are sums of their pairs'.
    """
    k = floats.shape[1]
    if k == 0:
        last, to = codes[-1], beside[firsts[-1] :, 0]
        for t in range(count):
            to[np.uint64(last[t])] += curvature[t]
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
            to = beside[np.uint64(firsts[a]) + np.uint64(codes[a, t])]
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
    (_, groups), codes, (pairs, beside), rows, (own, numbers) = work
    if floats.shape[1] > 0:
        dense_add_outer(floats, curvature, start, count, floats.shape[1], own, numbers)
    total = 0.0
    for t in range(count):
        total += curvature[t]
    gram[d, d] += total
    if len(beside) == 0:
        _add_sparse(X, curvature, start, count, d, rows, gram)
        return
    _merge_codes(X, start, count, groups, codes)
    _add_pairs(codes, curvature, count, groups, pairs)
    _add_beside(floats, codes, curvature, start, count, groups[3], beside)


@within_callers()
def _fill_beside(groups, joint, beside):  # type: ignore[no-untyped-def]
    """Set the sums that `_add_beside` has left out without numbers."""
    _, _, sizes, firsts, starts, _ = groups
    for g in range(len(sizes) - 1):
        side = sizes[g + 1]
        for i in range(sizes[g]):
            begin = starts[g, g + 1] + i * side
            beside[firsts[g] + i, 0] = joint[begin : begin + side].sum()


@compiled(nogil=True)
def _expanded(of, groups, joint, beside, levels):  # type: ignore[no-untyped-def]
    """Return sums by pairs of levels, and by levels (levels, k + 1), from those of combinations."""
    begins, counts, starts, total = of
    group, factor, sizes, firsts, at, _ = groups
    pairs, alone = np.zeros(total), np.zeros((levels, beside.shape[1]))
    for b in range(len(counts)):
        h = group[b]
        of_b = np.arange(sizes[h]) // factor[b] % counts[b]
        for j in range(sizes[h]):
            alone[begins[b] + of_b[j]] += beside[firsts[h] + j]
        for a in range(b):
            g, to = group[a], pairs[starts[a, b] : starts[a, b] + counts[a] * counts[b]]
            of_a = np.arange(sizes[g]) // factor[a] % counts[a]
            if g == h:
                for i in range(sizes[g]):
                    to[of_a[i] * counts[b] + of_b[i]] += beside[firsts[g] + i, -1]
                continue
            first, step_a, step_b = at[g, h], sizes[h], 1
            if g > h:
                first, step_a, step_b = at[h, g], 1, sizes[g]
            for i in range(sizes[g]):
                row, place = to[of_a[i] * counts[b] :], first + i * step_a
                for j in range(sizes[h]):
                    row[of_b[j]] += joint[place + j * step_b]
    return pairs, alone


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
    (of, groups), _, (pairs, beside), _, (own, numbers) = work
    k, width = X[3].shape[1], X[9]
    finish_outer(k, own, numbers)
    for i in range(k):
        for j in range(i, k + 1):
            gram[width + i, width + j] += numbers[i, j]
    if len(beside) > 0:
        levels = len(X[5]) - 1
        if k == 0:
            _fill_beside(groups, pairs, beside)
        if len(groups[2]) < len(groups[0]):
            pairs, beside = _expanded(of, groups, pairs, beside, levels)
        _add_levels(X, d, of, pairs, beside, gram)
