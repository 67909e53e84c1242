"""CPU kernels for many problems on the same rows at once: they share every sweep over X, a dense
array or CSR triple.

Rows are taken tile by tile, each tile in the order of the groups of its rows (see `folds`), so that
a run of rows is held out of a problem, or not, as a whole. A tile becomes columns, and runs begin
at whole vectors of these: gaps between them are filled with rows whose slopes and curvatures are
zero. Losses are evaluated by `losses.tile`.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from daskglm.kernels.simd import LANES, VECTOR_BYTES, fetch, numbers
from daskglm.kernels.simd_columns import (
    LEFT,
    PIECE_BYTES,
    RIGHT,
    VECTORS,
    add_triangle,
    column_products,
    combine,
    gather_columns,
    room_for,
)
from daskglm.losses.dispatch import tile
from daskglm.system.compiled import compiled
from daskglm.system.topology import LINE_BYTES

# Runs of rows are filled up to multiples of this: whole vectors of float32 and float64.
RUN = VECTOR_BYTES // 4
# Rows whose margins are computed at once.
TURN = VECTORS * LANES
# Roles of a group in a problem; all others mean neither.
TRAIN, TEST = 0, 1
FAST = {"contract", "reassoc", "nsz"}


def slots(rows: int, groups: int, run: int) -> int:
    """Count the places for a tile of so many rows, in runs by group.

    Each run is filled up to a multiple of `run`, and some places are spare.
    """
    return -(-(rows + groups * (run - 1)) // TURN) * TURN + TURN


@compiled(nogil=True)
def order_by_group(group, rows, run, order, bounds):  # type: ignore[no-untyped-def]
    """Put rows in the order of their groups within tiles of so many `rows`.

    Order (tiles, slots) gets their numbers, where runs begin at multiples of `run`; bounds (tiles,
    groups, 2) first and one past the last slot of each run. Other slots get the number of any row
    of the tile.
    """
    groups = bounds.shape[1]
    counts = np.empty(groups, np.int64)
    for number in range(len(bounds)):
        first = number * rows
        last = min((number + 1) * rows, len(group))
        counts[:] = 0
        for i in range(first, last):
            counts[group[i]] += 1
        at = 0
        for g in range(groups):
            bounds[number, g, :] = at
            at += (counts[g] + run - 1) // run * run
        order[number] = first
        for i in range(first, last):
            end = bounds[number, group[i], 1]
            order[number, end] = i
            bounds[number, group[i], 1] = end + 1


@compiled(nogil=True)
def round_up(n, to):  # type: ignore[no-untyped-def]
    """N rounded up to a multiple."""
    return (n + to - 1) // to * to


def _ask(X, first, count):  # type: ignore[no-untyped-def]
    raise NotImplementedError("compiled code only")


@overload(_ask)
def _ask_for(X, first, count):  # type: ignore[no-untyped-def]
    """Prefetch dense rows: in the order of their groups the processor does not foresee them."""
    if not isinstance(X, types.Array):
        return lambda X, first, count: None

    def dense(X, first, count):  # type: ignore[no-untyped-def]
        flat, d = X.reshape(X.size), X.shape[1]
        for at in range(first * d, min((first + count) * d, X.size), numbers(X, LINE_BYTES)):
            fetch(flat, at)

    return dense


@compiled(nogil=True)
def _forward(columns, count, W, many, run, z, X, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of `many` problems on the rows `run` (start, stop) of a tile, into z.

    z is laid out like `columns`. Meanwhile as many rows of X are prefetched, from `ahead` on.
    """
    gap, width = columns.shape[1], W.shape[1]
    of = columns.reshape(columns.size)
    w = W.reshape(W.size)
    to = z.reshape(z.size)
    for t in range(run[0], run[1], TURN):
        _ask(X, ahead + t, TURN)
        for p in range(0, many, LEFT):
            combine(of, t, count, gap, w, p * width, width, to, p * gap + t)


