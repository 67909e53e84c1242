"""CPU kernels for many problems on the same rows at once: they share every sweep over X, of any
storage.

Rows are taken tile by tile, each tile in the order of the groups of its rows (see `folds`), so that
a run of rows is held out of a problem, or not, as a whole. In a tile of columns runs begin at whole
vectors: gaps between them are filled with rows whose slopes and curvatures are zero. Losses are
evaluated by `losses.tile`.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.column_tiles import TURN
from daskglm.kernels.tiles import (
    add_gram,
    backward,
    fill,
    forward,
    gram_room,
    places,
    room,
    run_end,
)
from daskglm.losses.dispatch import tile
from daskglm.system.compiled import compiled

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


@compiled(nogil=True)
def targets_of_tile(rows, beside, Y, S, R, shift):  # type: ignore[no-untyped-def]
    """Targets (classes, n), both kinds of weights, and offsets of a tile, in its order."""
    labels, y, weight, raw, signs, offset = beside
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


@within_callers()
def _add_offsets(shift, many, start, stop, z):  # type: ignore[no-untyped-def]
    """Add the offsets of the rows from `start` on to the margins of `many` problems, in z."""
    for p in range(many):
        margins = z[p]
        for t in range(start, stop):
            margins[t] += shift[t]


@compiled(nogil=True, error_model="numpy")
def score(law, data, tiling, problems, tiles, values, counts):  # type: ignore[no-untyped-def]
    """Add up losses and hits of each problem's rows held out, over some tiles; see `evaluate`.

    `problems` are (W, of, roles, work), for tiles of columns.
    """
    X, d, _, _, _, raw, signs, offset = data
    (order, bounds, rows), (W, of, roles, work) = tiling, problems
    P = len(of)
    groups = roles.shape[1]
    most = order.shape[1]
    z, _ = room(work, W, most)
    held = np.zeros((groups, *W.shape))
    slope, curvature = np.empty(most), np.empty(most)
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
        here = order[number, : places(work, runs[-1, 1])]
        fill(work, X, d, here, (number + 1) * rows)
        targets_of_tile(here, data[2:], Y, S, R, shift)
        for g in range(groups):
            a, b = runs[g]
            forward(work, X, d, held[g], many[g], here, (a, b), z, ahead)
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
    """Add up many problems over some tiles of the rows of X.

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
    problems : (W, of, roles, anchor, work)
        - W: coefficients of the problems, then of anchors, as tiles of this kind have them;
        - of (P,), roles (P, groups): class of each problem, and role of each group in it;
        - anchor (P,): number of the anchor of each problem in W; -1: none;
        - work: see `tiles`.
    grams : (by_group, of_gram, like)
        Whether sums and Grams are by group, or over the rows that are trained on; the problems
        whose Grams to form; an array of the dtype in which products are summed over a tile.
    tiles : array of int
        Numbers of the tiles to read.
    out : (sums, values, counts, moments, gram)
        Arrays to which to add: sums (groups or 1), each as W is, values (groups, P), counts (P, 4),
        moments (P,): sums over all rows of (margin less that of the anchor) ** MOMENT, gram (groups
        or 1, Grams, side, side).
    """
    X, d, _, _, weight, raw, signs, offset = data
    (order, bounds, rows), (W, of, roles, anchor, work) = tiling, problems
    (by_group, of_gram, like), (sums, values, counts, moments, gram) = grams, out
    P, groups, most = len(of), roles.shape[1], order.shape[1]
    z, slopes = room(work, W, most)
    curvatures = np.zeros((len(of_gram) + 1, most))
    space = gram_room(work, W, most, like, len(of_gram) > 0)
    Y = np.empty((max(signs.shape[0], 1), most))
    S, R, shift = np.empty(most), np.empty(most), np.empty(most)
    grams_at = np.full(P, len(of_gram))
    for q in range(len(of_gram)):
        grams_at[of_gram[q]] = q
    for at, number in enumerate(tiles):
        runs = bounds[number]
        ahead = tiles[min(at + 1, len(tiles) - 1)] * rows
        n = places(work, runs[-1, 1])
        here = order[number, :n]
        fill(work, X, d, here, (number + 1) * rows)
        targets_of_tile(here, data[2:], Y, S, R, shift)
        weights = S[: n if len(weight) > 0 else 0], R[: n if len(raw) > 0 else 0]
        forward(work, X, d, W, len(z), here, (0, n), z, ahead)
        if len(offset) > 0:
            _add_offsets(shift, len(z), 0, n, z)
        for p in range(P):
            slope, c = slopes[p], curvatures[grams_at[p]]
            found = slope[:n], c[:n], values[:, p], counts[p]
            losses_of_tile(law, Y[of[p], :n], weights, runs, roles[p], z[p, :n], found)
            for g in range(groups):
                a, b = runs[g]
                slope[b : run_end(work, b)] = 0.0
                c[b : run_end(work, b)] = 0.0
                if anchor[p] >= 0:
                    moments[p] += _moment(z[p, a:b], z[anchor[p], a:b])
        for g in range(groups if by_group else 1):
            run = (
                (runs[g, 0], run_end(work, runs[g, 1]))
                if by_group
                else (0, run_end(work, runs[-1, 1]))
            )
            if run[0] < run[1]:
                backward(work, X, d, slopes, P, here, run, sums[g])
                for q in range(len(of_gram)):
                    add_gram(work, d, curvatures[q], run, space, gram[g, q])
