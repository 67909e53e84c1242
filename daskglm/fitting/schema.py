"""What the fields of a saved model may be. Files may come from anybody: types and ranges are
checked, field by field.

Each function raises ValueError, which says what is wrong without the name of the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from daskglm.core.arguments import shown
from daskglm.fitting.report import Report

# Bytes of JSON without features.
MOST_BYTES = 4 << 20
# Bytes for each feature: for its name and, if the file holds them itself, coefficients.
BYTES_A_FEATURE = 1 << 10
# Parameters that may be lists: one value for each feature, matrices, groups of features, and values
# that were tried.
LISTS = (
    *("penalty_factor", "P2", "lower_bounds", "upper_bounds", "groups", "precompute"),
    *("alphas", "l1_ratio"),
)
MOST_ITERATIONS = np.iinfo(np.int32).max

_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U(?P<width>\d{1,9})|\|O")
_FEATURES = re.compile(rb'"n_features"\s*:\s*(\d{1,12})\b')


# ---- JSON
def room(start: bytes) -> int:
    """Return the bytes that a file of JSON may have, by the features that its start declares."""
    found = _FEATURES.search(start)
    return MOST_BYTES + BYTES_A_FEATURE * (int(found[1]) if found else 0)


def parse(text: bytes) -> Any:
    """Strict JSON in UTF-8: no NaN, no key twice."""
    return json.loads(text.decode(), parse_constant=_refuse, object_pairs_hook=_once)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def special(value: Any) -> Any:
    """Return the value of {"float": ...} or {"items": ...}, for which JSON has no word.

    Any other value is returned as it is.
    """
    if not isinstance(value, dict):
        return value
    if set(value) == {"float"} and isinstance(value["float"], str) and value["float"] in _SPECIAL:
        return _SPECIAL[value["float"]]
    if set(value) == {"items"} and isinstance(value["items"], list):
        pairs = [pair for pair in value["items"] if isinstance(pair, list) and len(pair) == 2]
        keys = [special(key) for key, _ in pairs]
        if len(pairs) == len(value["items"]) and all(
            isinstance(key, (str, int, float, bool)) for key in keys
        ):
            return {key: special(each) for key, (_, each) in zip(keys, pairs, strict=True)}
    raise ValueError(f"{shown(value)} is no value of a file of daskglm")


def items(value: Any) -> Any:
    """Return the values of a list, or of a list of lists, as `special` does; others by it."""
    if not isinstance(value, list):
        return special(value)
    return [
        [special(item) for item in each] if isinstance(each, list) else special(each)
        for each in value
    ]


# ---- kinds
def text(value: Any, what: str) -> str:
    """Text that a terminal shows as it is: without control characters."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{what} is {shown(value)}, which is not text without control characters")
    return value


