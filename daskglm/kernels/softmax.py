"""The softmax on a tile of rows, on the CPU: losses, slopes and curvatures from margins.

This is what a loss of K margins is for kernels (`class_losses`): a module with a function of each
of these names. `law` tells which loss it is, by its type, and has its parameter. Margins and all
that follows from them lie as (K, rows), so that loops run over rows in vectors. A row's loss is
log(sum_k exp(z_k)) - z_y, which is added up as log1p of the other classes' share: so it is
relatively exact however small it is, and so are slopes.
"""

from __future__ import annotations

from daskglm.kernels.copies import copy
from daskglm.losses.vector_math import exp, log, log1p
from daskglm.system.compiled import compiled

FAST = {"contract", "reassoc", "nsz"}


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def prepared(law, z, K, n, work):  # type: ignore[no-untyped-def]
    """Turn margins z (K, n) into what curvatures are made of, in place: probabilities.

    `work` (2, n) is overwritten.
    """
    largest, total = work[0, :n], work[1, :n]
    copy(z[0, :n], largest)
    for k in range(1, K):
        row = z[k, :n]
        for t in range(n):
            largest[t] = max(largest[t], row[t])
    total[:] = 0.0
    for k in range(K):
        row = z[k, :n]
        for t in range(n):
            e = exp(row[t] - largest[t])
            row[t] = e
            total[t] += e
    for t in range(n):
        total[t] = 1.0 / total[t]
    for k in range(K):
        row = z[k, :n]
        for t in range(n):
            row[t] *= total[t]


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def losses(law, z, K, n, of, s, work, slopes):  # type: ignore[no-untyped-def]
    """Return the weighted sum of the losses; z is `prepared`, and `slopes` (K, n) become these.

    `of` has the classes of the rows and `s` their weights, (n,) each; `work` (5, n) is overwritten.
    The sum is not finite where a margin is not.
    """
    largest, own, others, mine, bad = (
        work[0, :n],
        work[1, :n],
        work[2, :n],
        work[3, :n],
        work[4, :n],
    )
    copy(z[0, :n], largest)
    for k in range(1, K):
        row = z[k, :n]
        for t in range(n):
            largest[t] = max(largest[t], row[t])
    own[:] = 0.0
    others[:] = 0.0
    mine[:] = 0.0
    bad[:] = 0.0
    for k in range(K):
        row = z[k, :n]
        for t in range(n):
            value = row[t]
            e = exp(value - largest[t])
            is_own = of[t] == k
            own[t] += e if is_own else 0.0
            others[t] += 0.0 if is_own else e
            mine[t] += value if is_own else 0.0
            bad[t] += 0.0 * value
            row[t] = e
    total = 0.0
    for t in range(n):
        # where the own margin is the largest its term is one, and drops out exactly
        rest = others[t] + (own[t] - 1.0)
        small = log1p(min(max(rest, 0.0), 1.0))
        large = log(1.0 + max(rest, 1.0))
        loss = (small if rest <= 1.0 else large) + (largest[t] - mine[t])
        total += s[t] * loss + bad[t]
        largest[t] = 1.0 / (own[t] + others[t])
    for k in range(K):
        row, slope = z[k, :n], slopes[k, :n]
        for t in range(n):
            p = row[t] * largest[t]
            row[t] = p
            slope[t] = s[t] * (-others[t] * largest[t] if of[t] == k else p)
    return total


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def pair_curvature(law, p, q, same, s, n, out):  # type: ignore[no-untyped-def]
    """Weights of the Gram of two classes: s p q of each row; of one class: s p (1 - p)."""
    for t in range(n):
        other = 1.0 - p[t] if same else q[t]
        out[t] = s[t] * p[t] * max(other, 0.0)


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def direction_curvature(law, p, K, direction, s, n, work, out):  # type: ignore[no-untyped-def]
    """Curvatures along one direction in the space of classes: its variance under p, times s."""
    mean = work[0, :n]
    mean[:] = 0.0
    for k in range(K):
        row, b = p[k, :n], direction[k]
        for t in range(n):
            mean[t] += b * row[t]
    out[:n] = 0.0
    for k in range(K):
        row, b = p[k, :n], direction[k]
        for t in range(n):
            out[t] += row[t] * (b - mean[t]) * (b - mean[t])
    for t in range(n):
        out[t] *= s[t]


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def times_hessian(law, p, K, n, s, work, u):  # type: ignore[no-untyped-def]
    """Multiply u (K, n), in place, by s (diag p - p p') of each row."""
    mean = work[0, :n]
    mean[:] = 0.0
    for k in range(K):
        row, v = p[k, :n], u[k, :n]
        for t in range(n):
            mean[t] += row[t] * v[t]
    for k in range(K):
        row, v = p[k, :n], u[k, :n]
        for t in range(n):
            v[t] = s[t] * row[t] * (v[t] - mean[t])
