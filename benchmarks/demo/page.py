"""The page that `make demo` writes: one file, without anything from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

import daskglm
from benchmarks.demo import pictures
from benchmarks.demo.problem import Problem
from benchmarks.demo.sides import FIRST_FIT, STAGES, Side

STYLE = """
:root { --ink: #1d2733; --soft: #5b6775; --line: #dfe4ea; --paper: #fff; --wash: #f5f7fa; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--wash);
       font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { margin: 0 0 4px; font-size: 1.7rem; line-height: 1.2; }
h2 { margin: 0 0 8px; font-size: 1.05rem; }
p { margin: 0 0 16px; color: var(--soft); max-width: 70ch; }
.lead { color: var(--ink); font-size: 1.15rem; }
.pictures { display: grid; gap: 16px;
            grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
.card { padding: 16px; background: var(--paper); border: 1px solid var(--line);
        border-radius: 8px; overflow-x: auto; margin: 0 0 16px; min-width: 0; }
.pictures .card { margin: 0; }
.card svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px 4px 0; text-align: right; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
pre { margin: 0; font: 13px/1.5 ui-monospace, monospace; overflow-x: auto; }
"""


def write(sides: Sequence[Side], problem: Problem, names: Sequence[str], bound: float) -> str:
    """Return the page as HTML; `bound` is a lower bound on the objective of any model."""
    ours = sides[0]
    report = ours.model.report_
    held_out = problem.y[len(problem.y) - problem.held_out :]
    lead = (
        f"{len(problem.y) - problem.held_out:,} rows, {len(names):,} columns, fitted in "
        f"{ours.seconds['fitting']:.2f} s on two workers. No model at all has an objective that is "
        f"lower by more than {report.relative_gap:.0e} of it: that is proved, not estimated."
    )
    cards = [
        (
            "Convergence",
            pictures.convergence(report, 1e-6),
            "How far the objective is above its least after each iteration, which is known only at "
            "the end, and what was proved by then. Dotted: what was asked.",
        ),
        (
            "Time of each stage",
            pictures.stages(sides),
            f"daskglm's very first fit took {ours.seconds[FIRST_FIT]:.1f} s: it compiles kernels "
            "that are not on the disk yet, once per machine. Columns of text go into its fits as "
            "they are.",
        ),
        (
            "Largest coefficients",
            pictures.coefficients(names, ours.model.coef_[0]),
            "To the right: what makes the answer yes more likely.",
        ),
        (
            "Calibration",
            pictures.calibration(sides, held_out),
            f"Of {len(held_out):,} rows that were held out: as often as predicted?",
        ),
    ]
    shown = "\n".join(
        f'<figure class="card"><h2>{title}</h2>{svg}<figcaption>{text}</figcaption></figure>'
        for title, svg, text in cards
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(problem.title)} · daskglm</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{html.escape(problem.title)}</h1>
<p>{html.escape(problem.question)}</p>
<p class="lead">{html.escape(lead)}</p>
<div class="card">{_table(sides, held_out, bound)}</div>
<div class="pictures">
{shown}
</div>
<h2 style="margin-top: 24px">The report</h2>
<div class="card"><pre>{html.escape(repr(report))}</pre></div>
<p>daskglm {daskglm.__version__}. Both sides minimise the same objective, 1/2 |w|² + Σ log(1 +
exp(-y (x·w + b))), on the same rows, on one machine, one after the other.</p>
</main>
</body>
</html>
"""


def rows_of(sides: Sequence[Side], y: np.ndarray, bound: float) -> list[list[str]]:
    """Return the table of comparison, as text; the first row has the titles."""
    metrics = [side.metrics(y) for side in sides]
    table = [["", *(side.name for side in sides)]]
    for stage in STAGES:
        seconds = [side.seconds.get(stage) for side in sides]
        table.append([f"{stage}, s", *("-" if s is None else f"{s:.2f}" for s in seconds)])
    table.append(["objective", *(f"{side.objective:,.4f}" for side in sides)])
    above = (side.objective / bound - 1.0 for side in sides)
    table.append(["above the optimum, at most", *(f"{each:.0e}" for each in above)])
    table += [[f"held-out {name}", *(f"{m[name]:.4f}" for m in metrics)] for name in metrics[0]]
    return table


def _table(sides: Sequence[Side], y: np.ndarray, bound: float) -> str:
    first, *rest = rows_of(sides, y, bound)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in first)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rest
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
