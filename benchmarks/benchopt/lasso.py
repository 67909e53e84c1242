"""daskglm as a solver of benchopt's benchmark_lasso: copy this file into its folder solvers/.

The objective there is 1/2 |y - X w - b|^2 + lmbd |w|_1: ours times lmbd, with C = 1 / lmbd. With an
intercept, b is the last entry of beta.
"""

import warnings
from typing import ClassVar

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion
from sklearn.exceptions import ConvergenceWarning

import daskglm


class Solver(BaseSolver):
    """Fits until a relative gap is proved."""

    name = "daskglm"
    sampling_strategy = "tolerance"
    # neighbouring tolerances may need the same number of steps, which is no reason to end a curve
    stopping_criterion = SufficientProgressCriterion(patience=6, strategy="tolerance")
    requirements: ClassVar = ["pip::daskglm"]

    def set_objective(self, X, y, lmbd, fit_intercept):
        """Take the rows and the penalty."""
        self.X, self.y, self.C = X, y, 1.0 / lmbd
        self.fit_intercept = fit_intercept
        # kernels are compiled once per machine, which benchopt should not time
        self.run(1e-3)

    def run(self, tol):
        """Fit to a tolerance; that rounding may keep it from the smallest is meant."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model = daskglm.fit(
                self.X,
                self.y,
                loss="squared",
                C=self.C,
                l1_ratio=1.0,
                fit_intercept=self.fit_intercept,
                tol=min(tol, 0.5),
                random_state=0,
            )

    def get_result(self):
        """Return the coefficients, and the intercept behind them if there is one."""
        beta = np.ravel(self.model.coef_)
        if self.fit_intercept:
            beta = np.append(beta, self.model.intercept_)
        return {"beta": beta}
