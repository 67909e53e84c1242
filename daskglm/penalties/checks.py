"""Checks of the parameters of a penalty, one by one, without any data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.arguments import is_number, is_sequence, is_whole, shown

# Rounding errors of symmetry and of eigenvalues that are allowed in P2, in units of machine
# epsilon times the largest entry, for each feature. LAPACK's bound has a factor of about 1; chosen.
ROUNDING = 10.0 * float(np.finfo(np.float64).eps)


def numbers(given: Any, what: str, *, ndim: int) -> np.ndarray:
    """Return numbers as an array of float64 with so many dimensions; raise ValueError else."""
    if ndim == 1 and hasattr(given, "index") and hasattr(given, "to_dict"):
        raise ValueError(
            f"{what} is a {type(given).__name__}, whose values could be meant by name or in order; "
            "give its to_dict() or its to_numpy()"
        )
    try:
        values = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what}={shown(given)} is no array of numbers: {error}") from error
    if values.dtype.kind not in "iuf" or values.ndim != ndim:
        raise ValueError(
            f"{what} has the shape {values.shape} and the dtype {values.dtype}; give "
            f"{'one number for each feature' if ndim < 2 else 'a matrix of numbers'}"
        )
    return values.astype(np.float64)


def _check_values(given: Any, what: str, kind: str, accept: Callable[[Any], Any]) -> None:
    """Raise ValueError unless all numbers of an array or a mapping are of the kind.

    `accept` says which of an array are.
    """
    if isinstance(given, Mapping):
        for name, value in given.items():
            if not isinstance(name, str):
                raise ValueError(
                    f"{what}={shown(given)} has the key {shown(name)}; keys are names of features"
                )
            if not is_number(value) or not accept(np.float64(value)):
                raise ValueError(f"{what}: {shown(name)} has {shown(value)}; give {kind}")
        return
    values = numbers(given, what, ndim=1)
    wrong = np.flatnonzero(~accept(values))
    if len(wrong):
        raise ValueError(f"{what} has {values[wrong[0]]} for feature {wrong[0]}; give {kind}")


def check_factors(given: Any) -> None:
    """Raise ValueError for what is no `penalty_factor`."""
    if given is None:
        return
    if not isinstance(given, Mapping) and not is_sequence(given):
        raise ValueError(
            f"penalty_factor={shown(given)} must be an array with a number for each feature, or a "
            "dict of feature name: number; for all features alike there are C and alpha"
        )
    _check_values(
        given,
        "penalty_factor",
        "a number not below 0 (inf leaves a feature out)",
        lambda v: v >= 0.0,
    )


def check_left_out(left_out: np.ndarray, lower: Any, upper: Any) -> None:
    """Raise ValueError for features that are left out, (d,) of bool, with bounds that exclude 0."""
    for bounds, what, beyond in ((lower, "lower_bounds", 1.0), (upper, "upper_bounds", -1.0)):
        if bounds is None:
            continue
        wrong = np.flatnonzero(left_out & (beyond * bounds > 0.0))
        if len(wrong):
            j = int(wrong[0])
            raise ValueError(
                f"penalty_factor is inf for feature {j}, whose coefficient is 0 by that, and "
                f"{what} has {bounds[j]:g} for it: no coefficient is both"
            )


def check_bounds(given: Any, what: str) -> None:
    """Raise ValueError for what is no `lower_bounds` or `upper_bounds`; `what` says which."""
    if given is None:
        return
    never = math.inf if what == "lower_bounds" else -math.inf
    kind = f"a number, or {-never} for none"
    if is_number(given):
        if math.isnan(given) or given == never:
            raise ValueError(f"{what}={given!r} must be {kind}")
        return
    if not isinstance(given, Mapping) and not is_sequence(given):
        raise ValueError(
            f"{what}={shown(given)} must be a number, an array with one for each feature, or a "
            "dict of feature name: number"
        )
    _check_values(given, what, kind, lambda v: ~np.isnan(v) & (v != never))


def check_order(lower: Any, upper: Any) -> None:
    """Raise ValueError for a lower bound above the upper one, as far as they can be compared."""
    if lower is None or upper is None:
        return
    if isinstance(lower, Mapping) or isinstance(upper, Mapping):
        named = [each for each in (lower, upper) if isinstance(each, Mapping)]
        keys: Any = list(dict.fromkeys(key for each in named for key in each))
        low, high = _by_name(lower, keys, -math.inf), _by_name(upper, keys, math.inf)
    else:
        low, high = np.atleast_1d(np.asarray(lower)), np.atleast_1d(np.asarray(upper))
        if len(low) != len(high) and min(len(low), len(high)) != 1:
            raise ValueError(
                f"lower_bounds has {len(low):,} values and upper_bounds {len(high):,}: give one "
                "for each feature"
            )
        low, high = np.broadcast_arrays(low, high)
        keys = range(len(low))
    crossed = np.flatnonzero(low > high)
    if len(crossed):
        j = int(crossed[0])
        raise ValueError(
            f"lower_bounds has {low[j]:g} for feature {keys[j]!r} and upper_bounds {high[j]:g}: no "
            "coefficient is between them"
        )


def _by_name(given: Any, names: Sequence[str], default: float) -> np.ndarray:
    """Return the bounds of these features; those of an array, without names, are not known."""
    if isinstance(given, Mapping):
        return np.array([float(given.get(name, default)) for name in names])
    return np.full(len(names), float(given) if is_number(given) else default)


# Groups of the coefficients of each factor of a table.
BY_FACTOR = "factors"


def are_lists(groups: Any) -> bool:
    """Return whether groups are lists of features; else they are a label for each feature."""
    return bool(len(groups)) and all(is_sequence(each) for each in groups)


def check_groups(groups: Any) -> None:
    """Raise ValueError for what is no `groups`."""
    if isinstance(groups, str) and groups == BY_FACTOR:
        return
    if not is_sequence(groups) or not len(groups):
        raise ValueError(
            f"groups={shown(groups)} must be an array with a label for each feature, or a list of "
            "lists of feature numbers or names"
        )
    if not are_lists(groups):
        if any(isinstance(each, Mapping) or is_sequence(each) or each is None for each in groups):
            raise ValueError(
                f"groups={shown(groups)} has labels beside lists of features; give labels for all "
                "features, or lists only"
            )
        if any(each != each for each in groups):
            raise ValueError(f"groups={shown(groups)} has NaN among the labels; give one for each")
        return
    seen = set()
    for group in groups:
        if not len(group):
            raise ValueError(f"groups={shown(groups)} has an empty group; leave it out")
        for each in group:
            if not isinstance(each, str) and not (is_whole(each) and each >= 0):
                raise ValueError(
                    f"groups has {shown(each)} among the features of a group; give their numbers, "
                    "from 0, or names"
                )
            if each in seen:
                raise ValueError(
                    f"groups has the feature {shown(each)} twice; groups must not overlap"
                )
            seen.add(each)


def check_factors_of_groups(factors: np.ndarray, groups: list[np.ndarray]) -> None:
    """Raise ValueError for factors (d,) that differ among the features of a group."""
    for group in groups:
        if (factors[group] != factors[group[0]]).any():
            raise ValueError(
                f"penalty_factor has {factors[group].min():g} and {factors[group].max():g} within "
                f"the group of the features {shown(group.tolist())}; a group has one factor"
            )


def semi_definite(given: Any) -> np.ndarray:
    """Return P2 as an array; raise ValueError for what is no symmetric, semi-definite matrix."""
    P2 = numbers(given.toarray() if sp.issparse(given) else given, "P2", ndim=2)
    if P2.shape[0] != P2.shape[1] or not P2.size:
        raise ValueError(
            f"P2 has the shape {P2.shape}; give a symmetric matrix with a row and a column for "
            "each feature"
        )
    if not np.isfinite(P2).all():
        raise ValueError(f"P2 has {P2[~np.isfinite(P2)][0]} among its entries; give numbers")
    rounding = ROUNDING * len(P2) * float(np.abs(P2).max())
    uneven = np.abs(P2 - P2.T)
    if uneven.max() > rounding:
        i, j = np.unravel_index(int(uneven.argmax()), P2.shape)
        raise ValueError(
            f"P2 is not symmetric: its entry {i}, {j} is {P2[i, j]:g}, but {j}, {i} is "
            f"{P2[j, i]:g}; give (P2 + P2.T) / 2, which has the same value w.P2 w"
        )
    least = float(np.linalg.eigvalsh(P2)[0])
    if least < -rounding:
        raise ValueError(
            f"P2 has the negative eigenvalue {least:g}, so that the penalty has no minimum; "
            "give a positive semi-definite matrix"
        )
    return P2
