"""A path of models, one for each value of C, solved on the same rows: what `daskglm.fit` does with a sequence."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from daskglm.engines import awaitable_on
from daskglm.estimators import LinearModel
from daskglm.family import opened, warn
from daskglm.inputs import is_lazy
from daskglm.settings import Settings
from daskglm.training import Trained


def values_of_C(given: Any, name: str) -> np.ndarray:
    """A sequence of positive numbers as an array; raises ValueError for anything else."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={given!r} is not a sequence of numbers") from error
    if values.ndim != 1 or not len(values) or not (values > 0).all():
        raise ValueError(f"{name}={given!r} must be a sequence of positive numbers")
    return values


def fit_path(
    model: LinearModel, X: Any, y: Any, Cs: Any, *, sample_weight: Any = None, client: Any = None, **more: Any
) -> Any:
    """Fit copies of an estimator, one for each C, together where they can be.

    Parameters
    ----------
    model : LinearModel
        With any C.
    X, y, sample_weight, client
        As of `daskglm.fit`.
    Cs : sequence of float
    more
        Further settings.

    Returns
    -------
    list of fitted estimators, in the order of `Cs`; an awaitable of it where the client is asynchronous.
    """
    values = values_of_C(Cs, "C")
    models = [clone(model).set_params(C=float(C)) for C in values]
    settings = models[0]._settings(**more)
    settings.check()
    X, y, sample_weight, names = model._taken(X, y, sample_weight)
    return awaitable_on(
        client, is_lazy(X), partial(_fit_now, models, X, y, settings, values, names, sample_weight, client)
    )


def _fit_now(
    models: list[LinearModel], X: Any, y: Any, settings: Settings, Cs: np.ndarray, names: Any, weight: Any, client: Any
) -> list[LinearModel]:
    began = time.perf_counter()
    with opened(X, y, settings, sample_weight=weight, client=client) as family:
        solutions = family.solve(family.columns(Cs))
        d, fitted = family.joint.n_features, []
        for c, model in enumerate(models):
            of_model = range(c, len(solutions.W), len(Cs))  # C is fastest
            W = solutions.W[of_model.start :: of_model.step]
            intercept = W[:, d] if settings.fit_intercept else np.zeros(len(W))
            report = family.report([solutions.reports[p] for p in of_model], began)
            fitted.append(model._adopt(Trained(W[:, :d], intercept, family.classes, report), names))
    warn(solutions.reports, float(settings.tol))
    return fitted
