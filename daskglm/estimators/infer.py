"""From a fitted model and its data to an `Inference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import _check_feature_names

from daskglm.data.containers import Named, plain
from daskglm.data.partitions import Partitions, feature_names, is_lazy
from daskglm.data.targets import in_memory
from daskglm.engines.factory import awaitable_on
from daskglm.estimators.absorbed import coefficients_of
from daskglm.estimators.fitted_data import check_added, with_columns_of_fit
from daskglm.estimators.fitted_record import record_of_fit
from daskglm.estimators.inference import Inference, names_of
from daskglm.estimators.joint_parameters import joint_parameters
from daskglm.estimators.parameters import threads_of
from daskglm.estimators.tables import count_of_coefficients, design_of_model, encoded, with_roles
from daskglm.fitting.config import FitConfig
from daskglm.fitting.inference import InferenceConfig, infer
from daskglm.fitting.record import AVERAGED, RELAXED, FitRecord
from daskglm.fitting.runner import rows_of
from daskglm.losses.base import Loss

# Coefficients of which a covariance is formed: one of 3.2 GB, and a few more beside it. Chosen.
MOST_COEFFICIENTS = 20_000


def inference_of(
    model: Any, X: Any, beside: Mapping[str, Any], config: InferenceConfig, **where: Any
) -> Any:
    """Return the inference of a fitted model; see `LinearModel.inference`.

    Parameters
    ----------
    model : fitted estimator
    X : rows, as of `fit`
    beside : dict
        What is beside them: y, sample_weight, offset, exposure and clusters.
    config : InferenceConfig
    where : client, out_of_core
    """
    record = record_of_fit(model)
    threads = threads_of(getattr(model, "n_jobs", None))
    settings = record.settings(out_of_core=where["out_of_core"], threads=threads)
    settings.check(one_fit=True)
    loss = record.of_loss
    roles = dict(getattr(model, "roles_", {}))
    if config.covariance != "cluster":
        roles.pop("clusters", None)
    clustered = beside["clusters"] is not None or "clusters" in roles
    config.check(loss, settings, clusters=clustered)
    _check_kind(record)
    joint = joint_parameters(model, loss, config.reference, intercept=record.fit_intercept)
    w = _coefficients(model, settings) if joint is None else joint.params
    beside = with_roles(roles, plain(X), beside)
    check_added(model, "inference", beside)
    design = design_of_model(model)
    if design is None:
        X = with_columns_of_fit(model, X, beside.values())
    X, beside = encoded(model, X, {name: plain(values) for name, values in beside.items()})
    given = [value for value in beside.values() if isinstance(value, str)]
    names = feature_names(X, *given)
    columns = None if names is None else tuple(map(str, names))
    data = _partitions(model, X, beside, loss, names if design is None else None)
    d = count_of_coefficients(model)
    reported = None
    if design is not None and design.absorbed:
        reported = np.append(design.reported, np.ones(int(record.fit_intercept), bool))
    if d > MOST_COEFFICIENTS and reported is None:  # else only what is reported counts
        raise ValueError(
            f"X has {d:,} coefficients, whose covariance takes {8e-9 * d * d:.3g} GB, and several "
            f"times that to be made: inference is for up to {MOST_COEFFICIENTS:,}. Levels of a "
            "factor whose effects are not wanted can be absorbed, by a schema's absorb"
        )
    told = getattr(model, "feature_names_out_", None)  # by an encoder, of rows without names
    labels = columns if columns is not None or told is None else tuple(told)
    of = names_of(labels, d, fit_intercept=record.fit_intercept)
    order: tuple[int, ...] = ()
    if joint is not None:
        of, order = joint.names(of[:d]), joint.order

    def work() -> Inference:
        classes = getattr(model, "classes_", None)
        if classes is not None and getattr(model, "_order", None) is not None:
            classes = np.arange(len(classes))  # which rows have in the place of their labels
        client = where["client"]
        how: Any = {"classes": classes, "order": order, "reported": reported}
        found = infer(data, settings, w, config, of, **how, client=client)
        told = of if reported is None else tuple(np.array(of, dtype=object)[reported])
        ref, intercept = loss.ref, record.fit_intercept
        return Inference(told, ref, config, found, intercept, record, columns, design)

    return awaitable_on(where["client"], is_lazy(X), work)


def _check_kind(record: FitRecord) -> None:
    """Raise ValueError for coefficients that are no optimum of one problem."""
    if record.kind == AVERAGED:
        raise ValueError(
            "the coefficients are means over the folds (refit=False), no optimum of the rows: give "
            "refit=True"
        )
    if record.kind == RELAXED:
        raise ValueError(
            "the fit has selected its features by an L1 penalty (relax=True), which standard "
            "errors of the fit to those features would not count: fit without it"
        )


def _coefficients(model: Any, settings: FitConfig) -> np.ndarray:
    """Return the coefficients, the intercept last; ValueError for several problems."""
    coef, intercept = coefficients_of(model), np.atleast_1d(model.intercept_)
    if len(coef) > 1:
        what = "classes" if hasattr(model, "classes_") else "targets"
        raise ValueError(
            f"the model has coefficients for each of {len(coef)} {what}; inference is for one "
            "vector of coefficients: give two classes, or one target"
        )
    w: np.ndarray = np.append(coef[0], intercept) if settings.fit_intercept else coef[0].copy()
    return w


def _partitions(
    model: Any, X: Any, beside: dict[str, Any], loss: Loss, names: np.ndarray | None
) -> Partitions:
    """Return the data as `fit` takes them, with the features of the model."""
    if beside["y"] is None:
        raise ValueError("inference requires y to be passed, but the target y is None")
    if not is_lazy(X):
        X, y, weight = in_memory(X, beside["y"], beside["sample_weight"])
        beside = {**beside, "y": y, "sample_weight": weight}
        beside = {
            name: np.asarray(values) if isinstance(values, (list, tuple)) else values
            for name, values in beside.items()
        }
    if not isinstance(X, Named):
        known = np.empty((0, 0)) if names is None else pd.DataFrame(columns=names)
        _check_feature_names(model, known, reset=False)
    data = rows_of(X, loss=loss, **beside)
    d = count_of_coefficients(model)
    if data.width is not None and data.width != d:
        raise ValueError(f"X has {data.width} features, but the model was fitted to {d}")
    return data
