"""The record of what a model was fitted to, as everything after the fit asks for it."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from daskglm.fitting.record import FitRecord
from daskglm.losses.base import Loss
from daskglm.losses.table import find, for_classes


def record_of_fit(model: Any) -> FitRecord:
    """Return the record of a fitted model.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Where it is not fitted.
    ValueError
        For models that have coefficients and no record.
    """
    check_is_fitted(model)
    record: FitRecord | None = getattr(model, "record_", None)
    if record is None:
        raise ValueError(
            f"this {type(model).__name__} does not say what was fitted (it has no record_): it was "
            "pickled by an earlier version, or its coefficients were set by hand. Fit it again"
        )
    return record


def loss_of_fit(model: Any) -> Loss:
    """Return the loss that a model was fitted to.

    Coefficients that were set by hand have no record: of them parameters tell all that is known.
    """
    check_is_fitted(model)
    if hasattr(model, "record_"):
        return record_of_fit(model).of_loss
    return for_classes(find(model._loss), len(getattr(model, "classes_", ())))
