"""Fitted estimators as files: strict JSON, with large coefficients in an .npz beside it. Nothing is
pickled.

A file may come from anybody: sizes, headers and every field are checked before what they announce
is read or made.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.pipeline

from daskglm.core.arguments import file_path, writable
from daskglm.data import npz
from daskglm.estimators import model_file, record_file
from daskglm.estimators.absorbed import coefficients_of, hide_absorbed
from daskglm.estimators.any_loss import LinearClassifier, LinearRegressor
from daskglm.estimators.families import (
    FamilyRegressor,
    GammaRegressor,
    GeneralizedLinearRegressor,
    PoissonRegressor,
    TweedieRegressor,
)
from daskglm.estimators.fitted_record import record_of_fit
from daskglm.estimators.huber import HuberRegressor
from daskglm.estimators.json_values import classes_to_json, param, plain
from daskglm.estimators.lasso import ElasticNet, Lasso
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.ordinal import OrdinalRegression
from daskglm.estimators.penalty_cv import ElasticNetCV, LassoCV
from daskglm.estimators.quantile import QuantileRegressor
from daskglm.estimators.ridge import Ridge
from daskglm.estimators.svm import LinearSVC
from daskglm.estimators.svr import LinearSVR
from daskglm.estimators.tables import count_of_coefficients, design_of_model, for_design
from daskglm.fitting import schema
from daskglm.fitting.config import FitConfig
from daskglm.fitting.record import FitRecord
from daskglm.fitting.report import Report, as_dict
from daskglm.frames.file import design_to_json, schema_from_json, schema_to_json
from daskglm.losses.ordinal import is_ordinal
from daskglm.losses.table import JOINT_LOSSES
from daskglm.system.files import replace_file

_ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        *(LogisticRegression, LinearSVC, Ridge, Lasso, ElasticNet, OrdinalRegression),
        *(ElasticNetCV, LassoCV),
        *(GeneralizedLinearRegressor, PoissonRegressor, GammaRegressor, TweedieRegressor),
        *(QuantileRegressor, HuberRegressor, LinearSVR),
        *(LinearClassifier, LinearRegressor),
    )
}
# Those whose paths a file has no room for.
_CHOOSING = ("LogisticRegressionCV", "GeneralizedLinearRegressorCV")


def save(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator to a file.

    The file is JSON, written to a temporary name and then moved into place. With more than 10,000
    coefficients these go to "<path>.npz", which belongs to the file and has to move with it.
    History and parts of the report are not kept.

    Parameters
    ----------
    model : estimator
        Fitted, of one target. Of `HuberRegressor` the marks of outliers are not kept. Of
        `ElasticNetCV` and `LassoCV` the paths are kept; their `cv` must be a number or None, which
        `set_params` can put in the place of a splitter.
    path : str or path
        Where to; a file that is there is replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Where the model is not fitted.
    ValueError
        For other kinds of models, for parameters or labels that JSON cannot hold or `load` would
        refuse, and where `path` is a device, a pipe or a folder.

    Examples
    --------
    >>> import daskglm
    >>> model = daskglm.fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    >>> daskglm.save(model, "model.json")
    """
    name = type(model).__name__
    if _ESTIMATORS.get(name) is not type(model):
        hint = ""
        if isinstance(model, sklearn.pipeline.Pipeline):
            hint = ". Save the model, its last step, and pickle the steps before; or pickle it all"
        elif name in _CHOOSING:
            hint = f". Fit a {name[:-2]} with the penalty that was chosen, or pickle it"
        raise ValueError(f"cannot save a {name}; known are {', '.join(_ESTIMATORS)}{hint}")
    record = record_of_fit(model)
    if not hasattr(model, "classes_") and np.ndim(model.intercept_):
        raise ValueError(
            f"cannot save a {name} of {len(model.intercept_)} targets or quantiles: a file holds a "
            "model of one; save a model for each, or pickle it"
        )
    path = writable(path)
    coef = np.asarray(coefficients_of(model), np.float64)
    coef = coef if np.ndim(model.coef_) > 1 else coef[0]
    # of ordered classes the file has thresholds in the place of intercepts
    ordered = isinstance(model, OrdinalRegression)
    intercept = np.asarray(model.thresholds_ if ordered else model.intercept_, np.float64)
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError(
            "the model has coefficients that are not finite, which cannot be saved: fit it again "
            "on scaled columns"
        )
    names, design = getattr(model, "feature_names_in_", None), design_of_model(model)
    told = names is None and hasattr(model, "feature_names_out_")
    names = model.feature_names_out_ if told else names
    content = {
        "format": model_file.FORMAT,
        "version": model_file.VERSION,
        "estimator": name,
        "params": _params_to_json(model),
        "classes": classes_to_json(model.classes_) if hasattr(model, "classes_") else None,
        "n_features": count_of_coefficients(model),
        "feature_names": None if names is None or design else [str(each) for each in names],
        "coef": coef.tolist(),
        "intercept": intercept.tolist(),
        "n_iter": np.asarray(model.n_iter_).tolist(),
        "report": {
            key: plain(value, f"report {key!r}") for key, value in as_dict(model.report_).items()
        },
        model_file.RECORD: record_file.to_json(record, model),
    }
    of_columns = {
        "design": None if design is None else design_to_json(design),
        "told": told,  # by an encoder, of rows without names
        "roles": dict(getattr(model, "roles_", {})),
        "fitted_with": list(getattr(model, "fitted_with_", ())),
    }
    content |= {key: value for key, value in of_columns.items() if value}
    if hasattr(model, "family_parameter_"):
        content["family_parameter"] = float(model.family_parameter_)
    if hasattr(model, "scale_"):
        content["scale"] = float(model.scale_)
    if isinstance(model, ElasticNetCV):
        content["tried"] = model._tried()
    beside = coef.size > model_file.LARGEST_INLINE
    if beside:
        content["coef"] = content["intercept"] = None
        # the digest tells arrays of this model from those of another one that was saved under the
        # same name
        digest = model_file.digest_of(coef, intercept)
        content["arrays"] = {"file": path.name + ".npz", "sha256": digest}
    text = (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()
    if len(text) > schema.room(text):
        raise ValueError(
            f"names, labels and parameters take {len(text):,} bytes: `load` reads no more than "
            f"{schema.room(text):,}"
        )
    _restore(model_file.parsed(text, path), path, (coef, intercept))  # what is written can be read
    if beside:
        replace_file(
            writable(path.with_name(path.name + ".npz")),
            npz.write({"coef": coef, "intercept": intercept}),
        )
    replace_file(path, text)


def load(path: str | os.PathLike) -> Any:
    """Read an estimator that `save` wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    The estimator that was saved; fitted, `report_` without history.

    Raises
    ------
    FileNotFoundError
        Where there is no such file.
    ValueError
        Where the file is not one of `save`, or of a newer version, or damaged.

    Examples
    --------
    >>> import daskglm
    >>> model = daskglm.fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    >>> daskglm.save(model, "model.json")
    >>> daskglm.load("model.json").predict([[0.0], [9.0]])
    array([0, 1])
    """
    path = file_path(path, "path")
    return _restore(model_file.read(path), path)


def _restore(
    content: dict[str, Any], path: Path, arrays: tuple[np.ndarray, np.ndarray] | None = None
) -> Any:
    """Make the estimator of a checked file.

    `arrays` are those of the file beside it, if they are at hand.
    """
    with model_file.damage_told(path):
        model, settings = _with_params(_ESTIMATORS[content["estimator"]], content["params"])
        d = schema.integer(content["n_features"], "n_features", 0)
        ordered = isinstance(model, OrdinalRegression)
        classes = model_file.labels_of(content)
        record = _record(content, model, settings)
        loss = record.of_loss
        if (classes is None) == loss.classifies or ordered != is_ordinal(loss):
            raise ValueError(
                f"a {type(model).__name__} {'without' if classes is None else 'with'} classes"
            )
        shapes = model_file.shapes_of(content, classes)
        together = loss.name in JOINT_LOSSES
        n_iter = schema.iterations(content["n_iter"], (1,) if together else shapes[1])
        table = model_file.table_of(content, d)
        if table.design is not None:
            settings = for_design(settings, table.design)
        for penalty in (settings.penalty, record.penalty):
            penalty.for_features(d, table.coefficients)
        report = schema.report(content["report"])
        coef, intercept = model_file.coefficients(content, path, shapes, arrays)
        if ("tried" in content) != isinstance(model, ElasticNetCV):
            raise ValueError(
                f"a {type(model).__name__} with{'' if 'tried' in content else 'out'} the penalties "
                "that were tried, which belong to an ElasticNetCV or a LassoCV"
            )
        if isinstance(model, ElasticNetCV):
            model._set_tried(content["tried"], settings)
        if report.n_features != d:
            raise ValueError(f"the report is of {report.n_features:,} features, the model of {d:,}")
        if ordered and (np.diff(intercept) < 0.0).any():
            raise ValueError(f"thresholds {intercept} fall")
    model.coef_ = coef
    table.set(model, d)
    if table.design is not None and table.design.absorbed:
        hide_absorbed(model)
    _set_found(model, record, report)
    if classes is None:
        model.intercept_ = np.float64(intercept)
        model.n_iter_ = int(n_iter)
        model.solver_ = report.solver
    else:
        model.classes_ = classes
        setattr(model, "thresholds_" if ordered else "intercept_", intercept)
        model.n_iter_ = n_iter
    return model


def _set_found(model: Any, record: FitRecord, report: Report) -> None:
    """Set report and record, and what the fit found beside coefficients."""
    model.report_ = report
    model.record_ = replace(record, dispersion=report.dispersion)
    if isinstance(model, FamilyRegressor):
        model._set_parameter()
    if isinstance(model, HuberRegressor):
        model.scale_ = record.scale


def _with_params(cls: Any, saved: Any) -> tuple[Any, FitConfig]:
    """Make an estimator with parameters that a fit can use; return its settings, too."""
    of_tables = schema_from_json(saved.get("schema")) if isinstance(saved, dict) else None
    if of_tables is not None:
        saved = {**saved, "schema": None}
    params = schema.params(saved) | ({} if of_tables is None else {"schema": of_tables})
    unknown = sorted(set(params) - set(cls().get_params(deep=False)))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0]!r}")
    model = cls(**params)
    with warnings.catch_warnings():
        # the fit has told that a parameter is without effect
        warnings.simplefilter("ignore", UserWarning)
        settings: FitConfig = model._settings()
        settings.check(one_fit=True)
    return model, settings


