"""A call of scikit-learn's `fit`: answered by our class of that name, or declined with why."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

import daskglm
from daskglm.accel.record import ENOUGH, Asked, Record, Rule, gap_for

# Classes that have no `tol` (quantiles, by a linear program), or whose usual solver takes no notice
# of it (ridge).
EXACT = ("QuantileRegressor", "Ridge")


class Declined(Exception):
    """The call is scikit-learn's: the message says why."""


def answer(record: Record, model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the fitted attributes for a call of `fit` with these arguments by name.

    Raises
    ------
    Declined
        Where scikit-learn's own fit is to be called.
    """
    try:
        asked = _checked(record, model, **arguments)
        found = record.attributes(asked, _fitted(record, asked))
    except Declined:
        raise
    except Exception as error:  # scikit-learn's fit will say what is wrong, in its own words
        raise Declined(f"{type(error).__name__}: {str(error).partition('. ')[0]}") from error
    for warning in record.warns(asked):
        warnings.warn(warning, stacklevel=4)
    return found


def _checked(
    record: Record,
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    check_input: bool = True,
    **more: Any,
) -> Asked:
    """Return the call with its rows checked as scikit-learn checks them; raises Declined."""
    if more or not check_input:
        raise Declined("arguments of fit beside X, y and sample_weight")
    if sklearn.get_config()["array_api_dispatch"]:
        raise Declined("array API dispatch")
    if getattr(model, "_skl_callbacks", None):
        raise Declined("callbacks")
    model._validate_params()
    _decline(record.by_parameters, Asked(model))
    X, y = validate_data(model, X, y, **record.checks)
    if record.classifies:
        check_classification_targets(y)
    asked = Asked(model, X, y, _weights(sample_weight, X))
    _decline(record.by_rows, asked)
    return asked


def _decline(rules: tuple[Rule, ...], asked: Asked) -> None:
    for rule in rules:
        if rule.holds(asked):
            raise Declined(rule.why)


def _weights(weight: Any, X: Any) -> Any:
    """Weights (n,), of which a number stands for as many; equal ones are none."""
    if weight is None or np.ndim(weight) == 0:
        if weight is not None and weight != 1:
            return np.full(X.shape[0], float(weight))
        return None
    return np.asarray(weight, dtype=np.float64)


def _fitted(record: Record, asked: Asked) -> Any:
    """Our fitted model; raises Declined where its optimum is not proved to be near."""
    exact = record.name in EXACT
    tol = 0.0 if exact else float(asked.model.tol)
    parameters = record.parameters(asked)
    accepted = getattr(daskglm, record.name)._get_param_names()
    quiet = {"progress": False} if "progress" in accepted else {}
    ours = getattr(daskglm, record.name)(
        **parameters, tol=gap_for(tol, record.has_corners(asked)), **quiet
    )
    with warnings.catch_warnings():
        # whether it converged is looked at below
        warnings.simplefilter("ignore")
        ours.fit(record.rows(asked), asked.y, sample_weight=asked.weight)
    # where no gap can be proved it is nan, and Newton's step tells whether the fit has converged
    enough = ENOUGH if exact else min(tol, ENOUGH)
    if not (ours.report_.converged or ours.report_.relative_gap <= enough):
        raise Declined("no optimum was proved to be near")
    return ours
