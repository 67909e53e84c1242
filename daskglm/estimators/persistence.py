"""Fitted estimators as files: strict JSON, with large coefficients in an .npz beside it. Nothing is
pickled.

A file may come from anybody: sizes, headers and every field are checked before what they announce
is read or made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.pipeline

from daskglm.core.arguments import file_path, shown
from daskglm.data import npz
from daskglm.estimators import record_file
from daskglm.estimators.absorbed import coefficients_of, hide_absorbed
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
from daskglm.frames.design import Design
from daskglm.frames.file import (
    ROLES,
    design_from_json,
    design_to_json,
    schema_from_json,
    schema_to_json,
)
from daskglm.losses.ordinal import is_ordinal
from daskglm.losses.table import JOINT_LOSSES
from daskglm.system.files import replace_file

FORMAT, VERSION = "daskglm-model", 2
# Files of version 1 have no record of the fit, which is then made of the parameters.
VERSIONS = (1, VERSION)
# Most coefficients that are written as JSON; more go to a file beside.
LARGEST_INLINE = 10_000

_ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        *(LogisticRegression, LinearSVC, Ridge, Lasso, ElasticNet, OrdinalRegression),
        *(ElasticNetCV, LassoCV),
        *(GeneralizedLinearRegressor, PoissonRegressor, GammaRegressor, TweedieRegressor),
        *(QuantileRegressor, HuberRegressor, LinearSVR),
    )
}
_KEYS = (
    "params",
    "classes",
    "n_features",
    "feature_names",
    "coef",
    "intercept",
    "n_iter",
    "report",
)
_OPTIONAL = (
    "arrays",
    "family_parameter",
    "scale",
    "tried",
    "fitted_with",
    "design",
    "roles",
    "told",
)
_RECORD = "record"
_DIGEST = re.compile(r"[0-9a-f]{64}")


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
        of_steps = ". Save the model, its last step, and pickle the steps before; or pickle it all"
        hint = of_steps if isinstance(model, sklearn.pipeline.Pipeline) else ""
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
        "format": FORMAT,
        "version": VERSION,
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
        _RECORD: record_file.to_json(record, model),
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
    beside = coef.size > LARGEST_INLINE
    if beside:
        content["coef"] = content["intercept"] = None
        # the digest tells arrays of this model from those of another one that was saved under the
        # same name
        content["arrays"] = {"file": path.name + ".npz", "sha256": _digest(coef, intercept)}
    text = (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()
    if len(text) > schema.room(text):
        raise ValueError(
            f"names, labels and parameters take {len(text):,} bytes: `load` reads no more than "
            f"{schema.room(text):,}"
        )
    _restore(_content(text, path), path, (coef, intercept))  # what is written can be read
    if beside:
        replace_file(
            writable(path.with_name(path.name + ".npz")),
            npz.write({"coef": coef, "intercept": intercept}),
        )
    replace_file(path, text)


def writable(path: str | os.PathLike) -> Path:
    """Return a path to write a file to; raise ValueError for a device, a pipe or a folder."""
    path = file_path(path, "path")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder, a pipe or a device, not a file: give another name")
    return path


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
    content = _content(_text(path), path)
    return _restore(content, path)


def _text(path: Path) -> bytes:
    """Read a file of JSON, at most the bytes that what it declares can take."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a daskglm model: it is a folder, a pipe or a device")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(min(size, schema.MOST_BYTES))
        if size > (most := schema.room(start)):
            raise ValueError(
                f"{path} is not a daskglm model: it has {size:,} bytes, more than the {most:,} "
                "bytes that the features it declares can take"
            )
        return start + file.read(size - len(start))


