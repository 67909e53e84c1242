"""A call of scikit-learn's `fit`: answered by our class of that name, or declined with why."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

import daskglm
from daskglm.accel.record import ENOUGH, Asked, Record, Rule, gap_for
from daskglm.core.warn import quiet, warn


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
        warn(str(warning), type(warning))
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
    """Weights (n,), or None; a number stands for as many."""
    if weight is None:
        return None
    return np.full(X.shape[0], weight, float) if np.ndim(weight) == 0 else np.asarray(weight, float)


def _fitted(record: Record, asked: Asked) -> Any:
    """Our fitted model; raises Declined where its optimum is not proved to be near."""
    tol = 0.0 if record.exact else float(asked.model.tol)
    ours = (record.ours or getattr(daskglm, record.name))(
        **record.parameters(asked), tol=gap_for(tol, record.has_corners(asked))
    )
    if hasattr(ours, "progress"):
        ours.progress = False
    # one column is one target
    y = asked.y.ravel() if asked.y.ndim == 2 and asked.y.shape[1] == 1 else asked.y
    # whether it converged is looked at below
    with quiet():
        ours.fit(record.rows(asked), y, sample_weight=asked.weight)
    # where no gap can be proved it is nan, and Newton's step tells whether the fit has converged
    enough = ENOUGH if record.exact else min(tol, ENOUGH)
    if not (ours.report_.converged or ours.report_.relative_gap <= enough):
        raise Declined("no optimum was proved to be near")
    return ours
