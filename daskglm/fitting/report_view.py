"""A report as pictures and tables: a figure of matplotlib, a frame of pandas, a view in HTML."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskglm.core.outcome import Iteration

# Inches, of the picture in a notebook.
SIZE = (6.4, 2.8)
BLUE, GREY = "#2563a8", "#8a94a0"

# Pages with a dark ground show the table in their own colours; a picture keeps a white ground.
STYLE = (
    "table.daskglm-report td{text-align:left;vertical-align:top;padding:2px 12px 2px 0}"
    "table.daskglm-report td:first-child{opacity:.7;white-space:nowrap}"
)


def draw(history: Sequence[Iteration], axes: Any = None) -> Any:
    """Draw proved gap and objective of each iteration; see `Report.plot`."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "report_.plot() draws with matplotlib, which is not installed: pip install matplotlib, "
            "or take report_.to_frame() to another library"
        ) from error
    if axes is None:
        _, axes = plt.subplots(1, 2, figsize=SIZE, sharey=True, layout="constrained")
    by_seconds, by_passes = axes
    above = _above_the_bound(history)
    gaps = [record["relative_gap"] for record in history]
    columns = (
        (by_seconds, "seconds", [record["seconds"] for record in history]),
        (by_passes, "passes over X", [record["passes"] for record in history]),
    )
    for each, unit, at in columns:
        each.plot(at, above, "o-", color=GREY, markersize=3, label="objective, above its least")
        each.plot(at, gaps, "o-", color=BLUE, markersize=3, label="proved gap")
        each.set_yscale("log", nonpositive="mask")
        each.set_xlabel(unit)
        each.spines[["top", "right"]].set_visible(False)
    by_seconds.set_ylabel("relative to the optimum")
    by_seconds.legend(frameon=False, fontsize="small")
    return axes


def _above_the_bound(history: Sequence[Iteration]) -> list[float]:
    """Return objectives less the best lower bound that was proved, relative to that bound."""
    bound = max(
        (
            record["objective"] / (1.0 + record["relative_gap"])
            for record in history
            if math.isfinite(record["relative_gap"]) and not record["estimated"]
        ),
        default=math.nan,
    )
    if not bound > 0.0:
        return [math.nan] * len(history)
    return [record["objective"] / bound - 1.0 for record in history]


def as_html(rows: Sequence[tuple[str, str]], history: Sequence[Iteration]) -> str:
    """Return the rows of a report as a table, with the picture if matplotlib is installed."""
    cells = "\n".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>" for name, text in rows
    )
    return (
        f'<style>{STYLE}</style>\n<table class="daskglm-report"><tbody>\n{cells}\n'
        f"</tbody></table>\n{_picture(history)}"
    )


def _picture(history: Sequence[Iteration]) -> str:
    """Return the figure as SVG, without a window; nothing where it cannot be drawn."""
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    if len(history) < 2:
        return ""
    figure = Figure(figsize=SIZE, layout="constrained")
    draw(history, figure.subplots(1, 2, sharey=True))
    text = io.StringIO()
    FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    svg = text.getvalue()
    # a page takes the element alone, without the declaration before it
    return svg[svg.index("<svg") :]
