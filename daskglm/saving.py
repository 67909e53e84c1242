"""Fitted estimators as files: strict JSON, with large coefficients in an .npz beside it. Nothing is pickled."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import uuid
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from daskglm.logistic import LogisticRegression
from daskglm.report import Report, as_dict
from daskglm.ridge import Ridge
from daskglm.svm import LinearSVC

FORMAT, VERSION = "daskglm-model", 1
LARGEST_INLINE = 10_000  # coefficients that JSON holds itself

_ESTIMATORS = {cls.__name__: cls for cls in (LogisticRegression, LinearSVC, Ridge)}
_KEYS = ("params", "classes", "n_features", "feature_names", "coef", "intercept", "n_iter", "report")
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def save(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator to a file.

    The file is JSON, written to a temporary name and then moved into place. With more than 10,000 coefficients
    these go to "<path>.npz", which belongs to the file and has to move with it. History and parts of the report are
    not kept.

    Parameters
    ----------
    model : LogisticRegression, LinearSVC or Ridge
        Fitted.
    path : str or path
        Where to; a file that is there is replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Where the model is not fitted.
    ValueError
        For other kinds of models, and for parameters or labels that JSON cannot hold.

    Examples
    --------
    >>> daskglm.save(model, "model.json")  # doctest: +SKIP
    """
    name = type(model).__name__
    if _ESTIMATORS.get(name) is not type(model):
        raise ValueError(f"cannot save a {name}; known are {', '.join(_ESTIMATORS)}")
    check_is_fitted(model)
    path = Path(path)
    given = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    coef, intercept = np.asarray(given, np.float64), np.asarray(model.intercept_, np.float64)
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError("the model has coefficients that are not finite")
    names = getattr(model, "feature_names_in_", None)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": name,
        "params": {key: _plain(value, f"parameter {key!r}") for key, value in model.get_params(deep=False).items()},
        "classes": _classes_to_json(model.classes_) if hasattr(model, "classes_") else None,
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(each) for each in names],
        "coef": coef.tolist(),
        "intercept": intercept.tolist(),
        "n_iter": np.asarray(model.n_iter_).tolist(),
        "report": {key: _plain(value, f"report {key!r}") for key, value in as_dict(model.report_).items()},
    }
    if coef.size > LARGEST_INLINE:
        arrays = path.with_name(path.name + ".npz")
        buffer = io.BytesIO()
        np.savez_compressed(buffer, coef=coef, intercept=intercept)
        _replace(arrays, buffer.getvalue())
        content["coef"] = content["intercept"] = None
        # the digest tells arrays of this model from those of another one that was saved under the same name
        content["arrays"] = {"file": arrays.name, "sha256": _digest(coef, intercept)}
    _replace(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def load(path: str | os.PathLike) -> Any:
    """Read an estimator that `save` wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    LogisticRegression, LinearSVC or Ridge; fitted, `report_` without history.

    Raises
    ------
    FileNotFoundError
        Where there is no such file.
    ValueError
        Where the file is not one of `save`, or of a newer version, or damaged.

    Examples
    --------
    >>> model = daskglm.load("model.json")  # doctest: +SKIP
    """
    path = Path(path)
    content = _content(path)
    try:
        return _restore(content, path)
    except (TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _content(path: Path) -> dict[str, Any]:
    """JSON of the right format, version and keys."""
    try:
        content = json.loads(path.read_bytes(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a daskglm model: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a daskglm model: it has no format {FORMAT!r}")
    if type(content.get("version")) is not int or content["version"] != VERSION:
        raise ValueError(f"{path} has version {content.get('version')!r}; this daskglm reads version {VERSION}")
    if content.get("estimator") not in list(_ESTIMATORS):
        raise ValueError(f"{path} holds a {content.get('estimator')!r}; known are {', '.join(_ESTIMATORS)}")
    missing = [key for key in _KEYS if key not in content]
    if missing:
        raise ValueError(f"{path} is damaged: it has no {', '.join(map(repr, missing))}")
    return content


def _restore(content: dict[str, Any], path: Path) -> Any:
    cls: Any = _ESTIMATORS[content["estimator"]]
    params = {key: _value(value) for key, value in content["params"].items()}
    unknown = sorted(set(params) - set(cls().get_params(deep=False)))
    if unknown:
        raise ValueError(f"{path} is damaged: {cls.__name__} has no parameter {unknown[0]!r}")
    model = cls(**params)
    coef, intercept = _coefficients(content, path)
    classes = None if content["classes"] is None else _classes_from_json(content["classes"], path)
    d, n_iter = content["n_features"], np.asarray(content["n_iter"])
    _check_shapes(cls, d, classes, coef, intercept, path)
    if n_iter.dtype.kind != "i" or n_iter.shape != intercept.shape:
        raise ValueError(f"{path} is damaged: n_iter is {content['n_iter']!r}")
    model.n_features_in_ = d
    if content["feature_names"] is not None:
        names = content["feature_names"]
        if len(names) != d or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{path} is damaged: it has {len(names)} feature names for {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.coef_ = coef
    if classes is None:
        model.intercept_, model.n_iter_ = float(intercept), int(n_iter)
    else:
        model.classes_, model.intercept_, model.n_iter_ = classes, intercept, n_iter.astype(np.int32)
    model.report_ = _report(content["report"], path)
    return model


def _check_shapes(cls: Any, d: Any, classes: Any, coef: np.ndarray, intercept: np.ndarray, path: Path) -> None:
    if type(d) is not int or d < 1:
        raise ValueError(f"{path} is damaged: n_features is {d!r}")
    if (classes is None) != (cls is Ridge):
        raise ValueError(f"{path} is damaged: a {cls.__name__} {'without' if classes is None else 'with'} classes")
    wanted: tuple[tuple[int, ...], tuple[int, ...]] = ((d,), ())
    if classes is not None:
        problems = 1 if len(classes) == 2 else len(classes)
        wanted = ((problems, d), (problems,))
    if (coef.shape, intercept.shape) != wanted:
        raise ValueError(
            f"{path} is damaged: coef has shape {coef.shape} and intercept {intercept.shape}; expected {wanted[0]} and "
            f"{wanted[1]}"
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise ValueError(f"{path} is damaged: coefficients are not finite")


# ---------------------------------------------------------------------------- arrays
def _coefficients(content: dict[str, Any], path: Path) -> tuple[np.ndarray, np.ndarray]:
    where = content.get("arrays")
    if where is None:
        try:
            arrays = [np.array(content[key]) for key in ("coef", "intercept")]
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{path} is damaged: {error}") from error
        if any(array.dtype.kind not in "fi" for array in arrays):
            raise ValueError(f"{path} is damaged: coef and intercept are not all numbers")
        return arrays[0].astype(np.float64), arrays[1].astype(np.float64)
    name = where["file"]
    if not isinstance(name, str) or Path(name).name != name or "\\" in name:
        raise ValueError(f"{path} is damaged: {name!r} is not the name of a file beside it")
    beside = path.with_name(name)
    if not beside.exists():
        raise ValueError(f"{path} keeps its coefficients in {name}, which is not beside it: move both files together")
    try:
        with np.load(beside, allow_pickle=False) as held:
            coef, intercept = (np.asarray(held[key], np.float64) for key in ("coef", "intercept"))
    except (ValueError, KeyError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{beside} is damaged: {error}") from error
    if _digest(coef, intercept) != where["sha256"]:
        raise ValueError(f"{beside} does not belong to {path}: its coefficients are those of another model")
    return coef, intercept


def _digest(coef: np.ndarray, intercept: np.ndarray) -> str:
    little = [np.ascontiguousarray(array, dtype="<f8") for array in (coef, intercept)]
    return hashlib.sha256(b"".join(array.tobytes() for array in little)).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


# ---------------------------------------------------------------------------- values
def _plain(value: Any, what: str) -> Any:
    """What strict JSON holds of a value; {"float": ...} and {"items": ...} stand for what it has no word for."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, dict):
        return {"items": [[_plain(key, what), _plain(each, what)] for key, each in value.items()]}
    raise ValueError(f"{what} is a {type(value).__name__}, which a file cannot hold: {value!r}")


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return _SPECIAL[value["float"]]
    return {_value(key): _value(each) for key, each in value["items"]}


def _classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    kind, values = classes.dtype.kind, classes.tolist()
    fits = classes.dtype.itemsize <= 8 if kind in "biuf" else kind == "U"
    if kind == "O":
        fits = all(isinstance(value, (str, int, float, bool)) for value in values)
    if not fits:
        raise ValueError(f"labels of dtype {classes.dtype} cannot be saved; known are strings, numbers and booleans")
    # as little-endian "<i8" and the like, so that a file means the same everywhere
    return {"dtype": classes.dtype.newbyteorder("<").str, "values": values}


def _classes_from_json(saved: dict[str, Any], path: Path) -> np.ndarray:
    try:
        dtype = np.dtype(saved["dtype"])
        if dtype.kind not in "biufUO" or not isinstance(saved["values"], list):
            raise ValueError(f"labels of dtype {saved['dtype']!r}")
        classes = np.array(saved["values"], dtype=dtype.newbyteorder("="))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if classes.ndim != 1 or len(classes) < 2 or classes.tolist() != saved["values"]:
        raise ValueError(f"{path} is damaged: the classes {saved['values']!r} do not fit dtype {saved['dtype']!r}")
    return classes


def _report(saved: dict[str, Any], path: Path) -> Report:
    names = {name for name in Report.__dataclass_fields__ if name not in ("history", "parts")}
    if set(saved) != names:
        raise ValueError(f"{path} is damaged: the report differs in {sorted(set(saved) ^ names)}")
    return Report(**{name: _value(value) for name, value in saved.items()})


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
