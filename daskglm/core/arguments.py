"""Checks of arguments: each names the argument, the value it has and what it may be, before any
work.

Values out of range and of a wrong kind raise ValueError; what is used as something else than a
value (a callback, a client, a path, a dict of options, where to start) raises TypeError where it is
of a wrong kind.
"""

from __future__ import annotations

import inspect
import math
import os
import reprlib
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

# Largest seed of NumPy's RandomState.
LARGEST_SEED = 2**32 - 1


def shown(value: Any) -> str:
    """Return a value as an error shows it: its repr, shortened if it is long, on one line."""
    short = reprlib.Repr()
    short.maxstring, short.maxother = 80, 120  # letters
    short.maxdict = short.maxlist = short.maxtuple = 8
    text = short.repr(value)
    return " ".join(text.split())


def is_sequence(value: Any) -> bool:
    """Return whether this is several values: a list, a tuple, an array; not text, not a dict."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return (
        hasattr(value, "__len__")
        and hasattr(value, "__iter__")
        and not isinstance(value, (str, bytes, Mapping))
    )


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, not a bool; NaN and infinities are."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, not a bool."""
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def check_flag(value: Any, name: str, *, optional: bool = False) -> None:
    """Raise ValueError unless a value is True or False, or None where that is `optional`."""
    if not isinstance(value, (bool, np.bool_)) and not (optional and value is None):
        raise ValueError(
            f"{name}={shown(value)} must be True or False{', or None' if optional else ''}"
        )


def check_choice(value: Any, name: str, known: Sequence[str]) -> None:
    """Raise ValueError unless a value is one of the known names."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}={shown(value)} is not one of {', '.join(map(repr, known))}")


def check_whole(value: Any, name: str, least: int, *, optional: bool = False) -> None:
    """Raise ValueError unless a value is an integer of at least `least`, or None if `optional`."""
    if not (optional and value is None) and (not is_whole(value) or value < least):
        kind = "a positive integer" if least == 1 else f"an integer not below {least}"
        raise ValueError(f"{name}={shown(value)} must be {kind}{', or None' if optional else ''}")


def check_C(value: Any) -> None:
    """Raise ValueError unless C is a positive number, perhaps infinite."""
    if not is_number(value) or not value > 0:
        if is_sequence(value):
            hint = "; daskglm.fit takes a sequence, LogisticRegressionCV chooses from one"
        else:
            hint = ""
        raise ValueError(f"C={shown(value)} must be a positive number (inf: no penalty){hint}")


def check_tol(value: Any) -> None:
    """Raise ValueError unless tol is a number not below 0."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise ValueError(f"tol={shown(value)} must be a finite number not below 0")


def check_class_weight(value: Any) -> None:
    """Raise ValueError unless class_weight is None, "balanced" or a dict of weights >= 0."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return
    if not isinstance(value, Mapping):
        raise ValueError(
            f"class_weight={shown(value)} must be a dict of label: weight, 'balanced' or None"
        )
    for label, weight in value.items():
        if not is_number(weight) or not 0 <= weight < math.inf:
            raise ValueError(
                f"class_weight={shown(value)}: the weight of {shown(label)} is {shown(weight)}, "
                "which is not a finite "
                "number >= 0"
            )


def check_random_state(value: Any) -> None:
    """Raise ValueError unless a value is a seed, a RandomState or None."""
    if value is None or isinstance(value, np.random.RandomState) or value is np.random:
        return
    if not is_whole(value) or not 0 <= value <= LARGEST_SEED:
        raise ValueError(
            f"random_state={shown(value)} must be an integer from 0 to {LARGEST_SEED}, a "
            "numpy.random.RandomState or "
            "None"
        )


def check_options_kind(value: Any) -> None:
    """Raise TypeError unless solver_options is a dict of names, or None."""
    if value is not None and (
        not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value)
    ):
        raise TypeError(
            f"solver_options={shown(value)} must be a dict of options by name, such "
            f"as {{'step': 0.1}}"
        )


def check_path(value: Any, name: str) -> None:
    """Raise TypeError unless a value is a folder's path, or None; ValueError if it is empty."""
    if value is not None and not (
        isinstance(value, (str, os.PathLike)) or hasattr(value, "joinpath")
    ):
        raise TypeError(
            f"{name}={shown(value)} must be the path of a folder, or a URL that fsspec knows"
        )
    if value is not None and not str(value).strip():
        raise ValueError(
            f"{name}={shown(value)} is empty: it must be the path of a folder, or a URL"
        )


