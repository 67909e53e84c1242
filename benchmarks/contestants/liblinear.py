"""LIBLINEAR through its own Python interface: liblinear-official (one thread) or
liblinear-multicore.

Both install a module of the same name, so each has an environment of its own. The C interface takes
float64 pairs (index, value), 16 bytes an entry; they are made before the clock starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from liblinear.liblinear import liblinear as clib
from liblinear.liblinear import parameter, problem, toPyModel

from benchmarks.contestants import NotApplicable

FREE_BIAS = (0, 2, 11)  # solvers that know -R, an unpenalised bias
REGRESSION = (11,)


def prepare(
    X: Any, y: np.ndarray, *, solver: int, fit_intercept: bool, **_: Any
) -> tuple[Any, np.ndarray]:
    """LIBLINEAR's problem, from CSR by its compiled conversion."""
    if fit_intercept and solver not in FREE_BIAS:
        raise NotApplicable(
            f"-s {solver} penalises the bias (-R is not for it): another problem; run without "
            "intercept"
        )
    rows = sp.csr_matrix(X, copy=sp.issparse(X))  # its conversion sorts in place
    return problem(np.asarray(y, dtype=np.float64), rows, 1 if fit_intercept else -1), y


def fit(
    X: Any,
    y: np.ndarray,
    *,
    loss: str,
    C: float,
    fit_intercept: bool,
    tol: float,
    threads: int,
    solver: int,
    multicore: bool,
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Train; -s 11 with p = 0 sums squares, so its cost is C / 2 for our 1/2 (z - y)^2."""
    cost = C / 2 if solver in REGRESSION else C
    arguments = f"-s {solver} -c {cost!r} -e {tol!r} -q" + (" -p 0" if solver in REGRESSION else "")
    if multicore:
        arguments += f" -m {threads}"
    if fit_intercept:
        arguments += " -B 1 -R"
    asked = parameter(arguments)
    complaint = clib.check_parameter(X, asked)
    if complaint:
        raise ValueError(complaint.decode())
    model = toPyModel(clib.train(X, asked))
    w = np.ctypeslib.as_array(model.w, (X.n,)).copy()
    if solver not in REGRESSION:
        w *= model.get_labels()[0]  # positive side: the label that came first
    return (w[:-1], float(w[-1]), {}) if fit_intercept else (w, 0.0, {})
