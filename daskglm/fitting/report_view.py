"""A report as pictures and tables: a figure of matplotlib, a frame of pandas, a view in HTML."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskglm.core.outcome import Iteration

# Inches, of a figure, and of the picture on a page, whose text is to be legible on a telephone.
SIZE, SIZE_ON_PAGE = (6.4, 2.8), (4.6, 2.6)
BLUE, GREY = "#2563a8", "#8a94a0"

# Pages with a dark ground show the table in their own colours; a picture keeps a white ground. The
# class is named twice to outweigh the rules that JupyterLab has for all tables.
CELL = "table.daskglm-report.daskglm-report td"
STYLE = (
    f"{CELL}{{text-align:left;vertical-align:top;padding:2px 12px 2px 0}}"
    f"{CELL}:first-child{{opacity:.7;white-space:nowrap}}"
    ":where(svg.daskglm-report){max-width:100%;height:auto}"
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
    problems = _problems(history)
    for each, unit, name in zip(
        axes, ("seconds", "passes"), ("seconds", "passes over X"), strict=True
    ):
        for number, records in enumerate(problems):
            at = [record[unit] for record in records]  # type: ignore[literal-required]
            gaps = [record["relative_gap"] for record in records]
            labels = ("objective", "proved gap") if number == 0 else (None, None)
            drawn = (_above_the_bound(records), GREY, labels[0]), (gaps, BLUE, labels[1])
            for values, colour, label in drawn:
                each.plot(at, values, "o-", color=colour, markersize=3, label=label)
        each.set_yscale("log", nonpositive="mask")
        each.set_xlabel(name)
        each.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("above the optimum, relative")
    axes[0].legend(frameon=False, fontsize="small", handlelength=1)
    return axes


def _problems(history: Sequence[Iteration]) -> list[list[Iteration]]:
    """Return the history of each of the problems that were solved one after another."""
    found: list[list[Iteration]] = []
    for record in history:
        if not found or record["iteration"] <= found[-1][-1]["iteration"]:
            found.append([])
        found[-1].append(record)
    return found


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
    figure = Figure(figsize=SIZE_ON_PAGE, layout="constrained")
    draw(history, figure.subplots(1, 2, sharey=True))
    text = io.StringIO()
    FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})
    svg = text.getvalue()
    # a page takes the element alone, without the declaration before it
    return svg[svg.index("<svg") :].replace("<svg", '<svg class="daskglm-report"', 1)
