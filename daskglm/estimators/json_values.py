"""Parameters and labels as strict JSON, for files of models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.data.array_api import parameter
from daskglm.fitting import schema

LISTED = (list, tuple, np.ndarray)


def plain(value: Any, what: str) -> Any:
    """Convert a value to strict JSON; {"float": ...} and {"items": ...} stand for what it lacks."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, dict):
        return {"items": [[plain(key, what), plain(each, what)] for key, each in value.items()]}
    raise ValueError(
        f"{what} is a {type(value).__name__}, which a file cannot hold: {value!r}; set_params can "
        "give it another value first"
    )


def param(name: str, value: Any) -> Any:
    """Convert a parameter to strict JSON; arrays become lists, of lists if they are matrices."""
    what = f"parameter {name!r}"
    value = value.toarray() if sp.issparse(value) else parameter(value)
    if name not in schema.LISTS or not isinstance(value, LISTED):
        return plain(value, what)
    return [
        [plain(item, what) for item in each] if isinstance(each, LISTED) else plain(each, what)
        for each in value
    ]


def classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    """Return labels with their dtype; raise ValueError for those of other kinds."""
    kind, values = classes.dtype.kind, classes.tolist()
    fits = classes.dtype.itemsize <= 8 if kind in "biuf" else kind == "U"
    if kind == "O":
        fits = all(isinstance(value, (str, int, float, bool)) for value in values)
    if not fits:
        raise ValueError(
            f"labels of dtype {classes.dtype} cannot be saved; known are strings, numbers and "
            "booleans"
        )
    # as little-endian "<i8" and the like, so that a file means the same everywhere
    return {"dtype": classes.dtype.newbyteorder("<").str, "values": values}
