"""Which arrays are on a GPU, and the package of kernels for them, imported when first needed: it
needs CuPy.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

# An array where the vectors of a solve are: of NumPy or, on a device, of CuPy, with its methods.
Array = np.ndarray

DEVICE_PACKAGES = ("cupy", "cupyx", "cudf")


def on_device(X: Any) -> bool:
    """Return whether X is an array, matrix or frame in the memory of a GPU."""
    if type(X) is np.ndarray:  # the most that is asked about
        return False
    return type(X).__module__.split(".")[0] in DEVICE_PACKAGES or type(X).__module__.startswith(
        "daskglm.kernels.cuda."
    )


def gpu() -> Any:
    """Return the backend of rows on a GPU.

    Raises
    ------
    RuntimeError
        If CuPy is not installed, or finds no driver or device: says which, and what to do.
        Errors of importing the kernels themselves are raised as they are.
    """
    try:
        count = importlib.import_module("cupy").cuda.runtime.getDeviceCount()
    except ImportError as error:
        raise RuntimeError(
            f"device='cuda' needs CuPy and the CUDA libraries ({error}): install daskglm[cuda13] "
            "or daskglm[cuda12], "
            "after your driver's CUDA version"
        ) from error
    # CuPy raises its own kinds for a missing driver and for a missing device
    except Exception as error:
        raise RuntimeError(
            f"device='cuda' needs an NVIDIA driver and a GPU, and CuPy finds none ({error}); "
            "check nvidia-smi, or use "
            "device='cpu'"
        ) from error
    if not count:
        raise RuntimeError(
            "device='cuda' needs a GPU and CuPy finds none; check "
            "CUDA_VISIBLE_DEVICES and nvidia-smi"
        )
    return importlib.import_module("daskglm.kernels.cuda")


def to_host(array: Any) -> Any:
    """Return an array in this process's memory: itself, or a copy if it is on a device."""
    if not on_device(array):
        return array
    return array.to_numpy() if hasattr(array, "to_numpy") else array.get()