@compiled(nogil=True)
def _backward(columns, count, P, start, stop, out):  # type: ignore[no-untyped-def]
    """Add slopes columns' over [start, stop) to `out` (problems, width).

    The slopes are the columns from the width-th on.
    """
    gap, width = columns.shape[1], out.shape[1]
    of = columns.reshape(columns.size)
    to = out.reshape(out.size)
    for p in range(0, P, LEFT):
        for k in range(0, count, RIGHT):
            at = (width + p) * gap + start
            beside = k * gap + start
            column_products(of, at, beside, (stop - start) // LANES, gap, to, p * width + k, width)


@compiled(nogil=True)
def _gram(curvature, columns, d, start, stop, roots, scaled, gram):  # type: ignore[no-untyped-def]
    """Add columns diag(curvature) columns' over [start, stop) to the upper triangle of `gram`.

    Products have the precision of `scaled`.
    """
    factor, c = roots[start:stop], curvature[start:stop]
    for t in range(len(factor)):
        factor[t] = np.sqrt(c[t])
    for j in range(d + 1):
        x, out = columns[j, start:stop], scaled[j, start:stop]
        for t in range(len(factor)):
            out[t] = factor[t] * roots.dtype.type(x[t])
    vectors = (stop - start) // numbers(scaled, VECTOR_BYTES)
    add_triangle(scaled, d, start, vectors, gram, scaled[0, :0])


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _count(y, z, weight, out):  # type: ignore[no-untyped-def]
    """Add up the weights of the rows of each class, and of those predicted right.

    `out` += [right +, all +, right -, all -].
    """
    total = 0.0
    positive = 0.0
    called = 0.0
    hit = 0.0
    weighted = len(weight) > 0
    for t in range(len(y)):
        s = weight[t] if weighted else 1.0
        # products, where sums over some of the rows are not vectorised
        is_positive = 1.0 if y[t] > 0.0 else 0.0
        is_called = 1.0 if z[t] > 0.0 else 0.0
        total += s
        positive += s * is_positive
        called += s * is_called
        hit += s * is_positive * is_called
    out[0] += hit
    out[1] += positive
    out[2] += (total - positive) - (called - hit)
    out[3] += total - positive


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def _moment(z, other):  # type: ignore[no-untyped-def]
    """Return the sum of (z - other) ** MOMENT."""
    total = 0.0
    for t in range(len(z)):
        q = (z[t] - other[t]) * (z[t] - other[t])
        q *= q
        q *= q
        q *= q
        total += q * q
    return total


@compiled(nogil=True, error_model="numpy")
def losses_of_tile(law, y, weights, bounds, roles, z, out):  # type: ignore[no-untyped-def]
    """Compute one problem's losses, slopes and curvatures on one tile.

    Slopes and curvatures are zero for rows that are not trained on. `bounds` (groups, 2) has the
    runs of groups; `weights` is (weight, raw), of which rows held out have `raw`; `out` is (slope,
    curvature, values, counts), where `counts` is of rows held out.
    """
    weight, raw = weights
    slope, curvature, values, counts = out
    for g in range(len(roles)):
        a, b = bounds[g]
        if a == b:
            continue
        s = (weight if roles[g] == TRAIN else raw)[a:b]
        if roles[g] == TRAIN or roles[g] == TEST:
            values[g] += tile(law, y[a:b], z[a:b], s, slope[a:b], curvature[a:b])
        if roles[g] == TEST:
            _count(y[a:b], z[a:b], s, counts)
        if roles[g] != TRAIN:
            slope[a:b] = 0.0
            curvature[a:b] = 0.0


def fill_columns(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
    """Columns = features of some rows of X, all before `stop`, and ones after the last feature."""
    raise NotImplementedError("compiled code only")


@overload(fill_columns)
def _fill_from(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
    """Columns = features of some rows of X, all before `stop`, and ones after the last feature."""
    if isinstance(X, types.Array):

        def dense(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
            n = len(rows)
            gap = columns.shape[1]
            piece = numbers(X, PIECE_BYTES)
            flat = X.reshape(X.size)
            to = columns.reshape(columns.size)
            if (stop - 1) * d + round_up(d, piece) <= X.size:
                for p in range(0, d, piece):
                    gather_columns(flat, p, d, rows, n // LANES, to, p * gap, gap)
            else:  # pieces of the last rows would reach past the end
                for j in range(d):
                    for t in range(n):
                        columns[j, t] = X[rows[t], j]
            columns[d, :n] = 1

        return dense

    def sparse(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
        data, indices, indptr = X
        last = len(data) - 1  # a pattern has one value, for all places
        columns[:d] = 0
        columns[d, : len(rows)] = 1
        for t in range(len(rows)):
            i = np.uint64(rows[t])
            for q in range(indptr[i], indptr[i + np.uint64(1)]):
                columns[np.uint64(indices[q]), t] = data[min(q, last)]

    return sparse


@compiled(nogil=True)
def targets_of_tile(rows, data, Y, S, R, shift):  # type: ignore[no-untyped-def]
    """Targets (classes, n), both kinds of weights, and offsets of a tile, in its order."""
    _, _, labels, y, weight, raw, signs, offset = data
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
        if len(offset) > 0:
            shift[t] = offset[i]


@compiled(nogil=True)
def _add_offsets(shift, many, start, stop, z):  # type: ignore[no-untyped-def]
    """Add the offsets of the rows from `start` on to the margins of `many` problems, in z."""
    for p in range(many):
        margins = z[p]
        for t in range(start, stop):
            margins[t] += shift[t]


@compiled(nogil=True, error_model="numpy")
def score(law, data, tiling, problems, tiles, values, counts):  # type: ignore[no-untyped-def]
    """Add up losses and hits of each problem's rows held out, over some tiles; see `evaluate`."""
    X, d, _, _, _, raw, signs, offset = data
    (order, bounds, rows), (W, of, roles, _) = tiling, problems
    P = len(of)
    groups = roles.shape[1]
    most = order.shape[1]
    columns = room_for(W.shape[1], most, W)
    z = room_for(len(W), most, W)
    held = np.zeros((groups, *W.shape))
    slope = np.empty(most)
    curvature = np.empty(most)
    nothing = np.empty(0)
    S, R, shift = np.empty(most), np.empty(most), np.empty(most)
    Y = np.empty((max(signs.shape[0], 1), most))
    problems = np.empty((groups, P), np.int64)
    many = np.zeros(groups, np.int64)
    for g in range(groups):
        for p in range(P):
            if roles[p, g] == TEST:
                problems[g, many[g]] = p
                held[g, many[g]] = W[p]
                many[g] += 1
    for at, number in enumerate(tiles):
        runs = bounds[number]
        ahead = tiles[min(at + 1, len(tiles) - 1)] * rows
        here = order[number, : round_up(runs[-1, 1], TURN)]
        fill_columns(X, d, here, (number + 1) * rows, columns)
        targets_of_tile(here, data, Y, S, R, shift)
        for g in range(groups):
            a, b = runs[g]
            _forward(columns, d + 1, held[g], many[g], (a, b), z, X, ahead)
            if len(offset) > 0:
                _add_offsets(shift, many[g], a, b, z)
            for k in range(many[g] if a < b else 0):
                p = problems[g, k]
                margins = z[k, a:b]
                r = R[a:b] if len(raw) > 0 else nothing
                values[g, p] += tile(
                    law, Y[of[p], a:b], margins, r, slope[: b - a], curvature[: b - a]
                )
                _count(Y[of[p], a:b], margins, r, counts[p])


@compiled(nogil=True, error_model="numpy")
def evaluate(  # type: ignore[no-untyped-def]
    law, data, tiling, problems, grams, tiles, out
):
    """Add up many problems over some tiles of the rows of X. Sparse rows become dense by tiles.

    Parameters
    ----------
    data : (X, d, labels, y, weight, raw, signs, offset)
        - d: number of features;
        - labels, y (n,): label of each row, an index into `signs`; target of each row if there
          are no labels;
        - weight, raw (n,) or empty: weights of rows that are trained on, and held out;
        - signs (classes, labels): target of each label for each class; no rows: a regression;
        - offset (n,) or empty: what is added to the margins of each row.
    tiling : (order, bounds, rows)
        Numbers of the rows in each tile of `rows` rows, and the runs of groups within it; see
        the function `order_by_group`.
    problems : (W, of, roles, anchor)
        - W (P or more, features): coefficients, intercept at d, padded with zeros: as many rows as
          whole blocks of LEFT have, as many features as whole blocks of RIGHT. First the problems',
          then those of anchors;
        - of (P,), roles (P, groups): class of each problem, and role of each group in it;
        - anchor (P,): row of W that is the anchor of each problem; -1: none.
    grams : (by_group, of_gram, like)
        Whether sums and Grams are by group, or over the rows that are trained on; the problems
        whose Grams to form; an array of the dtype in which products are summed over a tile.
    tiles : array of int
        Numbers of the tiles to read.
    out : (sums, values, counts, moments, gram)
        Arrays to which to add: sums (groups or 1, P, features), values (groups, P), counts (P, 4),
        moments (P,): sums over all rows of (margin less that of the anchor) ** MOMENT, gram (groups
        or 1, Grams, side, side).
    """
    X, d, _, _, weight, raw, signs, offset = data
    (order, bounds, rows), (W, of, roles, anchor) = tiling, problems
    (by_group, of_gram, like), (sums, values, counts, moments, gram) = grams, out
    P = len(of)
    width = W.shape[1]
    groups = roles.shape[1]
    most = order.shape[1]
    # features, then slopes
    columns = room_for(width + round_up(P, LEFT), most, W)
    z = room_for(len(W), most, W)
    curvatures = np.zeros((len(of_gram) + 1, most))
    scaled = room_for(width if len(of_gram) else 0, most, like)
    roots = np.empty(most, like.dtype)
    Y = np.empty((max(signs.shape[0], 1), most))
    S, R, shift = np.empty(most), np.empty(most), np.empty(most)
    grams_at = np.full(P, len(of_gram))
    for q in range(len(of_gram)):
        grams_at[of_gram[q]] = q
    for at, number in enumerate(tiles):
        runs = bounds[number]
        ahead = tiles[min(at + 1, len(tiles) - 1)] * rows
        n = round_up(runs[-1, 1], TURN)
        here = order[number, :n]
        fill_columns(X, d, here, (number + 1) * rows, columns)
        targets_of_tile(here, data, Y, S, R, shift)
        weights = S[: n if len(weight) > 0 else 0], R[: n if len(raw) > 0 else 0]
        _forward(columns, d + 1, W, len(W), (0, n), z, X, ahead)
        if len(offset) > 0:
            _add_offsets(shift, len(W), 0, n, z)
        for p in range(P):
            slopes = columns[width + p]
            c = curvatures[grams_at[p]]
            found = slopes[:n], c[:n], values[:, p], counts[p]
            losses_of_tile(law, Y[of[p], :n], weights, runs, roles[p], z[p, :n], found)
            for g in range(groups):
                a, b = runs[g]
                slopes[b : round_up(b, RUN)] = 0.0
                c[b : round_up(b, RUN)] = 0.0
                if anchor[p] >= 0:
                    moments[p] += _moment(z[p, a:b], z[anchor[p], a:b])
        for g in range(groups if by_group else 1):
            a, b = (
                (runs[g, 0], round_up(runs[g, 1], RUN))
                if by_group
                else (0, round_up(runs[-1, 1], RUN))
            )
            if a < b:
                _backward(columns, d + 1, P, a, b, sums[g])
                for q in range(len(of_gram)):
                    _gram(curvatures[q], columns, d, a, b, roots, scaled, gram[g, q])
