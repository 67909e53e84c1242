"""Arrays of the array API standard: PyTorch's tensors, JAX's arrays and those of other libraries.

They come in as NumPy, or as CuPy where they are on a GPU, without a copy where the library has one
memory with it. Predictions go back to the library of X where scikit-learn's `array_api_dispatch`
is on, as those of scikit-learn's estimators do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.device import gpu

# The number of CUDA's devices in `__dlpack_device__` (dlpack.h, kDLCUDA).
CUDA = 2


def is_tensor(values: Any) -> bool:
    """Return whether this is an array by the array API standard, or a tensor of PyTorch."""
    return hasattr(values, "__array_namespace__") or hasattr(values, "__torch_function__")


def from_library(values: Any) -> Any:
    """Return a tensor as NumPy, or as CuPy where it is in the memory of a GPU of CUDA.

    Raises
    ------
    TypeError
        For tensors with a gradient, of a dtype that NumPy lacks (bfloat16), sparse ones, and
        those on a device that cannot be read here.
    """
    if getattr(values, "requires_grad", False):
        raise TypeError(
            f"{_described(values)} with requires_grad=True has a gradient, which fits and "
            "predictions do not follow: give its detach()"
        )
    try:
        on_gpu = values.__dlpack_device__()[0] == CUDA
        found = gpu().xp.from_dlpack(values) if on_gpu else np.asarray(values)
    # each library has its own kinds of errors for what it cannot hand over
    except Exception as error:
        raise TypeError(
            f"{_described(values)} cannot be read ({error}): give float32 or float64 in the memory "
            "of the CPU, or of a GPU with CuPy installed"
        ) from error
    if found.dtype.kind == "V":  # bfloat16 of JAX, which NumPy knows the size of and no more
        raise TypeError(f"{_described(values)} has a dtype that NumPy lacks: give float32")
    return found


def parameter(value: Any) -> Any:
    """Return a parameter that is a tensor as NumPy, without dimensions as a number; or as it is."""
    # NumPy's own are arrays of the standard, too
    ours = isinstance(value, (np.ndarray, np.generic)) or not is_tensor(value)
    return value if ours else from_library(value)[()]


def in_library_of(X: Any, found: Any, *, labels: bool = False) -> Any:
    """Return a prediction in the library and on the device of X, where scikit-learn is told to.

    Parameters
    ----------
    X : rows, as they were given
    found : array of NumPy, or anything else
        Lazy predictions, and labels that are no numbers, are returned as they are.
    labels : bool
        Whether they are classes, whose dtype is that of y. Other floats have that of X if it is
        float32, and float64 otherwise.
    """
    import sklearn  # which workers do without

    if not sklearn.get_config()["array_api_dispatch"]:
        return found
    # arrays of CuPy had no __array_namespace__ before its version 14
    ours = isinstance(X, np.ndarray) or not (is_tensor(X) or type(X).__module__ == "cupy")
    if ours or not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf":
        return found
    from sklearn.utils._array_api import get_namespace_and_device

    xp, _, device = get_namespace_and_device(X)
    single = X.dtype == xp.float32 and found.dtype.kind == "f" and not labels
    return xp.asarray(found, dtype=xp.float32 if single else None, device=device)


def _described(values: Any) -> str:
    name = f"{type(values).__module__.split('.')[0]}.{type(values).__name__}"
    return f"array {name} ({values.dtype}, device {getattr(values, 'device', None)})"