def _record(content: dict[str, Any], model: Any, settings: FitConfig) -> FitRecord:
    """Return the record of the fit, with which what the file says beside it agrees."""
    name = type(model).__name__
    if ("scale" in content) != (type(model) is HuberRegressor):
        raise ValueError(
            f"a {name} with{'' if 'scale' in content else 'out'} a scale, which belongs to a "
            "HuberRegressor"
        )
    if model_file.RECORD not in content:
        return record_file.of_first_version(model, settings, content)
    record = record_file.from_json(content[model_file.RECORD], content["params"])
    told = {key: content[key] for key in ("family_parameter", "scale") if key in content}
    known: dict[str, float] = {}
    if record.estimated in record_file.OF_FAMILIES:
        known["family_parameter"] = record.parameter
    if type(model) is HuberRegressor:
        known["scale"] = record.scale
    if [(key, schema.number(value, key)) for key, value in told.items()] != list(known.items()):
        raise ValueError(f"it has {told} beside a record of {known}")
    return record


def _params_to_json(model: Any) -> dict[str, Any]:
    """Return the parameters of an estimator; raises ValueError for what a file cannot hold."""
    params = model.get_params(deep=False)
    of_tables = schema_to_json(params.pop("schema"))
    found = {key: param(key, value) for key, value in params.items()}
    return found | ({} if of_tables is None else {"schema": of_tables})
