"""The page that `scaling` writes about the model: fit, counts, predictions and how firm they are,
as Markdown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.reports.tabular import table
from benchmarks.scaling.model import (
    GBITS,
    NODES,
    SHAPES,
    SOLVERS,
    Count,
    Fit,
    Machine,
    Point,
    Prediction,
    changed,
    growth,
    predict,
)


def fits_part(points: Sequence[Point], cores: int, whole: Fit, narrow: Fit | None) -> str:
    """Write the constants and how far they are from the measurements."""
    named = [("all workers", whole)] + ([(f"workers <= {cores} cores", narrow)] if narrow else [])
    rows = []
    for name, f in named:
        constants = [
            f"{1e3 * f.latency:.3g}",
            f"{1e3 * f.per_message:.3g}",
            f"{f.network / 1e6:.4g}",
        ]
        rows.append([name, f.points, *constants, f"{f.median_error:.0%}", f"{f.max_error:.0%}"])
    head = [
        "fitted to",
        "medians",
        "ms a hop",
        "ms a message",
        "MB/s",
        "median error",
        "largest error",
    ]
    worst = max(points, key=lambda p: abs(whole.predict(*p[:3]) / p.seconds - 1))
    text = f"""\
Non-negative least squares on relative errors. The first is used below. It is farthest from
{worst.workers} workers, {worst.d:,} doubles, {worst.scheme}: measured {1e3 * worst.seconds:.3g} ms,
model {1e3 * whole.predict(*worst[:3]):.3g} ms. Workers, client and scheduler share {
        cores
    } cores, so the fit counts messages as
max(messages on the longest way, 2 n / cores): both ends of a message want a core. Beyond the cores
that makes tree and star alike but for a hop, and what processes cost each other (caches, switches,
waiting for a turn) goes into the milliseconds a message: the constants are those of a crowded
machine, likelier too high than too low; even with workers <= cores the client's process makes one
more. No network was measured: MB/s is pickling, copying and loopback through one Python process."""
    return f"{table(head, rows)}\n\n{text}"


def counts_part(counts: Sequence[Count]) -> str:
    """Write the counts of the solvers."""
    rows = [
        [
            c.data,
            c.solver,
            c.workers,
            f"{c.passes:.0f}",
            f"{c.rounds:.0f}",
            f"{c.vectors:.0f}",
            f"{c.rate / 1e6:.0f}",
        ]
        for c in counts
    ]
    head = [
        "shape of",
        "solver",
        "workers",
        "passes",
        "rounds",
        "vectors there and back",
        "MB/s and core",
    ]
    slopes = []
    for shape in SHAPES:
        mine = [c for c in counts if (c.data, c.solver) == (shape.name, "sdca") and c.workers > 1]
        slopes.append(f"{shape.name} workers^{growth(mine):.2f}")
    text = f"""\
Counted by `python -m benchmarks.scaling counts` in one process, every solver at its loosest
tolerance that reaches the target. Vectors are doubles in requests and replies over d: a gradient is
1 + 1, a product 2 + 1 (the point goes along), a round of sdca 2 + 2 and its line searches one or
two each; a Hessian is d (daskglm sends d^2, not the half that is enough). Passes of sdca grow as:
{", ".join(slopes)}. Beside these: `benchmarks/results/2026-11-21-higgs-like-2M` has newton at 5
passes and 5 rounds, `benchmarks/results/sdca/snapml` sdca at 8 passes and 11 rounds on one worker,
and `benchmarks/results/sdca/fig5c-nodes.md` its growth with groups to a gap of 1e-4."""
    return f"{table(head, rows)}\n\n{text}"


def predictions_part(predictions: Sequence[Prediction]) -> str:
    """Seconds, picks, shares and memory."""
    rows = []
    for p in predictions:
        cells = [
            f"{p.seconds[solver].total:.3g}" if solver in p.seconds else "-" for solver in SOLVERS
        ]
        best = p.seconds[p.pick]
        shares = " / ".join(f"{part / best.total:.0%}" for part in best)
        held = f"{p.memory / 1e9:.3g}" + ("" if p.fits else " (too much)")
        rows.append([p.shape.name, f"{p.nodes:,}", p.gbit, *cells, f"**{p.pick}**", shares, held])
    return table(["shape", "nodes", "Gbit/s", *SOLVERS, "pick", "shares", "GB per node"], rows)


def client_part(fitted: Fit, counts: Sequence[Count]) -> str:
    """Write what comes back to the client at every gradient."""
    rows = []
    for shape in SHAPES:
        for nodes in NODES:
            workers = nodes * Machine.workers
            width = math.ceil(math.sqrt(workers))
            leaders = math.ceil(workers / width)
            back = leaders * 8 * shape.features
            times = [back / rate for rate in (fitted.network, *(gbit * 1e9 / 8 for gbit in GBITS))]
            size = f"{8 * shape.features / 1e6:.3g}"
            rows.append(
                [
                    shape.name,
                    f"{nodes:,}",
                    leaders,
                    size,
                    f"{back / 1e9:.3g}",
                    *(f"{t:.2g}" for t in times),
                ]
            )
    head = [
        "shape",
        "nodes",
        "leaders",
        "MB a vector",
        "GB into the client a round",
        "s in software",
    ]
    text = """\
Leaders x d x 8 bytes come back to the client at every gradient, through its one link and its one
process (as many go out). A star would multiply that by the size of a group. If the scheduler is on
another host than the client the bytes take that link a second time. Where these seconds exceed a
pass by far the client is the bottleneck, and nodes do not help: they add leaders."""
    return f"{table([*head, *(f's at {gbit} Gbit/s' for gbit in GBITS)], rows)}\n\n{text}"


def firm_part(whole: Fit, narrow: Fit | None, counts: Sequence[Count]) -> str:
    """Which picks change with what is assumed."""
    others = {"if cores are never slower than memory": (whole, "leaders", True)}
    if narrow:
        others = {"with the fit to workers <= cores": (narrow, "leaders", False), **others}
    usual = predict(whole, counts, "leaders")
    lines = [
        (why, changed(usual, predict(f, counts, s, full_rate=full)))
        for why, (f, s, full) in others.items()
    ]
    ideal = predict(whole, counts, "binary")
    lines.append(("ideal tree instead of leaders", changed(usual, ideal)))
    lines.append(
        ("pipelined instead of ideal tree", changed(ideal, predict(whole, counts, "pipelined")))
    )
    return "\n".join(
        f"- {why}: {'; '.join(where) if where else 'no pick changes'}." for why, where in lines
    )
