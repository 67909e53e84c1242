"""What a fitted model expects of other data: the columns of its fit by name, and what was beside
them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from daskglm.data.alignment import is_delayed
from daskglm.data.containers import plain
from daskglm.data.values import constant

# What may be added to the margins, with the number that adds nothing.
ADDED = {"offset": 0.0, "exposure": 1.0}


class Known(NamedTuple):
    """Names of the features of a fit, where they have names, and which of `ADDED` it was given.

    `roles` are the columns beside the features that were given by name, `design` that of a table
    with levels. Names are `told` where rows had none and an encoder has told them: later rows have
    none either.
    """

    names: np.ndarray | None
    fitted_with: tuple[str, ...] = ()
    roles: Mapping[str, str] = MappingProxyType({})
    design: Any = None
    told: bool = False


def added_in(beside: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which of offset and exposure are given; a number that adds nothing is not."""
    return tuple(
        name
        for name, nothing in ADDED.items()
        if (given := beside.get(name)) is not None
        and (isinstance(given, str) or constant(given, name) != nothing)
    )


def lacks(model: Any, beside: Mapping[str, Any]) -> str | None:
    """Return which of offset and exposure the fit had and `beside` lacks, or None.

    One may stand for the other, as the logarithm of an exposure is an offset.
    """
    fitted = getattr(model, "fitted_with_", ())
    given = [name for name in ADDED if beside.get(name) is not None]
    absent = [name for name in fitted if name not in given]
    return absent[0] if absent and len(given) < len(fitted) else None


def check_added(model: Any, method: str, beside: Mapping[str, Any]) -> None:
    """Raise ValueError where a model that was fitted with an offset or exposure is to do without.

    `predict` may, since means for one unit of exposure have a meaning; comparisons with targets
    have none.
    """
    if (name := lacks(model, beside)) is not None:
        raise ValueError(
            f"{type(model).__name__} was fitted with an {name}, and {method} got none: give the "
            f"{name} of these rows, or {name}={ADDED[name]:g} if they have none"
        )


def with_columns_of_fit(model: Any, X: Any, beside: Collection[Any] = ()) -> Any:
    """Return X in a container that is known here; a frame with the columns of the fit by name.

    Columns are put in the order of the fit and others are left out, but those that are named
    `beside` them. Where that cannot be (names that are missing, repeated or no text) the frame is
    as it was, for scikit-learn's check of names, which follows, to refuse.

    Raises
    ------
    ValueError
        For columns of pandas in another order: scikit-learn's checks of estimators want that.
    """
    in_order = type(X).__module__.split(".")[0] == "pandas"
    X = plain(X)
    names = getattr(model, "feature_names_in_", None)
    if names is None or is_delayed(X) or not hasattr(X, "columns"):
        return X
    columns, wanted = list(X.columns), names.tolist()
    text = all(isinstance(name, str) for name in columns)
    if not text or len(set(columns)) < len(columns) or set(wanted) - set(columns):
        return X
    if in_order and [name for name in columns if name in set(wanted)] != wanted:
        raise ValueError(
            "The feature names should match those that were passed during fit.\n"
            "Feature names must be in the same order as they were in fit.\n"
            "Take them by name: X[model.feature_names_in_]"
        )
    named = {name for name in beside if isinstance(name, str) and name in columns}
    kept = [*wanted, *(name for name in columns if name in named - set(wanted))]
    return X if kept == columns else X[kept]