def flag(value: Any, what: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {shown(value)}, which is not true or false")
    return value


def integer(value: Any, what: str, least: int = 0) -> int:
    """Check an integer, not a bool, of at least `least`."""
    if type(value) is not int or value < least:
        raise ValueError(f"{what} is {shown(value)}, which is not an integer of at least {least:,}")
    return value


def number(value: Any, what: str, least: float = -math.inf, *, finite: bool = True) -> float:
    """Check a number, not a bool, of at least `least`; NaN and infinity only if not `finite`."""
    if type(value) not in (int, float) or (finite and not math.isfinite(value)) or value < least:
        raise ValueError(
            f"{what} is {shown(value)}, which is not a number"
            + (f" of at least {least:g}" * (least > -math.inf))
        )
    return float(value)


# ---- fields
def report(saved: Any) -> Report:
    """Read a report without history and parts, every field of the type that `Report` declares."""
    names = [name for name in Report.__dataclass_fields__ if name not in ("history", "parts")]
    if not isinstance(saved, dict) or set(saved) != set(names):
        raise ValueError(f"the report differs in {sorted(set(saved) ^ set(names))}")
    checks: Mapping[str, Callable[[Any, str], Any]] = {
        "str": text,
        "bool": flag,
        "int": integer,
        "float": lambda value, what: number(value, what, finite=False),
    }
    found = {
        name: checks[str(Report.__dataclass_fields__[name].type)](
            special(saved[name]), f"{name!r} of the report"
        )
        for name in names
    }
    for name in (
        "relative_gap",
        "gradient_ratio",
        "coefficient_error",
        "passes",
        "seconds",
        "seconds_loading",
        "waiting",
    ):
        if found[name] < 0:
            raise ValueError(f"{name!r} of the report is {found[name]!r}, which is below 0")
    return Report(**found)


def params(saved: Any) -> dict[str, Any]:
    """Check parameters of an estimator, whose numbers are not bools.

    Whether a fit can use them is for the estimator to check.
    """
    if not isinstance(saved, dict):
        raise ValueError(f"the parameters are {shown(saved)}")
    found = {key: items(value) if key in LISTS else special(value) for key, value in saved.items()}
    for name, value in found.items():
        if isinstance(value, str):
            text(value, f"parameter {name!r}")
        elif not (
            value is None
            or isinstance(value, (bool, int, float, dict))
            or (isinstance(value, list) and name in LISTS)
        ):
            raise ValueError(f"parameter {name!r} is {shown(value)}")
    number(found.get("tol", 0.0), "parameter 'tol'", 0.0)
    for name in ("C", "alpha", "l1_ratio", "intercept_scaling", "quantile", "epsilon", "scale"):
        several = isinstance(found.get(name), list)
        for value in found[name] if several else [found.get(name)]:
            if several or value is not None:
                number(value, f"parameter {name!r}", finite=False)
    for name in ("max_iter", "random_state", "n_jobs"):
        if found.get(name) is not None:
            integer(found[name], f"parameter {name!r}", least=-MOST_ITERATIONS)
    for name in ("fit_intercept", "warm_start"):
        if found.get(name, True) not in (True, False):
            raise ValueError(
                f"parameter {name!r} is {shown(found[name])}, which is not true or false"
            )
    return found


def feature_names(saved: Any, count: int) -> np.ndarray | None:
    """Check names of the features; None if there are none."""
    if saved is None:
        return None
    if (
        not isinstance(saved, list)
        or len(saved) != count
        or not all(isinstance(name, str) for name in saved)
    ):
        raise ValueError(
            f"{shown(saved)} are not the feature names of {count} features, a list of texts"
        )
    if len(set(saved)) < count:
        twice = next(name for k, name in enumerate(saved) if name in saved[:k])
        raise ValueError(f"feature name {shown(twice)} is there more than once")
    return np.array(saved, dtype=object)


def classes(saved: Any, *, own_order: bool = False) -> np.ndarray:
    """Check labels, each of them once and in order, which may be their own.

    Texts are as wide as the longest, whatever the file declares.
    """
    if (
        not isinstance(saved, dict)
        or set(saved) != {"dtype", "values"}
        or not isinstance(saved["values"], list)
    ):
        raise ValueError(f"the classes are {shown(saved)}")
    values, declared = saved["values"], saved["dtype"]
    found = _DTYPE.fullmatch(declared) if isinstance(declared, str) else None
    if found is None:
        raise ValueError(f"labels of dtype {shown(declared)}")
    kind = declared[1]
    types = {"b": (bool,), "i": (int,), "u": (int,), "f": (float,), "U": (str,)}
    known = types.get(kind, (bool, int, float, str))
    wrong = ValueError(
        f"the classes {shown(values)} do not fit dtype {declared!r}, or are not two or more, each "
        "once and in order"
    )
    if len(values) < 2 or any(type(value) not in known for value in values):
        raise wrong
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        raise wrong
    width = max(map(len, values)) if kind == "U" else 0
    if width > int(found["width"] or 0):
        raise wrong
    try:
        labels = np.array(
            values,
            dtype=f"<U{max(width, 1)}" if kind == "U" else np.dtype(declared).newbyteorder("="),
        )
        inside = sorted(values) if own_order else values
        ordered = all(low < high for low, high in pairwise(inside))
    # texts and numbers together; numbers too large for the dtype
    except (TypeError, OverflowError) as error:
        raise wrong from error
    if not ordered or labels.tolist() != values:
        raise wrong
    return labels


def numbers(saved: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Finite float64 numbers of a shape, from lists of lists."""
    _check_nested(saved, shape, what)
    try:
        found = np.array(saved, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"{what} has numbers beyond float64") from error
    if not np.isfinite(found).all():
        raise ValueError(f"{what} has numbers that are not finite")
    return found


def shape_of(saved: Any) -> tuple[int, ...]:
    """Return the shape that lists of lists have by their first items; `numbers` checks the rest."""
    shape = []
    while isinstance(saved, list) and saved:
        shape.append(len(saved))
        saved = saved[0]
    return tuple(shape)


def _check_nested(saved: Any, shape: tuple[int, ...], what: str) -> None:
    if not shape:
        if type(saved) not in (int, float):
            raise ValueError(f"{what} holds {shown(saved)}, where numbers belong")
        return
    if not isinstance(saved, list) or len(saved) != shape[0]:
        found = f"a list of {len(saved)}" if isinstance(saved, list) else shown(saved)
        raise ValueError(f"{what} has {found}, where numbers of shape {shape} belong")
    for each in saved:
        _check_nested(each, shape[1:], what)


def iterations(saved: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of iterations: one of each problem."""
    each = saved if shape and isinstance(saved, list) else [saved]
    if len(each) != math.prod(shape) or (bool(shape) != isinstance(saved, list)):
        raise ValueError(f"n_iter is {shown(saved)}, where its shape is {shape}")
    if any(integer(value, "n_iter") > MOST_ITERATIONS for value in each):
        raise ValueError(f"n_iter is {shown(saved)}, which is beyond 32 bits")
    return np.array(saved, dtype=np.int32)
