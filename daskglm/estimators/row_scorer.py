"""Predictions of one row at a time, for a service: no frames, no arrays of rows, microseconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from daskglm.core.arguments import shown
from daskglm.data.values import Place
from daskglm.estimators.fitted_data import ADDED
from daskglm.frames.columns import Codes
from daskglm.frames.design import Design
from daskglm.frames.terms import Basis, Factor, Interaction

# What a row's part is: a number, or one for each of several vectors of coefficients.
Part = Any
HERE = Place()


class RowScorer:
    """Predicts one row, given as a dict by column or as the values of the columns in order.

    Made by `LinearModel.scorer`; it keeps numbers alone and can be pickled.

    Parameters
    ----------
    names : tuple of str, or int
        Columns in their order, or their number where they have no names.
    constants : float or (k,) array
        Intercepts.
    parts : sequence of callable
        Each makes a part of the margin of a row, a dict.
    finish : callable
        From margins (1,) or (1, k) to a prediction (1,) or (1, k).
    roles : dict of str to str
        Columns with an offset and an exposure.
    """

    def __init__(
        self,
        names: tuple[str, ...] | int,
        constants: Part,
        parts: Sequence[Callable[[Mapping[str, Any]], Part]],
        finish: Callable[[np.ndarray], np.ndarray],
        roles: Mapping[str, str],
    ) -> None:
        self.names, self.constants, self.parts, self.finish = names, constants, parts, finish
        self.added = [(role, name) for role, name in roles.items() if role in ADDED]

    def __call__(self, row: Any, *, offset: float = 0.0, exposure: float = 1.0) -> Any:
        """Return the prediction of one row: a number, a label, or (k,) probabilities.

        Parameters
        ----------
        row : dict by column; or sequence of the columns' values in the order of the fit
            Columns with the offset and the exposure of the fit are used where the dict has them.
        offset, exposure : float
            Of this row.

        Raises
        ------
        ValueError
            For columns that are missing, levels that the fit has not seen, and values that are no
            numbers.
        """
        if not isinstance(row, Mapping):
            row = self._named(row)
        margin = self.constants + offset
        if exposure != 1.0:
            margin = margin + _log(exposure)
        for role, name in self.added:
            if (given := row.get(name)) is not None:
                margin = margin + (_log(given) if role == "exposure" else given)
        try:
            for part in self.parts:
                margin = margin + part(row)
        except KeyError as error:
            raise ValueError(f"row lacks the column {error.args[0]!r} of the fit") from error
        scores = np.array([margin], float)
        if not np.isfinite(scores).all():
            raise ValueError(f"row={shown(dict(row))} has values that are missing or not finite")
        return self.finish(scores)[0]

    def _named(self, row: Any) -> Mapping[Any, Any]:
        keys: Any = range(self.names) if isinstance(self.names, int) else self.names
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__") or len(row) != len(keys):
            raise ValueError(
                f"row={shown(row)} must be a dict by column, or have the {len(keys)} values of "
                f"{shown(list(keys))}"
            )
        return dict(zip(keys, row, strict=True))


def row_scorer(
    design: Design | None,
    names: Sequence[str] | int,
    coef: np.ndarray,
    constants: np.ndarray,
    finish: Callable[[np.ndarray], np.ndarray],
    roles: Mapping[str, str],
) -> RowScorer:
    """Return what predicts rows by coefficients (k, d) and intercepts (k,)."""
    one = len(coef) == 1
    columns = coef.T[:, 0].tolist() if one else list(coef.T)
    base = float(constants[0]) if one and len(constants) == 1 else constants
    if design is None:
        keys = range(names) if isinstance(names, int) else names
        parts: list[Any] = [_Number(key, w) for key, w in zip(keys, columns, strict=True)]
        return RowScorer(
            names if isinstance(names, int) else tuple(names), base, parts, finish, roles
        )
    of = dict(zip(design.names, columns, strict=True))
    zero = 0.0 if one else np.zeros(len(coef))
    parts = []
    for term in design.terms:
        rows = _effects(term, [of.get(name, zero) for name in term.names], zero)
        if isinstance(term, Factor):
            parts.append(_Level(term, rows))
        elif isinstance(term, Basis):
            weights = [of.get(name, zero) for name in term.names]
            parts.append(_Function(term, dict(zip(term.values, rows, strict=False)), weights))
        elif isinstance(term, Interaction):
            parts.append(_Levels(term, dict(zip(term.combinations, rows, strict=False)), zero))
        else:
            parts.append(_Missing(term.name, rows))
    fills = dict(zip(design.numbers.names, design.numbers.fills, strict=True))
    parts += [_Number(name, of[name], fills[name]) for name in fills if name in of]
    return RowScorer(design.columns, base, parts, finish, roles)


def _effects(term: Any, weights: list[Part], zero: Part) -> list[Part]:
    """Return the part of the margin that each code of a term has."""
    ends = np.cumsum(term.table.lengths)
    columns, values = term.table.columns.tolist(), term.table.values.tolist()
    found = []
    for end, length in zip(ends.tolist(), term.table.lengths.tolist(), strict=True):
        pairs = range(end - length, end)
        found.append(sum((values[q] * weights[columns[q]] for q in pairs), zero))
    return found


# ---- parts of a margin
class _Number:
    def __init__(self, name: Any, weight: Part, fill: float = math.nan) -> None:
        self.name, self.weight, self.fill = name, weight, fill

    def __call__(self, row: Mapping[Any, Any]) -> Part:
        value = row[self.name]
        if value is None or value != value:
            value = self.fill
        if isinstance(value, (str, bytes)):
            raise ValueError(f"row has {shown(value)} in the column {self.name!r} of numbers")
        return value * self.weight


class _Missing:
    def __init__(self, name: str, effects: list[Part]) -> None:
        self.name, self.effects = name, effects

    def __call__(self, row: Mapping[Any, Any]) -> Part:
        value = row[self.name]
        return self.effects[value is None or value != value]


class _Level:
    def __init__(self, factor: Factor, effects: list[Part]) -> None:
        self.factor, self.effects = factor, effects
        self.known = {level: effects[code] for level, code in factor.places.items()}

    def __call__(self, row: Mapping[Any, Any]) -> Part:
        value = row[self.factor.name]
        try:
            return self.known[value]
        except (KeyError, TypeError):
            return self.effects[code_of(self.factor, value)]


class _Levels:
    def __init__(self, term: Interaction, effects: dict[tuple[int, ...], Part], zero: Part) -> None:
        self.term, self.effects, self.zero = term, effects, zero

    def __call__(self, row: Mapping[Any, Any]) -> Part:
        codes = tuple(code_of(factor, row[factor.name]) for factor in self.term.factors)
        found = self.effects.get(codes)
        if found is not None:
            return found
        coded = {
            factor.name: np.array([code])
            for factor, code in zip(self.term.factors, codes, strict=True)
        }
        self.term.code(None, coded, HERE)  # raises what a table would
        return self.zero


class _Function:
    def __init__(self, term: Basis, effects: dict[float, Part], weights: list[Part]) -> None:
        self.term, self.effects, self.weights = term, effects, weights

    def __call__(self, row: Mapping[Any, Any]) -> Part:
        value = row[self.term.name]
        found = self.effects.get(value)
        if found is not None:
            return found
        try:
            functions = self.term.evaluated(np.array([float(value)]))[0]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"row has {shown(value)} in the column {self.term.name!r} of numbers"
            ) from error
        return sum(f * w for f, w in zip(functions.tolist(), self.weights, strict=True))


def code_of(factor: Factor, value: Any) -> int:
    """Return the code of a level; ValueError for one that is not to be taken."""
    code = factor.places.get(value)
    if code is not None:
        return code
    absent = value is None or value != value
    column = Codes(np.zeros(1, np.uint8), ()) if absent else Codes(np.zeros(1, np.uint8), (value,))
    coding = factor.code(column, {}, HERE)
    if coding.left_out is not None and coding.left_out[0] and factor.unseen == "error":
        raise ValueError(
            f"row has the level {shown(value)} of {factor.name!r}, which the fit has left out, so "
            "that its effect is not known. Fit with schema={'unseen': 'zero'} to take it for zero"
        )
    return int(coding.codes[0])


def _log(exposure: Any) -> float:
    if not exposure > 0.0:
        raise ValueError(f"exposure={shown(exposure)} must be a number above 0")
    return math.log(exposure)
