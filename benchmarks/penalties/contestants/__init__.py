"""Contestants of the races of penalised fits: a file for each package.

Each has `fit(problem, rows, tol, threads, **options) -> Answer`, and where the package wants
another form of the rows `prepare(problem, **options)`, which is done before the clock starts.
`NotApplicable` says why a package does not take part. `packages` names what is measured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

FLOAT = np.float64


class Answer(NamedTuple):
    """Coefficients by alpha.

    `coefs` is (m, d), `intercepts` (m,), `said` what the package says. A fit by folds gives the
    one `alpha` that it chose, and the mean squared errors of all alphas and folds where it has
    them, (m, folds).
    """

    coefs: Any
    intercepts: Any
    said: str
    alpha: float | None = None
    errors: Any = None


def one(coef: Any, intercept: Any, said: str, **more: Any) -> Answer:
    """Return the answer of a fit of one alpha."""
    return Answer(np.reshape(coef, (1, -1)), np.reshape(intercept, 1), said, **more)
