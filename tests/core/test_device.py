"""Arrays are told apart by where they are; what is missing for a GPU is named."""

import sys

import numpy as np
import pytest

from daskglm.core.device import gpu, on_device, to_host


class FakeFrame:
    """A frame of cuDF, as far as it is told by its module."""

    def to_numpy(self):
        return np.arange(3)


FakeFrame.__module__ = "cudf.core.dataframe"


def test_arrays_of_the_host_are_taken_as_they_are():
    X = np.zeros(3)
    assert not on_device(X)
    assert to_host(X) is X


def test_frames_of_a_device_are_copied():
    assert on_device(FakeFrame())
    np.testing.assert_array_equal(to_host(FakeFrame()), [0, 1, 2])


def test_without_cupy_the_extras_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"install daskglm\[cuda13\] or daskglm\[cuda12\]"):
        gpu()
