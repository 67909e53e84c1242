"""The pictures of the page, each as SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from benchmarks.demo.sides import STAGES, Side

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#2563a8", "#d9822b", "#8a94a0"
# Inches, and points of small text: readable where a picture is as wide as a telephone.
SIZE, SMALL = (3.8, 2.9), 8.5
# As tall as two of them with their titles and captions.
TALL = SIZE[0], 2.3 * SIZE[1]
# Coefficients shown of each sign, and bins of equally many held-out rows.
SHOWN, BINS = 9, 15


def clocks(sides: Sequence[Side], bound: float) -> str:
    """Seconds from raw table to probabilities, with how far above the optimum each one stops."""
    figure, axes = plt.subplots(figsize=SIZE)
    longest = max(side.total for side in sides)
    for place, side in enumerate(sides):
        colour, start = (BLUE if place == 0 else ORANGE), 0.0
        for stage, shade in zip(STAGES, (1.0, 0.45), strict=True):
            axes.barh(place, side.seconds[stage], 0.42, left=start, color=colour, alpha=shade)
            start += side.seconds[stage]
        axes.text(0, place - 0.29, side.name, va="bottom", fontsize=SMALL)
        said = f"{side.total:.1f} s, {side.above(bound):.0e}"
        inside = start > 0.6 * longest
        where = {"x": start, "ha": "right" if inside else "left"}
        text = f"{said} " if inside else f" {said}"
        axes.text(y=place, s=text, va="center", fontsize=SMALL, **where)
    axes.set_yticks([])
    axes.set_ylim(len(sides) - 0.6, -0.7)
    axes.set_xlim(0, 1.3 * longest)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("seconds")
    return _svg(figure)


def effect(by_hour: pd.DataFrame) -> str:
    """Expected share of late flights by hour, with its interval."""
    figure, axes = plt.subplots(figsize=SIZE)
    hour = by_hour["hour"]
    axes.fill_between(hour, by_hour["lower"], by_hour["upper"], color=BLUE, alpha=0.2)
    axes.plot(hour, by_hour["mean"], color=BLUE)
    axes.set(xlabel="scheduled hour", ylabel="late flights per flight", ylim=(0, None))
    return _svg(figure)


def ranks(ours: pd.Series, theirs: pd.Series, shown: int) -> str:
    """Ranks of the first ones at the optimum, and those that the others give them."""
    figure, axes = plt.subplots(figsize=TALL)
    for name, rank in ours.nsmallest(shown).items():
        other = int(theirs[name])
        lost = other > shown
        colour = ORANGE if lost else BLUE
        end = shown + 1.5 if lost else other
        axes.plot([0, 1], [rank, end], color=colour, marker="o", markersize=3)
        axes.text(-0.05, rank, f"{name}  {rank}", ha="right", va="center", fontsize=SMALL)
        if not lost:
            axes.text(1.05, end, f"{other}", va="center", fontsize=SMALL, color=colour)
    gone = [int(theirs[name]) for name in ours.nsmallest(shown).index if theirs[name] > shown]
    if gone:
        text = f"{min(gone)} to {max(gone)}"
        axes.text(1.05, shown + 1.5, text, va="center", fontsize=SMALL, color=ORANGE)
    axes.text(0, -0.2, "optimum", ha="center", fontsize=SMALL)
    axes.text(1, -0.2, "scikit-learn", ha="center", fontsize=SMALL)
    axes.set(xlim=(-0.6, 1.5), ylim=(shown + 2, -0.5))
    axes.axis("off")
    return _svg(figure)


def coefficients(values: pd.Series) -> str:
    """The largest coefficients of each sign."""
    ordered = values.sort_values()
    both = pd.concat([ordered.iloc[:SHOWN], ordered.iloc[-SHOWN:]])
    shown = both[~both.index.duplicated()]
    figure, axes = plt.subplots(figsize=TALL)
    axes.barh(range(len(shown)), shown, color=[ORANGE if b > 0 else BLUE for b in shown])
    axes.set_yticks(range(len(shown)), list(shown.index))
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


def _svg(figure: Any) -> str:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=SMALL)
        axes.xaxis.label.set_size(SMALL)
        axes.yaxis.label.set_size(SMALL)
    figure.set_layout_engine("constrained")
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    # a page takes the element alone, without the declaration before it
    return text.getvalue()[text.getvalue().index("<svg") :]
