"""Translate the parameters of estimators that shape the penalty into a `PenaltyConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from daskglm.core.arguments import check_flag, is_number, is_sequence, shown
from daskglm.core.warn import warn
from daskglm.data.array_api import parameter
from daskglm.penalties.config import PLAIN, PenaltyConfig

# Parameters of estimators that are fields of `PenaltyConfig`; `positive` is a bound by another
# name.
FIELDS = ("penalty_factor", "P2", "lower_bounds", "upper_bounds", "groups")
NAMES = ("l1_ratio", *FIELDS[:-1], "positive", "groups", "standardize")

# "deprecated" is scikit-learn's default, where l1_ratio and C say it all
BY_L1_RATIO = ("l2", "deprecated")
PENALTIES = (*BY_L1_RATIO, "l1", "elasticnet")


def penalty_of(params: Mapping[str, Any]) -> PenaltyConfig:
    """Return the penalty and the bounds that an estimator's parameters ask for.

    Where `penalty=None` or `alpha=0` leaves no penalty these are the bounds alone.

    Parameters
    ----------
    params : dict
        Parameters by the names of the estimators; absent ones have their defaults.

    Raises
    ------
    ValueError
        For values that no fit can use.

    Warns
    -----
    UserWarning
        Where `penalty=None` makes others without effect.
    """
    given: dict[str, Any] = {
        name: parameter(params[name]) for name in FIELDS if params.get(name) is not None
    }
    if not (is_number(l1_ratio := _l1_ratio(params)) and l1_ratio == 0):
        given["l1_ratio"] = l1_ratio
    if (standardize := params.get("standardize", False)) is not False:
        given["standardize"] = standardize
    check_flag(positive := params.get("positive", False), "positive")
    if positive:
        if "lower_bounds" in given:
            raise ValueError(
                f"positive=True and lower_bounds={shown(given['lower_bounds'])} are both given; "
                "positive=True means lower_bounds=0: give one of them"
            )
        given["lower_bounds"] = 0.0
    if not given:
        return PLAIN
    penalty = PenaltyConfig(**given)
    penalty.check()
    return _without_penalty(penalty, params)


def _without_penalty(penalty: PenaltyConfig, params: Mapping[str, Any]) -> PenaltyConfig:
    """Return the bounds, and what leaves features out, where the parameters leave no penalty."""
    by_name = "penalty" in params and params["penalty"] is None
    alpha = params.get("alpha")
    if not by_name and not (is_number(alpha) and alpha == 0):
        return penalty
    ratio = [f"l1_ratio={penalty.l1_ratio!r}"] if penalty.l1_ratio else []
    kept = {"penalty_factor": penalty.penalty_factor} if penalty.leaves_out else {}
    if by_name and (lost := [*ratio, *(n for n in penalty.of_features if n not in kept)]):
        warn(f"penalty=None: {', '.join(lost)} without effect, the fit has no penalty")
    kept |= {"lower_bounds": penalty.lower_bounds, "upper_bounds": penalty.upper_bounds}
    bounds = replace(PLAIN, **kept)
    return bounds if bounds.has_bounds else PLAIN


def l1_ratios_of(penalty: Any, given: Any) -> list[float]:
    """Return the shares of the L1 penalty to choose from, by scikit-learn's parameters.

    Parameters
    ----------
    penalty : str
    given : sequence of float, None or "warn"
        `l1_ratios`; None and "warn", scikit-learn's name of its default, leave it to `penalty`.

    Raises
    ------
    ValueError
        For what is no sequence of numbers from 0 to 1, and for a `penalty` that contradicts it.
    """
    _check_name(penalty)
    if given is None or (isinstance(given, str) and given == "warn"):
        if penalty == "elasticnet":
            raise ValueError(
                f"penalty='elasticnet' with l1_ratios={given!r}: give l1_ratios, such as (0.5, "
                "1.0), from 0 (L2) to 1 (L1)"
            )
        return [1.0 if penalty == "l1" else 0.0]
    given = parameter(given)
    ratios = list(given) if is_sequence(given) else []
    if not ratios or any(not is_number(each) or not 0.0 <= each <= 1.0 for each in ratios):
        raise ValueError(
            f"l1_ratios={shown(given)} must be a sequence of numbers from 0 (L2 penalty) to 1 "
            "(L1), such as (0.5, 1.0)"
        )
    if penalty == "l1" and any(each != 1 for each in ratios):
        raise ValueError(
            f"penalty='l1' with l1_ratios={shown(given)}: they contradict each other; give "
            "l1_ratios alone"
        )
    return [float(each) for each in ratios]


def _check_name(penalty: Any) -> None:
    """Raise ValueError for a `penalty` that is none of scikit-learn's."""
    if not isinstance(penalty, (str, type(None))) or penalty not in (*PENALTIES, None):
        known = ", ".join(map(repr, PENALTIES))
        raise ValueError(
            f"penalty={penalty!r} must be one of {known} or None; C, alpha and loss are arguments "
            "of their own"
        )


def _l1_ratio(params: Mapping[str, Any]) -> Any:
    """Return the share of the L1 penalty, by `l1_ratio` and scikit-learn's `penalty`.

    Raises ValueError for a `penalty` that is none, or that contradicts `l1_ratio`.
    """
    penalty, ratio = params.get("penalty", "l2"), params.get("l1_ratio")
    _check_name(penalty)
    if penalty in (*BY_L1_RATIO, None):
        return 0.0 if ratio is None else ratio
    if "l1_ratio" not in params:
        raise ValueError(
            f"penalty={penalty!r} is not implemented here; there are 'l2' and None (no penalty)"
        )
    if penalty == "elasticnet":
        if ratio is None:
            raise ValueError(
                "penalty='elasticnet' with l1_ratio=None: give an l1_ratio, from 0 (L2) to 1 (L1)"
            )
        return ratio
    # 0 is the default of l1_ratio
    if ratio is not None and not (is_number(ratio) and ratio in (0, 1)):
        raise ValueError(
            f"penalty='l1' with l1_ratio={shown(ratio)}: they contradict each other; give l1_ratio "
            "alone"
        )
    return 1.0
