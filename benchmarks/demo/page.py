"""The page that `make demo` writes: one file, without anything from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import daskglm
from benchmarks.demo.problem import Problem
from benchmarks.demo.sides import STAGES, Side

STYLE = """
:root { --ink: #1d2733; --soft: #5b6775; --line: #dfe4ea; --paper: #fff; --wash: #f5f7fa;
        --mark: #2563a8; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--wash);
       font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { margin: 0 0 4px; font-size: 1.7rem; line-height: 1.2; }
h2 { margin: 0 0 8px; font-size: 1.05rem; }
p { margin: 0 0 16px; color: var(--soft); max-width: 70ch; }
.lead { color: var(--ink); font-size: 1.15rem; }
.number { margin: 16px 0 0; color: var(--mark); font-size: 3.4rem; font-weight: 700;
          line-height: 1; }
.pictures { display: grid; gap: 16px; margin: 0 0 16px;
            grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
/* two pictures beside the first one, which is the tallest */
.pictures figure:first-child { grid-row: span 2; }
.card { padding: 16px; background: var(--paper); border: 1px solid var(--line);
        border-radius: 8px; overflow-x: auto; margin: 0 0 16px; min-width: 0; }
.pictures .card { margin: 0; }
.card svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 0.82rem;
        font-variant-numeric: tabular-nums; }
th, td { padding: 4px 0 4px 8px; text-align: right; border-bottom: 1px solid var(--line); }
th { vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
pre { margin: 0; font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap;
      overflow-wrap: anywhere; }
@media (max-width: 480px) { table { font-size: 0.68rem; } th, td { padding-left: 4px; } }
.long { max-height: 420px; overflow: auto; }
.long pre { white-space: pre; }
"""


class Figure(NamedTuple):
    """A picture with its title, and what it shows."""

    title: str
    svg: str
    text: str


def write(
    sides: Sequence[Side],
    problem: Problem,
    bound: float,
    hero: tuple[str, str],
    figures: Sequence[Figure],
    table: tuple[str, str] | None = None,
) -> str:
    """Return the page as HTML.

    `bound` is a lower bound on the objective of any model. `hero` is a number and the sentence that
    goes on from it, `table` a title with a table of text.
    """
    number, lead = map(html.escape, hero)
    cards = "\n".join(
        f'<figure class="card"><h2>{html.escape(title)}</h2>{svg}'
        f"<figcaption>{html.escape(text)}</figcaption></figure>"
        for title, svg, text in figures
    )
    more = ""
    if table is not None:
        title, text = table
        text = html.escape(text)
        more = f'<h2>{html.escape(title)}</h2>\n<div class="card long"><pre>{text}</pre></div>'
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
<p class="number">{number}</p>
<p class="lead">{lead}</p>
<div class="pictures">
{cards}
</div>
<div class="card">{_table(sides, problem.later[1], bound)}</div>
<h2>The report</h2>
<div class="card">{sides[0].model.report_._repr_html_()}</div>
{more}
<p>daskglm {daskglm.__version__}. All minimise the same objective, 1/2 |w|² + Σ log(1 +
exp(-y (x·w + b))), on the same rows, on one machine, one after the other.</p>
</main>
</body>
</html>
"""


def rows_of(sides: Sequence[Side], y: np.ndarray, bound: float) -> list[list[str]]:
    """Return the table of comparison, as text: a column for each side, whose names come first."""
    table = [["", *(side.name for side in sides)]]
    for stage in STAGES:
        table.append([f"{stage}, s", *(f"{side.seconds[stage]:.2f}" for side in sides)])
    table.append(["all, s", *(f"{side.total:.2f}" for side in sides)])
    table.append(["above the least, at most", *(f"{side.above(bound):.0e}" for side in sides)])
    measures = [side.metrics(y) for side in sides]
    return table + [[name, *(f"{m[name]:.4f}" for m in measures)] for name in measures[0]]


def _table(sides: Sequence[Side], y: np.ndarray, bound: float) -> str:
    first, *rest = rows_of(sides, y, bound)
    head = "".join(f"<th>{html.escape(text)}</th>" for text in first)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rest
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