def _content(text: bytes, path: Path) -> dict[str, Any]:
    """JSON of the right format, version and keys."""
    try:
        content = schema.parse(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a daskglm model: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a daskglm model: it has no format {FORMAT!r}")
    version = content.get("version")
    if type(version) is not int or version not in VERSIONS:
        raise ValueError(
            f"{path} has version {version!r}; this daskglm reads versions "
            f"{' and '.join(map(str, VERSIONS))}"
        )
    if content.get("estimator") not in list(_ESTIMATORS):
        raise ValueError(
            f"{path} holds a {content.get('estimator')!r}; known are {', '.join(_ESTIMATORS)}"
        )
    keys = _KEYS if version == 1 else (*_KEYS, _RECORD)
    missing = [key for key in keys if key not in content]
    if missing:
        raise ValueError(f"{path} is damaged: it has no {', '.join(map(repr, missing))}")
    unknown = sorted(set(content) - {"format", "version", "estimator", *_OPTIONAL, *keys})
    if unknown:
        raise ValueError(f"{path} is damaged: version {version} has no {unknown[0]!r}")
    return content


def _restore(
    content: dict[str, Any], path: Path, arrays: tuple[np.ndarray, np.ndarray] | None = None
) -> Any:
    """Make the estimator of a checked file.

    `arrays` are those of the file beside it, if they are at hand.
    """
    try:
        model, settings = _with_params(_ESTIMATORS[content["estimator"]], content["params"])
        d = schema.integer(content["n_features"], "n_features", 0)
        ordered = isinstance(model, OrdinalRegression)
        classes = (
            None
            if content["classes"] is None
            else schema.classes(content["classes"], own_order=ordered)
        )
        record = _record(content, model, settings)
        loss = record.of_loss
        if (classes is None) == loss.classifies or ordered != is_ordinal(loss):
            raise ValueError(
                f"a {type(model).__name__} {'without' if classes is None else 'with'} classes"
            )
        problems = None if classes is None else 1 if len(classes) == 2 else len(classes)
        shapes: _Shapes = ((d,), ()) if problems is None else ((problems, d), (problems,))
        if ordered and classes is not None:
            shapes = ((d,), (len(classes) - 1,))
        together = loss.name in JOINT_LOSSES
        n_iter = schema.iterations(content["n_iter"], (1,) if together else shapes[1])
        table = _table(content, d)
        if table.design is not None:
            settings = for_design(settings, table.design)
        for penalty in (settings.penalty, record.penalty):
            penalty.for_features(d, table.coefficients)
        report = schema.report(content["report"])
        coef, intercept = _coefficients(content, path, shapes, arrays)
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
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is damaged: {what}") from error
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
    if _RECORD not in content:
        return record_file.of_first_version(model, settings, content)
    record = record_file.from_json(content[_RECORD], content["params"])
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


class _Table(NamedTuple):
    """What a file says of columns: names of features, those with roles, and the design.

    Names are `told` by an encoder where rows had none.
    """

    names: np.ndarray | None
    design: Design | None
    roles: dict[str, str]
    fitted_with: tuple[str, ...]
    told: bool = False

    @property
    def coefficients(self) -> np.ndarray | None:
        """Names of the coefficients."""
        if self.design is None:
            return self.names
        return np.array(self.design.names, dtype=object)

    def set(self, model: Any, d: int) -> None:
        """Set the attributes of a model of d coefficients."""
        model.fitted_with_, model.roles_, model.n_features_in_ = self.fitted_with, self.roles, d
        names = self.names
        if self.design is not None:
            model.schema_, model.feature_names_out_ = self.design, self.coefficients
            names = np.array(self.design.columns, dtype=object)
            model.n_features_in_ = len(names)
        if names is not None:
            setattr(model, "feature_names_out_" if self.told else "feature_names_in_", names)


def _table(content: dict[str, Any], d: int) -> _Table:
    """Check what a file says of the columns of a model of d coefficients."""
    names = schema.feature_names(content["feature_names"], d)
    design = design_from_json(content["design"]) if "design" in content else None
    if design is not None and (names is not None or len(design.names) != d):
        raise ValueError(f"a design of {len(design.names)} coefficients, the model of {d}")
    roles, fitted_with = content.get("roles", {}), content.get("fitted_with", [])
    right = isinstance(roles, dict) and all(isinstance(name, str) for name in roles.values())
    if not right or set(roles) - set(ROLES):
        raise ValueError(f"it has the roles {shown(roles)}")
    if fitted_with not in ([], ["offset"], ["exposure"], ["offset", "exposure"]):
        raise ValueError(f"it was fitted with {shown(fitted_with)}")
    if (told := content.get("told", False)) is not False and (told is not True or names is None):
        raise ValueError(f"told is {shown(told)}, of the names {shown(names)}")
    return _Table(names, design, dict(roles), tuple(fitted_with), told)


# ---- arrays
_Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def _coefficients(
    content: dict[str, Any],
    path: Path,
    shapes: _Shapes,
    arrays: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    where = content.get("arrays")
    if where is None:
        coef, intercept = (
            schema.numbers(content[name], shape, name)
            for name, shape in zip(("coef", "intercept"), shapes, strict=True)
        )
        return coef, intercept
    if (
        content["coef"] is not None
        or content["intercept"] is not None
        or set(where) != {"file", "sha256"}
    ):
        raise ValueError(f"it has coefficients itself and beside it, by {str(where)[:80]}")
    name, digest = where["file"], where["sha256"]
    if (
        not isinstance(name, str)
        or Path(name).name != name
        or "\\" in name
        or not name.isprintable()
    ):
        raise ValueError(f"{name!r} is not the name of a file beside it")
    if not isinstance(digest, str) or not (_DIGEST.fullmatch(digest)):
        raise ValueError(f"the digest of its arrays is {digest!r}")
    coef, intercept = arrays or _beside(path, name, shapes)
    if _digest(coef, intercept) != digest:
        raise ValueError(f"the coefficients in {name!r} are those of another model")
    return coef, intercept


def _beside(path: Path, name: str, shapes: _Shapes) -> tuple[np.ndarray, np.ndarray]:
    """Read coefficients from the file beside, after its headers are compared with the model."""
    beside = path.with_name(name)
    if not beside.exists():
        raise ValueError(
            f"it keeps its coefficients in {name!r}, which is not beside it: move both files "
            "together"
        )
    if not beside.is_file():
        raise ValueError(
            f"{name!r}, which should hold its coefficients, is a folder, a pipe or a device"
        )

    def check(headers: Mapping[str, npz.Header]) -> None:
        found = {key: (header.shape, header.dtype) for key, header in headers.items()}
        wanted = {"coef": (shapes[0], np.dtype("<f8")), "intercept": (shapes[1], np.dtype("<f8"))}
        if found != wanted:
            shown = ", ".join(
                f"{key} of shape {shape} and dtype {dtype}" for key, (shape, dtype) in found.items()
            )
            raise ValueError(
                f"it holds {shown or 'nothing'}; the model has coef of shape {shapes[0]} in float64"
            )

    try:
        held = npz.read(beside, check)
    except (ValueError, OSError) as error:
        raise ValueError(f"{name!r} beside it is damaged: {error}") from error
    coef, intercept = held["coef"], held["intercept"]
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError(f"coefficients in {name!r} are not finite")
    return coef, intercept


def _digest(coef: np.ndarray, intercept: np.ndarray) -> str:
    little = [np.ascontiguousarray(array, dtype="<f8") for array in (coef, intercept)]
    return hashlib.sha256(b"".join(array.tobytes() for array in little)).hexdigest()
