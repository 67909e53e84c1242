"""The four pictures of the page, each as SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np

from benchmarks.demo.sides import STAGES, Side
from daskglm import Report

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#2563a8", "#d9822b", "#8a94a0"
# Inches: the text is readable where a picture is as wide as a telephone.
SIZE = (4.6, 3.3)
# Coefficients shown of each sign, and bins of equally many held-out rows.
SHOWN, BINS = 9, 15


def convergence(report: Report, gap_wanted: float) -> str:
    """Objective above its least, and the proved gap, by seconds and by passes over the rows."""
    figure, both = plt.subplots(1, 2, figsize=SIZE, sharey=True)
    for axes in report.plot(both):
        axes.axhline(gap_wanted, color=GREY, linestyle=":")
        axes.set_xlim(0)
    both[0].get_legend().remove()
    _legend_above(figure, both[0])
    return _svg(figure)


def coefficients(names: Sequence[str], coef: np.ndarray) -> str:
    """The largest coefficients of each sign."""
    order = np.argsort(coef)
    shown = np.unique(np.concatenate([order[:SHOWN], order[-SHOWN:]]))
    shown = shown[np.argsort(coef[shown])]
    figure, axes = plt.subplots(figsize=(SIZE[0], 1.35 * SIZE[1]))
    colours = [ORANGE if coef[j] > 0 else BLUE for j in shown]
    axes.barh(range(len(shown)), coef[shown], color=colours)
    axes.set_yticks(range(len(shown)), [names[j] for j in shown])
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlabel("coefficient (log odds)")
    return _svg(figure)


def calibration(sides: Sequence[Side], y: np.ndarray) -> str:
    """Share of class 1 in bins of held-out rows, against the mean prediction there."""
    figure, axes = plt.subplots(figsize=SIZE)
    most = 0.0
    for side, style, colour in zip(sides, ("o-", "x"), (BLUE, ORANGE), strict=True):
        bins = np.array_split(np.argsort(side.probability), BINS)
        predicted = [side.probability[rows].mean() for rows in bins]
        seen = [y[rows].mean() for rows in bins]
        axes.plot(predicted, seen, style, color=colour, markersize=5, label=side.name)
        most = max(most, *predicted, *seen)
    axes.plot([0, most], [0, most], ":", color=GREY)
    axes.set(xlabel="predicted", ylabel="observed")
    axes.legend(frameon=False)
    return _svg(figure)


def stages(sides: Sequence[Side]) -> str:
    """Seconds of each stage, side by side."""
    figure, axes = plt.subplots(figsize=SIZE)
    height = 0.38
    for k, (side, colour) in enumerate(zip(sides, (BLUE, ORANGE), strict=True)):
        places = np.arange(len(STAGES)) + (k - 0.5) * height
        bars = axes.barh(
            places,
            [side.seconds.get(s, 0.0) for s in STAGES],
            height,
            color=colour,
            label=side.name,
        )
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.set_yticks(range(len(STAGES)), STAGES)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("seconds")
    _legend_above(figure, axes)
    return _svg(figure)


def _legend_above(figure: Any, axes: Any) -> None:
    """Add a legend where it covers nothing that is drawn."""
    lines = axes.get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper left", ncols=2, frameon=False, fontsize=8)


def _svg(figure: Any) -> str:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    figure.set_layout_engine("constrained")
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    # a page takes the element alone, without the declaration before it
    return text.getvalue()[text.getvalue().index("<svg") :]
