"""Labels, targets and weights beside rows in memory, taken as scikit-learn takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _check_sample_weight

from daskglm.inputs import is_lazy
from daskglm.kernels import to_host
from daskglm.values import Place, refuse_masked, refuse_no_numbers


def in_memory(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Labels and weights of data in memory, as scikit-learn would take them."""
    for values, name in ((y, "y"), (sample_weight, "sample_weight")):
        refuse_masked(values, name, Place())
    if not (isinstance(y, str) or is_lazy(y)):
        y = column_or_1d(to_host(y), warn=True)
    if sample_weight is not None and not (isinstance(sample_weight, str) or is_lazy(sample_weight)):
        X = X if hasattr(X, "shape") else np.asarray(X)
        if isinstance(dtype := getattr(sample_weight, "dtype", None), np.dtype):
            refuse_no_numbers(dtype, "sample_weight")
        sample_weight = _check_sample_weight(to_host(sample_weight), X, dtype=np.float64)
    return X, y, sample_weight
