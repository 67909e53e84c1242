"""Modules of kernels for one kind of rows have the same functions, with the same arguments."""

import inspect

import pytest

from daskglm.kernels import csr, dense

FUNCTIONS = (
    "margins",
    "evaluate",
    "evaluate_exactly",
    "hessian_vector",
    "squared_norms",
    "spread",
)


def arguments(function):
    return list(inspect.signature(getattr(function, "py_func", function)).parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dense_and_sparse_rows_have_the_same_functions(name):
    assert arguments(getattr(csr, name)) == arguments(getattr(dense, name))
