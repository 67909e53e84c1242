"""CPU kernels for many problems on the same rows at once: they share every sweep over X, a dense array or CSR triple.

Rows are taken tile by tile, each tile in the order of the groups of its rows (see `folds`), so that a run of rows is
held out of a problem, or not, as a whole. Losses are evaluated by `losses.tile`, run by run.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from daskglm.losses import tile

CHUNK = 256  # rows whose features stay in the first-level cache
MOMENT = 32  # its root, of a sum of so high powers, is little more than the largest
TRAIN, TEST = 0, 1  # roles of a group in a problem; all others: neither
FAST = {"contract", "reassoc", "nsz"}


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def _combine(columns, j, w, z, start, stop):  # type: ignore[no-untyped-def]
    """Z += eight rows of `columns`, weighted: one store for eight products."""
    # slices and a count from zero: a range that might begin below zero would not be vectorised
    x0, x1, x2, x3 = (
        columns[j, start:stop], columns[j + 1, start:stop], columns[j + 2, start:stop], columns[j + 3, start:stop]
    )  # fmt: skip
    x4, x5, x6, x7 = (
        columns[j + 4, start:stop], columns[j + 5, start:stop], columns[j + 6, start:stop], columns[j + 7, start:stop]
    )  # fmt: skip
    w0, w1, w2, w3, w4, w5, w6, w7 = w[j], w[j + 1], w[j + 2], w[j + 3], w[j + 4], w[j + 5], w[j + 6], w[j + 7]
    for t in range(len(z)):
        z[t] += ((w0 * x0[t] + w1 * x1[t]) + (w2 * x2[t] + w3 * x3[t])) + (
            (w4 * x4[t] + w5 * x5[t]) + (w6 * x6[t] + w7 * x7[t])
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _forward(columns, W, n, z):  # type: ignore[no-untyped-def]
    """Margins (P, n) of a tile whose features are the rows of `columns`, a multiple of eight."""
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        for p in range(W.shape[0]):
            z[p, start:stop] = 0
            for j in range(0, columns.shape[0], 8):
                _combine(columns, j, W[p], z[p, start:stop], start, stop)


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def _block(a0, a1, columns, k, start, stop, out0, out1):  # type: ignore[no-untyped-def]
    """Two by four dot products over [start, stop), whose sums stay in vector registers."""
    b0, b1, b2, b3 = (
        columns[k, start:stop], columns[k + 1, start:stop], columns[k + 2, start:stop], columns[k + 3, start:stop]
    )  # fmt: skip
    s00, s01, s02, s03, s10, s11, s12, s13 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(len(a0)):
        s00 += a0[t] * b0[t]
        s01 += a0[t] * b1[t]
        s02 += a0[t] * b2[t]
        s03 += a0[t] * b3[t]
        s10 += a1[t] * b0[t]
        s11 += a1[t] * b1[t]
        s12 += a1[t] * b2[t]
        s13 += a1[t] * b3[t]
    out0[k] += s00
    out0[k + 1] += s01
    out0[k + 2] += s02
    out0[k + 3] += s03
    out1[k] += s10
    out1[k + 1] += s11
    out1[k + 2] += s12
    out1[k + 3] += s13


@njit(nogil=True, cache=True, error_model="numpy")
def _backward(slopes, columns, start, stop, out):  # type: ignore[no-untyped-def]
    """Out (P, features) += slopes columns' over [start, stop); P is even, features a multiple of four."""
    for lo in range(start, stop, CHUNK):
        hi = min(lo + CHUNK, stop)
        for p in range(0, slopes.shape[0], 2):
            for k in range(0, columns.shape[0], 4):
                _block(slopes[p, lo:hi], slopes[p + 1, lo:hi], columns, k, lo, hi, out[p], out[p + 1])


