"""Absorbed factors: levels that say nothing leave a fit, and effects stay out of `coef_`.

A level of one row fits that row exactly, whatever all else is; one whose targets are all at an end
of their range does so with an infinite effect. Without their rows the other coefficients are the
same, and standard errors count rows and coefficients that say something (Correia, Guimaraes &
Zylkin 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from daskglm.core.warn import warn
from daskglm.data.containers import plain
from daskglm.data.partitions import is_lazy
from daskglm.fitting.separation import Ends, ends_of
from daskglm.frames.design import Design
from daskglm.frames.take import Look, Table
from daskglm.losses.base import Loss
from daskglm.worker.prediction import dense


class LeftOutWarning(UserWarning):
    """Rows of absorbed factors say nothing of a fit, and have been left out of it."""


def without_empty_levels(table: Table, loss: Loss, look: Look | None, *, keep: bool) -> Table:
    """Return a table without rows of levels that say nothing, which a warning counts.

    Levels of one factor may be left with one row where those of another are left out: they are
    looked for until there are none. Cost: for tables in partitions a round for each look, two or
    three mostly, and one more for labels. `look` and `keep` are as of `take.learn`.

    Raises
    ------
    ValueError
        For more than two classes or targets, and where no row is left.
    """
    design, ends = table.design, ends_of(loss)
    data = _Partitions(table, look, keep)
    labels: tuple[Any, ...] = ()
    if loss.classifies:
        labels = tuple(sorted(set().union(*data.said(_labels, data.y))))
        if len(labels) > 2:
            raise ValueError(
                f"absorb={list(design.absorbed)} wants one target or two classes, and y has "
                f"{len(labels)} classes: their effects would differ by class"
            )
    data.make(partial(_part_of, design=design, ends=ends, labels=labels))
    factors = design.of_absorbed
    gone = [np.zeros(len(factor.slots) + 1, bool) for factor in factors]
    kinds = _Kinds(*(np.zeros(len(factors), np.int64) for _ in range(2)))
    first: _Tally | None = None
    while True:
        tally = reduce(_Tally.plus, data.said(partial(_tally, gone=gone), data.parts))
        first = first or tally
        found = False
        for k, counts in enumerate(tally.counts):
            one = (counts.rows <= 1) & ~gone[k]
            one[-1] = False
            at_end = (counts.rows == counts.low) | (counts.rows == counts.high)
            at_end &= (counts.rows > 1) & ~gone[k]
            gone[k] |= one | at_end
            kinds.single[k] += (one & (first.counts[k].rows > 0)).sum()
            kinds.separated[k] += at_end.sum()
            found |= bool(one.any() or at_end.any())
        if not found:
            break
    if not any(each.any() for each in gone):
        return table
    if not tally.rows:
        raise ValueError(
            f"absorb={list(design.absorbed)}: every row is of a level with one row, or with all "
            "targets at one end of their range, so that none says anything of the features"
        )
    if told := kinds.told(design):
        warn(
            f"{first.rows - tally.rows:,} of {first.rows:,} rows say nothing and are left out: "
            f"{told}",
            LeftOutWarning,
        )
    counts_of = {f.name: each.rows for f, each in zip(factors, tally.counts, strict=True)}
    gone_of = {f.name: each[:-1] for f, each in zip(factors, gone, strict=True)}
    return table.by(design.without(gone_of, counts_of))


def hide_absorbed(model: Any) -> None:
    """Take the effects of absorbed factors out of `coef_` of a model, to `absorbed_`.

    Raises ValueError for several vectors of coefficients.
    """
    design: Design = model.schema_
    coef = dense(model.coef_)
    if len(coef) > 1:
        raise ValueError(
            f"absorb={list(design.absorbed)} is for one vector of coefficients, and this fit has "
            f"{len(coef)}: give one target, or two classes"
        )
    of = dict(zip(design.names, coef[0].tolist(), strict=True))
    model.absorbed_ = {
        factor.name: pd.Series(
            [of.get(name, 0.0) for name in factor.names_of_slots],
            index=pd.Index(list(factor.slots), name=factor.name),
            name="effect",
        )
        for factor in design.of_absorbed
    }
    model.coef_ = model.coef_[..., design.reported]
    model.feature_names_out_ = np.array(design.names, dtype=object)[design.reported]


def coefficients_of(model: Any) -> np.ndarray:
    """Return the coefficients (k, d) of rows of a model, with the effects of absorbed factors."""
    coef, design = dense(model.coef_), getattr(model, "schema_", None)
    if design is None or not design.absorbed:
        return coef
    found = np.empty((len(coef), len(design.names)))
    found[:, design.reported] = coef
    effects = {
        name: effect
        for factor in design.of_absorbed
        for name, effect in zip(
            factor.names_of_slots, model.absorbed_[factor.name].tolist(), strict=True
        )
    }
    hidden = ~design.reported
    names = np.array(design.names, dtype=object)[hidden]
    found[:, hidden] = [effects[name] for name in names]
    return found


# ---- levels that say nothing
class _Part(NamedTuple):
    """Of the rows of a partition: codes of each factor, which count, and which are at an end."""

    codes: list[np.ndarray]
    counts: np.ndarray
    low: np.ndarray
    high: np.ndarray


class _Counts(NamedTuple):
    """Rows by level, and those whose target is at the low end and at the high one."""

    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray


class _Tally(NamedTuple):
    """Rows that count, and of each factor by level."""

    rows: int
    counts: list[_Counts]

    def plus(self, other: _Tally) -> _Tally:
        """Return the counts of both."""
        counts = [
            _Counts(*(a + b for a, b in zip(one, two, strict=True)))
            for one, two in zip(self.counts, other.counts, strict=True)
        ]
        return _Tally(self.rows + other.rows, counts)


class _Kinds(NamedTuple):
    """Levels by factor that are left out, by the reason."""

    single: np.ndarray
    separated: np.ndarray

    def told(self, design: Design) -> str:
        """Say what is left out; nothing where levels without rows are alone."""
        said = []
        names = [factor.name for factor in design.of_absorbed]
        for name, single, separated in zip(names, self.single, self.separated, strict=True):
            if single:
                said.append(f"{single:,} levels of {name!r} with one row")
            if separated:
                said.append(f"{separated:,} levels of {name!r} with all targets at one end")
        return "; ".join(said)


class _Partitions:
    """Rows, targets and weights of a table by partition, and who answers questions about them."""

    def __init__(self, table: Table, look: Look | None, keep: bool) -> None:
        self.lazy, self.look, self.keep = is_lazy(table.X.rows), look, keep
        weight = table.beside.get("sample_weight")
        self.rows, self.y = table.X.rows, table.beside["y"]
        if not self.lazy:
            self.rows, self.y, weight = [self.rows], [self.y], [weight]
        self.weight: list[Any] = [None] * len(self.rows) if weight is None else weight
        self.parts: list[Any] = []
        self.held: Any = None  # futures, by which a cluster keeps parts

    def make(self, function: Callable[..., Any]) -> None:
        """Make parts of rows, targets and weights, which are asked from then on."""
        self.parts = self._each(function, self.rows, self.y, self.weight)
        if self.lazy and self.keep and self.look is None:
            import dask

            self.parts = list(dask.persist(*self.parts))

    def said(self, function: Callable[..., Any], values: list[Any]) -> list[Any]:
        """Return what a function says of each partition, here. Cost: a round."""
        wanted = self._each(function, values)
        if not self.lazy:
            return wanted
        if self.look is None:
            import dask

            return list(dask.compute(*wanted))
        found, held = self.look(self.parts if self.keep and self.held is None else [], wanted)
        self.held = held or self.held
        return found

    def _each(self, function: Callable[..., Any], *values: list[Any]) -> list[Any]:
        one = function
        if self.lazy:
            import dask

            one = dask.delayed(function)
        return [one(*each) for each in zip(*values, strict=True)]


def _labels(y: Any) -> set[Any]:
    values = pd.unique(np.asarray(plain(y)).ravel())
    return {value for value in values.tolist() if value == value and value is not None}


def _part_of(
    rows: Any, y: Any, weight: Any, *, design: Design, ends: Ends | None, labels: Sequence[Any]
) -> _Part:
    n = rows.shape[0]
    codes = [design.codes_of(rows, factor.name) for factor in design.of_absorbed]
    low = high = np.zeros(n, bool)
    if ends is not None:
        target = np.asarray(plain(y))
        if labels:
            low, high = target == labels[0], target == labels[-1]
        elif target.dtype.kind in "biuf":  # else the fit refuses it
            low, high = target <= ends.low, target >= ends.high
    counts = np.ones(n, bool) if weight is None else np.asarray(plain(weight)) > 0.0
    return _Part(codes, counts, np.ravel(low), np.ravel(high))


def _tally(part: _Part, *, gone: list[np.ndarray]) -> _Tally:
    alive = part.counts.copy()
    for codes, out in zip(part.codes, gone, strict=True):
        alive &= ~out[codes]
    counts = []
    for codes, out in zip(part.codes, gone, strict=True):
        kinds = alive, alive & part.low, alive & part.high
        counts.append(_Counts(*(np.bincount(codes[which], minlength=len(out)) for which in kinds)))
    return _Tally(int(alive.sum()), counts)
