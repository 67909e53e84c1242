"""What is known of one of scikit-learn's classes: a value, one for each name in `table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

# The gap that a fit is asked for is the square of scikit-learn's `tol`, between these: near the
# optimum an objective is off by the square of what its gradient and its coefficients are off by,
# and sums are rounded.
LARGEST_GAP, LEAST_GAP = 1e-8, 1e-13
# Losses with corners, whose last digits cost most of the time: this share of `tol`, and at most.
SHARE_OF_CORNERS, GAP_OF_CORNERS = 1e-2, 1e-6
# A fit that ended before that is taken nevertheless if its proved gap is below `tol` and this.
ENOUGH = 1e-6
# An element of rows above which LIBLINEAR is said to stand still; scikit-learn refuses such rows.
LARGEST_OF_LIBLINEAR = 1e30


@dataclass(frozen=True)
class Asked:
    """A call of `fit` with rows that scikit-learn has checked: X (n, d), y, weights (n,) or None.

    Where only parameters are looked at, X is None.
    """

    model: Any
    X: Any = None
    y: Any = None
    weight: Any = None

    @cached_property
    def classes(self) -> Any:
        """Labels in order, (classes,)."""
        return np.unique(self.y)

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse."""
        return bool(sp.issparse(self.X))

    def numbers(self, values: Any) -> Any:
        """Coefficients in the precision of the rows, as scikit-learn has them."""
        return np.asarray(values, dtype=self.X.dtype)[()]


@dataclass(frozen=True)
class Rule:
    """A case in which scikit-learn's own `fit` is called; the log and docs/accel.md have `why`."""

    why: str
    holds: Callable[[Asked], bool]


def nothing(asked: Asked) -> tuple[Warning, ...]:
    """Of a class that warns of no parameter."""
    return ()


@dataclass(frozen=True)
class Record:
    """How one of scikit-learn's classes is answered.

    Parameters
    ----------
    name : str
        Of the class, in scikit-learn and here.
    checks : mapping
        What scikit-learn's `fit` gives to its `validate_data`.
    parameters : callable
        Of an `Asked`, the parameters of our class besides tol; they pose the same problem.
    attributes : callable
        Of an `Asked` and our fitted model, the fitted attributes of scikit-learn's class.
    by_parameters, by_rows : tuple of Rule
        When scikit-learn's own fit is called instead.
    classifies : bool
        Whether y has labels.
    folder : str
        Package of scikit-learn that has the name.
    warns : callable
        Of an `Asked`, what scikit-learn says of these parameters.
    rows : callable
        Of an `Asked`, the rows for our fit.
    exact : bool
        Whether the class has no `tol`, or its usual solver takes no notice of it.
    has_corners : callable
        Of an `Asked`, whether the loss is of a support vector machine and has corners.
    ours : callable, optional
        What makes our model of `parameters` and tol; default: our class of this name.
    is_search : callable
        Of a model, whether scikit-learn's `fit` is a search among fits of another of the names,
        each of which is answered for itself.
    """

    name: str
    checks: Mapping[str, Any]
    parameters: Callable[[Asked], dict[str, Any]]
    attributes: Callable[[Asked, Any], dict[str, Any]]
    by_parameters: tuple[Rule, ...] = ()
    by_rows: tuple[Rule, ...] = ()
    classifies: bool = False
    folder: str = "linear_model"
    warns: Callable[[Asked], tuple[Warning, ...]] = nothing
    rows: Callable[[Asked], Any] = field(default=lambda asked: asked.X)
    exact: bool = False
    has_corners: Callable[[Asked], bool] = field(default=lambda asked: False)
    ours: Callable[..., Any] | None = None
    is_search: Callable[[Any], bool] = field(default=lambda model: False)


def gap_for(tol: float, has_corners: bool = False) -> float:
    """The relative gap to prove where scikit-learn is given this `tol`."""
    if has_corners:
        return min(max(float(tol) * SHARE_OF_CORNERS, LEAST_GAP), GAP_OF_CORNERS)
    return min(max(float(tol) ** 2, LEAST_GAP), LARGEST_GAP)


def fewer_steps(least: int) -> Rule:
    """Make the rule for fits that are cut short on purpose."""
    return Rule(
        f"max_iter below {least}: a fit that is cut short",
        lambda asked: asked.model.max_iter is not None and asked.model.max_iter < least,
    )


WARM_START = Rule(
    "warm_start=True: it goes on from scikit-learn's iterations",
    lambda asked: bool(asked.model.warm_start),
)
VERBOSE = Rule(
    "verbose: scikit-learn's solver prints its progress", lambda asked: bool(asked.model.verbose)
)
FLOATS: Mapping[str, Any] = MappingProxyType({"dtype": [np.float64, np.float32]})


# ---- LIBLINEAR, which penalises the intercept as the coefficient of one more, constant column
def with_constant(asked: Asked) -> Any:
    """The rows with the column of LIBLINEAR's intercept, where there is one."""
    model = asked.model
    if not model.fit_intercept:
        return asked.X
    column = np.full((asked.X.shape[0], 1), float(model.intercept_scaling), dtype=asked.X.dtype)
    if asked.sparse:
        return sp.hstack([sp.csr_matrix(asked.X), column], format="csr")
    return np.hstack([asked.X, column])


def without_constant(asked: Asked, coef: np.ndarray) -> dict[str, Any]:
    """`coef_` and `intercept_` of coefficients (k, d + 1) for `with_constant`."""
    if not asked.model.fit_intercept:
        return {"coef_": coef, "intercept_": 0.0}
    return {
        "coef_": coef[:, :-1].copy(),
        "intercept_": coef[:, -1] * float(asked.model.intercept_scaling),
    }


def refused_by_liblinear(asked: Asked) -> bool:
    """Whether these rows or this scaling are an error to scikit-learn."""
    model = asked.model
    return bool(
        (model.fit_intercept and model.intercept_scaling <= 0)
        or (asked.X.shape[0] and asked.X.max() > LARGEST_OF_LIBLINEAR)
    )