@njit(nogil=True, cache=True, error_model="numpy")
def _gram(curvature, columns, start, stop, scaled, gram):  # type: ignore[no-untyped-def]
    """Upper triangle of gram += columns diag(curvature) columns' over [start, stop)."""
    for j in range(columns.shape[0]):
        x, c, out = columns[j, start:stop], curvature[start:stop], scaled[j, start:stop]
        for t in range(len(x)):
            out[t] = c[t] * x[t]
    for lo in range(start, stop, CHUNK):
        hi = min(lo + CHUNK, stop)
        for j in range(0, gram.shape[0], 2):
            for k in range(j // 4 * 4, gram.shape[0], 4):
                _block(scaled[j, lo:hi], scaled[j + 1, lo:hi], columns, k, lo, hi, gram[j], gram[j + 1])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def _count(y, z, weight, out):  # type: ignore[no-untyped-def]
    """Weights of the rows of each class, and of those predicted right: out += [hit +, all +, hit -, all -]."""
    hit, positive, right, total = 0.0, 0.0, 0.0, 0.0
    weighted = len(weight) > 0
    for t in range(len(y)):
        s = weight[t] if weighted else 1.0
        of = s if y[t] > 0.0 else 0.0
        ok = (z[t] > 0.0) == (y[t] > 0.0)
        total += s
        positive += of
        right += s if ok else 0.0
        hit += of if ok else 0.0
    out[0] += hit
    out[1] += positive
    out[2] += right - hit
    out[3] += total - positive


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def _moment(z, other):  # type: ignore[no-untyped-def]
    """Sum of (z - other) ** MOMENT."""
    total = 0.0
    for t in range(len(z)):
        q = (z[t] - other[t]) * (z[t] - other[t])
        q *= q
        q *= q
        q *= q
        total += q * q
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def losses_of_tile(code, y, weight, raw, bounds, roles, z, slope, curvature, values, counts):  # type: ignore[no-untyped-def]
    """One problem on one tile: loss of each group, slopes and curvatures (zero where not trained on), hits held out.

    `bounds` (groups + 1,) cuts the tile into groups; rows held out have the weights `raw`, others `weight`.
    """
    for g in range(len(roles)):
        a, b = bounds[g], bounds[g + 1]
        if a == b:
            continue
        s = (weight if roles[g] == TRAIN else raw)[a:b]
        if roles[g] == TRAIN or roles[g] == TEST:
            values[g] += tile(code, y[a:b], z[a:b], s, slope[a:b], curvature[a:b])
        if roles[g] == TEST:
            _count(y[a:b], z[a:b], s, counts)
        if roles[g] != TRAIN:
            slope[a:b] = 0.0
            curvature[a:b] = 0.0


def _fill(X, d, rows, columns):  # type: ignore[no-untyped-def]
    raise NotImplementedError("compiled code only")


@overload(_fill)
def _fill_from(X, d, rows, columns):  # type: ignore[no-untyped-def]
    """Columns (features, n) = features of some rows of X, by feature, and one after the last."""
    if isinstance(X, types.Array):

        def dense(X, d, rows, columns):  # type: ignore[no-untyped-def]
            n = len(rows)
            for j in range(X.shape[1]):
                out = columns[j, :n]
                for t in range(n):
                    out[t] = X[np.uint64(rows[t]), np.uint64(j)]
            columns[d, :n] = 1

        return dense

    def sparse(X, d, rows, columns):  # type: ignore[no-untyped-def]
        data, indices, indptr = X
        last = len(data) - 1  # a pattern has one value, for all places
        columns[:d] = 0
        columns[d, : len(rows)] = 1
        for t in range(len(rows)):
            i = np.uint64(rows[t])
            for q in range(indptr[i], indptr[i + np.uint64(1)]):
                columns[np.uint64(indices[q]), t] = data[min(q, last)]

    return sparse


@njit(nogil=True, cache=True)
def targets_of_tile(rows, labels, y, weight, raw, signs, Y, S, R):  # type: ignore[no-untyped-def]
    """Targets (classes, n) and both kinds of weights of a tile, in its order."""
    for t in range(len(rows)):
        i = np.uint64(rows[t])
        if signs.shape[0] == 0:
            Y[0, t] = y[i]
        else:
            for k in range(signs.shape[0]):
                Y[k, t] = signs[k, labels[i]]
        if len(weight) > 0:
            S[t] = weight[i]
        if len(raw) > 0:
            R[t] = raw[i]


@njit(nogil=True, cache=True, error_model="numpy")
def score(  # type: ignore[no-untyped-def]
    code, X, d, labels, y, raw, signs, order, bounds, rows, W, of, roles, tiles, values, counts
):
    """Losses and hits of the rows held out of each problem, over some tiles of the rows; see `evaluate`."""
    spare = rows + 8
    columns, z, slope, curvature = np.zeros((W.shape[1], spare)), np.empty(rows), np.empty(rows), np.empty(rows)
    Y, R, nothing = np.empty((max(signs.shape[0], 1), spare)), np.empty(rows), np.empty(0)
    for number in tiles:
        here, cuts = order[number * rows : (number + 1) * rows], bounds[number]
        _fill(X, d, here, columns)
        targets_of_tile(here, labels, y, nothing, raw, signs, Y, R, R)
        for p in range(len(of)):
            for g in range(roles.shape[1]):
                a, b = cuts[g], cuts[g + 1]
                if roles[p, g] == TEST and a < b:
                    margins, r = z[: b - a], R[a:b] if len(raw) > 0 else nothing
                    margins[:] = 0.0
                    for j in range(0, W.shape[1], 8):
                        _combine(columns, j, W[p], margins, a, b)
                    values[g, p] += tile(code, Y[of[p], a:b], margins, r, slope[: b - a], curvature[: b - a])
                    _count(Y[of[p], a:b], margins, r, counts[p])


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate(  # type: ignore[no-untyped-def]
    code, X, d, labels, y, weight, raw, signs, order, bounds, rows, W, of, roles, anchor, by_group, of_gram, tiles,
    sums, values, counts, moments, gram,
):  # fmt: skip
    """Sums of many problems over some tiles of the rows of X; sparse rows become dense, tile by tile.

    Parameters
    ----------
    d : int
        Features.
    labels, y : (n,) arrays
        Label of each row, an index into `signs`; target of each row where there are no labels.
    weight, raw : (n,) arrays or empty
        Weights of rows that are trained on, and held out.
    signs : (classes, labels) array
        Target of each label for each class; no rows: a regression.
    order, bounds, rows
        Permutation of the rows within tiles of so many `rows`; bounds of groups within each tile (tiles, groups + 1).
    W : (P, features) array
        Coefficients, intercept at d, padded with zeros: P even, features a multiple of eight. First the problems',
        then those of anchors.
    of, roles : (P,) and (P, groups) arrays
        Class of each problem, and role of each group in it.
    anchor : (P,) array
        Row of W that is the anchor of each problem; -1: none.
    by_group : bool
        Whether sums and Grams are by group, or over the rows that are trained on.
    of_gram : array of int
        Problems whose Gram is wanted.
    tiles : array of int
        Numbers of the tiles to visit.

    Adds to
    -------
    sums (groups or 1, P, features), values (groups, P), counts (P, 4), moments (P,): sums over all
    rows of (margin less that of the anchor) ** MOMENT, gram (groups or 1, Grams, side, side)
    """
    P, width, groups = W.shape[0], W.shape[1], roles.shape[1]
    spare = rows + 8  # keeps the rows of scratch arrays out of the same cache sets
    columns = np.zeros((width, spare))
    scaled = np.zeros((width if len(of_gram) else 0, spare))
    z, slopes, curvatures = np.empty((P, spare)), np.zeros((P, spare)), np.empty((len(of_gram) + 1, spare))
    Y, S, R = np.empty((max(signs.shape[0], 1), spare)), np.empty(rows), np.empty(rows)
    grams_at = np.full(P, len(of_gram))
    for q in range(len(of_gram)):
        grams_at[of_gram[q]] = q
    for number in tiles:
        here, cuts = order[number * rows : (number + 1) * rows], bounds[number]
        n = len(here)
        _fill(X, d, here, columns)
        targets_of_tile(here, labels, y, weight, raw, signs, Y, S, R)
        s, r = S[: n if len(weight) > 0 else 0], R[: n if len(raw) > 0 else 0]
        _forward(columns, W, n, z)
        for p in range(len(of)):
            c = curvatures[grams_at[p], :n]
            if anchor[p] >= 0:
                moments[p] += _moment(z[p, :n], z[anchor[p], :n])
            losses_of_tile(
                code, Y[of[p], :n], s, r, cuts, roles[p], z[p, :n], slopes[p, :n], c, values[:, p], counts[p]
            )
        for g in range(groups if by_group else 1):
            a, b = (cuts[g], cuts[g + 1]) if by_group else (0, n)
            if a < b:
                _backward(slopes, columns, a, b, sums[g])
                for q in range(len(of_gram)):
                    _gram(curvatures[q], columns, a, b, scaled, gram[g, q])
