"""Arguments of fits are refused before anything is computed."""

import dask.array as da
import numpy as np
import pytest

import daskglm
from tests.conftest import make_problem

X, y = make_problem(500, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "poison"}, "loss='poison'"),
        ({"solver": "simplex"}, "solver='simplex'"),
        ({"C": 0}, "C=0"),
        ({"C": -1.0}, "C=-1.0"),
        ({"C": np.nan}, "C=nan"),
        ({"tol": -1e-3}, "tol="),
        ({"max_iter": -1}, "max_iter=-1"),
        ({"class_weight": "heavy"}, "class_weight='heavy'"),
        ({"class_weight": {5: 1.0}}, "which y does not have, but not all labels"),
        ({"class_weight": {1: -1.0}}, "not a finite number >= 0"),
        ({"class_weight": {1: 1.0}, "loss": "squared"}, "class_weight has no meaning"),
        ({"solver": "newton", "solver_options": {"step": 1}}, "does not take step"),
        (
            {"warm_start": (np.ones(3), 0.0)},
            r"warm_start has coefficients of shape \(3,\).*X has 6",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        daskglm.fit(X, y, **arguments)


def test_wrong_arguments_are_refused_before_anything_is_computed():
    def explode(block):
        raise AssertionError("computed")

    rows = da.from_array(X, chunks=(100, 6)).map_blocks(explode, dtype=float, meta=np.empty((0, 0)))
    for arguments in ({"solver": "simplex"}, {"C": -1}, {"loss": "x"}):
        with pytest.raises(ValueError, match="not one of|must be"):
            daskglm.fit(rows, y, **arguments)