def file_path(value: Any, name: str) -> Path:
    """Return a value as the path of a file; raise TypeError if it is none."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name}={shown(value)} must be the path of a file")
    return Path(value)


def writable(path: str | os.PathLike) -> Path:
    """Return a path to write a file to; raise ValueError for a device, a pipe or a folder."""
    path = file_path(path, "path")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder, a pipe or a device, not a file: give another name")
    return path


def check_callback(value: Any) -> None:
    """Raise TypeError unless a value can be called with one argument, or is None."""
    if value is None:
        return
    wanted = "give a function of one record (a dict), or None"
    if not callable(value):
        raise TypeError(f"callback={shown(value)} cannot be called: {wanted}")
    try:
        inspect.signature(value).bind({})
    except ValueError:  # of some functions in C nothing is known
        return
    except TypeError as error:
        raise TypeError(
            f"callback={shown(value)} cannot be called with one argument ({error}): {wanted}"
        ) from error


def starting_point(given: Any) -> tuple[Any, Any] | None:
    """Return coefficients and intercept of a fitted estimator, or of a pair; None stays None.

    Raises
    ------
    TypeError
        For anything else, such as an estimator that is not fitted.
    ValueError
        For values that are not finite numbers, or coefficients of more than two dimensions.
    """
    if given is None:
        return None
    given = getattr(given, "_all_of_fit", given)
    if hasattr(given, "coef_") and hasattr(given, "thresholds_"):
        given = (given.coef_, given.thresholds_)
    elif hasattr(given, "coef_") and hasattr(given, "intercept_"):
        given = (given.coef_, given.intercept_)
    elif hasattr(given, "get_params"):
        raise TypeError(
            f"warm_start={shown(given)} is not fitted: fit it first, or give (coef, intercept)"
        )
    elif not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(
            f"warm_start={shown(given)} must be a fitted estimator, or a pair (coef, intercept)"
        )
    import scipy.sparse as sp  # a tenth of a second for commands that need no other module of SciPy

    if sp.issparse(given[0]):  # what sparsify() makes of coefficients
        given = (given[0].toarray(), given[1])
    parts = []
    for part, name, most in zip(given, ("coefficients", "intercepts"), (2, 1), strict=True):
        try:
            values = np.asarray(part)
            if values.dtype.kind not in "iuf":
                raise TypeError(f"dtype {values.dtype}")
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"warm_start has {name} {shown(part)}, which are not numbers ({error})"
            ) from error
        if values.ndim > most or not values.size:
            raise ValueError(
                f"warm_start has {name} of shape {values.shape}; they have 1 to {most} dimensions"
            )
        if not np.isfinite(values).all():
            bad = values[~np.isfinite(values)][0]
            raise ValueError(
                f"warm_start has {name} that are not finite ({bad}): a fit cannot start from there"
            )
        parts.append(values)
    return parts[0], parts[1]


def starting_points(given: Any) -> list[tuple[Any, Any]] | None:
    """Return where the models of a path start, as `starting_point` does for one.

    A list of fitted estimators has one for each.
    """
    several = isinstance(given, (list, tuple)) and len(given) and hasattr(given[0], "get_params")
    points = [starting_point(each) for each in (given if several else [given])]
    return None if given is None else [point for point in points if point is not None]


def plain_label(label: Any) -> Any:
    """Return a label as Python writes it."""
    return label.item() if hasattr(label, "item") else label
